/* Faults reported in public with masks, biases, windows and softcap, each by its id (see test_cases.c).
 * May know: the public header, attend.h, check.h.
 * Must not know: anything under src/. */
#include "attend.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs on every backend, with 1 and 3 threads, with and without the other outputs; out must be want within bound, and all
 * runs must have the same bits. */
static void expect(const attend_case *c, const attend_data *data, const double *want, double bound)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    attend_result first = { NULL, NULL, NULL };
    for (size_t i = 0; i < count; i++)
        for (unsigned n = 0; n < 4; n++) {
            attend_case all = *c;
            attend_run run = attend_plain(list[i]);
            run.options.num_threads = n & 1 ? 3 : 1;
            run.side = n & 1 ? CHECK_GUARD_BEFORE : CHECK_GUARD_BEHIND;
            all.lse = all.weights = (n & 2) != 0;
            attend_result r = attend_execute(&all, data, &run);
            check_close(r.out, want, attend_size_out(c), bound, "out");
            if (first.out)
                attend_same(c, &r, &first);
            for (size_t w = 0; all.weights && w < attend_size_weights(c); w++)
                if (!(r.weights[w] >= 0.0f))
                    CHECK(false, "weight %zu is %g", w, (double)r.weights[w]);
            if (first.out)
                attend_free_result(&r);
            else
                first = r;
        }
    attend_free_result(&first);
}

/* Query and key strides of a full matrix for all batch entries and heads. */
static heed_mask_strides matrix(const attend_case *c)
{
    const heed_mask_strides strides = { 0, 0, c->shape.seq_len_kv, 1 };
    return strides;
}

/* v[j] = (j, 1), q = 0. */
static attend_data counting(const attend_case *c)
{
    check_rng rng = check_rng_named("counting");
    attend_data data = attend_fill(c, &rng, CHECK_NORMAL);
    memset(data.q, 0, attend_size_lse(c) * (size_t)c->shape.head_dim * sizeof(float));
    for (int64_t row = 0; row < c->shape.batch * c->shape.num_kv_heads * c->shape.seq_len_kv; row++) {
        data.v[row * 2] = (float)(row % c->shape.seq_len_kv);
        data.v[row * 2 + 1] = 1.0f;
    }
    return data;
}

/* Expects (rows[i], seen[i] ? 1 : 0) for query i of every head, from a mask and from the same mask as -inf bias. */
static void expect_mask(attend_case *c, const uint8_t *mask, const double *rows, double bound)
{
    int64_t lq = c->shape.seq_len_q, lk = c->shape.seq_len_kv;
    float *bias = check_floats((size_t)(lq * lk));
    double *want = check_malloc(attend_size_out(c) * sizeof *want);
    attend_data data = counting(c);
    for (int64_t n = 0; n < lq * lk; n++)
        bias[n] = mask[n] ? 0.0f : -INFINITY;
    for (size_t i = 0; i < attend_size_lse(c); i++) {
        want[2 * i] = isnan(rows[i % (size_t)lq]) ? 0.0 : rows[i % (size_t)lq];
        want[2 * i + 1] = isnan(rows[i % (size_t)lq]) ? 0.0 : 1.0;
    }
    c->shape.strides_mask = c->shape.strides_bias = matrix(c);
    c->mask = mask;
    expect(c, &data, want, bound);
    c->mask = NULL;
    c->bias = bias;
    expect(c, &data, want, bound);
    c->bias = NULL;
    attend_free_data(&data);
    free(bias);
    free(want);
}

/* A01: a row whose mask lets nothing through.  Rows are NaN here where nothing is visible. */
static void a01(void)
{
    uint8_t mask[60] = { 0 };
    const double rows[6] = { 0, 0.5, 1, 1.5, 2, NAN };
    for (int i = 0; i < 5; i++)
        memset(mask + i * 10, 1, (size_t)i + 1);
    attend_case c = attend_make(1, 2, 2, 6, 10, 8, 2);
    c.shape.scale = 0.125f;
    expect_mask(&c, mask, rows, 0.0);
}

/* A02: a band of ten keys over 600: whole blocks of keys are hidden; as mask, as bias, as window. */
static void a02(void)
{
    enum { N = 600 };
    uint8_t *mask = check_malloc(N * N);
    double rows[N], *want = check_malloc(2 * N * sizeof *want);
    for (int i = 0; i < N; i++) {
        rows[i] = i >= 9 ? i - 4.5 : i / 2.0;
        want[2 * i] = rows[i];
        want[2 * i + 1] = 1.0;
        for (int j = 0; j < N; j++)
            mask[i * N + j] = j >= i - 9 && j <= i;
    }
    attend_case c = attend_make(1, 1, 1, N, N, 2, 0);
    expect_mask(&c, mask, rows, 0x1p-14); /* the mean of ten integers below 600 */
    attend_data data = counting(&c);
    c.shape.window_left = 9;
    c.shape.window_right = 0;
    expect(&c, &data, want, 0x1p-14);
    attend_free_data(&data);
    free(want);
    free(mask);
}

/* A03: one head of three fully masked; the others keep the bits of the unmasked call. */
static void a03(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    check_rng rng = check_rng_named("A03");
    const uint8_t heads[3] = { 1, 1, 0 };
    const heed_mask_strides strides = { 0, 1, 0, 0 };
    attend_case c = attend_make(1, 3, 3, 5, 5, 1, 0), masked = c;
    masked.mask = heads;
    masked.shape.strides_mask = strides;
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    for (size_t i = 0; i < 2 * count; i++) {
        attend_run run = attend_plain(list[i / 2]);
        masked.weights = masked.lse = c.weights = c.lse = i % 2;
        attend_result open = attend_execute(&c, &data, &run), r = attend_execute(&masked, &data, &run);
        check_same(r.out, open.out, 10, "open heads");
        for (size_t n = 10; n < 15; n++)
            CHECK(check_bits(r.out[n]) == 0 && (i % 2 == 0 || r.lse[n] == -INFINITY), "masked head: %g",
                (double)r.out[n]);
        for (size_t n = 0; n < 75 && i % 2; n++)
            CHECK(n < 50 ? check_equal_bits(r.weights[n], open.weights[n]) : check_bits(r.weights[n]) == 0,
                "weight %zu: %g", n, (double)r.weights[n]);
        attend_free_result(&open);
        attend_free_result(&r);
    }
    attend_free_data(&data);
}

/* A04: biases of -FLT_MAX, which are not masks: they absorb the scores, or lose against any other key. */
static void a04(void)
{
    check_rng rng = check_rng_named("A04");
    const float few[9] = { -FLT_MAX, -FLT_MAX, -FLT_MAX, 1, 1, 1, 1, 1, 1 };
    attend_case a = attend_make(1, 1, 1, 3, 3, 4, 0);
    attend_data data = attend_fill(&a, &rng, CHECK_NORMAL);
    oracle_attention p = attend_oracle(&a, &data);
    double want[12];
    CHECK(oracle_attend(&p, want, NULL, NULL), "memory"); /* adding 1 to all scores of a row changes nothing */
    for (int d = 0; d < 4; d++)
        want[d] = ((double)data.v[d] + (double)data.v[4 + d] + (double)data.v[8 + d]) / 3.0;
    a.bias = few;
    a.shape.strides_bias = matrix(&a);
    expect(&a, &data, want, 1e-6);
    attend_free_data(&data);

    enum { L = 441, HIDDEN = 128, D = 64 };
    float row[L] = { 0 };
    for (int j = 0; j < HIDDEN; j++)
        row[j] = -FLT_MAX;
    attend_case b = attend_make(1, 1, 1, L, L, D, 0);
    data = attend_fill(&b, &rng, CHECK_NORMAL);
    p = attend_oracle(&b, &data);
    p.k += HIDDEN * D;
    p.v += HIDDEN * D;
    p.seq_len_kv = L - HIDDEN;
    double *rest = check_malloc(L * D * sizeof *rest);
    CHECK(oracle_attend(&p, rest, NULL, NULL), "memory");
    const heed_mask_strides per_key = { 0, 0, 0, 1 };
    b.bias = row;
    b.shape.strides_bias = per_key;
    expect(&b, &data, rest, 1e-5);
    free(rest);
    attend_free_data(&data);
}

/* B05: key padding and causal together; the first row sees nothing. */
static void b05(void)
{
    static const uint8_t keys[7] = { 0, 1, 1, 0, 0, 1, 0 };
    static const double rows[7] = { NAN, 1, 1.5, 1.5, 1.5, 8.0 / 3.0, 8.0 / 3.0 };
    uint8_t mask[49];
    for (int i = 0; i < 7; i++)
        memcpy(mask + i * 7, keys, 7);
    for (int n = 0; n < 2; n++) {
        attend_case c = n ? attend_make(1, 13, 13, 7, 7, 37, 2) : attend_make(1, 1, 1, 7, 7, 2, 0);
        c.shape.causal = HEED_CAUSAL_TOP_LEFT;
        expect_mask(&c, mask, rows, 2e-7);
    }
}

/* B06: softcap before the mask; a hidden key does not come back as -cap. */
static void b06(void)
{
    const uint8_t mask[2] = { 1, 0 };
    const double want = 1.0;
    float zero = 0.0f, k[2] = { 3, 4 }, v[2] = { 1, 1000 };
    attend_data data = { &zero, k, v };
    attend_case c = attend_make(1, 1, 1, 1, 2, 1, 0);
    c.shape.softcap = 1.0f;
    c.shape.strides_mask = matrix(&c);
    c.mask = mask;
    expect(&c, &data, &want, 0.0);
}

/* B08: every combination of full and broadcast mask dimensions, tightly allocated, against the expanded mask. */
static void b08(void)
{
    enum { B = 2, H = 3, LQ = 5, LK = 7 };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    check_rng rng = check_rng_named("B08");
    for (unsigned full = 0; full < 16; full++) {
        attend_case c = attend_make(B, H, H, LQ, LK, 4, 0), wide;
        int64_t sizes[4] = { full & 8 ? B : 1, full & 4 ? H : 1, full & 2 ? LQ : 1, full & 1 ? LK : 1 };
        int64_t s3 = sizes[3], s2 = sizes[2] * s3, s1 = sizes[1] * s2;
        const heed_mask_strides strides = { full & 8 ? s1 : 0, full & 4 ? s2 : 0, full & 2 ? s3 : 0, full & 1 ? 1 : 0 };
        const heed_mask_strides packed = { H * LQ * LK, LQ * LK, LK, 1 };
        uint8_t mask[B * H * LQ * LK], expanded[B * H * LQ * LK];
        float bias[B * H * LQ * LK], expanded_bias[B * H * LQ * LK];
        for (int n = 0; n < B * H * LQ * LK; n++) {
            mask[n] = check_next(&rng) % 3 != 0;
            bias[n] = check_normal(&rng);
        }
        for (int64_t n = 0; n < B * H * LQ * LK; n++) {
            int64_t at = n / (H * LQ * LK) * strides.batch + n / (LQ * LK) % H * strides.head +
                         n / LK % LQ * strides.query + n % LK * strides.key;
            expanded[n] = mask[at];
            expanded_bias[n] = bias[at];
        }
        c.mask = mask;
        c.bias = bias;
        c.shape.strides_mask = c.shape.strides_bias = strides;
        wide = c;
        wide.mask = expanded;
        wide.bias = expanded_bias;
        wide.shape.strides_mask = wide.shape.strides_bias = packed;
        c.lse = c.weights = wide.lse = wide.weights = true;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        for (size_t i = 0; i < count; i++) {
            attend_run run = attend_plain(list[i]);
            attend_result r = attend_execute(&c, &data, &run), want = attend_execute(&wide, &data, &run);
            attend_same(&c, &r, &want);
            attend_free_result(&r);
            attend_free_result(&want);
        }
        attend_free_data(&data);
    }
}

/* B10: one key with any finite bias has weight 1, so out is v bit for bit. */
static void b10(void)
{
    static const float biases[8] = { 3.5f, .453f, 3.1875f, .97f, -5.47f, 5.19f, 2.16f, .54f };
    check_rng rng = check_rng_named("B10");
    attend_case c = attend_make(1, 8, 8, 1, 1, 64, 0);
    const heed_mask_strides per_head = { 0, 1, 0, 0 };
    c.shape.scale = 1.0f;
    c.shape.strides_bias = per_head;
    c.bias = biases;
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    memcpy(data.q, data.v, 512 * sizeof(float));
    memcpy(data.k, data.v, 512 * sizeof(float));
    double want[512];
    for (int i = 0; i < 512; i++)
        want[i] = (double)data.v[i];
    expect(&c, &data, want, 0.0);
    attend_free_data(&data);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "A01", a01 }, { "A02", a02 }, { "A03", a03 }, { "A04", a04 }, { "B05", b05 },
        { "B06", b06 }, { "B08", b08 }, { "B10", b10 } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
