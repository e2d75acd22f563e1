/* The main job on real input: the layer of examples/data on every usable backend, and the worked example cats.
 * May know: the public header, check.h, the readers of tools/heed, the files of examples/data.
 * Must not know: anything under src/.
 *
 * Bounds.  The layer: 1e-6 of the largest output, 1.66.  Other f32 implementations need 4.4e-7 of it (PyTorch) and
 * 4.0e-7 (ONNX Runtime), see examples/data/README.md; heed's one chain of 384 roundings per projection needs 5.7e-7.
 * The weights err as their scores do: 4.4e-7 in PyTorch, at most 1e-6 here.  cats: u = 2^-24 for each of a handful of
 * operations. */
#include "check.h"
#include "command.h"
#include "npy.h"
#include "safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 15, WIDTH = 384, HEADS = 12, OUT = TOKENS * WIDTH, WEIGHTS = HEADS * TOKENS * TOKENS };

static const double layer_bound = 1e-6 * 1.658, weights_bound = 1e-6, cats_bound = 8 * 0x1p-24;

/* The tests know their files: one that is not as expected ends the program. */
static void require(bool ok, const char *file, const char *message)
{
    if (ok)
        return;
    printf("%s/%s: %s\n", HEED_EXAMPLE_DATA, file, message);
    exit(1);
}

static void data_path(char *path, size_t size, const char *file)
{
    int length = snprintf(path, size, "%s/%s", HEED_EXAMPLE_DATA, file);
    require(length > 0 && (size_t)length < size, file, "the path is too long");
}

/* The file's values as doubles or floats, to be freed by the caller. */
static npy_array load_npy(const char *file, int64_t count, npy_kind kind)
{
    char path[1024], message[MESSAGE_SIZE] = "";
    data_path(path, sizeof path, file);
    npy_array array;
    require(npy_read_as(path, kind, &array, message, sizeof message), file, message);
    require(npy_count(&array) == count, file, "not of the expected size");
    return array;
}

static float *load_floats(const char *file, int64_t count)
{
    return load_npy(file, count, NPY_FLOATS).data;
}

static double *load_doubles(const char *file, int64_t count)
{
    return load_npy(file, count, NPY_DOUBLES).doubles;
}

static float *load_tensor(const char *name, int64_t count)
{
    static const char *file = "minilm-layer.safetensors";
    char path[1024], message[MESSAGE_SIZE] = "";
    data_path(path, sizeof path, file);
    safetensors tensors;
    require(safetensors_open(path, &tensors, message, sizeof message), file, message);
    const tensor_info *info = safetensors_find(&tensors, name);
    require(info && info->count == count, file, name);
    float *values = safetensors_read(&tensors, info, message, sizeof message);
    require(values, file, message);
    safetensors_close(&tensors);
    return values;
}

/* ---- The layer ---- */

enum { NUM_PARTS = 8 };

static void load_layer(heed_layer_desc *desc, float *parts[NUM_PARTS])
{
    static const char *const names[NUM_PARTS] = { "self.query.weight", "self.key.weight", "self.value.weight",
        "output.dense.weight", "self.query.bias", "self.key.bias", "self.value.bias", "output.dense.bias" };
    for (int i = 0; i < NUM_PARTS; i++) {
        char name[128];
        snprintf(name, sizeof name, "encoder.layer.3.attention.%s", names[i]);
        parts[i] = load_tensor(name, i < 4 ? WIDTH * WIDTH : WIDTH);
    }
    desc->model_dim = WIDTH;
    desc->num_heads = desc->num_kv_heads = HEADS;
    desc->head_dim = WIDTH / HEADS;
    desc->weight_q = parts[0];
    desc->weight_k = parts[1];
    desc->weight_v = parts[2];
    desc->weight_o = parts[3];
    desc->bias_q = parts[4];
    desc->bias_k = parts[5];
    desc->bias_v = parts[6];
    desc->bias_o = parts[7];
}

typedef struct layer_result {
    float *y, *weights;
} layer_result;

/* Outputs come from check_output: they live until check_free_all. */
static layer_result run_layer(const heed_layer_desc *desc, const float *hidden, const heed_options *options)
{
    layer_result result = { check_output(OUT, CHECK_GUARD_BEHIND), check_output(WEIGHTS, CHECK_GUARD_BEHIND) };
    heed_layer *layer = NULL;
    heed_error error = { "" };
    size_t size = 0;
    heed_layer_tensors tensors = HEED_LAYER_TENSORS_INIT;
    tensors.x = check_input(hidden, OUT, CHECK_GUARD_BEHIND);
    tensors.y = result.y;
    tensors.weights = result.weights;
    heed_status status = heed_layer_create(&layer, desc, options, &error);
    if (status == HEED_OK)
        status = heed_layer_workspace_size(layer, 1, TOKENS, &size, &error);
    if (status == HEED_OK)
        status = heed_layer_run(layer, 1, TOKENS, &tensors, check_alloc(size, CHECK_GUARD_BEHIND), size, &error);
    CHECK(status == HEED_OK, "status %d: %s", (int)status, error.message);
    heed_layer_destroy(layer);
    return result;
}

static void test_layer(void)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    float *parts[NUM_PARTS];
    load_layer(&desc, parts);
    float *hidden = load_floats("hidden.npy", OUT);
    double *expected = load_doubles("expected.npy", OUT);
    double *expected_weights = load_doubles("expected-weights.npy", WEIGHTS);

    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t b = 0; b < count; b++) {
        for (int e = HEED_EXP_BUILTIN; e <= (heed_sleef_usable(list[b]) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN); e++) {
            heed_options options = check_options(list[b], (heed_exp)e, 1 + e);
            check_case("%s exp %d", heed_isa_name(list[b]), e);
            layer_result got = run_layer(&desc, hidden, &options);
            check_close(got.y, expected, OUT, layer_bound, "output");
            check_close(got.weights, expected_weights, WEIGHTS, weights_bound, "weights");
            check_error error = check_errors(got.y, expected, OUT);
            check_note("%s, %s exp: output errs by at most %.2e, %.2e of the largest value", heed_isa_name(list[b]),
                e == HEED_EXP_SLEEF ? "SLEEF" : "built-in", error.max_abs, error.relative);
            check_free_all();
        }
    }
    for (int i = 0; i < NUM_PARTS; i++)
        free(parts[i]);
    free(hidden);
    free(expected);
    free(expected_weights);
}

/* ---- cats chase mice ---- */

static void run_cats(const float *q, const float *k, const float *v, const double *weights, const double *out,
    const heed_options *options)
{
    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = attention.num_heads = attention.num_kv_heads = 1;
    attention.seq_len_q = attention.seq_len_kv = 3;
    attention.head_dim = 2;
    attention.scale = sqrtf(2.0f);
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = check_input(q, 6, CHECK_GUARD_BEHIND);
    tensors.k = check_input(k, 6, CHECK_GUARD_BEHIND);
    tensors.v = check_input(v, 6, CHECK_GUARD_BEHIND);
    tensors.out = check_output(6, CHECK_GUARD_BEHIND);
    tensors.weights = check_output(9, CHECK_GUARD_BEHIND);
    heed_error error = { "" };
    heed_status status = heed_attend(&attention, &tensors, options, &error);
    CHECK(status == HEED_OK, "status %d: %s", (int)status, error.message);
    check_close(tensors.weights, weights, 9, cats_bound, "weights");
    check_close(tensors.out, out, 6, cats_bound, "output");
    const float *row = tensors.weights;
    CHECK(fabsf(row[0] - 0.1636f) < 5e-5f && fabsf(row[1] - 0.6728f) < 5e-5f && fabsf(row[2] - 0.1636f) < 5e-5f,
        "the row of \"cats\" is (%g, %g, %g)", (double)row[0], (double)row[1], (double)row[2]);
}

static void test_cats(void)
{
    float *q = load_floats("cats/q.npy", 6), *k = load_floats("cats/k.npy", 6);
    float *v = load_floats("cats/v.npy", 6);
    double *weights = load_doubles("cats/expected-weights.npy", 9);
    double *out = load_doubles("cats/expected.npy", 6);
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t b = 0; b < count; b++) {
        heed_options options = check_options(list[b], HEED_EXP_DEFAULT, 1);
        check_case("%s", heed_isa_name(list[b]));
        run_cats(q, k, v, weights, out, &options);
        check_free_all();
    }
    free(q);
    free(k);
    free(v);
    free(weights);
    free(out);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "minilm layer", test_layer }, { "cats chase mice", test_cats } };
    return check_main(argc, argv, tests, sizeof tests / sizeof *tests);
}
