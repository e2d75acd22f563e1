/* Which keys a row sees, and what is done to its scores.
 * May know: plans, the caller's tensors.  Must not know: tasks, kernels beyond their argument structs.
 * Causal, window and lengths are ranges and cost nothing inside them; mask, bias and block mask narrow the range where they hide
 * its ends, so that a window given as a mask skips the same tiles, and hide what is left one by one. */
#include "mask.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const int64_t UNLIMITED = INT64_MAX / 2;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int heed_mask_is_causal(const heed_attention *a)
{
    return a->causal != HEED_CAUSAL_NONE && a->causal != HEED_CAUSAL_NONE_OFFSET;
}

heed_sequence heed_sequence_of(const heed_plan *plan, const heed_tensors *t, int64_t batch)
{
    const heed_attention *a = &plan->attention;
    heed_sequence s = { batch, a->seq_len_q, a->seq_len_kv, batch, batch, 0, 0, 0, UNLIMITED, UNLIMITED };
    if (t->offsets_q) {
        s.entry_q = 0;
        s.first_q = t->offsets_q[batch];
        s.len_q = t->offsets_q[batch + 1] - s.first_q;
    }
    if (t->offsets_kv) {
        s.entry_kv = 0;
        s.first_kv = t->offsets_kv[batch];
        s.len_kv = t->offsets_kv[batch + 1] - s.first_kv;
    }
    if (t->lengths_q)
        s.len_q = t->lengths_q[batch];
    if (t->lengths_kv)
        s.len_kv = t->lengths_kv[batch];
    const int is_offset = a->causal == HEED_CAUSAL_OFFSET || a->causal == HEED_CAUSAL_NONE_OFFSET;
    s.offset = a->causal == HEED_CAUSAL_TOP_LEFT ? 0 : is_offset ? a->causal_offset : s.len_kv - s.len_q;
    if (a->window_left >= 0)
        s.left = a->window_left;
    if (a->window_right >= 0)
        s.right = a->window_right;
    if (heed_mask_is_causal(a))
        s.right = 0;
    return s;
}

heed_span heed_visible(const heed_sequence *s, int64_t i)
{
    const int64_t p = i + s->offset;
    heed_span span = { 0, s->len_kv };
    if (i >= s->len_q)
        span.hi = 0;
    if (s->left < UNLIMITED)
        span.lo = max64(p - s->left, 0);
    if (s->right < UNLIMITED)
        span.hi = min64(p + s->right + 1, span.hi);
    if (span.lo >= span.hi)
        span.lo = span.hi = 0;
    return span;
}

heed_span heed_visible_to(const heed_sequence *s, int64_t first, int64_t last)
{
    heed_span all = { 0, 0 };
    while (first <= last && heed_visible(s, first).hi == 0) /* rows before the first key, or an empty window */
        first++;
    while (first <= last && heed_visible(s, last).hi == 0)
        last--;
    if (first <= last) {
        all.lo = heed_visible(s, first).lo;
        all.hi = heed_visible(s, last).hi;
    }
    return all;
}

heed_span heed_blocks_seen(const heed_sequence *s, int64_t first, int64_t last)
{
    const heed_span keys = heed_visible_to(s, first, last);
    const heed_span blocks = { keys.lo / HEED_BLOCK_KV, (keys.hi + HEED_BLOCK_KV - 1) / HEED_BLOCK_KV };
    return blocks;
}

int heed_mask_scores(const heed_plan *plan, const heed_tensors *t)
{
    return plan->attention.softcap != 0.0f || plan->attention.type_k == HEED_TYPE_I8 || t->alibi_slopes || t->bias ||
           t->mask || t->block_mask;
}

const float *heed_mask_bias(
    const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t head, int64_t i, int64_t j)
{
    const heed_mask_strides *x = &plan->attention.strides_bias;
    return t->bias + s->batch * x->batch + head * x->head + i * x->query + j * x->key;
}

static const uint8_t *mask_at(
    const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t head, int64_t i, int64_t j)
{
    const heed_mask_strides *x = &plan->attention.strides_mask;
    return t->mask + s->batch * x->batch + head * x->head + i * x->query + j * x->key;
}

static const uint8_t *block_row(const heed_plan *plan, const heed_tensors *t, int64_t i)
{
    const heed_attention *a = &plan->attention;
    const int64_t columns = (a->seq_len_kv - 1) / a->block_mask_kv + 1;
    return t->block_mask + i / a->block_mask_q * columns;
}

/* One row's view of everything that hides single keys, with the strides at hand. */
typedef struct hiding {
    const float *bias; /* of column 0, NULL: none */
    const uint8_t *mask, *blocks;
    int64_t bias_key, mask_key, block_kv, first;
} hiding;

static hiding hiding_of(
    const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t head, int64_t i, int64_t first)
{
    const heed_attention *a = &plan->attention;
    hiding h = { NULL, NULL, NULL, a->strides_bias.key, a->strides_mask.key, a->block_mask_kv, first };
    if (t->bias)
        h.bias = heed_mask_bias(plan, t, s, head, i, first);
    if (t->mask)
        h.mask = mask_at(plan, t, s, head, i, first);
    if (t->block_mask)
        h.blocks = block_row(plan, t, i);
    return h;
}

static int is_hidden(const hiding *h, int32_t column)
{
    if (h->mask && !h->mask[column * h->mask_key])
        return 1;
    if (h->blocks && !h->blocks[(h->first + column) / h->block_kv])
        return 1;
    return h->bias && h->bias[column * h->bias_key] == -INFINITY;
}

/* Eight keys from column j on at once, where one contiguous mask or bias, or the block mask alone hides all of them. */
static int eight_hidden(const hiding *h, int32_t j)
{
    static const float none[8] = { -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY, -INFINITY,
        -INFINITY };
    static const uint8_t zero[8] = { 0 };
    if (h->mask && h->mask_key == 1 && memcmp(h->mask + j, zero, sizeof zero) == 0)
        return 1;
    if (h->blocks && h->block_kv >= 8 && !h->blocks[(h->first + j) / h->block_kv] &&
        !h->blocks[(h->first + j + 7) / h->block_kv]) /* they lie in two of its blocks at the most */
        return 1;
    return h->bias && h->bias_key == 1 && memcmp(h->bias + j, none, sizeof none) == 0;
}

int heed_mask_hides_keys(const heed_tensors *t)
{
    return t->bias || t->mask || t->block_mask;
}

/* What is left of a range without the groups of 16 keys at its ends that are hidden: rows whose ranges agree to that are taken together,
 * and hidden keys within a group are hidden one by one as all others are. */
static heed_range trim_hidden(const hiding *h, heed_range whole)
{
    heed_range range = whole;
    if (!is_hidden(h, range.lo) && !is_hidden(h, range.hi - 1))
        return whole;
    while (range.lo + 8 <= range.hi && eight_hidden(h, range.lo))
        range.lo += 8;
    while (range.lo < range.hi && is_hidden(h, range.lo))
        range.lo++;
    while (range.lo + 8 <= range.hi && eight_hidden(h, range.hi - 8))
        range.hi -= 8;
    while (range.lo < range.hi && is_hidden(h, range.hi - 1))
        range.hi--;
    if (range.lo >= range.hi)
        return (heed_range){ 0, 0 };
    range.lo = range.lo / HEED_LANES * HEED_LANES;
    range.hi = (range.hi + HEED_LANES - 1) / HEED_LANES * HEED_LANES;
    range.lo = range.lo < whole.lo ? whole.lo : range.lo;
    range.hi = range.hi > whole.hi ? whole.hi : range.hi;
    return range;
}

void heed_mask_ask(
    const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t head, int64_t i, int64_t block)
{
    enum { LINE = 64, LAST_LINE = HEED_BLOCK_KV - LINE / 4 };
    const int64_t first = block * HEED_BLOCK_KV, end = min64(first + HEED_BLOCK_KV, s->len_kv);
    for (int64_t j = first; t->mask && j < end; j += LINE)
        __builtin_prefetch(mask_at(plan, t, s, head, i, j), 0, 3);
    for (int64_t j = first; t->bias && j < end; j += LAST_LINE)
        __builtin_prefetch(heed_mask_bias(plan, t, s, head, i, j), 0, 3);
}

heed_range heed_mask_range(
    const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t head, int64_t i, int64_t block)
{
    const int64_t first = block * HEED_BLOCK_KV;
    const heed_span seen = heed_visible(s, i);
    heed_range range = { 0, 0 };
    if (seen.lo >= first + HEED_BLOCK_KV || seen.hi <= first)
        return range;
    range.lo = (int32_t)(max64(seen.lo, first) - first);
    range.hi = (int32_t)min64(seen.hi - first, HEED_BLOCK_KV);
    if (!heed_mask_hides_keys(t))
        return range;
    const hiding h = hiding_of(plan, t, s, head, i, first);
    return trim_hidden(&h, range);
}

int heed_mask_needs_block(
    const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t kv_head, int64_t block)
{
    if (!heed_mask_hides_keys(t))
        return 1;
    for (int64_t i = 0; i < min64(s->len_q, plan->attention.seq_len_q); i++)
        for (int64_t head = kv_head * plan->group; head < (kv_head + 1) * plan->group; head++)
            if (heed_mask_range(plan, t, s, head, i, block).hi)
                return 1;
    return 0;
}

/* The row's mask as contiguous bytes: where it is, or gathered together with the block mask. */
static const uint8_t *visible_bytes(const hiding *h, heed_range range, uint8_t *room)
{
    if (!h->mask && !h->blocks)
        return NULL;
    if (h->mask && !h->blocks && h->mask_key == 1)
        return h->mask;
    for (int32_t j = range.lo; j < range.hi; j++) {
        const int by_mask = h->mask && !h->mask[j * h->mask_key];
        room[j] = !(by_mask || (h->blocks && !h->blocks[(h->first + j) / h->block_kv]));
    }
    return room;
}

static const float *bias_floats(const hiding *h, heed_range range, float *room)
{
    if (!h->bias || h->bias_key == 1)
        return h->bias;
    for (int32_t j = range.lo; j < range.hi; j++)
        room[j] = h->bias[j * h->bias_key];
    return room;
}

/* Of a subnormal cap the largest float: infinity would make a score of 0 NaN. */
static float inverse_of(float softcap)
{
    if (softcap == 0.0f)
        return 0.0f;
    return 1.0f / softcap < FLT_MAX ? 1.0f / softcap : FLT_MAX;
}

/* Elements from a row of scores to the next: heads of a position lie side by side. */
static uintptr_t next_row(const heed_plan *plan, const heed_mask_strides *strides)
{
    return (uintptr_t)(plan->group > 1 ? strides->head : strides->query);
}

heed_score heed_mask_steps(const heed_plan *plan, const heed_mask_row *row)
{
    const heed_score steps = {
        .softcap = plan->attention.softcap,
        .inverse_softcap = inverse_of(plan->attention.softcap),
        .count = row->count,
        .next_bias = next_row(plan, &plan->attention.strides_bias) * sizeof(float),
        .next_visible = next_row(plan, &plan->attention.strides_mask),
    };
    return steps;
}

void heed_mask_score(heed_score *steps, const heed_plan *plan, const heed_tensors *t, const heed_sequence *s,
    int64_t head, int64_t i, int64_t first, heed_range range, heed_mask_row *row)
{
    const hiding h = hiding_of(plan, t, s, head, i, first);
    steps->slope = t->alibi_slopes ? t->alibi_slopes[head] : 0.0f;
    steps->distance = (float)(first - (i + s->offset));
    steps->bias = bias_floats(&h, range, row->bias);
    steps->visible = visible_bytes(&h, range, row->visible);
}

void heed_mask_mark(const heed_plan *plan, const heed_tensors *t, const heed_sequence *s, int64_t head, int64_t i,
    int64_t first, heed_range range, float *weights)
{
    const hiding h = hiding_of(plan, t, s, head, i, first);
    for (int32_t j = range.lo; j < range.hi; j++)
        if (is_hidden(&h, j))
            weights[j] = -0.0f;
}
