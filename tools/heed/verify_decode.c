/* Attention over a cache: keys and values appended in pieces, stored as the case says, then read by the queries.
 * May know: the public header, verify.h, command.h for memory, element.h for reading 16-bit numbers.
 * Must not know: what the results should be, how the library converts. */
#include "command.h"
#include "element.h"
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything a call needs; all pointers but those into it are malloc'ed. */
typedef struct decode {
    heed_attention shape; /* of the call: with the rows before */
    heed_kv_cache cache;
    void *k, *v;
    float *scales_k, *scales_v;
    int32_t *table, *positions, *lengths_q;
    void *q, *out;
    float *lse, *weights;
} decode;

static size_t size_of(heed_type type)
{
    return type == HEED_TYPE_F32 ? 4 : type == HEED_TYPE_I8 ? 1 : 2;
}

/* All bits set: NaN in every type of floats, so that what is read before it is written shows. */
static void *fresh(int64_t count, size_t size)
{
    void *memory = allocate_array(count, size);
    if (memory)
        memset(memory, 0xFF, (size_t)count * size);
    return memory;
}

static bool make_cache(decode *d, const heed_attention *s)
{
    const int64_t columns = s->page_size ? (s->seq_len_kv + s->page_size - 1) / s->page_size : 0;
    const int64_t pages = s->batch * columns;
    const int64_t tokens = (s->page_size ? pages * s->page_size : s->batch * s->seq_len_kv) * s->num_kv_heads;
    d->shape = *s;
    d->shape.num_pages = pages;
    d->k = fresh(tokens * s->head_dim, size_of(s->type_k));
    d->v = fresh(tokens * s->head_dim_v, size_of(s->type_v));
    d->scales_k = fresh(tokens, sizeof *d->scales_k);
    d->scales_v = fresh(tokens, sizeof *d->scales_v);
    d->table = fresh(pages, sizeof *d->table);
    d->positions = fresh(s->batch, sizeof *d->positions);
    d->cache = (heed_kv_cache)HEED_KV_CACHE_INIT;
    d->cache.batch = s->batch;
    d->cache.num_kv_heads = s->num_kv_heads;
    d->cache.head_dim = s->head_dim;
    d->cache.head_dim_v = s->head_dim_v;
    d->cache.capacity = s->seq_len_kv;
    d->cache.type_k = s->type_k;
    d->cache.type_v = s->type_v;
    d->cache.page_size = s->page_size;
    d->cache.num_pages = pages;
    d->cache.k = d->k;
    d->cache.v = d->v;
    d->cache.scales_k = d->scales_k;
    d->cache.scales_v = d->scales_v;
    d->cache.page_table = d->table;
    for (int64_t i = 0; d->table && i < pages; i++)
        d->table[i] = (int32_t)(pages - 1 - i);
    return d->k && d->v && d->scales_k && d->scales_v && d->table && d->positions;
}

/* In as many calls as the case has pieces, of unequal sizes. */
static heed_status append(decode *d, const verify_case *item, const verify_data *data, heed_error *error)
{
    const heed_attention *s = &item->shape;
    heed_status status = HEED_OK;
    for (int64_t piece = 0; piece < item->pieces && status == HEED_OK; piece++) {
        const int64_t first = piece * piece * s->seq_len_kv / (item->pieces * item->pieces);
        const int64_t end = (piece + 1) * (piece + 1) * s->seq_len_kv / (item->pieces * item->pieces);
        heed_kv_tokens tokens = HEED_KV_TOKENS_INIT;
        tokens.seq_len = end - first;
        tokens.layout = HEED_LAYOUT_STRIDED;
        tokens.strides_k =
            (heed_strides){ s->num_kv_heads * s->seq_len_kv * s->head_dim, s->seq_len_kv * s->head_dim, s->head_dim };
        tokens.strides_v = (heed_strides){ s->num_kv_heads * s->seq_len_kv * s->head_dim_v,
            s->seq_len_kv * s->head_dim_v, s->head_dim_v };
        tokens.k = data->inputs[1] + first * s->head_dim;
        tokens.v = data->inputs[2] + first * s->head_dim_v;
        tokens.positions = d->positions;
        for (int64_t b = 0; b < s->batch; b++)
            d->positions[b] = (int32_t)first;
        status = heed_kv_append(&d->cache, &tokens, error);
    }
    return status;
}

/* Queries behind item->before rows of zeros, in their type. */
static bool make_queries(decode *d, const verify_case *item, const verify_data *data)
{
    const heed_attention *s = &item->shape;
    const int64_t rows = item->before + s->seq_len_q, heads = s->batch * s->num_heads, row = s->head_dim;
    d->shape.seq_len_q = rows;
    d->q = allocate_array(heads * rows * row, size_of(s->type_q));
    d->out = fresh(heads * rows * s->head_dim_v, size_of(s->type_out));
    d->lse = item->lse ? fresh(heads * rows, sizeof *d->lse) : NULL;
    d->weights = item->weights ? fresh(heads * rows * s->seq_len_kv, sizeof *d->weights) : NULL;
    d->lengths_q = data->lengths_q ? allocate_array(s->batch, sizeof *d->lengths_q) : NULL;
    if (!d->q || !d->out || (item->lse && !d->lse) || (item->weights && !d->weights) ||
        (data->lengths_q && !d->lengths_q))
        return false;
    for (int64_t b = 0; d->lengths_q && b < s->batch; b++)
        d->lengths_q[b] = data->lengths_q[b] + (int32_t)item->before;
    memset(d->q, 0, (size_t)(heads * rows * row) * size_of(s->type_q));
    for (int64_t i = 0; i < heads * s->seq_len_q * row; i++) {
        const int64_t at = (i / (s->seq_len_q * row) + 1) * item->before * row + i;
        if (s->type_q == HEED_TYPE_F32)
            ((float *)d->q)[at] = data->inputs[0][i];
        else
            ((uint16_t *)d->q)[at] = verify_encode(data->inputs[0][i], s->type_q);
    }
    return true;
}

static float element_of(const void *values, heed_type type, int64_t i)
{
    if (type == HEED_TYPE_F32)
        return ((const float *)values)[i];
    const uint16_t bits = ((const uint16_t *)values)[i];
    return type == HEED_TYPE_F16 ? float_from_f16(bits) : float_from_bf16(bits);
}

/* The rows of the case's own queries; returns where the next part goes. */
static float *take_rows(float *to, const void *from, heed_type type, const verify_case *item, int64_t width)
{
    const heed_attention *s = &item->shape;
    const int64_t own = s->seq_len_q * width;
    for (int64_t i = 0; from && i < s->batch * s->num_heads * own; i++)
        *to++ = element_of(from, type, i + (i / own + 1) * item->before * width);
    return to;
}

static void release(decode *d)
{
    void *const all[] = { d->k, d->v, d->scales_k, d->scales_v, d->table, d->positions, d->lengths_q, d->q, d->out,
        d->lse, d->weights };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

heed_status verify_call_decode(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error)
{
    const heed_attention *s = &item->shape;
    decode d = { .k = NULL };
    const bool ready = make_cache(&d, s) && make_queries(&d, item, data);
    heed_status status = ready ? append(&d, item, data, error) : HEED_ERROR_OUT_OF_MEMORY;
    if (status == HEED_OK) {
        heed_tensors tensors = HEED_TENSORS_INIT;
        tensors.q = d.q;
        tensors.k = d.k;
        tensors.v = d.v;
        tensors.scales_k = d.scales_k;
        tensors.scales_v = d.scales_v;
        tensors.page_table = d.table;
        tensors.out = d.out;
        tensors.lse = d.lse;
        tensors.weights = d.weights;
        tensors.lengths_q = d.lengths_q;
        tensors.lengths_kv = data->lengths_kv;
        verify_masks_attach(item, data, &d.shape, &tensors);
        status = heed_attend(&d.shape, &tensors, options, error);
    }
    if (status == HEED_OK) {
        results = take_rows(results, d.out, s->type_out, item, s->head_dim_v);
        results = take_rows(results, d.lse, HEED_TYPE_F32, item, 1);
        take_rows(results, d.weights, HEED_TYPE_F32, item, s->seq_len_kv);
    }
    release(&d);
    return status;
}
