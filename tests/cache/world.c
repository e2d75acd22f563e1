/* A problem over a cache.
 * May know: the public header, check.h, store.h.
 * Must not know: anything under src/. */
#include "world.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t product(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (size_t)(a * b * c * d);
}

/* Tokens that storage gives back as they are. */
static float *storable(check_rng *rng, size_t tokens, int64_t dim, heed_type type)
{
    float *x = check_floats(tokens * (size_t)dim + 1);
    check_fill(rng, x, tokens, (size_t)dim, CHECK_NORMAL);
    for (size_t t = 0; t < tokens; t++) {
        const float unit = ldexpf(1.0f, (int)check_between(rng, -9, -5));
        for (int64_t i = 0; i < dim; i++) {
            float *at = x + t * (size_t)dim + i;
            *at = type == HEED_TYPE_I8 ? (float)check_between(rng, -127, 127) * unit : store_round(type, *at);
        }
        if (type == HEED_TYPE_I8)
            x[t * (size_t)dim + (size_t)check_between(rng, 0, dim - 1)] = 127.0f * unit;
    }
    return x;
}

world world_make(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq_q, int64_t seq_kv, int64_t dim,
    int64_t dim_v, heed_type type_k, heed_type type_v, check_rng *rng)
{
    world w = { HEED_ATTENTION_INIT, { 0 }, { 0 }, { 0 }, false, false, NULL, NULL, NULL, NULL, NULL };
    w.shape.batch = batch;
    w.shape.num_heads = heads;
    w.shape.num_kv_heads = kv_heads;
    w.shape.seq_len_q = seq_q;
    w.shape.seq_len_kv = seq_kv;
    w.shape.head_dim = dim;
    w.shape.head_dim_v = dim_v;
    w.q = check_floats(product(batch, heads, seq_q, dim));
    check_fill(rng, w.q, product(batch, heads, seq_q, 1), (size_t)dim, CHECK_NORMAL);
    w.k = storable(rng, product(batch, kv_heads, seq_kv, 1), dim, type_k);
    w.v = storable(rng, product(batch, kv_heads, seq_kv, 1), dim_v, type_v);
    return w;
}

static void choose_masks(world *w, check_rng *rng)
{
    heed_attention *a = &w->shape;
    const int64_t rows = a->seq_len_q, keys = a->seq_len_kv;
    if (check_between(rng, 0, 3) == 0) {
        w->bias = check_floats(product(a->num_heads, rows, keys, 1));
        check_fill(rng, w->bias, product(a->num_heads, rows, 1, 1), (size_t)keys, CHECK_NORMAL);
        for (size_t i = 0; i < product(a->num_heads, rows, keys, 1); i++)
            if (check_between(rng, 0, 4) == 0)
                w->bias[i] = -INFINITY;
        a->strides_bias = (heed_mask_strides){ 0, rows * keys, keys, 1 };
    }
    if (check_between(rng, 0, 3) == 0) {
        w->mask = check_malloc(product(a->batch, rows, keys, 1));
        for (size_t i = 0; i < product(a->batch, rows, keys, 1); i++)
            w->mask[i] = (uint8_t)(check_between(rng, 0, 2) != 0);
        a->strides_mask = (heed_mask_strides){ rows * keys, 0, keys, 1 };
    }
}

world world_random(check_rng *rng, heed_type type_k, heed_type type_v)
{
    static const int64_t keys[] = { 1, 15, 16, 17, 64, 65, 130, 255, 256, 257, 300, 511, 700 };
    const int64_t kv_heads = check_between(rng, 1, 3), group = check_between(rng, 1, 5);
    world w = world_make(check_between(rng, 1, WORLD_BATCH), kv_heads * group, kv_heads, check_between(rng, 1, 9),
        keys[check_between(rng, 0, 12)], check_between(rng, 1, 40), check_between(rng, 1, 40), type_k, type_v, rng);
    heed_attention *a = &w.shape;
    for (int64_t b = 0; b < WORLD_BATCH; b++)
        w.lengths[b] = (int32_t)(check_between(rng, 0, 2) ? a->seq_len_kv : check_between(rng, 0, a->seq_len_kv));
    a->causal = (heed_causal)check_between(rng, 0, 3);
    a->causal_offset = check_between(rng, -3, a->seq_len_kv);
    a->window_left = check_between(rng, 0, 2) ? -1 : check_between(rng, 0, a->seq_len_kv);
    a->window_right = check_between(rng, 0, 2) ? -1 : check_between(rng, 0, a->seq_len_kv);
    a->softcap = check_between(rng, 0, 3) ? 0.0f : 5.0f;
    for (int h = 0; h < WORLD_HEADS; h++) {
        w.sinks[h] = check_normal(rng);
        w.slopes[h] = check_normal(rng) * 0.05f;
    }
    w.has_sinks = check_between(rng, 0, 3) == 0;
    w.has_slopes = check_between(rng, 0, 3) == 0;
    choose_masks(&w, rng);
    return w;
}

store world_store(
    const world *w, heed_type type_k, heed_type type_v, int64_t page_size, heed_layout layout, check_rng *rng)
{
    const heed_attention *a = &w->shape;
    const store_shape shape = { a->batch, a->num_kv_heads, a->head_dim, a->head_dim_v, a->seq_len_kv, type_k, type_v,
        page_size, layout };
    store s = store_make(&shape, rng);
    store_fill(&s, w->k, w->v, a->seq_len_kv, w->lengths[0] || w->lengths[1] ? w->lengths : NULL, rng);
    return s;
}

world_result world_run(const world *w, const store *cache, const heed_options *options)
{
    heed_attention a = w->shape;
    heed_tensors t = HEED_TENSORS_INIT;
    const size_t rows = product(a.batch, a.num_heads, a.seq_len_q, 1), n = rows * (size_t)a.head_dim_v;
    const size_t weights = rows * (size_t)a.seq_len_kv;
    world_result r = { check_floats(n), check_floats(rows), check_floats(weights) };
    t.q = check_input(w->q, rows * (size_t)a.head_dim, CHECK_GUARD_BEHIND);
    t.k = w->k;
    t.v = w->v;
    t.bias = w->bias;
    t.mask = w->mask;
    t.lengths_kv = w->lengths;
    t.sinks = w->has_sinks ? w->sinks : NULL;
    t.alibi_slopes = w->has_slopes ? w->slopes : NULL;
    if (cache) {
        const heed_layout layout = cache->cache.layout;
        const bool strided =
            layout == HEED_LAYOUT_STRIDED || (layout == HEED_LAYOUT_BSHD && !cache->cache.page_size); /* q is BHSD */
        store_describe(cache, &a, &t);
        a.layout = strided ? HEED_LAYOUT_STRIDED : HEED_LAYOUT_BHSD;
        a.strides_q = (heed_strides){ a.num_heads * a.seq_len_q * a.head_dim, a.seq_len_q * a.head_dim, a.head_dim };
        a.strides_out =
            (heed_strides){ a.num_heads * a.seq_len_q * a.head_dim_v, a.seq_len_q * a.head_dim_v, a.head_dim_v };
    }
    float *out = check_output(n, CHECK_GUARD_BEHIND), *lse = check_output(rows, CHECK_GUARD_BEHIND);
    float *w_out = check_output(weights, CHECK_GUARD_BEHIND);
    t.out = out;
    t.lse = lse;
    t.weights = w_out;
    heed_plan *plan = NULL;
    heed_error error = { "" };
    if (CHECK(heed_plan_create(&plan, &a, options, &error) == HEED_OK, "plan: %s", error.message)) {
        const size_t size = heed_plan_workspace_size(plan);
        void *workspace = check_alloc(size, CHECK_GUARD_BEHIND);
        CHECK(heed_run(plan, &t, workspace, size, &error) == HEED_OK, "run: %s", error.message);
        heed_plan_destroy(plan);
    }
    memcpy(r.out, out, n * sizeof(float));
    memcpy(r.lse, lse, rows * sizeof(float));
    memcpy(r.weights, w_out, weights * sizeof(float));
    return r;
}

bool world_same(const world *w, const world_result *got, const world_result *want)
{
    const heed_attention *a = &w->shape;
    const size_t rows = product(a->batch, a->num_heads, a->seq_len_q, 1);
    const bool out = check_same(got->out, want->out, rows * (size_t)a->head_dim_v, "out");
    const bool lse = check_same(got->lse, want->lse, rows, "lse");
    return check_same(got->weights, want->weights, rows * (size_t)a->seq_len_kv, "weights") && out && lse;
}

void world_free(world *w)
{
    free(w->q);
    free(w->k);
    free(w->v);
    free(w->bias);
    free(w->mask);
}

void world_free_result(world_result *r)
{
    free(r->out);
    free(r->lse);
    free(r->weights);
}

static void descending(void *context, int64_t count, void (*task)(void *argument, int64_t index), void *argument)
{
    (void)context;
    for (int64_t i = count - 1; i >= 0; i--)
        task(argument, i);
}

heed_executor world_executor(int32_t num_threads)
{
    const heed_executor executor = { NULL, num_threads, descending };
    return executor;
}
