/* The inputs of a case, made from its name alone.
 * May know: verify.h, command.h for memory.
 * Must not know: the library's functions, how results are compared. */
#include "command.h"
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The power of two near 1 / sqrt(width): keeps projections of plain values near 1. */
static float projection_unit(int64_t width)
{
    float unit = 1.0f;
    for (int64_t square = 1; square * 4 <= width; square *= 4)
        unit *= 0.5f;
    return unit;
}

static void list_layer(const verify_case *item, verify_input sizes[VERIFY_INPUTS])
{
    const heed_attention *s = &item->shape;
    const int64_t q = s->num_heads * s->head_dim, k = s->num_kv_heads * s->head_dim;
    const int64_t v = s->num_kv_heads * s->head_dim_v, o = s->num_heads * s->head_dim_v;
    float in_unit = projection_unit(item->in), out_unit = projection_unit(o);
    sizes[0] = (verify_input){ s->batch * s->seq_len_q, item->in, 1.0f };
    sizes[1] = (verify_input){ q, item->in, in_unit };
    sizes[2] = (verify_input){ k, item->in, in_unit };
    sizes[3] = (verify_input){ v, item->in, in_unit };
    sizes[4] = (verify_input){ item->out, o, out_unit };
    const int64_t biases[4] = { q, k, v, item->out };
    for (int i = 0; i < 4 && item->bias; i++)
        sizes[5 + i] = (verify_input){ 1, biases[i], 0.5f };
}

static void list_inputs(const verify_case *item, verify_input sizes[VERIFY_INPUTS])
{
    const heed_attention *s = &item->shape;
    memset(sizes, 0, VERIFY_INPUTS * sizeof *sizes);
    switch (item->kind) {
    case VERIFY_ATTENTION:
        sizes[0] = (verify_input){ s->batch * s->num_heads * s->seq_len_q, s->head_dim, 1.0f };
        sizes[1] = (verify_input){ s->batch * s->num_kv_heads * s->seq_len_kv, s->head_dim, 1.0f };
        sizes[2] = (verify_input){ s->batch * s->num_kv_heads * s->seq_len_kv, s->head_dim_v, 1.0f };
        verify_masks_list(item, sizes);
        break;
    case VERIFY_LINEAR:
        sizes[0] = (verify_input){ item->rows, item->in, 1.0f };
        sizes[1] = (verify_input){ item->out, item->in, 1.0f };
        sizes[2] = (verify_input){ item->bias ? 1 : 0, item->out, 1.0f };
        break;
    case VERIFY_LAYER: list_layer(item, sizes); break;
    case VERIFY_SOFTMAX: sizes[0] = (verify_input){ item->rows, item->in, 4.0f }; break;
    case VERIFY_ROPE: sizes[0] = (verify_input){ s->batch * s->num_heads * s->seq_len_q, s->head_dim, 1.0f }; break;
    }
}

/* A mix of empty, single, odd and full lengths. */
static int32_t *make_lengths(int64_t count, int64_t full, int64_t shift)
{
    int32_t *lengths = allocate_array(count, sizeof *lengths);
    for (int64_t i = 0; lengths && i < count; i++) {
        const int64_t choices[5] = { full, 1, full / 2 + 1, 0, full - 1 };
        int64_t length = choices[(i + shift) % 5];
        lengths[i] = (int32_t)(length < 0 ? 0 : length > full ? full : length);
    }
    return lengths;
}

static bool add_lengths(verify_data *data, const verify_case *item)
{
    if (!item->lengths)
        return true;
    bool softmax = item->kind == VERIFY_SOFTMAX;
    int64_t count = softmax ? item->rows : item->shape.batch;
    int64_t full = softmax ? item->in : item->kind == VERIFY_LAYER ? item->shape.seq_len_q : item->shape.seq_len_kv;
    data->lengths_kv = make_lengths(count, full, 1);
    for (int64_t i = 0; item->pieces && data->lengths_kv && i < count; i++)
        data->lengths_kv[i] = (int32_t)(full - (count - 1 - i)); /* every length up to the longest */
    if (item->kind == VERIFY_ATTENTION)
        data->lengths_q = make_lengths(count, item->shape.seq_len_q, 0);
    return data->lengths_kv && (item->kind != VERIFY_ATTENTION || data->lengths_q);
}

/* What a length hides is NaN, which must change no bit. */
static void poison_hidden_keys(verify_data *data, const heed_attention *s)
{
    for (int64_t row = 0; row < s->batch * s->num_kv_heads * s->seq_len_kv; row++) {
        int64_t entry = row / (s->num_kv_heads * s->seq_len_kv), key = row % s->seq_len_kv;
        if (key < data->lengths_kv[entry])
            continue;
        for (int64_t d = 0; d < s->head_dim; d++)
            data->inputs[1][row * s->head_dim + d] = NAN;
        for (int64_t d = 0; d < s->head_dim_v; d++)
            data->inputs[2][row * s->head_dim_v + d] = NAN;
    }
}

/* Every fifth row of the first input gets a NaN or an infinity; a softmax also a row of nothing but -inf. */
static void poison_rows(const verify_case *item, float *values, int64_t rows, int64_t width)
{
    static const float poison[3] = { NAN, INFINITY, -INFINITY };
    for (int64_t row = 1, n = 0; row < rows; row += 5, n++)
        values[row * width + row % width] = poison[n % 3];
    for (int64_t c = 0; item->kind == VERIFY_SOFTMAX && rows > 2 && c < width; c++)
        values[2 * width + c] = -INFINITY;
}

bool verify_data_create(verify_data *data, const verify_case *item)
{
    verify_input sizes[VERIFY_INPUTS];
    memset(data, 0, sizeof *data);
    list_inputs(item, sizes);
    verify_random random = verify_random_seeded(verify_hash(verify_hash_start, item->name, strcspn(item->name, ":")));
    for (int i = 0; i < VERIFY_INPUTS; i++) {
        bool wanted = sizes[i].width > 0 && (sizes[i].rows > 0 || item->kind == VERIFY_ATTENTION);
        if (!wanted)
            continue;
        data->counts[i] = sizes[i].rows * sizes[i].width;
        data->inputs[i] = allocate_array(data->counts[i], sizeof(float));
        if (!data->inputs[i])
            return false;
        const verify_fill fill = item->kind == VERIFY_ATTENTION && i >= INPUT_BIAS ? FILL_PLAIN : item->fill;
        verify_fill_rows(&random, fill, sizes[i].unit, sizes[i].rows, sizes[i].width, data->inputs[i]);
    }
    if (!add_lengths(data, item))
        return false;
    if (item->kind == VERIFY_ATTENTION && item->lengths)
        poison_hidden_keys(data, &item->shape);
    if (item->fill == FILL_POISON)
        poison_rows(item, data->inputs[0], sizes[0].rows, sizes[0].width);
    return item->kind != VERIFY_ATTENTION || verify_masks_create(data, item);
}

void verify_data_destroy(verify_data *data)
{
    for (int i = 0; i < VERIFY_INPUTS; i++)
        free(data->inputs[i]);
    free(data->lengths_q);
    free(data->lengths_kv);
    free(data->mask);
    free(data->blocks);
    free(data->offsets_q);
    free(data->offsets_kv);
    memset(data, 0, sizeof *data);
}
