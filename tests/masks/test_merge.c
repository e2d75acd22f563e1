/* heed_merge: its formula in double, attention over keys split in any way, and what it must leave alone.
 * May know: the public header, masked.h, merge_case.h, check.h, mask_oracle.h.
 * Must not know: anything under src/. */
#include "masked.h"
#include "merge_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double U = 0x1p-24;

/* ---- The formula ---- */

static void formula(void)
{
    check_rng rng = check_rng_named("merge");
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    for (int n = 0; n < (check_quick() ? 20 : 200); n++) {
        merge_parts p = merge_random_parts(&rng);
        check_case("parts %lld rows %lld dim %lld", (long long)p.count, (long long)p.rows, (long long)p.dim);
        const heed_exp exp = n % 2 && heed_sleef_usable(HEED_ISA_SCALAR) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN;
        merged scalar = merge_run(&p, HEED_ISA_SCALAR, exp, 0);
        for (int64_t row = 0; row < p.rows; row++)
            merge_check_row(&p, &scalar, row);
        for (size_t i = 0; i < count; i++) {
            merged other = merge_run(&p, list[i], exp, n % 3);
            check_same(other.out, scalar.out, (size_t)(p.rows * p.dim), heed_isa_name(list[i]));
            check_same(other.lse, scalar.lse, (size_t)p.rows, "lse");
            merge_free(&other);
        }
        merge_free(&scalar);
        merge_free_parts(&p);
    }
}

/* One part, alone or beside merge_parts that saw nothing and hold rubbish, comes back bit for bit. */
static void one_part_matters(void)
{
    check_rng rng = check_rng_named("one part");
    for (int n = 0; n < 40; n++) {
        merge_parts p = merge_random_parts(&rng);
        const int64_t one = check_between(&rng, 0, p.count - 1);
        for (int64_t i = 0; i < p.count; i++)
            for (int64_t row = 0; row < p.rows; row++) {
                p.lse[i][row] = i == one ? 50.0f * check_normal(&rng) : -INFINITY;
                if (i != one)
                    p.out[i][row * p.stride] = n % 2 ? NAN : INFINITY;
            }
        merged m = merge_run(&p, HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
        check_same(m.lse, p.lse[one], (size_t)p.rows, "lse of the only part");
        for (int64_t row = 0; row < p.rows; row++)
            check_same(m.out + row * p.dim, p.out[one] + row * p.stride, (size_t)p.dim, "the only part");
        merge_free(&m);
        merge_free_parts(&p);
    }
}

/* A part that is NaN in a row makes that row NaN and no other; rows of no part are 0. */
static void special_rows(void)
{
    const float a[4] = { 1, 2, 3, 4 }, b[4] = { 5, 6, 7, NAN }, lse_a[4] = { 0, NAN, -INFINITY, 0 },
                lse_b[4] = { 0, 0, -INFINITY, 0 };
    const float *out_in[2] = { a, b }, *lse_in[2] = { lse_a, lse_b };
    float out[4], lse[4];
    CHECK(heed_merge(2, 4, 1, out_in, 1, lse_in, out, 1, lse, NULL, NULL) == HEED_OK, "heed_merge");
    CHECK(out[0] == 3.0f && fabs((double)lse[0] - log(2.0)) < 1e-7, "row 0: %g %g", (double)out[0], (double)lse[0]);
    CHECK(isnan(out[1]) && isnan(lse[1]), "row 1: %g %g", (double)out[1], (double)lse[1]);
    CHECK(check_bits(out[2]) == 0 && lse[2] == -INFINITY, "row 2: %g %g", (double)out[2], (double)lse[2]);
    CHECK(isnan(out[3]) && fabs((double)lse[3] - log(2.0)) < 1e-7, "row 3: %g %g", (double)out[3], (double)lse[3]);
    CHECK(heed_merge(2, 0, 1, out_in, 1, lse_in, out, 1, NULL, NULL, NULL) == HEED_OK, "no rows");
    /* A part whose weight underflows still saw its NaN value, as attention over all keys would; one that saw nothing did not. */
    const float nan_out[2] = { NAN, NAN }, far[2] = { -200, -INFINITY }, one[2] = { 1, 1 }, near[2] = { 0, 0 };
    const float *nan_in[2] = { one, nan_out }, *far_in[2] = { near, far };
    CHECK(heed_merge(2, 2, 1, nan_in, 1, far_in, out, 1, lse, NULL, NULL) == HEED_OK, "heed_merge");
    CHECK(isnan(out[0]) && lse[0] == 0.0f && out[1] == 1.0f, "far parts: %g %g", (double)out[0], (double)out[1]);
    float repeated[3];
    CHECK(heed_merge(2, 3, 1, out_in, 0, lse_in, repeated, 1, NULL, NULL, NULL) == HEED_OK, "stride 0, no lse");
    CHECK(repeated[0] == 3.0f && isnan(repeated[1]) && repeated[2] == 0.0f, "a repeated row: %g", (double)repeated[0]);
}

/* out may be any of the parts, with its stride. */
static void in_place(void)
{
    check_rng rng = check_rng_named("merge in place");
    for (int n = 0; n < 30; n++) {
        merge_parts p = merge_random_parts(&rng);
        const int64_t at = check_between(&rng, 0, p.count - 1);
        merged want = merge_run(&p, HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0);
        const heed_status status = heed_merge(p.count, p.rows, p.dim, (const float *const *)p.out, p.stride,
            (const float *const *)p.lse, p.out[at], p.stride, NULL, NULL, NULL);
        CHECK(status == HEED_OK, "heed_merge: %d", (int)status);
        for (int64_t row = 0; row < p.rows; row++)
            check_same(p.out[at] + row * p.stride, want.out + row * p.dim, (size_t)p.dim, "in place");
        merge_free(&want);
        merge_free_parts(&p);
    }
}

/* ---- Attention over split keys ---- */

/* Borders of parts: anywhere, at blocks of keys, or some merge_parts empty. */
static int64_t next_border(check_rng *rng, const masked *m, int64_t from, int kind)
{
    const int64_t keys = m->shape.seq_len_kv, block = m->shape.block_mask_kv;
    int64_t to = kind == 0 ? (from / 256 + 1) * 256 : check_between(rng, from, from + 1 + keys / 3);
    if (m->blocks)
        to = to / block * block;
    return to >= keys || to < from ? keys : to;
}

/* Runs each part and merges; returns what the parts' LSE may err at most. */
static double split(const masked *m, check_rng *rng, int kind, heed_isa isa, masked_result *result)
{
    const masked_run run = masked_plain(isa);
    const int64_t rows = masked_rows(m);
    const heed_options options = check_options(isa, HEED_EXP_BUILTIN, 1);
    masked_result r[MERGE_MOST_PARTS];
    const float *out_in[MERGE_MOST_PARTS], *lse_in[MERGE_MOST_PARTS];
    int64_t count = 0;
    double error = 0.0;
    masked_range range = { 0, 0, m->shape.seq_len_q, 0, 0 };
    do {
        range.end_kv = count == MERGE_MOST_PARTS - 1 ? m->shape.seq_len_kv : next_border(rng, m, range.first_kv, kind);
        masked part = masked_part(m, &range);
        if (count > 0) { /* the sink is a key of one part */
            free(part.sinks);
            part.sinks = NULL;
        }
        part.weights = false;
        r[count] = masked_execute(&part, &run);
        for (int64_t row = 0; row < rows; row++)
            if (isfinite(r[count].lse[row])) /* as mask_oracle.c derives it, without the scores' own error */
                error =
                    fmax(error, U * (fabs((double)r[count].lse[row]) + log((double)m->shape.seq_len_kv + 1.0) + 60.0));
        out_in[count] = r[count].out;
        lse_in[count] = r[count].lse;
        masked_free(&part);
        range.first_kv = range.end_kv;
        count++;
    } while (range.first_kv < m->shape.seq_len_kv);
    heed_error message = { "" };
    const heed_status status = heed_merge(count, rows, m->shape.head_dim_v, out_in, m->shape.head_dim_v, lse_in,
        result->out, m->shape.head_dim_v, result->lse, &options, &message);
    CHECK(status == HEED_OK, "heed_merge: %d %s", (int)status, message.message);
    for (int64_t i = 0; i < count; i++)
        masked_free_result(&r[i]);
    return error + U * (double)(2 * count + 8) + 104.0 * U;
}

static void split_keys(void)
{
    check_rng rng = check_rng_named("split keys");
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t backends = check_backends(list);
    for (int n = 0; n < (check_quick() ? 8 : 90); n++) {
        masked all = masked_random(&rng, n % 10 == 4);
        const masked_range one = { 0, 0, all.shape.seq_len_q, 0, all.shape.seq_len_kv };
        masked m = masked_part(&all, &one);
        const size_t rows = (size_t)masked_rows(&m), dim = (size_t)m.shape.head_dim_v;
        m.weights = false;
        const heed_isa isa = list[(size_t)n % backends];
        masked_result r = { check_floats(rows * dim), check_floats(rows), NULL };
        const double error = split(&m, &rng, n % 3, isa, &r);
        const masked_run run = masked_plain(isa);
        masked_describe(&m, &run);
        masked_check_near(&m, &r, error);
        masked_free_result(&r);
        masked_free(&m);
        masked_free(&all);
    }
}

/* The first or the other half of the parts, merged into part half of two. */
static void merge_half(const merge_parts *p, int64_t half, merge_parts *two)
{
    const int64_t first = half ? p->count / 2 : 0, count = half ? p->count - first : p->count / 2;
    merge_parts some = *p;
    some.count = count;
    for (int64_t i = 0; i < count; i++) {
        some.out[i] = p->out[first + i];
        some.lse[i] = p->lse[first + i];
    }
    for (int64_t row = 0; row < p->rows && count == 0; row++)
        two->lse[half][row] = -INFINITY;
    if (count == 0)
        return;
    merged m = merge_run(&some, HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0);
    memcpy(two->out[half], m.out, (size_t)(p->rows * p->dim) * sizeof(float));
    memcpy(two->lse[half], m.lse, (size_t)p->rows * sizeof(float));
    merge_free(&m);
}

/* Merging in groups is merging at once, but for roundings: those of each merge's sums, and that of a group's LSE,
 * which is off by u times itself and so are the weights of its parts. */
static void groups(void)
{
    check_rng rng = check_rng_named("merge in groups");
    for (int n = 0; n < 40; n++) {
        merge_parts p = merge_random_parts(&rng), two = merge_make_parts(2, p.rows, p.dim, p.dim);
        double lse = 0.0, largest = 0.0;
        for (int64_t i = 0; i < p.count; i++)
            for (int64_t row = 0; row < p.rows; row++) {
                lse = isfinite(p.lse[i][row]) ? fmax(lse, fabs((double)p.lse[i][row])) : lse;
                for (int64_t d = 0; d < p.dim; d++)
                    largest = fmax(largest, fabs((double)p.out[i][row * p.stride + d]));
            }
        merge_half(&p, 0, &two);
        merge_half(&p, 1, &two);
        merged once = merge_run(&p, HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0),
               m = merge_run(&two, HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0);
        const double roundings = 2.0 * (lse + 5.0) + 4.0 * (double)p.count + 40.0;
        for (int64_t i = 0; i < p.rows * p.dim; i++)
            CHECK(fabs((double)(m.out[i] - once.out[i])) <= 1.01 * U * roundings * largest,
                "groups: %.9g, at once %.9g", (double)m.out[i], (double)once.out[i]);
        merge_free(&once);
        merge_free(&m);
        merge_free_parts(&p);
        merge_free_parts(&two);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "formula", formula }, { "one_part_matters", one_part_matters },
        { "special_rows", special_rows }, { "in_place", in_place }, { "split_keys", split_keys },
        { "groups", groups } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
