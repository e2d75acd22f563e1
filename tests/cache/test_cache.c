/* heed_kv_append: every byte where the header says, converted as it says, nothing else touched, bad calls refused.
 * May know: the public header, check.h, store.h.
 * Must not know: anything under src/. */
#include "store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 2, HEADS = 3, DIM = 5, DIM_V = 7, TOKENS = 37, CAPACITY = 50 };

static const int64_t page_sizes[] = { 0, 16, 32, 64, 128 };

/* Element of token t by the header's words. */
static int64_t place(const heed_kv_cache *c, const heed_strides *s, int64_t dim, int64_t b, int64_t h, int64_t t,
    int64_t i, bool transposed)
{
    const bool strided = c->layout == HEED_LAYOUT_STRIDED;
    if (c->page_size) {
        const int64_t page = c->page_table[b * c->page_table_stride + t / c->page_size], at = t % c->page_size;
        const int64_t part =
            strided ? page * s->batch + h * s->head : (page * c->num_kv_heads + h) * c->page_size * dim;
        return part + (transposed ? i * c->page_size + at : at * dim + i);
    }
    if (strided)
        return b * s->batch + h * s->head + t * s->seq + i;
    if (c->layout == HEED_LAYOUT_BSHD)
        return ((b * c->capacity + t) * c->num_kv_heads + h) * dim + i;
    return ((b * c->num_kv_heads + h) * c->capacity + t) * dim + i;
}

static void check_tensor(const store *s, bool values, const float *x, const int32_t *lengths)
{
    const heed_kv_cache *c = &s->cache;
    const int64_t dim = values ? c->head_dim_v : c->head_dim;
    const heed_type type = values ? c->type_v : c->type_k;
    const void *base = values ? c->v : c->k;
    const float *scales = values ? c->scales_v : c->scales_k;
    const size_t bytes = values ? store_bytes_v(s) : store_bytes_k(s);
    char *seen = check_malloc(bytes);
    memset(seen, 0, bytes);
    for (int64_t b = 0; b < c->batch; b++)
        for (int64_t h = 0; h < c->num_kv_heads; h++)
            for (int64_t t = 0; t < lengths[b]; t++) {
                const float *token = x + ((b * c->num_kv_heads + h) * TOKENS + t) * dim;
                double want[DIM_V];
                store_token(type, token, dim, want);
                for (int64_t i = 0; i < dim; i++) {
                    const int64_t at = place(c, values ? &c->strides_v : &c->strides_k, dim, b, h, t, i, !values);
                    double got = (double)store_read(type, base, at);
                    if (type == HEED_TYPE_I8)
                        got *= (double)scales[place(c, &c->strides_scales, 1, b, h, t, 0, false)];
                    CHECK(got == want[i], "%s: token %d of head %d: element %d is %g, want %g", values ? "v" : "k",
                        (int)t, (int)h, (int)i, got, want[i]);
                    memset(seen + (size_t)at * store_element(type), 1, store_element(type));
                }
            }
    size_t touched = 0;
    for (size_t i = 0; i < bytes; i++)
        touched += !seen[i] && ((const unsigned char *)base)[i] != 0xff;
    CHECK(touched == 0, "%s: %zu bytes written that hold no token", values ? "v" : "k", touched);
    free(seen);
}

/* What a tensor of that type can hold. */
static void round_all(heed_type type, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = store_round(type, x[i]);
        x[i] = isfinite(x[i]) ? x[i] : 1.0f;
    }
}

static void places(void)
{
    check_rng rng = check_rng_named("places");
    const size_t n_k = BATCH * HEADS * TOKENS * DIM, n_v = BATCH * HEADS * TOKENS * DIM_V;
    for (int type = 0; type <= HEED_TYPE_I8; type++)
        for (size_t p = 0; p < sizeof page_sizes / sizeof page_sizes[0]; p++)
            for (int layout = 0; layout < 3; layout++) {
                const store_shape shape = { BATCH, HEADS, DIM, DIM_V, CAPACITY, (heed_type)type,
                    (heed_type)((type + layout) % 4), page_sizes[p], (heed_layout)layout };
                float *k = check_floats(n_k), *v = check_floats(n_v);
                check_fill(&rng, k, BATCH * HEADS * TOKENS, DIM, CHECK_NORMAL);
                check_fill(&rng, v, BATCH * HEADS * TOKENS, DIM_V, CHECK_HEAVY);
                const int32_t lengths[BATCH] = { TOKENS, (int32_t)check_between(&rng, 0, TOKENS) };
                store s = store_make(&shape, &rng);
                s.source_k = (heed_type)check_between(&rng, HEED_TYPE_F32, HEED_TYPE_BF16);
                s.source_v = (heed_type)check_between(&rng, HEED_TYPE_F32, HEED_TYPE_BF16);
                check_case("%s from %s and %s, pages of %d, layout %d", store_type_name((heed_type)type),
                    store_type_name(s.source_k), store_type_name(s.source_v), (int)page_sizes[p], layout);
                round_all(s.source_k, k, n_k);
                round_all(s.source_v, v, n_v);
                store_fill(&s, k, v, TOKENS, lengths, &rng);
                check_tensor(&s, false, k, lengths);
                check_tensor(&s, true, v, lengths);
                free(k);
                free(v);
                check_free_all();
            }
    check_case("%s", "");
}

/* One token of one element through a cache. */
static float through(heed_type type, float x)
{
    uint16_t k[2] = { 0 }, v[2] = { 0 };
    heed_kv_cache c = HEED_KV_CACHE_INIT;
    heed_kv_tokens t = HEED_KV_TOKENS_INIT;
    c.batch = c.num_kv_heads = c.head_dim = c.capacity = t.seq_len = 1;
    c.type_k = c.type_v = type;
    c.k = k;
    c.v = v;
    t.k = t.v = &x;
    CHECK(heed_kv_append(&c, &t, NULL) == HEED_OK, "append");
    return store_read(type, v, 0);
}

/* Floats around every f16 and bf16 value and half way between neighbours. */
static void rounding(void)
{
    for (uint32_t h = 0; h < 0x10000; h += check_quick() ? 7 : 1)
        for (int type = HEED_TYPE_F16; type <= HEED_TYPE_BF16; type++) {
            const uint16_t pair[2] = { (uint16_t)h, (uint16_t)(h + 1) };
            const float a = store_read((heed_type)type, pair, 0), b = store_read((heed_type)type, pair, 1);
            const float middle = (float)(((double)a + (double)b) / 2.0);
            const float tries[] = { a, middle, nextafterf(middle, a), nextafterf(middle, b) };
            for (int i = 0; i < 4; i++) {
                const float got = through((heed_type)type, tries[i]), want = store_round((heed_type)type, tries[i]);
                CHECK(isnan(want) ? isnan(got) : check_bits(got) == check_bits(want), "%s of %a is %a, want %a",
                    store_type_name((heed_type)type), (double)tries[i], (double)got, (double)want);
            }
        }
    const float edge[] = { 65504.0f, 65519.996f, 65520.0f, 1e30f, -65520.0f, 0x1p-25f, 0x1.000002p-25f, -0x1p-24f,
        -0.0f, INFINITY, -INFINITY };
    for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++)
        CHECK(check_bits(through(HEED_TYPE_F16, edge[i])) == check_bits(store_round(HEED_TYPE_F16, edge[i])),
            "f16 of %a is %a", (double)edge[i], (double)through(HEED_TYPE_F16, edge[i]));
}

/* Scales: zero, subnormal, huge, and what cannot be quantised. */
static void quantising(void)
{
    const float tokens[][3] = { { 0.0f, -0.0f, 0.0f }, { 1e-45f, 0.0f, -1e-45f }, { 1e-40f, -1e-40f, 3e-41f },
        { 3.4e38f, -3.4e38f, 1e38f }, { 127.0f, 0.5f, -1.5f }, { NAN, 1.0f, 2.0f }, { INFINITY, 1.0f, 2.0f } };
    for (size_t n = 0; n < sizeof tokens / sizeof tokens[0]; n++) {
        int8_t k[3], v[3];
        float scale_k = -1.0f, scale_v = -1.0f;
        heed_kv_cache c = HEED_KV_CACHE_INIT;
        heed_kv_tokens t = HEED_KV_TOKENS_INIT;
        c.batch = c.num_kv_heads = c.capacity = t.seq_len = 1;
        c.head_dim = 3;
        c.type_k = c.type_v = HEED_TYPE_I8;
        c.k = k;
        c.v = v;
        c.scales_k = &scale_k;
        c.scales_v = &scale_v;
        t.k = t.v = tokens[n];
        CHECK(heed_kv_append(&c, &t, NULL) == HEED_OK, "append");
        CHECK(check_equal_bits(scale_k, scale_v) && memcmp(k, v, sizeof k) == 0, "k and v differ");
        if (n >= 5) {
            CHECK(isnan(scale_k) && !k[0] && !k[1] && !k[2], "token %zu: scale %g", n, (double)scale_k);
            continue;
        }
        float most = 0.0f;
        for (int i = 0; i < 3; i++)
            most = fmaxf(most, fabsf(tokens[n][i]));
        CHECK(scale_k == most / 127.0f, "token %zu: scale %g", n, (double)scale_k);
        for (int i = 0; i < 3; i++)
            CHECK(
                fabs((double)k[i] * (double)scale_k - (double)tokens[n][i]) <= (double)most / 127.0 * 0.5001 + 0x1p-149,
                "token %zu: %d of %g", n, k[i], (double)tokens[n][i]);
    }
}

/* Packed without padding: the same bytes as one sequence after the other. */
static void packed_tokens(void)
{
    check_rng rng = check_rng_named("packed");
    const int32_t offsets[BATCH + 1] = { 0, 5, 12 }, positions[BATCH] = { 3, 0 };
    float *k = check_floats(12 * HEADS * DIM), *v = check_floats(12 * HEADS * DIM_V);
    check_fill(&rng, k, 12 * HEADS, DIM, CHECK_NORMAL);
    check_fill(&rng, v, 12 * HEADS, DIM_V, CHECK_NORMAL);
    const store_shape shape = { BATCH, HEADS, DIM, DIM_V, CAPACITY, HEED_TYPE_F32, HEED_TYPE_F16, 16,
        HEED_LAYOUT_BHSD };
    const store s = store_make(&shape, &rng);
    heed_kv_tokens t = HEED_KV_TOKENS_INIT;
    t.seq_len = 7;
    t.layout = HEED_LAYOUT_BSHD;
    t.k = check_input(k, 12 * HEADS * DIM, CHECK_GUARD_BEHIND);
    t.v = check_input(v, 12 * HEADS * DIM_V, CHECK_GUARD_BEHIND);
    t.positions = positions;
    t.offsets = offsets;
    heed_error error = { "" };
    CHECK(heed_kv_append(&s.cache, &t, &error) == HEED_OK, "%s", error.message);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t row = offsets[b]; row < offsets[b + 1]; row++)
            for (int64_t h = 0; h < HEADS; h++) {
                const int64_t token = positions[b] + row - offsets[b];
                for (int64_t i = 0; i < DIM; i++)
                    CHECK(store_read(HEED_TYPE_F32, s.cache.k, place(&s.cache, NULL, DIM, b, h, token, i, true)) ==
                              k[(row * HEADS + h) * DIM + i],
                        "key of row %d", (int)row);
                for (int64_t i = 0; i < DIM_V; i++)
                    CHECK(store_read(HEED_TYPE_F16, s.cache.v, place(&s.cache, NULL, DIM_V, b, h, token, i, false)) ==
                              store_round(HEED_TYPE_F16, v[(row * HEADS + h) * DIM_V + i]),
                        "value of row %d", (int)row);
            }
    free(k);
    free(v);
    check_free_all();
}

typedef struct fault {
    const char *names;
    void (*make)(heed_kv_cache *, heed_kv_tokens *);
} fault;

static int32_t some[BATCH] = { 0, 0 }, too_far[BATCH] = { 0, CAPACITY - 3 }, negative[BATCH] = { -1, 0 },
               fall[BATCH + 1] = { 0, 4, 3 }, no_page[BATCH * 4] = { 0, 1, 2, 3, 4, 99, 6, 7 };

static void bad_batch(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->batch = -1;
}
static void bad_heads(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->num_kv_heads = 0;
}
static void bad_type(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->type_v = (heed_type)4;
}
static void bad_page(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->page_size = 24;
}
static void bad_layout(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->layout = (heed_layout)3;
}
static void bad_stride(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->page_size = 16;
    c->page_table_stride = 1;
}
static void bad_table(heed_kv_cache *c, heed_kv_tokens *t)
{
    c->page_size = 16;
    c->num_pages = 8;
    c->page_table_stride = 4;
    c->page_table = no_page;
    t->positions = some;
    t->seq_len = 20;
}
static void bad_scales(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->type_k = HEED_TYPE_I8;
}
static void bad_k(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->k = NULL;
}
static void bad_tokens(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->v = NULL;
}
static void bad_source(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->type_k = HEED_TYPE_I8;
}
static void bad_seq(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->seq_len = -1;
}
static void bad_far(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->positions = too_far;
}
static void bad_position(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->positions = negative;
}
static void bad_lengths(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->lengths = too_far;
}
static void bad_offsets(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->layout = HEED_LAYOUT_BSHD;
    t->offsets = fall;
}
static void bad_packed(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->offsets = fall;
}
static void bad_both(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)c;
    t->offsets = fall;
    t->lengths = some;
}
static void bad_size(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->struct_size += 8;
}
static void bad_extent(heed_kv_cache *c, heed_kv_tokens *t)
{
    (void)t;
    c->capacity = INT64_MAX / 2048;
    c->head_dim = 1 << 20;
}

static void refusals(void)
{
    static const fault faults[] = { { "cache.batch", bad_batch }, { "num_kv_heads", bad_heads }, { "type_v", bad_type },
        { "page_size", bad_page }, { "cache.layout", bad_layout }, { "page_table_stride", bad_stride },
        { "page_table[1][1] is 99", bad_table }, { "cache.scales_k", bad_scales }, { "cache.k", bad_k },
        { "tokens.v", bad_tokens }, { "tokens.type_k", bad_source }, { "tokens.seq_len", bad_seq },
        { "capacity", bad_far }, { "tokens.positions[0]", bad_position }, { "tokens.lengths[1]", bad_lengths },
        { "tokens.offsets", bad_offsets }, { "layout is BHSD", bad_packed },
        { "lengths is given with offsets", bad_both }, { "struct_size", bad_size }, { "address space", bad_extent } };
    const float zeros[BATCH * HEADS * 20 * DIM_V] = { 0 };
    for (size_t n = 0; n < sizeof faults / sizeof faults[0]; n++) {
        const size_t bytes = BATCH * HEADS * CAPACITY * DIM_V * sizeof(float);
        heed_kv_cache c = HEED_KV_CACHE_INIT;
        heed_kv_tokens t = HEED_KV_TOKENS_INIT;
        c.batch = BATCH;
        c.num_kv_heads = HEADS;
        c.head_dim = DIM;
        c.head_dim_v = DIM_V;
        c.capacity = CAPACITY;
        void *k = c.k = check_alloc(bytes, CHECK_GUARD_BEHIND), *v = c.v = check_alloc(bytes, CHECK_GUARD_BEHIND);
        t.seq_len = 4;
        t.k = t.v = zeros;
        faults[n].make(&c, &t);
        heed_error error = { "" };
        const heed_status status = heed_kv_append(&c, &t, &error);
        CHECK(status == HEED_ERROR_INVALID || status == HEED_ERROR_OVERFLOW, "%s: status %d", faults[n].names,
            (int)status);
        CHECK(strstr(error.message, faults[n].names), "\"%s\" does not name %s", error.message, faults[n].names);
        check_untouched_bytes(k, bytes, "k");
        check_untouched_bytes(v, bytes, "v");
        check_free_all();
    }
    heed_error error = { "" };
    const heed_kv_cache none = HEED_KV_CACHE_INIT;
    CHECK(heed_kv_append(NULL, NULL, &error) == HEED_ERROR_INVALID && strstr(error.message, "cache"), "NULL cache");
    CHECK(heed_kv_append(&none, NULL, &error) == HEED_ERROR_INVALID && strstr(error.message, "tokens"), "NULL tokens");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "places", places }, { "rounding", rounding }, { "quantising", quantising },
        { "packed_tokens", packed_tokens }, { "refusals", refusals } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
