/* Faults reported in public with masks, biases, windows, softcap, packed sequences, each by its id, on every path: each
 * storage, packed and padded, one task and many, queries alone and together, one thread and three.
 * May know: the public header, masked.h, check.h, POSIX.
 * Must not know: anything under src/. */
#include "masked.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Where each row of the kinds A to G and J of the collection is tested.  "here" is this file and
 * test_mask_cases_shapes.c, with paths beyond those of the other:
 *
 *   A01 A02 A03 A04   here, and tests/test_cases_masks.c
 *   A05               here (masks, bias, blocks), tests/test_cases.c (lengths)
 *   B01 B02 B03       tests/test_cases.c; positions under windows and slopes: test_masks.c, test_properties.c
 *   B05 B06 B08 B10   here, and tests/test_cases_masks.c
 *   C01 C05 C06 C07   tests/test_cases.c; NaN and infinities in bias and behind masks: test_property_values.c
 *   C03               here (scores from a bias), tests/test_cases.c
 *   C08               tests/test_exp.c
 *   C09               here (memory behind masks), tests/test_cases.c
 *   C11 C12           how the library is built and loaded, no matter of masks: scripts, tests/test_manners.c
 *   D01 D02           tests/test_api.c
 *   D04               the head dimension is contiguous by definition, no stride can say otherwise
 *   D05 D08 D09 D11   tests/test_cases_shapes.c; with masks the random storages and sizes of test_masks.c
 *   D07 D12           here (mask, strides of masks), tests/test_cases_shapes.c
 *   D14               tests/test_cases_shapes.c; masks and biases begin and end at any address in test_masks.c
 *   E01 E07           tests/test_cases.c; grouped heads under masks: test_properties.c (repeated_heads)
 *   E03 E05 E06       here (packed sequences), tests/test_cases.c, tests/test_cases_shapes.c
 *   F01 F02 F03 F07   16-bit numbers are not offered; their f32 side: tests/test_cases.c
 *   F05 F09           here (with masks), tests/test_cases_shapes.c, tests/test_contract.c
 *   G01 G03 G04       projections, which know no masks: tests/test_linear.c, tests/test_cases.c
 *   G06               tests/test_cases.c; scale under every step: test_masks.c
 *   J01 J03 J05 J06   tests/test_openmp.c, tests/test_threads.c, tests/test_api_parts.c; every run of these tests has a
 *                     workspace of exactly the stated size with a guard page
 *   L06               test_unread.c
 */

/* out within bound of want and all bits alike, on every path. */
static void expect(const masked *m, const double *want, double bound)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t backends = check_backends(list);
    masked_result first = { NULL, NULL, NULL };
    for (size_t n = 0; n < backends * MASKED_STORAGE_COUNT; n++) {
        masked_run run = masked_plain(list[n / MASKED_STORAGE_COUNT]);
        run.storage = (masked_storage)(n % MASKED_STORAGE_COUNT);
        run.threads = n % 2 ? 3 : 1;
        run.side = n % 3 ? CHECK_GUARD_BEHIND : CHECK_GUARD_BEFORE;
        masked some = *m;
        some.weights = n % 2;
        masked_result r = masked_execute(&some, &run);
        check_close(r.out, want, (size_t)(masked_rows(m) * m->shape.head_dim_v), bound, "out");
        if (first.out)
            masked_same(m, &r, &first);
        for (int64_t w = 0; r.weights && w < masked_rows(m) * m->shape.seq_len_kv; w++)
            if (!(r.weights[w] >= 0.0f && r.weights[w] <= 1.0f))
                CHECK(false, "weight %lld is %g", (long long)w, (double)r.weights[w]);
        if (first.out)
            masked_free_result(&r);
        else
            first = r;
    }
    masked_free_result(&first);
}

/* The same for each query alone: decoding. */
static void expect_alone(const masked *m, const double *want, double bound)
{
    masked_range range = masked_sequence(m, 0);
    const int64_t queries = range.end_q, dim = m->shape.head_dim_v;
    double *row = check_malloc((size_t)(m->shape.num_heads * dim) * sizeof *row);
    for (int64_t i = 0; i < queries; i += i < 8 || queries < 40 ? 1 : 67) {
        range.first_q = i;
        range.end_q = i + 1;
        masked one = masked_part(m, &range);
        for (int64_t h = 0; h < m->shape.num_heads; h++)
            memcpy(row + h * dim, want + (h * m->shape.seq_len_q + i) * dim, (size_t)dim * sizeof *row);
        expect(&one, row, bound);
        masked_free(&one);
    }
    free(row);
}

/* q = 0, v[j] = (j, 1): out is the mean of the visible key indices, and 1. */
static masked counting(int64_t heads, int64_t queries, int64_t keys, int64_t dim)
{
    check_rng rng = check_rng_named("counting");
    masked m = masked_make(&rng, 1, heads, heads, queries, keys, dim, 2);
    memset(m.q, 0, (size_t)(masked_rows(&m) * dim) * sizeof(float));
    for (int64_t row = 0; row < heads * keys; row++) {
        m.v[row * 2] = (float)(row % keys);
        m.v[row * 2 + 1] = 1.0f;
    }
    return m;
}

/* Row i of every head has the mean rows[i], NaN where it sees nothing; visible says which keys of a [query][key]
 * matrix.  Once as mask, once as bias of -inf, once as blocks of one query and one key. */
static void expect_hidden(masked *m, const uint8_t *visible, const double *rows, double bound)
{
    const int64_t lq = m->shape.seq_len_q, lk = m->shape.seq_len_kv;
    double *want = check_malloc((size_t)(masked_rows(m) * 2) * sizeof *want);
    for (int64_t i = 0; i < masked_rows(m); i++) {
        want[2 * i] = isnan(rows[i % lq]) ? 0.0 : rows[i % lq];
        want[2 * i + 1] = isnan(rows[i % lq]) ? 0.0 : 1.0;
    }
    for (int way = 0; way < 3; way++) {
        masked c = masked_copy(m);
        if (way == 0)
            masked_full_mask(&c);
        if (way == 1)
            masked_full_bias(&c);
        c.blocks = way == 2 ? memcpy(check_malloc((size_t)(lq * lk)), visible, (size_t)(lq * lk)) : NULL;
        c.shape.block_mask_q = c.shape.block_mask_kv = way == 2 ? 1 : 0;
        for (int64_t n = 0; n < masked_rows(m) * lk; n++) {
            if (way == 0)
                c.mask[n] = visible[n % (lq * lk)];
            if (way == 1)
                c.bias[n] = visible[n % (lq * lk)] ? 0.0f : -INFINITY;
        }
        expect(&c, want, bound);
        expect_alone(&c, want, bound);
        masked_free(&c);
    }
    free(want);
}

/* ---- A: rows and blocks that are hidden ---- */

static void a01(void)
{
    uint8_t visible[60] = { 0 };
    const double rows[6] = { 0, 0.5, 1, 1.5, 2, NAN };
    for (int i = 0; i < 5; i++)
        memset(visible + i * 10, 1, (size_t)i + 1);
    masked m = counting(2, 6, 10, 8);
    m.shape.scale = 0.125f;
    expect_hidden(&m, visible, rows, 0.0);
    masked_free(&m);
}

/* A band of ten keys: whole blocks of keys are hidden from each row; also as a window, and causal with one. */
static void a02(void)
{
    const int64_t n = check_quick() ? 300 : 600;
    uint8_t *visible = check_malloc((size_t)(n * n));
    double *rows = check_malloc((size_t)n * sizeof *rows), *want = check_malloc((size_t)(2 * n) * sizeof *want);
    for (int64_t i = 0; i < n; i++) {
        rows[i] = want[2 * i] = i >= 9 ? (double)i - 4.5 : (double)i / 2.0;
        want[2 * i + 1] = 1.0;
        for (int64_t j = 0; j < n; j++)
            visible[i * n + j] = j >= i - 9 && j <= i;
    }
    masked m = counting(1, n, n, 2);
    expect_hidden(&m, visible, rows, 0x1p-14); /* the mean of ten integers below 600 */
    for (int causal = 0; causal < 2; causal++) {
        m.shape.causal = causal ? HEED_CAUSAL_TOP_LEFT : HEED_CAUSAL_NONE;
        m.shape.window_left = 9;
        m.shape.window_right = causal ? -1 : 0;
        expect(&m, want, 0x1p-14);
    }
    expect_alone(&m, want, 0x1p-14);
    masked_free(&m);
    free(want);
    free(rows);
    free(visible);
}

/* One head of three hidden, by mask and by bias; the others keep their bits, with and without weights. */
static void a03(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("A03");
    masked open = masked_make(&rng, 1, 3, 3, 5, 5, 1, 1), m = masked_copy(&open);
    for (size_t n = 0; n < 4 * count; n++) {
        const masked_run run = masked_plain(list[n / 4]);
        open.weights = m.weights = n % 2;
        masked_full_mask(&m);
        masked_full_bias(&m);
        memset(m.mask, 1, m.mask_count);
        for (size_t i = 50; i < 75; i++) {
            m.mask[i] = n & 2 ? 0 : 1;
            m.bias[i] = n & 2 ? 0.0f : -INFINITY;
        }
        masked_result want = masked_execute(&open, &run), got = masked_execute(&m, &run);
        for (int64_t row = 0; row < 10; row++)
            masked_same_row(&m, &got, &want, row);
        for (size_t i = 10; i < 15; i++)
            CHECK(check_bits(got.out[i]) == 0 && got.lse[i] == -INFINITY, "hidden head: %g", (double)got.out[i]);
        for (size_t i = 50; i < 75 && got.weights; i++)
            CHECK(check_bits(got.weights[i]) == 0, "hidden head: weight %g", (double)got.weights[i]);
        masked_free_result(&want);
        masked_free_result(&got);
    }
    masked_free(&open);
    masked_free(&m);
}

/* The lowest finite number is no mask: it absorbs the scores, which leaves the mean, or loses against any other key. */
static void a04(void)
{
    masked a = counting(1, 3, 3, 4);
    masked_full_bias(&a);
    for (int i = 0; i < 9; i++)
        a.bias[i] = i < 3 ? -FLT_MAX : 1.0f;
    const double means[6] = { 1, 1, 1, 1, 1, 1 };
    for (int i = 0; i < 12; i++)
        a.q[i] = i < 4 ? 3.0f : 0.0f; /* scores of row 0 differ, but not beside 1e38 */
    expect(&a, means, 0.0);
    expect_alone(&a, means, 0.0);
    masked_free(&a);

    const int64_t n = check_quick() ? 141 : 441;
    masked b = counting(1, n, n, 8);
    double *want = check_malloc((size_t)(2 * n) * sizeof *want);
    masked_full_bias(&b);
    for (int64_t i = 0; i < n * n; i++)
        b.bias[i] = i % n < 128 ? -FLT_MAX : 0.0f;
    for (int64_t i = 0; i < n; i++) {
        want[2 * i] = (double)(128 + n - 1) / 2.0;
        want[2 * i + 1] = 1.0;
    }
    expect(&b, want, 0.0);
    free(want);
    masked_free(&b);
}

/* One hidden key of two, with NaN, infinity or 1e38 in its key or value. */
static void a05(void)
{
    static const float poison[] = { NAN, INFINITY, -INFINITY, 1e38f };
    check_rng rng = check_rng_named("A05");
    const double want[8] = { 0, 1, 2, 3, 0, 1, 2, 3 };
    for (int n = 0; n < 4 * 2 * 4; n++) {
        masked m = masked_make(&rng, 1, 1, 1, 2, 2, 4, 4);
        for (int i = 0; i < 8; i++)
            m.q[i] = m.k[i] = m.v[i] = (float)i;
        (n % 2 ? m.k : m.v)[4] = poison[n / 2 % 4];
        switch (n / 8) {
        case 0:
            masked_full_mask(&m);
            m.mask[0] = m.mask[2] = 1;
            break;
        case 1:
            masked_full_bias(&m);
            m.bias[1] = m.bias[3] = -INFINITY;
            break;
        case 2:
            masked_add_blocks(&m, &rng, 2, 1);
            m.blocks[0] = 1;
            m.blocks[1] = 0;
            break;
        default:
            m.shape.causal = HEED_CAUSAL_OFFSET;
            m.shape.causal_offset = -1;
            memcpy(m.q, m.q + 4, 4 * sizeof(float));
            break;
        }
        const double first_hidden[8] = { 0, 0, 0, 0, 0, 1, 2, 3 };
        expect(&m, n / 8 == 3 ? first_hidden : want, 0.0);
        masked_free(&m);
    }
}

/* ---- B: masks together ---- */

static void b05(void)
{
    static const uint8_t keys[7] = { 0, 1, 1, 0, 0, 1, 0 };
    static const double rows[7] = { NAN, 1, 1.5, 1.5, 1.5, 8.0 / 3.0, 8.0 / 3.0 };
    uint8_t visible[49];
    for (int i = 0; i < 7; i++)
        memcpy(visible + i * 7, keys, 7);
    for (int n = 0; n < 2; n++) {
        masked m = n ? counting(13, 7, 7, 37) : counting(1, 7, 7, 1);
        m.shape.causal = HEED_CAUSAL_TOP_LEFT;
        expect_hidden(&m, visible, rows, 2e-7);
        masked_free(&m);
    }
}

/* Softcap before the masks: a hidden key does not come back with the score -cap. */
static void b06(void)
{
    const uint8_t visible[2] = { 1, 0 };
    const double zero = 0.0;
    masked m = counting(1, 1, 2, 1);
    m.v[2] = 1000.0f;
    m.shape.softcap = 1.0f;
    expect_hidden(&m, visible, &zero, 0.0);
    masked_free(&m);
}

static void b10(void)
{
    static const float biases[8] = { 3.5f, .453f, 3.1875f, .97f, -5.47f, 5.19f, 2.16f, .54f };
    check_rng rng = check_rng_named("B10");
    masked m = masked_make(&rng, 1, 8, 8, 1, 1, 64, 64);
    double want[512];
    m.shape.scale = 1.0f;
    masked_full_bias(&m);
    memcpy(m.bias, biases, sizeof biases);
    memcpy(m.q, m.v, sizeof(float) * 512);
    memcpy(m.k, m.v, sizeof(float) * 512);
    for (int i = 0; i < 512; i++)
        want[i] = (double)m.v[i];
    expect(&m, want, 0.0);
    m.bias[0] = -FLT_MAX;
    m.bias[1] = FLT_MAX;
    expect(&m, want, 0.0);
    masked_free(&m);
}

/* ---- C: low scores, short rows ---- */

/* Scores far below any sentinel, in the first block of keys and across two. */
static void c03(void)
{
    static const float low[] = { -100000.0f, -245000.0f };
    for (int n = 0; n < 4; n++) {
        const int64_t second = n < 2 ? 1 : 300;
        masked m = counting(1, 1, second + 1, 1);
        masked_full_bias(&m);
        for (int64_t j = 0; j <= second; j++)
            m.bias[j] = -INFINITY;
        m.bias[0] = low[n % 2];
        m.bias[second] = low[n % 2] - 1.0f;
        m.v[2 * second] = 1.0f;
        const double want[2] = { 1.0 - 0.7310585786300049, 1.0 };
        expect(&m, want, 1e-7);
        masked_free(&m);
    }
}

/* Rows shorter than a vector: bias and mask end at a guard page. */
static void c09(void)
{
    static const int64_t dims[] = { 1, 5, 16, 64 };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("C09");
    for (int64_t keys = 1; keys <= 70; keys++) {
        masked m = masked_make(&rng, 1, 2, 1, 3, keys, dims[keys % 4], dims[keys / 4 % 4]);
        masked_add_bias(&m, &rng, 14);
        masked_add_mask(&m, &rng, 14);
        if (keys == 1) {
            m.bias[0] = 1.0f;
            m.mask[0] = 1;
        }
        for (size_t i = 0; i < count && check_keep((size_t)keys, 9); i++) {
            const masked_run run = masked_plain(list[i]);
            masked_result r = masked_execute(&m, &run);
            masked_check_oracle(&m, &r, NULL);
            for (int64_t row = 0; row < 6 && keys == 1; row++)
                check_same(r.out + row * m.shape.head_dim_v, m.v, (size_t)m.shape.head_dim_v, "one key");
            masked_free_result(&r);
        }
        masked_free(&m);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "A01", a01 }, { "A02", a02 }, { "A03", a03 }, { "A04", a04 }, { "A05", a05 },
        { "B05", b05 }, { "B06", b06 }, { "B10", b10 }, { "C03", c03 }, { "C09", c09 } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
