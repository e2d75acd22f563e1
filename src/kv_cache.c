/* The cache of keys and values: its description checked, and new tokens written into it.
 * May know: the public structs, storage types, the conversions of the default backend.  Must not know: tasks, how a cache is read. */
#include "plan.h"

#include <assert.h>
#include <math.h>
#include <string.h>

size_t heed_type_size(heed_type type)
{
    return type == HEED_TYPE_F32 ? 4 : type == HEED_TYPE_I8 ? 1 : 2;
}

heed_kv_cache heed_cache_of(const heed_attention *a)
{
    const heed_kv_cache cache = { .struct_size = sizeof cache,
        .batch = a->batch,
        .num_kv_heads = a->num_kv_heads,
        .head_dim = a->head_dim,
        .head_dim_v = a->head_dim_v,
        .capacity = a->seq_len_kv,
        .type_k = a->type_k,
        .type_v = a->type_v,
        .layout = a->layout,
        .strides_k = a->strides_k,
        .strides_v = a->strides_v,
        .strides_scales = a->strides_scales,
        .page_size = a->page_size,
        .num_pages = a->num_pages,
        .page_table_stride = a->page_table_stride };
    return cache;
}

static heed_status check_choices(heed_kv_cache *c, heed_error *error)
{
    const heed_type types[2] = { c->type_k, c->type_v };
    for (int i = 0; i < 2; i++)
        if ((int)types[i] < HEED_TYPE_F32 || (int)types[i] > HEED_TYPE_I8)
            return heed_fail(error, HEED_ERROR_INVALID, "%s is %d, not a value of heed_type", i ? "type_v" : "type_k",
                (int)types[i]);
    if (c->page_size != 0 && c->page_size != 16 && c->page_size != 32 && c->page_size != 64 && c->page_size != 128)
        return heed_fail(
            error, HEED_ERROR_INVALID, "page_size is %lld, must be 0, 16, 32, 64 or 128", (long long)c->page_size);
    if (c->page_size == 0)
        return HEED_OK;
    const int64_t columns = c->capacity ? (c->capacity - 1) / c->page_size + 1 : 0;
    if (c->page_table_stride == 0)
        c->page_table_stride = columns;
    if (c->num_pages < 0 || c->num_pages > INT32_MAX)
        return heed_fail(
            error, HEED_ERROR_INVALID, "num_pages is %lld, must be in 0 .. 2147483647", (long long)c->num_pages);
    if (c->page_table_stride < columns)
        return heed_fail(error, HEED_ERROR_INVALID, "page_table_stride is %lld, %lld pages of a sequence need as many",
            (long long)c->page_table_stride, (long long)columns);
    return HEED_OK;
}

heed_status heed_cache_resolve(heed_kv_cache *c, heed_error *error)
{
    heed_status status = check_choices(c, error);
    if (status != HEED_OK || c->layout == HEED_LAYOUT_STRIDED)
        return status;
    const heed_layout layout = c->page_size ? HEED_LAYOUT_BHSD : c->layout;
    const int64_t entries = c->page_size ? c->num_pages : c->batch, rows = c->page_size ? c->page_size : c->capacity;
    const int64_t heads = c->num_kv_heads;
    status = heed_packed_strides(&c->strides_k, "k", layout, entries, heads, rows, c->head_dim, error);
    if (status == HEED_OK)
        status = heed_packed_strides(&c->strides_v, "v", layout, entries, heads, rows, c->head_dim_v, error);
    if (status == HEED_OK)
        status = heed_packed_strides(&c->strides_scales, "scales", layout, entries, heads, rows, 1, error);
    return status;
}

heed_status heed_cache_check(const heed_kv_cache *c, int64_t batch, int64_t rows, heed_error *error)
{
    /* A head's part of a page is contiguous: one long row. */
    const int64_t entries = c->page_size ? c->num_pages : batch, part = c->page_size ? c->page_size : 1;
    const int64_t steps = c->page_size ? 1 : rows, heads = c->num_kv_heads;
    heed_status status =
        heed_check_tensor("strides_k", &c->strides_k, entries, heads, steps, c->head_dim * part, 0, error);
    if (status == HEED_OK)
        status = heed_check_tensor("strides_v", &c->strides_v, entries, heads, steps, c->head_dim_v * part, 0, error);
    if (status == HEED_OK && (c->type_k == HEED_TYPE_I8 || c->type_v == HEED_TYPE_I8))
        status = heed_check_tensor("strides_scales", &c->strides_scales, entries, heads, steps, part, 0, error);
    return status;
}

heed_status heed_cache_check_pages(
    const heed_kv_cache *c, const int32_t *table, int64_t batch, int64_t first, int64_t end, heed_error *error)
{
    if (first >= end)
        return HEED_OK;
    for (int64_t i = first / c->page_size; i <= (end - 1) / c->page_size; i++) {
        const int32_t page = table[batch * c->page_table_stride + i];
        if (page < 0 || page >= c->num_pages)
            return heed_fail(error, HEED_ERROR_INVALID, "page_table[%lld][%lld] is %d, must be in 0 .. %lld",
                (long long)batch, (long long)i, (int)page, (long long)c->num_pages - 1);
    }
    return HEED_OK;
}

/* ---- Append ---- */

/* Where new tokens go to and come from, and whose conversions they pass. */
typedef struct append {
    const heed_kv_cache *cache;
    const heed_kv_tokens *tokens;
    const heed_backend *backend;
} append;

/* A token's elements, as they are given. */
typedef struct source {
    const heed_backend *backend;
    const char *from;
    heed_type type;
    int64_t n;
} source;

enum { PART = 64 /* elements that are worked on at once */ };

/* Those from `first` on, PART or what is left, the rest of part 0; returns how many. */
static int64_t part_of(const source *x, int64_t first, float part[PART])
{
    const int64_t n = x->n - first < PART ? x->n - first : PART;
    x->backend->widen_row(x->type, part, x->from + first * (int64_t)heed_type_size(x->type), (size_t)n);
    memset(part + n, 0, (size_t)(PART - n) * sizeof *part);
    return n;
}

/* int8: a token's largest magnitude / 127.  NaN is lost in a comparison but not in a sum.  LANES of each, and whole parts, so that compilers
 * make vectors of the loops. */
static float scale_of(const source *x)
{
    enum { LANES = 8 };
    float part[PART], most[LANES] = { 0.0f }, probe[LANES] = { 0.0f };
    for (int64_t first = 0; first < x->n; first += PART) {
        part_of(x, first, part);
        for (int i = 0; i < PART; i += LANES)
            for (int j = 0; j < LANES; j++) {
                const float magnitude = fabsf(part[i + j]);
                most[j] = magnitude > most[j] ? magnitude : most[j];
                probe[j] += part[i + j] * 0.0f;
            }
    }
    for (int j = 1; j < LANES; j++) {
        most[0] = most[j] > most[0] ? most[j] : most[0];
        probe[0] += probe[j];
    }
    return probe[0] == 0.0f ? most[0] / 127.0f : NAN;
}

/* Element i, of size bytes, goes to to[i * step]. */
static void copy_elements(char *to, int64_t step, const char *from, size_t size, int64_t n)
{
    if (step == 1)
        memcpy(to, from, (size_t)n * size);
    else if (size == 1)
        for (int64_t i = 0; i < n; i++)
            to[i * step] = from[i];
    else if (size == 2)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step * 2, from + i * 2, 2);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * step * 4, from + i * 4, 4);
}

/* Steps of scale, to nearest even; a subnormal scale makes more than 127 of some.  What has no scale becomes 0. */
static void quantize(int8_t to[PART], const float x[PART], float scale)
{
    memset(to, 0, PART);
    if (!(scale > 0.0f))
        return;
    for (int i = 0; i < PART; i++) {
        const float rounded = (x[i] / scale + 0x1.8p23f) - 0x1.8p23f;
        to[i] = (int8_t)(rounded > 127.0f ? 127.0f : rounded < -127.0f ? -127.0f : rounded);
    }
}

static void store_converted(char *to, heed_type type, int64_t step, const source *x, float *scale)
{
    float part[PART];
    uint16_t narrow[PART];
    int8_t steps[PART];
    if (type == HEED_TYPE_I8) {
        assert(scale); /* a cache of this type without scales has been refused */
        *scale = scale_of(x);
    }
    for (int64_t first = 0, n; first < x->n; first += n) {
        char *place = to + first * step * (int64_t)heed_type_size(type);
        n = part_of(x, first, part);
        if (type == HEED_TYPE_I8) {
            quantize(steps, part, *scale);
            copy_elements(place, step, (const char *)steps, 1, n);
        } else if (type == HEED_TYPE_F32) {
            copy_elements(place, step, (const char *)part, sizeof *part, n);
        } else {
            x->backend->narrow_row(type, narrow, part, (size_t)n);
            copy_elements(place, step, (const char *)narrow, sizeof *narrow, n);
        }
    }
}

static void store_token(char *to, heed_type type, int64_t step, const source *x, float *scale)
{
    if (type == x->type)
        copy_elements(to, step, x->from, heed_type_size(type), x->n);
    else
        store_converted(to, type, step, x, scale);
}

/* Where token `position` of a sequence and head begins, in elements: in a tensor, or in its page as column or row. */
static int64_t place_of(const heed_kv_cache *c, const heed_strides *s, int64_t batch, int64_t head, int64_t position,
    int64_t elements_a_token)
{
    if (!c->page_size)
        return batch * s->batch + head * s->head + position * s->seq;
    const int64_t page = c->page_table[batch * c->page_table_stride + position / c->page_size];
    return page * s->batch + head * s->head + position % c->page_size * elements_a_token;
}

/* Token `row` of entry `entry` of what is given becomes the one at `position` of a sequence. */
static void append_token(const append *a, int64_t batch, int64_t head, int64_t position, int64_t entry, int64_t row)
{
    const heed_kv_cache *c = a->cache;
    const heed_kv_tokens *t = a->tokens;
    const int64_t at_k = entry * t->strides_k.batch + head * t->strides_k.head + row * t->strides_k.seq;
    const int64_t at_v = entry * t->strides_v.batch + head * t->strides_v.head + row * t->strides_v.seq;
    const source k = { a->backend, (const char *)t->k + at_k * (int64_t)heed_type_size(t->type_k), t->type_k,
        c->head_dim };
    const source v = { a->backend, (const char *)t->v + at_v * (int64_t)heed_type_size(t->type_v), t->type_v,
        c->head_dim_v };
    const int64_t to_k = place_of(c, &c->strides_k, batch, head, position, 1);
    const int64_t to_v = place_of(c, &c->strides_v, batch, head, position, c->head_dim_v);
    const int64_t to_scale = place_of(c, &c->strides_scales, batch, head, position, 1);
    store_token((char *)c->k + to_k * (int64_t)heed_type_size(c->type_k), c->type_k, c->page_size ? c->page_size : 1,
        &k, c->scales_k ? c->scales_k + to_scale : NULL);
    store_token((char *)c->v + to_v * (int64_t)heed_type_size(c->type_v), c->type_v, 1, &v,
        c->scales_v ? c->scales_v + to_scale : NULL);
}

static int64_t new_tokens(const heed_kv_tokens *t, int64_t batch)
{
    if (t->offsets)
        return (int64_t)t->offsets[batch + 1] - t->offsets[batch];
    return t->lengths ? t->lengths[batch] : t->seq_len;
}

static void append_sequence(const append *a, int64_t batch)
{
    const heed_kv_tokens *t = a->tokens;
    const int64_t first = t->positions ? t->positions[batch] : 0, count = new_tokens(t, batch);
    const int64_t entry = t->offsets ? 0 : batch, row = t->offsets ? t->offsets[batch] : 0;
    for (int64_t head = 0; head < a->cache->num_kv_heads; head++)
        for (int64_t i = 0; i < count; i++)
            append_token(a, batch, head, first + i, entry, row + i);
}

static heed_status check_cache(heed_kv_cache *c, heed_error *error)
{
    if (c->head_dim_v == 0)
        c->head_dim_v = c->head_dim;
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "batch", c->batch, 0 }, { "num_kv_heads", c->num_kv_heads, 1 }, { "head_dim", c->head_dim, 1 },
        { "head_dim_v", c->head_dim_v, 1 }, { "capacity", c->capacity, 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > INT64_MAX / 1024)
            return heed_fail(error, HEED_ERROR_INVALID, "cache.%s is %lld, must be at least %lld and fit memory",
                sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].least);
    if ((int)c->layout < HEED_LAYOUT_BHSD || (int)c->layout > HEED_LAYOUT_STRIDED)
        return heed_fail(error, HEED_ERROR_INVALID, "cache.layout is %d, not a value of heed_layout", (int)c->layout);
    heed_status status = heed_cache_resolve(c, error);
    if (status == HEED_OK)
        status = heed_cache_check(c, c->batch, c->capacity, error);
    return status;
}

static heed_status check_pointers(const heed_kv_cache *c, const heed_kv_tokens *t, heed_error *error)
{
    const struct {
        const char *name;
        int missing;
    } pointers[] = { { "cache.k", !c->k }, { "cache.v", !c->v },
        { "cache.scales_k", c->type_k == HEED_TYPE_I8 && !c->scales_k },
        { "cache.scales_v", c->type_v == HEED_TYPE_I8 && !c->scales_v },
        { "cache.page_table", c->page_size && !c->page_table }, { "tokens.k", !t->k }, { "tokens.v", !t->v } };
    for (size_t i = 0; i < sizeof pointers / sizeof pointers[0]; i++)
        if (pointers[i].missing)
            return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", pointers[i].name);
    return HEED_OK;
}

static heed_status check_token_types(const heed_kv_tokens *t, heed_error *error)
{
    const heed_type types[2] = { t->type_k, t->type_v };
    for (int i = 0; i < 2; i++)
        if ((int)types[i] < HEED_TYPE_F32 || (int)types[i] > HEED_TYPE_BF16)
            return heed_fail(error, HEED_ERROR_INVALID, "tokens.%s is %d, must be HEED_TYPE_F32, F16 or BF16",
                i ? "type_v" : "type_k", (int)types[i]);
    return HEED_OK;
}

static heed_status resolve_tokens(heed_kv_tokens *t, const heed_kv_cache *c, heed_error *error)
{
    if (t->seq_len < 0 || t->seq_len > INT32_MAX)
        return heed_fail(
            error, HEED_ERROR_INVALID, "tokens.seq_len is %lld, must be in 0 .. 2147483647", (long long)t->seq_len);
    if ((int)t->layout < HEED_LAYOUT_BHSD || (int)t->layout > HEED_LAYOUT_STRIDED)
        return heed_fail(error, HEED_ERROR_INVALID, "tokens.layout is %d, not a value of heed_layout", (int)t->layout);
    if (t->offsets && (t->lengths || t->layout == HEED_LAYOUT_BHSD))
        return heed_fail(error, HEED_ERROR_INVALID, "tokens.%s",
            t->lengths ? "lengths is given with offsets"
                       : "layout is BHSD, which tokens packed by offsets cannot have");
    heed_status status = check_token_types(t, error);
    if (status == HEED_OK)
        status = heed_check_lengths("tokens.lengths", t->lengths, c->batch, t->seq_len, error);
    if (status == HEED_OK && t->offsets)
        status = heed_check_offsets("tokens.offsets", t->offsets, c->batch, t->seq_len, error);
    if (status == HEED_OK)
        status = heed_check_lengths("tokens.positions", t->positions, c->batch, c->capacity, error);
    if (status == HEED_OK && t->layout != HEED_LAYOUT_STRIDED)
        status = heed_packed_strides(
            &t->strides_k, "tokens.k", t->layout, c->batch, c->num_kv_heads, t->seq_len, c->head_dim, error);
    if (status == HEED_OK && t->layout != HEED_LAYOUT_STRIDED)
        status = heed_packed_strides(
            &t->strides_v, "tokens.v", t->layout, c->batch, c->num_kv_heads, t->seq_len, c->head_dim_v, error);
    const int64_t entries = t->offsets ? 1 : c->batch, rows = t->offsets ? t->offsets[c->batch] : t->seq_len;
    if (status == HEED_OK)
        status =
            heed_check_tensor("tokens.strides_k", &t->strides_k, entries, c->num_kv_heads, rows, c->head_dim, 0, error);
    if (status == HEED_OK)
        status = heed_check_tensor(
            "tokens.strides_v", &t->strides_v, entries, c->num_kv_heads, rows, c->head_dim_v, 0, error);
    return status;
}

static heed_status check_places(const heed_kv_cache *c, const heed_kv_tokens *t, heed_error *error)
{
    for (int64_t b = 0; b < c->batch; b++) {
        const int64_t first = t->positions ? t->positions[b] : 0, end = first + new_tokens(t, b);
        if (end > c->capacity)
            return heed_fail(error, HEED_ERROR_INVALID,
                "sequence %lld: tokens %lld .. %lld do not fit the cache's capacity of %lld", (long long)b,
                (long long)first, (long long)end - 1, (long long)c->capacity);
        const heed_status status =
            c->page_size ? heed_cache_check_pages(c, c->page_table, b, first, end, error) : HEED_OK;
        if (status != HEED_OK)
            return status;
    }
    return HEED_OK;
}

heed_status heed_kv_append(const heed_kv_cache *cache, const heed_kv_tokens *tokens, heed_error *error)
{
    heed_kv_cache c = HEED_KV_CACHE_INIT;
    heed_kv_tokens t = HEED_KV_TOKENS_INIT;
    if (!cache || !tokens)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", cache ? "tokens" : "cache");
    heed_status status = heed_copy_struct(&c, sizeof c, cache, "cache", error);
    if (status == HEED_OK)
        status = heed_copy_struct(&t, sizeof t, tokens, "tokens", error);
    if (status == HEED_OK)
        status = check_cache(&c, error);
    if (status != HEED_OK || c.batch == 0)
        return status == HEED_OK ? heed_succeed(error) : status;
    status = resolve_tokens(&t, &c, error);
    if (status == HEED_OK && t.seq_len > 0)
        status = check_pointers(&c, &t, error);
    if (status == HEED_OK && t.seq_len > 0)
        status = check_places(&c, &t, error);
    if (status != HEED_OK)
        return status;
    const append a = { &c, &t, heed_backend_find(HEED_ISA_AUTO) };
    for (int64_t b = 0; b < c.batch && t.seq_len > 0; b++)
        append_sequence(&a, b);
    return heed_succeed(error);
}
