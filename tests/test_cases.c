/* Faults reported in public against attention kernels, each by its id with the values of the report.
 * May know: the public header, attend.h, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the collection that are tested elsewhere, or do not apply to what the library offers so far:
 *   A01 A02 A03 A04 B05 B06 B08 B10 (masks, biases, window, softcap)  test_cases_masks.c
 *   C08                             test_exp.c (both exps, every backend, each value of the report)
 *   C11 C12                         builds with -ffast-math and dlopen: scripts; the control word: test_manners.c, test_openmp.c
 *   D05 - D14 E03 E06 F05 (attention)  test_cases_shapes.c
 *   D01 D02                         test_api.c (zero_sizes, attention_fields)
 *   D04                             the head dimension is contiguous by definition, no stride can say otherwise
 *   F01 F02 F03 F07                 f16 and bf16: not offered; the f32 side of F01, F02, F03 is below
 *   F05 (linear) F09 (all chunks)   test_linear.c (contract), test_contract.c (chunked_queries)
 *   G01 G04                         test_linear.c (tails: all the sizes on NaN-filled outputs; blocks)
 *   I01 I02 I03 I04 I06             test_openmp.c, test_threads.c
 *   J01 J03 J05 J06                 test_openmp.c (exact_workspaces), test_threads.c, test_api_parts.c (allocators)
 */

/* Runs on every backend, with 1 and 3 threads, with and without the other outputs, and checks out. */
static void expect(const attend_case *c, const attend_data *data, const double *want, double bound)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++)
        for (unsigned n = 0; n < 4; n++) {
            attend_case all = *c;
            attend_run run = attend_plain(list[i]);
            run.options.num_threads = n & 1 ? 3 : 1;
            all.lse = all.weights = (n & 2) != 0;
            attend_result r = attend_execute(&all, data, &run);
            check_close(r.out, want, attend_size_out(c), bound, "out");
            attend_free_result(&r);
        }
}

/* q = 0 and v[j] = j: an output is the mean of the visible key indices. */
static attend_data uniform(const attend_case *c)
{
    check_rng rng = check_rng_named("uniform");
    attend_data data = attend_fill(c, &rng, CHECK_NORMAL);
    int64_t dim = c->shape.head_dim, dim_v = c->shape.head_dim_v ? c->shape.head_dim_v : dim,
            keys = c->shape.seq_len_kv;
    memset(data.q, 0, attend_size_lse(c) * (size_t)dim * sizeof *data.q);
    for (int64_t row = 0; row < c->shape.batch * c->shape.num_kv_heads * keys; row++)
        for (int64_t d = 0; d < dim_v; d++)
            if (isfinite(data.v[row * dim_v + d]))
                data.v[row * dim_v + d] = (float)(row % keys);
    return data;
}

/* Expects one value for each row, in every lane. */
static void expect_rows(const attend_case *c, const double *rows, double bound)
{
    attend_data data = uniform(c);
    size_t count = attend_size_out(c), dim = count / attend_size_lse(c);
    double *want = check_malloc(count * sizeof *want);
    for (size_t i = 0; i < count; i++)
        want[i] = rows[i / dim];
    expect(c, &data, want, bound);
    free(want);
    attend_free_data(&data);
}

/* One query of width 1 against given logits and values. */
static void expect_logits(int64_t n, const float *logits, const float *values, float scale, double want, double bound)
{
    attend_case c = attend_make(1, 1, 1, 1, n, 1, 0);
    c.shape.scale = scale;
    float one = 1.0f;
    attend_data data = { &one, check_floats((size_t)n), check_floats((size_t)n) };
    memcpy(data.k, logits, (size_t)n * sizeof(float));
    memcpy(data.v, values, (size_t)n * sizeof(float));
    expect(&c, &data, &want, bound);
    free(data.k);
    free(data.v);
}

/* ---- A: rows that see nothing, hidden values ---- */

static void a01_a05(void)
{
    const double a01[12] = { 0, 0.5, 1, 1.5, 2, 0, 0, 0.5, 1, 1.5, 2, 0 };
    const int32_t queries = 5, keys = 1;
    attend_case c = attend_make(1, 2, 2, 6, 10, 8, 0);
    c.shape.scale = 0.125f;
    c.shape.causal = HEED_CAUSAL_TOP_LEFT;
    c.lengths_q = &queries;
    expect_rows(&c, a01, 0.0);
    static const float poison[] = { NAN, INFINITY, 1e38f };
    for (int n = 0; n < 7; n++) {
        float values[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, q[8], k[8];
        double want[8] = { 0, 1, 2, 3, 0, 1, 2, 3 };
        memcpy(q, values, sizeof q);
        memcpy(k, values, sizeof k);
        if (n > 0)
            (n % 2 ? k : values)[4] = poison[(n - 1) / 2];
        attend_case a05 = attend_make(1, 1, 1, 2, 2, 4, 0);
        a05.lengths_kv = &keys;
        attend_data data = { q, k, values };
        expect(&a05, &data, want, 0.0);
    }
}

/* ---- B: where the causal diagonal lies ---- */

static void b01_b02_b03(void)
{
    const double bottom8 = 3.5, bottom16 = 7.5, top = 0.0, b03[2] = { 2.0, 2.5 };
    for (int64_t keys = 8; keys <= 16; keys += 8) {
        attend_case c = attend_make(1, 1, 1, 1, keys, 8, 0);
        c.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        expect_rows(&c, keys == 8 ? &bottom8 : &bottom16, 0.0);
        c.shape.causal = HEED_CAUSAL_TOP_LEFT;
        expect_rows(&c, &top, 0.0);
    }
    for (int64_t queries = 1; queries <= 8; queries++) {
        double want[8];
        attend_case c = attend_make(1, 1, 1, queries, 16, 8, 0);
        c.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        for (int64_t i = 0; i < queries; i++)
            want[i] = (double)(16 - queries + i) / 2.0;
        expect_rows(&c, want, 0.0);
    }
    attend_case c = attend_make(1, 1, 1, 2, 6, 8, 0);
    c.shape.causal = HEED_CAUSAL_OFFSET;
    c.shape.causal_offset = 4;
    expect_rows(&c, b03, 0.0);
}

/* With one key the weight is 1: out is v bit for bit. */
static void b10_c09(void)
{
    check_rng rng = check_rng_named("B10");
    for (int64_t keys = 1; keys <= 70; keys++)
        for (int d = 0; d < 4; d++) {
            static const int64_t dims[] = { 1, 5, 16, 64 };
            attend_case c = attend_make(1, 8, 8, 1, keys, dims[d], 0);
            c.shape.scale = 1.0f;
            attend_run run = attend_plain(HEED_ISA_SCALAR);
            attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
            if (check_keep((size_t)keys, 9) || keys == 1)
                attend_verify(&c, &data, &run);
            if (keys == 1) {
                double *want = check_malloc(attend_size_out(&c) * sizeof *want);
                for (size_t i = 0; i < attend_size_out(&c); i++)
                    want[i] = (double)data.v[i];
                expect(&c, &data, want, 0.0);
                free(want);
            }
            attend_free_data(&data);
        }
}

/* ---- C: softmax ---- */

static void c01_c03(void)
{
    static const float logits[] = { -249.873f, -424.127f, -460.293f, 378.097f, -292.615f },
                       values[] = { 1, 2, 3, 4, 5 };
    expect_logits(5, logits, values, 1.0f, 4.0, 0.0);
    static const float low[] = { -100000, -100001 }, lower[] = { -245000, -245001 }, v[] = { 1, 0 };
    expect_logits(2, low, v, 1.0f, 0.7310585786300049, 1e-7);
    expect_logits(2, lower, v, 1.0f, 0.7310585786300049, 1e-7);
}

/* Row 0 has one +inf score (3e38 squared), or one NaN score (0 times Inf), and is NaN; the other rows see 0, or -inf, at
 * that key, are finite, and keep their bits. */
static void c05_c06(void)
{
    static const int64_t sizes[] = { 3, 5, 16, 17, 33, 64, 300 };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    check_rng rng = check_rng_named("C05");
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t n = 0; n < 10 * count; n++) {
            bool nan_score = n % 2;
            int64_t keys = sizes[s], places[5] = { 0, 7, 15, 16, keys - 1 }, place = places[n / 2 % 5] % keys;
            attend_case c = attend_make(1, 2, 1, 3, keys, 4, 0);
            c.lse = c.weights = true;
            attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
            attend_run run = attend_plain(list[n / 10]);
            for (int64_t j = 0; j < keys; j++) /* dimension 0 is the bad one */
                data.k[j * 4] = j != place ? 0.0f : nan_score ? INFINITY : 3e38f;
            for (int64_t row = 0; row < 6; row++)
                data.q[row * 4] = nan_score ? -1.0f : 0.0f;
            attend_result clean = attend_execute(&c, &data, &run);
            data.q[0] = nan_score ? 0.0f : 3e38f;
            attend_result r = attend_execute(&c, &data, &run);
            for (size_t i = 0; i < 24; i++)
                CHECK(isfinite(clean.out[i]) && (i >= 4 || isnan(r.out[i])), "out[%zu]: %g, clean %g", i,
                    (double)r.out[i], (double)clean.out[i]);
            CHECK(isnan(r.lse[0]) && isnan(r.weights[place]), "lse %g weight %g", (double)r.lse[0],
                (double)r.weights[place]);
            check_same(r.out + 4, clean.out + 4, 20, "neighbouring rows");
            check_same(r.lse + 1, clean.lse + 1, 5, "neighbouring lse");
            check_same(r.weights + keys, clean.weights + keys, (size_t)(5 * keys), "neighbouring weights");
            attend_free_result(&clean);
            attend_free_result(&r);
            attend_free_data(&data);
        }
}

/* The rows of the reports; a computed score of -inf has weight 0, and a row of nothing else is 0. */
static void c05_logits(void)
{
    static const float rows[][3] = { { INFINITY, 1, 2 }, { INFINITY, INFINITY, 0 }, { NAN, 1, 2 }, { 1, 2, NAN } };
    static const float values[3] = { 1, 2, 3 };
    for (size_t r = 0; r < 4; r++)
        expect_logits(3, rows[r], values, 1.0f, NAN, 0.0);
    float logits[64] = { 0 }, v[64] = { 0 };
    logits[40] = INFINITY;
    expect_logits(64, logits, v, 1.0f, NAN, 0.0);
    static const float hidden[3] = { -INFINITY, 0, 0 }, all[3] = { -INFINITY, -INFINITY, -INFINITY };
    expect_logits(3, hidden, values, 1.0f, 2.5, 0.0);
    expect_logits(3, all, values, 1.0f, 0.0, 0.0);
}

/* Two keys with a growing gap d: the weight of the second falls from 1/2 to 0 and never rises. */
static void c07(void)
{
    enum { STEPS = 110 * 64 + 1, COUNT = STEPS + 4 };
    static float gaps[COUNT];
    const float far_gaps[4] = { 1e3f, 1e10f, 1e30f, INFINITY };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < COUNT; i++)
        gaps[i] = i < STEPS ? (float)i / 64.0f : far_gaps[i - STEPS];
    for (size_t n = 0; n < 2 * count; n++) {
        attend_run run = attend_plain(list[n / 2]);
        run.options.exp = n % 2 ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN;
        if (n % 2 && !heed_sleef_usable(list[n / 2]))
            continue;
        attend_case c = attend_make(COUNT, 1, 1, 1, 2, 1, 0); /* a batch entry for each gap: key 1 is -d */
        c.shape.scale = 1.0f;
        attend_data data = { check_floats(COUNT), check_floats(2 * COUNT), check_floats(2 * COUNT) };
        for (size_t i = 0; i < COUNT; i++) {
            data.q[i] = data.v[2 * i + 1] = 1.0f;
            data.k[2 * i + 1] = -gaps[i];
        }
        attend_result r = attend_execute(&c, &data, &run);
        float before = 0.5f;
        for (size_t i = 0; i < COUNT; i++) {
            double d = (double)gaps[i], want = exp(-d) / (1.0 + exp(-d)), got = (double)r.out[i];
            CHECK(r.out[i] >= 0.0f && r.out[i] <= before && (d < 104.0 || r.out[i] == 0.0f), "gap %g: %g after %g", d,
                got, (double)before);
            CHECK(fabs(got - want) <= 4 * 0x1p-24 * want + 0x1p-126, "gap %g: %g, want %g", d, got, want);
            before = r.out[i];
        }
        attend_free_result(&r);
        attend_free_data(&data);
    }
}

/* ---- E: grouped heads, caches, ragged batches ---- */

static void e01_e05_e07(void)
{
    attend_case c = attend_make(1, 6, 2, 1, 3, 4, 1);
    attend_data data = uniform(&c);
    const double e01[6] = { 1, 1, 1, 2, 2, 2 };
    for (int j = 0; j < 6; j++)
        data.v[j] = (float)(j / 3 + 1);
    expect(&c, &data, e01, 0.0);
    attend_free_data(&data);
    const int32_t e05_lengths[3] = { 5, 0, 7 }, e07_lengths[3] = { 1, 5, 8 };
    const double e05[3] = { 2, 0, 3 }, e07[3] = { 0, 2, 3.5 };
    attend_case ragged = attend_make(3, 1, 1, 1, 8, 8, 0);
    ragged.lengths_kv = e05_lengths;
    expect_rows(&ragged, e05, 0.0);
    ragged.lengths_kv = e07_lengths;
    expect_rows(&ragged, e07, 0.0);
}

/* ---- F, G: exact sums, scale ---- */

static void f01_f02_f03(void)
{
    for (int64_t keys = 256; keys <= 32768; keys *= 2) {
        float *k = check_floats((size_t)keys), *v = check_floats((size_t)keys);
        for (int64_t j = 0; j < keys; j++)
            v[j] = keys == 32768 ? 60000.0f : 1.0f;
        expect_logits(keys, k, v, 1.0f, (double)v[0], 0.0);
        free(k);
        free(v);
    }
    static const float logits[2] = { 980000, 977200 }, v[2] = { 1, 0 };
    expect_logits(2, logits, v, 1.0f, 1.0, 0.0);
    static const int64_t sizes[] = { 256, 264, 1024, 4096 };
    for (size_t n = 0; n < 4; n++) {
        float *ones = check_floats((size_t)sizes[n]), y = 0.0f;
        for (int64_t i = 0; i < sizes[n]; i++)
            ones[i] = 1.0f;
        heed_linear_desc desc = { sizeof desc, sizes[n], 1, ones, 1, 1, NULL };
        heed_linear *linear = NULL;
        CHECK(heed_linear_create(&linear, &desc, NULL, NULL) == HEED_OK, "create");
        CHECK(heed_linear_run(linear, 1, ones, sizes[n], &y, 1, ones, 0, NULL) == HEED_OK, "run");
        CHECK(y == (float)sizes[n], "sum of %lld ones is %g", (long long)sizes[n], (double)y);
        heed_linear_destroy(linear);
        free(ones);
    }
}

static void g03_g06(void)
{
    static const float x[4] = { 1, 2, 3, 4 }, w[4] = { 5, 7, 6, 8 }, want[4] = { 17, 23, 39, 53 };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++) {
        heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
        heed_linear_desc desc = { sizeof desc, 2, 2, w, 2, 1, NULL };
        heed_linear *linear = NULL;
        float y[4];
        CHECK(heed_linear_create(&linear, &desc, &options, NULL) == HEED_OK, "create");
        size_t size = heed_linear_workspace_size(linear, 2);
        CHECK(heed_linear_run(linear, 2, x, 2, y, 2, check_alloc(size, CHECK_GUARD_BEHIND), size, NULL) == HEED_OK,
            "run");
        check_same(y, want, 4, heed_isa_name(list[i]));
        heed_linear_destroy(linear);
    }
    static const float logits[2] = { 1, 0 }, v[2] = { 1, 0 }, scales[4] = { 1.0f, 0.5f, 0.0f, -1.0f };
    /* scale 0 is documented as 1/sqrt(head_dim), here 1 */
    static const double weights[4] = { 0.7310585786300049, 0.6224593312018546, 0.7310585786300049, 0.2689414213699951 };
    for (int n = 0; n < 4; n++)
        expect_logits(2, logits, v, scales[n], weights[n], 1e-7);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "A01_A05", a01_a05 }, { "B01_B02_B03", b01_b02_b03 }, { "B10_C09", b10_c09 },
        { "C01_C03", c01_c03 }, { "C05_C06", c05_c06 }, { "C05_logits", c05_logits }, { "C07", c07 },
        { "E01_E05_E07", e01_e05_e07 }, { "F01_F02_F03", f01_f02_f03 }, { "G03_G06", g03_g06 } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
