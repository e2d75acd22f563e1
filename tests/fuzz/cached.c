/* Attention over a cache with queries and output of any type (see cached.h).
 * May know: masked.h, store.h, check.h.
 * Must not know: anything under src/. */
#include "cached.h"

#include "world.h"

#include <string.h>

/* ---- Places ---- */

static int64_t own_queries(const masked *m, int64_t b)
{
    return m->lengths_q ? m->lengths_q[b] : m->shape.seq_len_q;
}

/* The first sequence need not begin at row 0. */
static int32_t *make_offsets(const masked *m)
{
    int32_t offsets[64] = { 2 };
    for (int64_t b = 0; b < m->shape.batch; b++)
        offsets[b + 1] = offsets[b] + (int32_t)own_queries(m, b);
    int32_t *memory = check_alloc((size_t)(m->shape.batch + 1) * sizeof *offsets, CHECK_GUARD_BEHIND);
    return memcpy(memory, offsets, (size_t)(m->shape.batch + 1) * sizeof *offsets);
}

/* Beside packed queries a cache needs lengths. */
static int32_t *all_keys(const masked *m)
{
    int32_t *lengths = check_alloc((size_t)m->shape.batch * sizeof *lengths, CHECK_GUARD_BEHIND);
    for (int64_t b = 0; b < m->shape.batch; b++)
        lengths[b] = (int32_t)m->shape.seq_len_kv;
    return lengths;
}

static cached_rows make_rows(const cached *c, bool tokens_first, int64_t dim, heed_type type)
{
    const heed_attention *a = &c->shape;
    const int64_t heads = a->num_heads;
    int64_t rows = a->seq_len_q;
    if (c->offsets && c->offsets[a->batch] > rows)
        rows = c->offsets[a->batch];
    cached_rows r = { { heads * rows * dim, rows * dim, dim }, dim, type,
        (size_t)((c->offsets ? 1 : a->batch) * heads * rows * dim), NULL };
    if (tokens_first)
        r.strides = (heed_strides){ heads * rows * dim, dim, heads * dim };
    r.data = check_alloc(r.count * store_element(type), CHECK_GUARD_BEHIND);
    return r;
}

/* Element of row n of the packed order [batch][head][query]; -1 for a row that is not there. */
static int64_t place_of(const cached *c, const cached_rows *r, int64_t n)
{
    const heed_attention *a = &c->shape;
    const int64_t i = n % a->seq_len_q, h = n / a->seq_len_q % a->num_heads, b = n / a->seq_len_q / a->num_heads;
    if (!c->offsets)
        return b * r->strides.batch + h * r->strides.head + i * r->strides.seq;
    return i < own_queries(c->problem, b) ? h * r->strides.head + (c->offsets[b] + i) * r->strides.seq : -1;
}

static void put_queries(const cached *c)
{
    const int64_t dim = c->q.dim;
    for (int64_t n = 0; n < masked_rows(c->problem); n++) {
        const int64_t at = place_of(c, &c->q, n);
        for (int64_t d = 0; at >= 0 && d < dim; d++)
            store_write(c->q.type, c->q.data, at + d, c->problem->q[n * dim + d]);
    }
}

/* A contiguous cache has its layout in common with the queries; beside pages they lie as they like. */
static heed_layout layout_of(const store *s, const cached_run *run)
{
    if (s->cache.layout == HEED_LAYOUT_STRIDED || !s->cache.page_size)
        return s->cache.layout;
    return run->tokens_first || run->varlen ? HEED_LAYOUT_BSHD : HEED_LAYOUT_BHSD;
}

cached cached_place(const masked *m, const store *s, const cached_run *run)
{
    cached c = { .problem = m, .shape = m->shape, .tensors = HEED_TENSORS_INIT };
    heed_attention *a = &c.shape;
    heed_tensors *t = &c.tensors;
    store_describe(s, a, t);
    a->layout = layout_of(s, run);
    a->varlen = run->varlen && a->layout != HEED_LAYOUT_BHSD;
    a->type_q = run->type_q;
    a->type_out = run->type_out;
    const bool tokens_first = a->layout == HEED_LAYOUT_STRIDED ? run->tokens_first : a->layout == HEED_LAYOUT_BSHD;
    c.offsets = a->varlen ? make_offsets(m) : NULL;
    c.q = make_rows(&c, tokens_first, a->head_dim, run->type_q);
    const bool in_place = run->in_place && run->type_q == run->type_out && a->head_dim == a->head_dim_v;
    c.out = in_place ? c.q : make_rows(&c, tokens_first, a->head_dim_v, run->type_out);
    put_queries(&c);
    c.count_lse = (size_t)(c.offsets ? a->num_heads * c.offsets[a->batch] : masked_rows(m));
    a->strides_q = c.q.strides;
    a->strides_out = c.out.strides;
    t->q = c.q.data;
    t->out = c.out.data;
    t->lse = check_output(c.count_lse, CHECK_GUARD_BEHIND);
    t->weights = m->weights ? check_output((size_t)(masked_rows(m) * a->seq_len_kv), CHECK_GUARD_BEHIND) : NULL;
    t->lengths_q = c.offsets ? NULL : check_lengths(m->lengths_q, (size_t)a->batch);
    t->lengths_kv = check_lengths(m->lengths_kv, (size_t)a->batch);
    if (c.offsets && !m->lengths_kv)
        t->lengths_kv = all_keys(m);
    t->offsets_q = c.offsets;
    masked_place_masks(m, CHECK_GUARD_BEHIND, a, t);
    return c;
}

/* ---- Runs ---- */

heed_status cached_attend(const cached *c, heed_isa isa, int32_t threads, heed_error *error)
{
    const heed_executor executor = world_executor(threads);
    heed_options options = check_options(isa, HEED_EXP_DEFAULT, 0);
    options.executor = &executor;
    heed_plan *plan = NULL;
    heed_status status = heed_plan_create(&plan, &c->shape, &options, error);
    if (status == HEED_OK) {
        const size_t size = heed_plan_workspace_size(plan);
        status = heed_run(plan, &c->tensors, check_alloc(size, CHECK_GUARD_BEHIND), size, error);
        heed_plan_destroy(plan);
    }
    return status;
}

static void take_out(const cached *c, float *out)
{
    const cached_rows *r = &c->out;
    const size_t element = store_element(r->type);
    for (int64_t n = 0; n < masked_rows(c->problem); n++) {
        const int64_t at = place_of(c, r, n);
        for (int64_t d = 0; at >= 0 && d < r->dim; d++)
            out[n * r->dim + d] = store_read(r->type, r->data, at + d);
        if (at >= 0)
            memset((char *)r->data + (size_t)at * element, 0xff, (size_t)r->dim * element);
    }
    check_untouched_bytes(r->data, r->count * element, "gaps of out");
}

masked_result cached_take(const cached *c)
{
    const heed_attention *a = &c->shape;
    const size_t rows = (size_t)masked_rows(c->problem), weights = rows * (size_t)a->seq_len_kv;
    masked_result r = { check_floats(rows * (size_t)a->head_dim_v), check_floats(rows), NULL };
    take_out(c, r.out);
    if (c->offsets)
        masked_fill_missing(c->problem, &r);
    for (int64_t n = 0; n < a->batch * a->num_heads; n++) {
        const int64_t b = n / a->num_heads, h = n % a->num_heads;
        const int64_t from = c->offsets ? h * c->offsets[a->batch] + c->offsets[b] : n * a->seq_len_q;
        check_take(c->tensors.lse + from, r.lse + n * a->seq_len_q,
            (size_t)(c->offsets ? own_queries(c->problem, b) : a->seq_len_q));
    }
    check_untouched(c->tensors.lse, c->count_lse, "lse of no sequence");
    if (c->tensors.weights) {
        r.weights = check_floats(weights);
        check_take(c->tensors.weights, r.weights, weights);
    }
    return r;
}

void cached_untouched(const cached *c)
{
    if (c->out.data != c->q.data)
        check_untouched_bytes(c->out.data, c->out.count * store_element(c->out.type), "out");
    check_untouched(c->tensors.lse, c->count_lse, "lse");
    if (c->tensors.weights)
        check_untouched(c->tensors.weights, (size_t)(masked_rows(c->problem) * c->shape.seq_len_kv), "weights");
}
