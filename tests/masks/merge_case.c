/* Merging of partial results (see merge_case.h).
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "merge_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double U = 0x1p-24;

merge_parts merge_make_parts(int64_t count, int64_t rows, int64_t dim, int64_t stride)
{
    merge_parts p = { count, rows, dim, stride, { NULL }, { NULL } };
    for (int64_t i = 0; i < count; i++) {
        p.out[i] = check_floats((size_t)(rows * stride));
        p.lse[i] = check_floats((size_t)rows);
        memset(p.out[i], 0xff, (size_t)(rows * stride) * sizeof(float));
    }
    return p;
}

void merge_free_parts(merge_parts *p)
{
    for (int64_t i = 0; i < p->count; i++) {
        free(p->out[i]);
        free(p->lse[i]);
    }
}

merge_parts merge_random_parts(check_rng *rng)
{
    const int64_t dim = check_between(rng, 1, 40);
    merge_parts p = merge_make_parts(check_between(rng, 1, check_between(rng, 0, 5) ? 6 : MERGE_MOST_PARTS),
        check_between(rng, 1, 20), dim, dim + check_between(rng, 0, 2));
    const double spread = check_between(rng, 0, 1) ? 3.0 : 60.0;
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t row = 0; row < p.rows; row++) {
            check_fill(rng, p.out[i] + row * p.stride, 1, (size_t)dim, CHECK_NORMAL);
            p.lse[i][row] = check_between(rng, 0, 4) ? (float)(spread * (double)check_normal(rng)) : -INFINITY;
        }
    return p;
}

merged merge_run(const merge_parts *p, heed_isa isa, heed_exp exp, int64_t gap)
{
    const int64_t stride = p->dim + gap;
    const size_t span = (size_t)((p->rows - 1) * stride + p->dim), given = (size_t)((p->rows - 1) * p->stride + p->dim);
    const float *out_in[MERGE_MOST_PARTS], *lse_in[MERGE_MOST_PARTS];
    const heed_options options = check_options(isa, exp, 1);
    merged m = { check_floats((size_t)(p->rows * p->dim)), check_floats((size_t)p->rows) };
    for (int64_t i = 0; i < p->count; i++) {
        out_in[i] = check_input(p->out[i], given, CHECK_GUARD_BEHIND);
        lse_in[i] = check_input(p->lse[i], (size_t)p->rows, CHECK_GUARD_BEHIND);
    }
    float *out = check_output(span, CHECK_GUARD_BEHIND), *lse = check_output((size_t)p->rows, CHECK_GUARD_BEHIND);
    heed_error error = { "x" };
    const heed_status status =
        heed_merge(p->count, p->rows, p->dim, out_in, p->stride, lse_in, out, stride, lse, &options, &error);
    CHECK(status == HEED_OK && error.message[0] == '\0', "heed_merge: %d %s", (int)status, error.message);
    for (int64_t row = 0; row < p->rows; row++)
        check_take(out + row * stride, m.out + row * p->dim, (size_t)p->dim);
    check_untouched(out, span, "gaps of out");
    check_take(lse, m.lse, (size_t)p->rows);
    check_free_all();
    return m;
}

void merge_free(merged *m)
{
    free(m->out);
    free(m->lse);
}

/* ---- The formula ---- */

/* A part's weight errs by the rounding of the exponent and 2 u of exp, its product by u; the two sums by u an
 * addition. */
void merge_check_row(const merge_parts *p, const merged *got, int64_t row)
{
    double max = -INFINITY, sum = 0.0, distance = 0.0;
    for (int64_t i = 0; i < p->count; i++)
        max = fmax(max, (double)p->lse[i][row]);
    for (int64_t i = 0; i < p->count && max > -INFINITY; i++) {
        const double w = exp((double)p->lse[i][row] - max);
        sum += w;
        distance += w > 0.0 ? w * (max - (double)p->lse[i][row]) : 0.0;
    }
    const double lse = max > -INFINITY ? max + log(sum) : -INFINITY;
    const double common = sum > 0.0 ? distance / sum + 2.0 * (double)p->count + 8.0 : 0.0;
    CHECK(lse == -INFINITY ? got->lse[row] == -INFINITY
                           : fabs((double)got->lse[row] - lse) <= 1.01 * U * (common + fabs(lse)),
        "lse[%lld] is %.9g, want %.9g", (long long)row, (double)got->lse[row], lse);
    for (int64_t d = 0; d < p->dim; d++) {
        double want = 0.0, bound = 0.0;
        for (int64_t i = 0; i < p->count; i++) {
            const double below = max - (double)p->lse[i][row], x = (double)p->out[i][row * p->stride + d];
            if (below < INFINITY) {
                const double w = exp(-below) / sum;
                want += w * x;
                bound += w * fabs(x) * 1.01 * U * (common + below) + 0x1p-126 * fabs(x);
            }
        }
        CHECK(fabs((double)got->out[row * p->dim + d] - want) <= bound,
            "out[%lld][%lld] is %.9g, want %.9g within %.3g", (long long)row, (long long)d,
            (double)got->out[row * p->dim + d], want, bound);
    }
}
