/* The public merge of partial results by log-sum-exp.
 * May know: the backend table for its exp.  Must not know: instruction sets, plans' insides. */
#include "plan.h"

#include "log.h"

#include <math.h>

enum { MERGE_PARTS_AT_ONCE = 64 };

typedef struct merge {
    const heed_backend *backend;
    int exp;
    int64_t parts, rows, dim, stride_part, stride_out;
    const float *const *part_out;
    const float *const *part_lse;
    float *out, *lse;
} merge;

static heed_status check_merge(const merge *m, heed_error *error)
{
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "parts", m->parts, 1 }, { "rows", m->rows, 0 }, { "head_dim_v", m->dim, 1 },
        { "stride_part", m->stride_part, 0 }, { "stride_out", m->stride_out, m->rows > 1 ? m->dim : 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < sizes[i].least)
            return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least %lld", sizes[i].name,
                (long long)sizes[i].value, (long long)sizes[i].least);
    const int64_t most = (int64_t)(PTRDIFF_MAX / sizeof(float));
    const int part_longer = m->stride_part > m->stride_out;
    const int64_t stride = part_longer ? m->stride_part : m->stride_out;
    if (m->dim > most || m->rows > most || (m->rows > 1 && stride > (most - m->dim) / (m->rows - 1)))
        return heed_fail(error, HEED_ERROR_OVERFLOW,
            "rows %lld of %lld elements with %s %lld: does not fit the address space", (long long)m->rows,
            (long long)m->dim, part_longer ? "stride_part" : "stride_out", (long long)stride);
    if (m->parts > MERGE_PARTS_AT_ONCE)
        return heed_fail(error, HEED_ERROR_INVALID, "parts is %lld, must be at most %d: merge in groups",
            (long long)m->parts, MERGE_PARTS_AT_ONCE);
    if (!m->part_out || !m->part_lse || !m->out)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL",
            !m->part_out   ? "part_out"
            : !m->part_lse ? "part_lse"
                           : "out");
    for (int64_t i = 0; m->rows && i < m->parts; i++)
        if (!m->part_out[i] || !m->part_lse[i])
            return heed_fail(
                error, HEED_ERROR_INVALID, "%s[%lld] is NULL", m->part_out[i] ? "part_lse" : "part_out", (long long)i);
    return HEED_OK;
}

/* The weight exp(lse_i - max) of each part, and their sum; the row's LSE. */
static float part_weights(const merge *m, int64_t row, float *weights, float *sum)
{
    float max = -INFINITY;
    for (int64_t i = 0; i < m->parts; i++)
        max = m->part_lse[i][row] > max ? m->part_lse[i][row] : max;
    const float shift = max < -0x1.fffffep127f ? 0.0f : max;
    for (int64_t i = 0; i < m->parts; i++)
        weights[i] = m->part_lse[i][row] - shift;
    m->backend->exp[m->exp](weights, weights, (size_t)m->parts);
    *sum = 0.0f;
    for (int64_t i = 0; i < m->parts; i++)
        *sum += weights[i];
    return heed_lse(max, *sum);
}

static void merge_row(const merge *m, int64_t row)
{
    float weights[MERGE_PARTS_AT_ONCE], sum;
    const float lse = part_weights(m, row, weights, &sum);
    float *out = m->out + row * m->stride_out;
    const float divisor = sum == 0.0f ? 1.0f : sum;
    for (int64_t c = 0; c < m->dim; c++) {
        float o = 0.0f;
        for (int64_t i = 0; i < m->parts; i++)
            if (m->part_lse[i][row] != -INFINITY) /* a part that saw nothing is left out whatever it holds */
                o += weights[i] * m->part_out[i][row * m->stride_part + c];
        out[c] = o / divisor + 0.0f;
    }
    if (m->lse)
        m->lse[row] = lse;
}

heed_status heed_merge(int64_t parts, int64_t rows, int64_t head_dim_v, const float *const *part_out,
    int64_t stride_part, const float *const *part_lse, float *out, int64_t stride_out, float *lse,
    const heed_options *options, heed_error *error)
{
    merge m = { NULL, 0, parts, rows, head_dim_v, stride_part, stride_out, part_out, part_lse, out, lse };
    heed_options o;
    heed_status status = heed_copy_options(&o, options, error);
    if (status == HEED_OK)
        status = heed_choose(&o, HEED_KERNEL_BUILTIN, &m.backend, &m.exp, error);
    if (status == HEED_OK)
        status = check_merge(&m, error);
    if (status != HEED_OK)
        return status;
    for (int64_t row = 0; row < rows; row++)
        merge_row(&m, row);
    return heed_succeed(error);
}
