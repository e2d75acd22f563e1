/* Keys and values in caches of any kind.
 * May know: the public header, check.h.
 * Must not know: anything under src/: rounding is done here in double. */
#include "store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t store_element(heed_type type)
{
    return type == HEED_TYPE_F32 ? 4 : type == HEED_TYPE_I8 ? 1 : 2;
}

const char *store_type_name(heed_type type)
{
    static const char *const names[] = { "f32", "f16", "bf16", "i8" };
    return names[type];
}

/* To `digits` binary digits with a smallest unit, ties to even. */
static double round_to(double x, int digits, int smallest_unit)
{
    int exponent;
    frexp(x, &exponent);
    const int unit = exponent - digits > smallest_unit ? exponent - digits : smallest_unit;
    return ldexp(nearbyint(ldexp(x, -unit)), unit);
}

float store_round(heed_type type, float x)
{
    if (type == HEED_TYPE_F32 || !isfinite(x))
        return x;
    const double rounded = type == HEED_TYPE_F16 ? round_to((double)x, 11, -24) : round_to((double)x, 8, -133);
    if (type == HEED_TYPE_F16 && fabs(rounded) > 65504.0)
        return copysignf(INFINITY, x);
    return (float)rounded;
}

float store_read(heed_type type, const void *base, int64_t i)
{
    switch (type) {
    case HEED_TYPE_F32: return ((const float *)base)[i];
    case HEED_TYPE_I8: return (float)((const int8_t *)base)[i];
    case HEED_TYPE_BF16: return check_float((uint32_t)((const uint16_t *)base)[i] << 16);
    default: return (float)check_narrow(((const uint16_t *)base)[i], 5, 10);
    }
}

/* Of what store_round gives. */
static uint16_t half_bits(float x)
{
    int exponent;
    const double size = fabs((double)x), digits = frexp(size, &exponent);
    const int bits = isnan(x)         ? 0x7e00
                     : isinf(x)       ? 0x7c00
                     : size < 0x1p-14 ? (int)ldexp(size, 24)
                                      : (exponent + 14) * 1024 + (int)(digits * 2048.0) - 1024;
    return (uint16_t)(bits | (signbit(x) ? 0x8000 : 0));
}

void store_write(heed_type type, void *base, int64_t i, float x)
{
    const float rounded = store_round(type, x);
    if (type == HEED_TYPE_F32)
        ((float *)base)[i] = x;
    else
        ((uint16_t *)base)[i] = type == HEED_TYPE_F16 ? half_bits(rounded) : (uint16_t)(check_bits(rounded) >> 16);
}

/* A subnormal scale is rounded so much that some elements are more than 127 of it. */
void store_token(heed_type type, const float *x, int64_t n, double *values)
{
    float most = 0.0f;
    for (int64_t i = 0; type == HEED_TYPE_I8 && i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    const float scale = most / 127.0f;
    for (int64_t i = 0; i < n; i++)
        values[i] = type != HEED_TYPE_I8 ? (double)store_round(type, x[i])
                    : scale > 0.0f       ? fmax(-127.0, fmin(127.0, nearbyint((double)(x[i] / scale)))) * (double)scale
                                         : 0.0;
}

static int64_t pages_of(const store_shape *shape)
{
    return shape->page_size ? (shape->capacity + shape->page_size - 1) / shape->page_size : 0;
}

/* Each sequence's pages in random order, with free pages between. */
static void deal_pages(store *s, const store_shape *shape, check_rng *rng)
{
    const int64_t pages = pages_of(shape), stride = pages + 1, all = shape->batch * pages * 2 + 1;
    s->cache.num_pages = all;
    s->cache.page_table_stride = stride;
    s->table = check_alloc((size_t)(shape->batch * stride) * sizeof *s->table + 4, CHECK_GUARD_BEHIND);
    int32_t *order = check_malloc((size_t)all * sizeof *order);
    for (int64_t i = 0; i < all; i++)
        order[i] = (int32_t)i;
    for (int64_t i = all - 1; i > 0; i--) {
        const int64_t j = check_between(rng, 0, i);
        const int32_t other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (int64_t b = 0; b < shape->batch; b++)
        for (int64_t i = 0; i < pages; i++)
            s->table[b * stride + i] = order[b * pages + i];
    s->cache.page_table = s->table;
    free(order);
}

/* Tokens outside, heads inside, without gaps: what a contiguous cache in BSHD means. */
static void set_side_by_side(store *s)
{
    heed_kv_cache *c = &s->cache;
    const int64_t rows = c->capacity, heads = c->num_kv_heads;
    c->strides_k = (heed_strides){ rows * heads * c->head_dim, c->head_dim, heads * c->head_dim };
    c->strides_v = (heed_strides){ rows * heads * c->head_dim_v, c->head_dim_v, heads * c->head_dim_v };
    c->strides_scales = (heed_strides){ rows * heads, 1, heads };
}

static void set_strides(store *s)
{
    heed_kv_cache *c = &s->cache;
    const int64_t rows = c->page_size ? c->page_size : c->capacity, heads = c->num_kv_heads;
    c->strides_k.seq = c->head_dim + 3;
    c->strides_k.head = rows * c->strides_k.seq + 5;
    c->strides_k.batch = heads * c->strides_k.head + 7;
    c->strides_v.head = c->head_dim_v + 1; /* tokens outside, heads inside */
    c->strides_v.seq = heads * c->strides_v.head + 2;
    c->strides_v.batch = rows * c->strides_v.seq + 9;
    if (c->page_size) {
        c->strides_v.head = rows * c->head_dim_v + 4;
        c->strides_v.batch = heads * c->strides_v.head + 6;
    }
    c->strides_scales.seq = c->page_size ? 1 : 2;
    c->strides_scales.head = rows * 2 + 1;
    c->strides_scales.batch = heads * c->strides_scales.head + 3;
}

/* Elements of a tensor or pool of `dim` elements a token. */
static size_t extent(const store *s, const heed_strides *strides, int64_t dim)
{
    const heed_kv_cache *c = &s->cache;
    const int64_t entries = c->page_size ? c->num_pages : c->batch, rows = c->page_size ? c->page_size : c->capacity;
    if (c->layout != HEED_LAYOUT_STRIDED)
        return (size_t)(entries * c->num_kv_heads * rows * dim);
    if (c->page_size)
        return (size_t)((entries - 1) * strides->batch + (c->num_kv_heads - 1) * strides->head + rows * dim);
    return (size_t)((entries - 1) * strides->batch + (c->num_kv_heads - 1) * strides->head + (rows - 1) * strides->seq +
                    dim);
}

size_t store_bytes_k(const store *s)
{
    return extent(s, &s->cache.strides_k, s->cache.head_dim) * store_element(s->cache.type_k);
}

size_t store_bytes_v(const store *s)
{
    return extent(s, &s->cache.strides_v, s->cache.head_dim_v) * store_element(s->cache.type_v);
}

size_t store_count_scales(const store *s)
{
    return extent(s, &s->cache.strides_scales, 1);
}

store store_make(const store_shape *shape, check_rng *rng)
{
    store s = { HEED_KV_CACHE_INIT, NULL, HEED_TYPE_F32, HEED_TYPE_F32 };
    heed_kv_cache *c = &s.cache;
    c->batch = shape->batch;
    c->num_kv_heads = shape->heads;
    c->head_dim = shape->dim;
    c->head_dim_v = shape->dim_v;
    c->capacity = shape->capacity;
    c->type_k = shape->type_k;
    c->type_v = shape->type_v;
    c->layout = shape->layout;
    c->page_size = shape->page_size;
    if (shape->page_size)
        deal_pages(&s, shape, rng);
    if (shape->layout == HEED_LAYOUT_STRIDED)
        set_strides(&s);
    if (shape->layout == HEED_LAYOUT_BSHD && !shape->page_size)
        set_side_by_side(&s);
    const check_side side = (check_side)check_between(rng, 0, 1);
    c->k = check_alloc(store_bytes_k(&s), side);
    c->v = check_alloc(store_bytes_v(&s), side);
    if (c->type_k == HEED_TYPE_I8)
        c->scales_k = check_alloc(store_count_scales(&s) * sizeof(float), side);
    if (c->type_v == HEED_TYPE_I8)
        c->scales_v = check_alloc(store_count_scales(&s) * sizeof(float), side);
    return s;
}

/* x as that type, between guard pages. */
static const char *given_as(heed_type type, const float *x, int64_t n)
{
    char *given = check_alloc((size_t)n * store_element(type), CHECK_GUARD_BEHIND);
    for (int64_t i = 0; i < n; i++)
        store_write(type, given, i, x[i]);
    return given;
}

void store_fill(store *s, const float *k, const float *v, int64_t tokens, const int32_t *lengths, check_rng *rng)
{
    const heed_kv_cache *c = &s->cache;
    int32_t at[64] = { 0 }, count[64];
    const int64_t all = c->batch * c->num_kv_heads * tokens;
    const char *given_k = given_as(s->source_k, k, all * c->head_dim);
    const char *given_v = given_as(s->source_v, v, all * c->head_dim_v);
    for (int left = 1; left;) {
        left = 0;
        int64_t most = 0;
        for (int64_t b = 0; b < c->batch; b++) {
            const int64_t rest = (lengths ? lengths[b] : tokens) - at[b];
            count[b] = (int32_t)(rest ? check_between(rng, 1, rest) : 0);
            most = count[b] > most ? count[b] : most;
            left |= rest > count[b];
        }
        for (int64_t b = 0; b < c->batch; b++) { /* each from where it stands in the source: one call a sequence */
            heed_kv_cache one = *c;
            heed_kv_tokens t = HEED_KV_TOKENS_INIT;
            int32_t position[64] = { 0 }, length[64] = { 0 };
            position[b] = at[b];
            length[b] = count[b];
            t.seq_len = most;
            t.layout = HEED_LAYOUT_STRIDED;
            t.strides_k = (heed_strides){ c->num_kv_heads * tokens * c->head_dim, tokens * c->head_dim, c->head_dim };
            t.strides_v =
                (heed_strides){ c->num_kv_heads * tokens * c->head_dim_v, tokens * c->head_dim_v, c->head_dim_v };
            t.type_k = s->source_k;
            t.type_v = s->source_v;
            t.k = given_k + (size_t)(at[b] * c->head_dim) * store_element(t.type_k);
            t.v = given_v + (size_t)(at[b] * c->head_dim_v) * store_element(t.type_v);
            t.positions = position;
            t.lengths = length;
            heed_error error = { "" };
            CHECK(heed_kv_append(&one, &t, &error) == HEED_OK, "append: %s", error.message);
            at[b] += count[b];
        }
    }
}

void store_describe(const store *s, heed_attention *a, heed_tensors *t)
{
    const heed_kv_cache *c = &s->cache;
    a->type_k = c->type_k;
    a->type_v = c->type_v;
    a->page_size = c->page_size;
    a->num_pages = c->num_pages;
    a->page_table_stride = c->page_table_stride;
    a->strides_k = c->strides_k;
    a->strides_v = c->strides_v;
    a->strides_scales = c->strides_scales;
    t->k = c->k;
    t->v = c->v;
    t->scales_k = c->scales_k;
    t->scales_v = c->scales_v;
    t->page_table = c->page_table;
}
