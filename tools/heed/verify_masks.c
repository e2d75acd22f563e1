/* What the steps of an attention case need: mask, block mask and offsets, made of the case's inputs and lengths.
 * May know: the public header, verify.h, command.h for memory.
 * Must not know: what the results should be. */
#include "command.h"
#include "verify.h"

#include <math.h>

bool verify_is_masked(const verify_case *item)
{
    const heed_attention *s = &item->shape;
    return item->kind == VERIFY_ATTENTION &&
           (item->steps || s->window_left >= 0 || s->window_right >= 0 || s->softcap > 0.0f);
}

static int64_t blocks_of(int64_t count, int64_t block)
{
    return (count + block - 1) / block;
}

void verify_masks_list(const verify_case *item, verify_input sizes[VERIFY_INPUTS])
{
    const heed_attention *s = &item->shape;
    const int64_t heads = s->num_heads, queries = s->seq_len_q, keys = s->seq_len_kv;
    if (item->steps & STEP_BIAS)
        sizes[INPUT_BIAS] = (verify_input){ heads * queries, keys, 1.0f };
    if (item->steps & STEP_MASK)
        sizes[INPUT_MASK] = (verify_input){ s->batch * queries, keys, 1.0f };
    if (item->steps & STEP_ALIBI)
        sizes[INPUT_SLOPES] = (verify_input){ 1, heads, 0.125f };
    if (item->steps & STEP_SINKS)
        sizes[INPUT_SINKS] = (verify_input){ 1, heads, 1.0f };
    if (item->steps & STEP_BLOCKS)
        sizes[INPUT_BLOCKS] =
            (verify_input){ blocks_of(queries, s->block_mask_q), blocks_of(keys, s->block_mask_kv), 1.0f };
}

/* An eighth of it hides its key. */
static void hide_by_bias(float *bias, int64_t count)
{
    for (int64_t i = 0; bias && i < count; i++)
        bias[i] = bias[i] > 1.0f ? -INFINITY : bias[i];
}

/* Any byte but 0 shows its key.  Query 3, 10, ... sees nothing, query 5, 12, ... one key. */
static bool make_mask(verify_data *data, const heed_attention *s)
{
    const float *source = data->inputs[INPUT_MASK];
    if (!source)
        return true;
    data->mask = allocate_array(data->counts[INPUT_MASK], 1);
    for (int64_t i = 0; data->mask && i < data->counts[INPUT_MASK]; i++) {
        const int64_t query = i / s->seq_len_kv % s->seq_len_q, key = i % s->seq_len_kv;
        bool visible = source[i] > -0.5f;
        if (query % 7 == 3)
            visible = false;
        if (query % 7 == 5)
            visible = key == query * 5 % s->seq_len_kv;
        data->mask[i] = (uint8_t)(visible ? 1 + i % 255 : 0);
    }
    return data->mask != NULL;
}

/* NaN in the keys and values first .. end of all kv heads. */
static void poison_keys(verify_data *data, const heed_attention *s, int64_t first, int64_t end)
{
    for (int64_t row = 0; row < s->batch * s->num_kv_heads * s->seq_len_kv; row++) {
        if (row % s->seq_len_kv < first || row % s->seq_len_kv >= end)
            continue;
        for (int64_t d = 0; d < s->head_dim; d++)
            data->inputs[1][row * s->head_dim + d] = NAN;
        for (int64_t d = 0; d < s->head_dim_v; d++)
            data->inputs[2][row * s->head_dim_v + d] = NAN;
    }
}

/* The second column of blocks hides its keys from all queries. */
static bool make_blocks(verify_data *data, const heed_attention *s)
{
    const float *source = data->inputs[INPUT_BLOCKS];
    if (!source)
        return true;
    const int64_t columns = blocks_of(s->seq_len_kv, s->block_mask_kv);
    data->blocks = allocate_array(data->counts[INPUT_BLOCKS], 1);
    for (int64_t i = 0; data->blocks && i < data->counts[INPUT_BLOCKS]; i++)
        data->blocks[i] = i % columns != 1 && source[i] > -0.75f;
    poison_keys(data, s, s->block_mask_kv, 2 * s->block_mask_kv);
    return data->blocks != NULL;
}

static int32_t *make_offsets(const int32_t *lengths, int64_t count)
{
    int32_t *offsets = allocate_array(count + 1, sizeof *offsets);
    for (int64_t i = 0, sum = 0; offsets && i <= count; i++) {
        offsets[i] = (int32_t)sum;
        sum += i < count ? lengths[i] : 0;
    }
    return offsets;
}

static void poison_values(float *values, int64_t rows, int64_t width, int64_t keys)
{
    for (int64_t row = 0; row < rows; row++)
        if (row % keys % 13 == 6)
            values[row * width + row % width] = NAN;
}

bool verify_masks_create(verify_data *data, const verify_case *item)
{
    const heed_attention *s = &item->shape;
    hide_by_bias(data->inputs[INPUT_BIAS], data->counts[INPUT_BIAS]);
    if (!make_mask(data, s) || !make_blocks(data, s))
        return false;
    if (item->steps & STEP_NAN_VALUES)
        poison_values(data->inputs[2], s->batch * s->num_kv_heads * s->seq_len_kv, s->head_dim_v, s->seq_len_kv);
    if (!(item->steps & STEP_VARLEN))
        return true;
    data->offsets_q = make_offsets(data->lengths_q, s->batch);
    data->offsets_kv = make_offsets(data->lengths_kv, s->batch);
    return data->offsets_q && data->offsets_kv;
}

void verify_masks_attach(const verify_case *item, const verify_data *data, heed_attention *shape, heed_tensors *tensors)
{
    const int64_t keys = shape->seq_len_kv, matrix = shape->seq_len_q * keys;
    shape->strides_bias = (heed_mask_strides){ 0, matrix, keys, 1 };
    shape->strides_mask = (heed_mask_strides){ matrix, 0, keys, 1 };
    shape->varlen = (item->steps & STEP_VARLEN) != 0;
    tensors->bias = data->inputs[INPUT_BIAS];
    tensors->mask = data->mask;
    tensors->alibi_slopes = data->inputs[INPUT_SLOPES];
    tensors->sinks = data->inputs[INPUT_SINKS];
    tensors->block_mask = data->blocks;
    tensors->offsets_q = data->offsets_q;
    tensors->offsets_kv = data->offsets_kv;
}
