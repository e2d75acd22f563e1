/* Checking a problem: defaults, sizes, strides, overflow.
 * May know: the public structs.  Must not know: backends, plans' insides, threads.
 * Everything is refused here, before any arithmetic that could go wrong; what comes after may assert. */
#include "plan.h"

#include <math.h>

static heed_status check_sizes(const heed_attention *a, heed_error *error)
{
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "batch", a->batch, 0 }, { "num_heads", a->num_heads, 0 }, { "num_kv_heads", a->num_kv_heads, 1 },
        { "seq_len_q", a->seq_len_q, 0 }, { "seq_len_kv", a->seq_len_kv, 0 }, { "head_dim", a->head_dim, 1 },
        { "head_dim_v", a->head_dim_v, 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i].value < sizes[i].least && !(i == 2 && a->num_heads == 0 && sizes[i].value == 0))
            return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least %lld", sizes[i].name,
                (long long)sizes[i].value, (long long)sizes[i].least);
        /* Far beyond memory, and small enough for sums of two to fit. */
        if (sizes[i].value > INT64_MAX / 8 || (uint64_t)sizes[i].value > SIZE_MAX / 8)
            return heed_fail(error, HEED_ERROR_OVERFLOW, "%s %lld does not fit the address space", sizes[i].name,
                (long long)sizes[i].value);
    }
    if (a->num_kv_heads > 0 && a->num_heads % a->num_kv_heads != 0)
        return heed_fail(error, HEED_ERROR_INVALID, "num_heads %lld is not a multiple of num_kv_heads %lld",
            (long long)a->num_heads, (long long)a->num_kv_heads);
    return HEED_OK;
}

/* One dimension of a tensor as the checks see it. */
typedef struct dimension {
    const char *name;
    int64_t size, stride;
} dimension;

enum { MOST_DIMENSIONS = 4 };

/* Elements from the first to one past the last, dim of them at each place; 0 if that does not fit PTRDIFF_MAX bytes. */
static int64_t tensor_span(const dimension *dims, int count, int64_t dim)
{
    const int64_t most = (int64_t)(PTRDIFF_MAX / sizeof(float));
    int64_t span = dim;
    if (span > most)
        return 0;
    for (int i = 0; i < count; i++) {
        const int64_t steps = dims[i].size > 1 ? dims[i].size - 1 : 0;
        if (steps && dims[i].stride > (most - span) / steps)
            return 0;
        span += steps * dims[i].stride;
    }
    return span;
}

/* Rows of an output must not share elements: sorted by stride, each dimension must step over all of the inner ones. */
static int rows_overlap(const dimension *dims, int count, int64_t dim)
{
    dimension sorted[MOST_DIMENSIONS];
    for (int i = 0; i < count; i++) {
        int place = i;
        for (; place > 0 && sorted[place - 1].stride > dims[i].stride; place--)
            sorted[place] = sorted[place - 1];
        sorted[place] = dims[i];
    }
    int64_t inner = dim;
    for (int i = 0; i < count; i++) {
        if (sorted[i].size <= 1)
            continue;
        if (sorted[i].stride < inner)
            return 1;
        inner += (sorted[i].size - 1) * sorted[i].stride;
    }
    return 0;
}

static heed_status check_dimensions(const char *name, const dimension *dims, int count, int64_t dim, heed_error *error)
{
    for (int i = 0; i < count; i++)
        if (dims[i].stride < 0 && dims[i].size > 1)
            return heed_fail(error, HEED_ERROR_INVALID, "%s.%s is %lld, must be at least 0", name, dims[i].name,
                (long long)dims[i].stride);
    for (int i = 0; i < count; i++)
        if (dims[i].size == 0)
            return HEED_OK;
    if (!tensor_span(dims, count, dim))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "%s: the tensor does not fit the address space", name);
    return HEED_OK;
}

heed_status heed_check_tensor(const char *name, const heed_strides *s, int64_t batch, int64_t heads, int64_t seq_len,
    int64_t dim, int is_output, heed_error *error)
{
    const dimension dims[3] = { { "batch", batch, s->batch }, { "head", heads, s->head }, { "seq", seq_len, s->seq } };
    const heed_status status = check_dimensions(name, dims, 3, dim, error);
    if (status != HEED_OK || batch == 0 || heads == 0 || seq_len == 0)
        return status;
    if (is_output && rows_overlap(dims, 3, dim))
        return heed_fail(error, HEED_ERROR_INVALID, "%s: rows of the output overlap (batch %lld, head %lld, seq %lld)",
            name, (long long)s->batch, (long long)s->head, (long long)s->seq);
    return HEED_OK;
}

/* The packed size must fit before strides are computed from it. */
static int packed_fits(int64_t batch, int64_t heads, int64_t seq_len, int64_t dim)
{
    size_t size = sizeof(float);
    const int64_t sizes[4] = { heads, seq_len, dim, batch ? batch : 1 };
    for (int i = 0; i < 4; i++)
        if (sizes[i] > 0 && !heed_multiply(size, (size_t)sizes[i], &size))
            return 0;
    return size <= PTRDIFF_MAX;
}

heed_status heed_packed_strides(heed_strides *to, const char *name, heed_layout layout, int64_t batch, int64_t heads,
    int64_t seq_len, int64_t dim, heed_error *error)
{
    if (!packed_fits(batch, heads, seq_len, dim))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "%s: the tensor does not fit the address space", name);
    to->batch = heads * seq_len * dim;
    to->head = layout == HEED_LAYOUT_BSHD ? dim : seq_len * dim;
    to->seq = layout == HEED_LAYOUT_BSHD ? heads * dim : dim;
    return HEED_OK;
}

static heed_status resolve_strides(heed_attention *a, heed_error *error)
{
    heed_status status = HEED_OK;
    if (a->layout != HEED_LAYOUT_STRIDED) {
        status = heed_packed_strides(
            &a->strides_q, "q", a->layout, a->batch, a->num_heads, a->seq_len_q, a->head_dim, error);
        if (status == HEED_OK)
            status = heed_packed_strides(
                &a->strides_out, "out", a->layout, a->batch, a->num_heads, a->seq_len_q, a->head_dim_v, error);
    }
    heed_kv_cache cache = heed_cache_of(a);
    if (status == HEED_OK)
        status = heed_cache_resolve(&cache, error);
    a->strides_k = cache.strides_k;
    a->strides_v = cache.strides_v;
    a->strides_scales = cache.strides_scales;
    a->page_table_stride = cache.page_table_stride;
    if (status == HEED_OK)
        status = heed_check_strides_q(a, a->varlen ? 1 : a->batch, a->seq_len_q, !a->varlen, error);
    return status == HEED_OK ? heed_cache_check(&cache, a->varlen ? 1 : a->batch, a->seq_len_kv, error) : status;
}

heed_status heed_check_strides_q(
    const heed_attention *a, int64_t batch, int64_t rows, int rows_are_final, heed_error *error)
{
    const int64_t heads = a->num_heads;
    const heed_status status = heed_check_tensor("strides_q", &a->strides_q, batch, heads, rows, a->head_dim, 0, error);
    if (status != HEED_OK)
        return status;
    return heed_check_tensor("strides_out", &a->strides_out, batch, heads, rows, a->head_dim_v, rows_are_final, error);
}

static heed_status check_mask_strides(
    const char *name, const heed_mask_strides *s, const heed_attention *a, heed_error *error)
{
    const dimension dims[4] = { { "batch", a->batch, s->batch }, { "head", a->num_heads, s->head },
        { "query", a->seq_len_q, s->query }, { "key", a->seq_len_kv, s->key } };
    return check_dimensions(name, dims, 4, 1, error);
}

static heed_status check_masks(const heed_attention *a, heed_error *error)
{
    if (a->window_left < -1 || a->window_right < -1)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least -1",
            a->window_left < -1 ? "window_left" : "window_right",
            (long long)(a->window_left < -1 ? a->window_left : a->window_right));
    if (!isfinite(a->softcap) || a->softcap < 0.0f)
        return heed_fail(error, HEED_ERROR_INVALID, "softcap is %f, must be finite and at least 0", (double)a->softcap);
    if (a->block_mask_q < 0 || a->block_mask_kv < 0)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least 0",
            a->block_mask_q < 0 ? "block_mask_q" : "block_mask_kv",
            (long long)(a->block_mask_q < 0 ? a->block_mask_q : a->block_mask_kv));
    if (a->varlen != 0 && a->varlen != 1)
        return heed_fail(error, HEED_ERROR_INVALID, "varlen is %d, must be 0 or 1", (int)a->varlen);
    if (a->varlen && a->layout == HEED_LAYOUT_BHSD)
        return heed_fail(
            error, HEED_ERROR_INVALID, "layout is BHSD, which sequences packed along seq (varlen) cannot have");
    const heed_status status = check_mask_strides("strides_bias", &a->strides_bias, a, error);
    return status == HEED_OK ? check_mask_strides("strides_mask", &a->strides_mask, a, error) : status;
}

static heed_status check_choices(const heed_attention *a, heed_error *error)
{
    if (!isfinite(a->scale))
        return heed_fail(error, HEED_ERROR_INVALID, "scale is %f, must be finite", (double)a->scale);
    if ((int)a->causal < HEED_CAUSAL_NONE || (int)a->causal > HEED_CAUSAL_NONE_OFFSET)
        return heed_fail(error, HEED_ERROR_INVALID, "causal is %d, not a value of heed_causal", (int)a->causal);
    if ((int)a->layout < HEED_LAYOUT_BHSD || (int)a->layout > HEED_LAYOUT_STRIDED)
        return heed_fail(error, HEED_ERROR_INVALID, "layout is %d, not a value of heed_layout", (int)a->layout);
    const heed_type types[2] = { a->type_q, a->type_out };
    for (int i = 0; i < 2; i++)
        if ((int)types[i] < HEED_TYPE_F32 || (int)types[i] > HEED_TYPE_BF16)
            return heed_fail(error, HEED_ERROR_INVALID, "%s is %d, must be F32, F16 or BF16", i ? "type_out" : "type_q",
                (int)types[i]);
    return HEED_OK;
}

heed_status heed_attention_resolve(heed_attention *to, const heed_attention *from, heed_error *error)
{
    static const heed_attention defaults = HEED_ATTENTION_INIT;
    *to = defaults;
    if (!from)
        return heed_fail(error, HEED_ERROR_INVALID, "attention is NULL");
    heed_status status = heed_copy_struct(to, sizeof *to, from, "attention", error);
    if (status == HEED_OK)
        status = check_sizes(to, error);
    if (status == HEED_OK)
        status = check_choices(to, error);
    if (status != HEED_OK)
        return status;
    if (to->head_dim_v == 0)
        to->head_dim_v = to->head_dim;
    if (to->scale == 0.0f)
        to->scale = (float)(1.0 / sqrt((double)to->head_dim));
    /* Beyond these every key is visible, or none: sums with positions then cannot overflow. */
    if (to->causal_offset > INT64_MAX / 4)
        to->causal_offset = INT64_MAX / 4;
    if (to->causal_offset < -(INT64_MAX / 4))
        to->causal_offset = -(INT64_MAX / 4);
    /* A window as wide as any sequence is none. */
    if (to->window_left > INT64_MAX / 8)
        to->window_left = -1;
    if (to->window_right > INT64_MAX / 8)
        to->window_right = -1;
    status = resolve_strides(to, error);
    return status == HEED_OK ? check_masks(to, error) : status;
}
