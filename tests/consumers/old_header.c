/* A program compiled against the first header, whose structs are shorter than the library's.  It surrounds them with bytes that
 * would be nonsense as fields: nothing beyond struct_size may be read.
 * May know: old/heed/heed.h.
 * Must not know: the present header. */
#include <heed/heed.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 9, DIM = 5, WIDTH = 2 * DIM, TAIL = 512 };

static float input[LENGTH * WIDTH], weight[WIDTH * WIDTH], out[LENGTH * WIDTH], lse[2 * LENGTH];

/* A copy of a struct with nonsense behind it. */
static void *surrounded(const void *value, size_t size)
{
    unsigned char *copy = malloc(size + TAIL);
    if (!copy)
        abort();
    memcpy(copy, value, size);
    memset(copy + size, 0xa5, TAIL);
    return copy;
}

static int report(heed_status status, const heed_error *error)
{
    if (status != HEED_OK)
        fprintf(stderr, "FAIL: %d %s\n", (int)status, error->message);
    return status != HEED_OK;
}

/* The mean of the keys that query i sees, as q = 0. */
static int attention(const heed_options *options)
{
    heed_attention a = HEED_ATTENTION_INIT;
    heed_tensors t = HEED_TENSORS_INIT;
    heed_error error = { "" };
    static float zeros[LENGTH * WIDTH], values[LENGTH * WIDTH];
    for (int i = 0; i < LENGTH * WIDTH; i++)
        values[i] = (float)(i / DIM % LENGTH);
    a.batch = 1;
    a.num_heads = a.num_kv_heads = 2;
    a.seq_len_q = a.seq_len_kv = LENGTH;
    a.head_dim = DIM;
    a.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    t.q = t.k = zeros;
    t.v = values;
    t.out = out;
    t.lse = lse;
    heed_attention *shape = surrounded(&a, sizeof a);
    heed_tensors *tensors = surrounded(&t, sizeof t);
    int bad = report(heed_attend(shape, tensors, options, &error), &error);
    for (int i = 0; i < 2 * LENGTH && !bad; i++)
        bad = out[i * DIM] != (float)(i % LENGTH) / 2.0f || fabsf(lse[i] - logf((float)(i % LENGTH + 1))) > 1e-6f;
    free(shape);
    free(tensors);
    return bad;
}

static int layer(const heed_options *options)
{
    heed_layer_desc d = HEED_LAYER_DESC_INIT;
    heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
    heed_error error = { "" };
    heed_layer *made = NULL;
    size_t size = 0;
    d.model_dim = WIDTH;
    d.num_heads = d.num_kv_heads = 2;
    d.head_dim = DIM;
    d.weight_q = d.weight_k = d.weight_v = d.weight_o = weight;
    for (int i = 0; i < WIDTH; i++)
        weight[i * WIDTH + i] = 1.0f; /* y is attention of x with itself */
    for (int i = 0; i < LENGTH * WIDTH; i++)
        input[i] = 3.0f;
    t.x = input;
    t.y = out;
    heed_layer_desc *desc = surrounded(&d, sizeof d);
    heed_layer_tensors *tensors = surrounded(&t, sizeof t);
    int bad = report(heed_layer_create(&made, desc, options, &error), &error) ||
              report(heed_layer_workspace_size(made, 1, LENGTH, &size, &error), &error);
    void *workspace = malloc(size ? size : 1);
    bad = bad || report(heed_layer_run(made, 1, LENGTH, tensors, workspace, size, &error), &error);
    for (int i = 0; i < LENGTH * WIDTH && !bad; i++)
        bad = out[i] != 3.0f;
    free(workspace);
    heed_layer_destroy(made);
    free(desc);
    free(tensors);
    return bad;
}

int main(void)
{
    heed_options o = HEED_OPTIONS_INIT;
    heed_options *options = surrounded(&o, sizeof o);
    const int bad = attention(options) + layer(options);
    free(options);
    printf("header %d.%d.%d, library %s, attention struct of %zu bytes: %s\n", HEED_VERSION_MAJOR, HEED_VERSION_MINOR,
        HEED_VERSION_PATCH, heed_version(), sizeof(heed_attention), bad ? "FAIL" : "ok");
    return bad;
}
