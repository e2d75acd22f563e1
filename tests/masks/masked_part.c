/* Parts of attention problems as problems of their own (see masked.h).
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t own(const int32_t *lengths, int64_t batch, int64_t all)
{
    return lengths ? lengths[batch] : all;
}

masked_range masked_sequence(const masked *m, int64_t batch)
{
    const masked_range range = { batch, 0, own(m->lengths_q, batch, m->shape.seq_len_q), 0,
        own(m->lengths_kv, batch, m->shape.seq_len_kv) };
    return range;
}

static float *rows_of(
    const float *from, int64_t batch, int64_t heads, int64_t rows, int64_t dim, int64_t first, int64_t end)
{
    const size_t count = (size_t)((end - first) * dim);
    float *to = check_floats((size_t)heads * count);
    for (int64_t h = 0; h < heads; h++)
        memcpy(to + (size_t)h * count, from + ((batch * heads + h) * rows + first) * dim, count * sizeof *to);
    return to;
}

/* Bias and mask of the part, written out in full. */
static void cut_masks(const masked *m, const masked_range *r, masked *part)
{
    const heed_attention *a = &part->shape;
    if (m->bias)
        masked_full_bias(part);
    if (m->mask)
        masked_full_mask(part);
    for (int64_t n = 0; (m->bias || m->mask) && n < a->num_heads * a->seq_len_q * a->seq_len_kv; n++) {
        const int64_t j = r->first_kv + n % a->seq_len_kv, i = r->first_q + n / a->seq_len_kv % a->seq_len_q;
        const int64_t h = n / a->seq_len_kv / a->seq_len_q;
        if (m->bias)
            part->bias[n] = m->bias[masked_at(&m->shape.strides_bias, r->batch, h, i, j)];
        if (m->mask)
            part->mask[n] = m->mask[masked_at(&m->shape.strides_mask, r->batch, h, i, j)];
    }
}

static int64_t blocks_in(int64_t count, int64_t size)
{
    return (count + size - 1) / size;
}

static void cut_blocks(const masked *m, const masked_range *r, masked *part)
{
    const int64_t bq = m->shape.block_mask_q, bkv = m->shape.block_mask_kv;
    if (!m->blocks)
        return;
    if (r->first_q % bq || r->first_kv % bkv)
        check_fatal("the part does not begin at the border of a mask block");
    const int64_t rows = blocks_in(part->shape.seq_len_q, bq), columns = blocks_in(part->shape.seq_len_kv, bkv),
                  all = blocks_in(m->shape.seq_len_kv, bkv);
    part->blocks = check_malloc((size_t)(rows * columns));
    for (int64_t i = 0; i < rows && columns; i++)
        memcpy(
            part->blocks + i * columns, m->blocks + (r->first_q / bq + i) * all + r->first_kv / bkv, (size_t)columns);
}

static int32_t *cut_length(const int32_t *lengths, int64_t batch, int64_t first, int64_t end)
{
    if (!lengths)
        return NULL;
    int32_t *length = check_malloc(sizeof *length);
    const int64_t last = lengths[batch] < end ? lengths[batch] : end;
    *length = (int32_t)(last > first ? last - first : 0);
    return length;
}

static bool is_offset(const heed_attention *a)
{
    return a->causal == HEED_CAUSAL_OFFSET || a->causal == HEED_CAUSAL_NONE_OFFSET;
}

/* The position of the part's first query among its keys; the causal field of a whole sequence stays as it is. */
static void align(const masked *m, const masked_range *r, masked *part)
{
    const heed_attention *a = &m->shape;
    const int64_t queries = own(m->lengths_q, r->batch, a->seq_len_q),
                  keys = own(m->lengths_kv, r->batch, a->seq_len_kv);
    const bool whole = r->first_q == 0 && r->first_kv == 0 && r->end_q >= queries && r->end_kv >= keys;
    const bool needs_position = a->window_left >= 0 || a->window_right >= 0 || m->slopes;
    if (whole || (a->causal == HEED_CAUSAL_NONE && !needs_position))
        return;
    part->shape.causal_offset = r->first_q - r->first_kv +
                                (a->causal == HEED_CAUSAL_TOP_LEFT ? 0
                                    : is_offset(a)                 ? a->causal_offset
                                                                   : keys - queries);
    part->shape.causal = a->causal == HEED_CAUSAL_NONE || a->causal == HEED_CAUSAL_NONE_OFFSET ? HEED_CAUSAL_NONE_OFFSET
                                                                                               : HEED_CAUSAL_OFFSET;
}

masked masked_part(const masked *m, const masked_range *r)
{
    const heed_attention *a = &m->shape;
    masked part = { .shape = *a, .weights = m->weights };
    part.shape.batch = 1;
    part.shape.seq_len_q = r->end_q - r->first_q;
    part.shape.seq_len_kv = r->end_kv - r->first_kv;
    part.q = rows_of(m->q, r->batch, a->num_heads, a->seq_len_q, a->head_dim, r->first_q, r->end_q);
    part.k = rows_of(m->k, r->batch, a->num_kv_heads, a->seq_len_kv, a->head_dim, r->first_kv, r->end_kv);
    part.v = rows_of(m->v, r->batch, a->num_kv_heads, a->seq_len_kv, a->head_dim_v, r->first_kv, r->end_kv);
    part.slopes = m->slopes ? rows_of(m->slopes, 0, 1, a->num_heads, 1, 0, a->num_heads) : NULL;
    part.sinks = m->sinks ? rows_of(m->sinks, 0, 1, a->num_heads, 1, 0, a->num_heads) : NULL;
    part.lengths_q = cut_length(m->lengths_q, r->batch, r->first_q, r->end_q);
    part.lengths_kv = cut_length(m->lengths_kv, r->batch, r->first_kv, r->end_kv);
    cut_masks(m, r, &part);
    cut_blocks(m, r, &part);
    align(m, r, &part);
    return part;
}
