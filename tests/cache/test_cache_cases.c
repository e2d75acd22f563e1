/* Public cases of caches and ragged batches (kinds E, F, G06, J01), mixed batches, 16-bit queries and outputs, refusals.
 * May know: the public header, check.h, store.h, world.h.
 * Must not know: anything under src/. */
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct backends {
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count;
} backends;

static backends usable(void)
{
    backends b;
    b.count = check_backends(b.list);
    return b;
}

static void run(const heed_attention *a, const heed_tensors *t, const heed_options *o)
{
    heed_error error = { "" };
    CHECK(heed_attend(a, t, o, &error) == HEED_OK, "%s", error.message);
}

/* E01: query heads share kv heads side by side, not in turn. */
static void case_e01(void)
{
    check_rng rng = check_rng_named("e01");
    const backends b = usable();
    world w = world_make(1, 6, 2, 1, 20, 8, 8, HEED_TYPE_F16, HEED_TYPE_F16, &rng);
    w.lengths[0] = 20;
    for (int i = 0; i < 2 * 20 * 8; i++)
        w.v[i] = (float)(i / (20 * 8) + 1);
    for (int64_t page = 0; page <= 16; page += 16)
        for (size_t i = 0; i < b.count; i++) {
            const store s = world_store(&w, HEED_TYPE_F16, HEED_TYPE_F16, page, HEED_LAYOUT_BHSD, &rng);
            const heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 1);
            world_result r = world_run(&w, &s, &o);
            for (int n = 0; n < 6 * 8; n++)
                CHECK(fabsf(r.out[n] - (float)(n / 24 + 1)) < 1e-6f, "head %d: %g", n / 8, (double)r.out[n]);
            world_free_result(&r);
            check_free_all();
        }
    world_free(&w);
}

/* E03, E05, E07: unused slots hold NaN (a store is NaN where nothing was appended), lengths differ, one is 0.  q = 0, so that
 * each row is the mean of its values. */
static void case_e03_e05_e07(void)
{
    check_rng rng = check_rng_named("e03");
    const backends b = usable();
    static const int32_t lengths[WORLD_BATCH] = { 5, 0, 7, 48 };
    static const struct {
        heed_layout layout;
        int64_t page;
    } kinds[] = { { HEED_LAYOUT_BHSD, 0 }, { HEED_LAYOUT_BSHD, 0 }, { HEED_LAYOUT_BHSD, 32 },
        { HEED_LAYOUT_BHSD, 64 } };
    for (int type = 0; type <= HEED_TYPE_I8; type++)
        for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
            for (size_t i = 0; i < b.count; i++) {
                world w = world_make(4, 8, 8, 1, 128, 64, 64, HEED_TYPE_I8, HEED_TYPE_I8, &rng);
                memcpy(w.lengths, lengths, sizeof lengths);
                memset(w.q, 0, 4 * 8 * 64 * sizeof(float));
                for (int n = 0; n < 4 * 8 * 128 * 64; n++)
                    w.v[n] = n % 64 ? (float)(n / 64 % 128) : 127.0f; /* column 0 makes int8's scale 1 */
                const store s =
                    world_store(&w, (heed_type)type, (heed_type)type, kinds[kind].page, kinds[kind].layout, &rng);
                const heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 1);
                check_case("%s, pages of %d, layout %d, %s", store_type_name((heed_type)type), (int)kinds[kind].page,
                    (int)kinds[kind].layout, heed_isa_name(b.list[i]));
                world_result r = world_run(&w, &s, &o);
                for (int n = 0; n < 4 * 8 * 64; n++) {
                    const int32_t keys = lengths[n / (8 * 64)];
                    const float want = keys == 0 ? 0.0f : n % 64 ? (float)(keys - 1) / 2.0f : 127.0f;
                    CHECK(r.out[n] == want, "slot %d: %g, want %g", n / (8 * 64), (double)r.out[n], (double)want);
                }
                CHECK(r.lse[8] == -INFINITY, "lse of an empty slot: %g", (double)r.lse[8]);
                world_free_result(&r);
                world_free(&w);
                check_free_all();
            }
    check_case("%s", "");
}

/* E06: prefill and decode in one batch: each sequence equals its own call, contiguous and paged. */
static void case_e06(void)
{
    static const int64_t full_q[] = { 2345, 5, 3, 134 }, full_kv[] = { 2345, 5, 16, 5131 };
    check_rng rng = check_rng_named("e06");
    const backends b = usable();
    const int64_t part = check_quick() ? 40 : 4, heads = 9, kv_heads = 3, dim = 96;
    int32_t offsets[5] = { 0 }, lengths[4];
    int64_t most_q = 0, most_kv = 0;
    for (int n = 0; n < 4; n++) {
        const int64_t q = (full_q[n] - 1) / part + 1, kv = (full_kv[n] - 1) / part + 1;
        offsets[n + 1] = offsets[n] + (int32_t)q;
        lengths[n] = (int32_t)kv;
        most_q = q > most_q ? q : most_q;
        most_kv = kv > most_kv ? kv : most_kv;
    }
    world w = world_make(4, heads, kv_heads, 1, most_kv, dim, dim, HEED_TYPE_BF16, HEED_TYPE_BF16, &rng);
    memcpy(w.lengths, lengths, sizeof lengths);
    const size_t rows = (size_t)offsets[4], n_out = rows * (size_t)(heads * dim);
    float *q = check_floats(n_out), *want = check_floats(n_out), *got = check_floats(n_out);
    check_fill(&rng, q, rows * (size_t)heads, (size_t)dim, CHECK_NORMAL);
    for (size_t i = b.count > 1; i < b.count; i++) /* scalar's bits are tested on smaller problems */
        for (int64_t page = 0; page <= 32; page += 32)
            for (int32_t threads = 1; threads <= 5; threads += 4) {
                const store s = world_store(&w, HEED_TYPE_BF16, HEED_TYPE_BF16, page, HEED_LAYOUT_BHSD, &rng);
                const heed_executor executor = world_executor(threads);
                heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 0);
                o.executor = &executor;
                heed_attention a = HEED_ATTENTION_INIT;
                heed_tensors t = HEED_TENSORS_INIT;
                a.num_heads = heads;
                a.num_kv_heads = kv_heads;
                a.seq_len_kv = most_kv;
                a.head_dim = a.head_dim_v = dim;
                a.causal = HEED_CAUSAL_BOTTOM_RIGHT;
                a.layout = HEED_LAYOUT_STRIDED;
                store_describe(&s, &a, &t);
                if (!page) {
                    a.strides_k = (heed_strides){ kv_heads * most_kv * dim, most_kv * dim, dim };
                    a.strides_v = a.strides_k;
                } else {
                    a.strides_k = (heed_strides){ kv_heads * page * dim, page * dim, 0 };
                    a.strides_v = a.strides_k;
                }
                a.strides_q = a.strides_out = (heed_strides){ 0, dim, heads * dim };
                for (int64_t n = 0; n < 4; n++) { /* one by one */
                    heed_attention one = a;
                    heed_tensors x = t;
                    one.batch = 1;
                    one.seq_len_q = offsets[n + 1] - offsets[n];
                    x.q = q + offsets[n] * heads * dim;
                    x.out = want + offsets[n] * heads * dim;
                    x.lengths_kv = lengths + n;
                    x.k = (const uint16_t *)t.k + (page ? 0 : n * a.strides_k.batch);
                    x.v = (const uint16_t *)t.v + (page ? 0 : n * a.strides_v.batch);
                    x.page_table = page ? t.page_table + n * a.page_table_stride : NULL;
                    run(&one, &x, &o);
                }
                a.batch = 4;
                a.seq_len_q = most_q;
                a.varlen = 1;
                t.q = q;
                t.out = got;
                t.offsets_q = offsets;
                t.lengths_kv = lengths;
                run(&a, &t, &o);
                check_case("%s, pages of %d, %d threads", heed_isa_name(b.list[i]), (int)page, (int)threads);
                check_same(got, want, n_out, "the batch");
                memset(got, 0, n_out * sizeof(float));
                check_free_all();
            }
    free(q);
    free(want);
    free(got);
    world_free(&w);
    check_case("%s", "");
}

/* F03: f16 values of 60000 over 32768 keys stay 60000, also rounded to f16. */
static void case_f03(void)
{
    enum { KEYS = 32768, D = 8 };
    const backends b = usable();
    const uint16_t sixty_thousand = 0x7b53;
    uint16_t *k = check_malloc(KEYS * D * sizeof *k), *v = check_malloc(KEYS * D * sizeof *v), out[D];
    for (int i = 0; i < KEYS * D; i++) {
        k[i] = 0;
        v[i] = sixty_thousand;
    }
    for (size_t i = 0; i < b.count; i++) {
        heed_attention a = HEED_ATTENTION_INIT;
        heed_tensors t = HEED_TENSORS_INIT;
        const uint16_t q[D] = { 0 };
        a.batch = a.num_heads = a.num_kv_heads = a.seq_len_q = 1;
        a.seq_len_kv = KEYS;
        a.head_dim = D;
        a.type_q = a.type_k = a.type_v = a.type_out = HEED_TYPE_F16;
        t.q = q;
        t.k = k;
        t.v = v;
        t.out = out;
        const heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 1);
        run(&a, &t, &o);
        for (int c = 0; c < D; c++)
            CHECK(out[c] == sixty_thousand, "%s: %04x", heed_isa_name(b.list[i]), out[c]);
    }
    free(k);
    free(v);
}

/* G06: the caller's scale on the decode path, for few rows and for packed ones. */
static void case_g06(void)
{
    static const float scales[] = { 1.0f, 0.5f, 0.0f, -1.0f }, want[] = { 0.731059f, 0.622459f, 0.731059f, 0.268941f };
    const backends b = usable();
    const float k[2] = { 1.0f, 0.0f }, q[9] = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    for (size_t i = 0; i < b.count; i++)
        for (int n = 0; n < 4; n++)
            for (int64_t rows = 1; rows <= 9; rows += 4) {
                float out[9];
                heed_attention a = HEED_ATTENTION_INIT;
                heed_tensors t = HEED_TENSORS_INIT;
                a.batch = a.num_kv_heads = a.seq_len_q = a.head_dim = 1;
                a.num_heads = rows;
                a.seq_len_kv = 2;
                a.scale = scales[n]; /* 0 is the default, 1 for one dimension */
                t.q = q;
                t.k = t.v = k;
                t.out = out;
                const heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 1);
                run(&a, &t, &o);
                for (int64_t row = 0; row < rows; row++)
                    CHECK(fabsf(out[row] - want[n]) < 1e-6f, "scale %g: %g", (double)scales[n], (double)out[row]);
            }
}

/* J01: the workspace asked for is enough with t threads, for every t; a page that cannot be read follows it. */
static void case_j01(void)
{
    check_rng rng = check_rng_named("j01");
    for (int32_t threads = 1; threads <= 96; threads += check_quick() ? 13 : 1)
        for (int64_t rows = 1; rows <= 33; rows += rows == 1 ? 1 : 31) {
            world w = world_make(1, 4, threads % 2 ? 4 : 2, rows, 2000, 8, 8, HEED_TYPE_F16, HEED_TYPE_F16, &rng);
            w.lengths[0] = 2000;
            const store s = world_store(&w, HEED_TYPE_F16, HEED_TYPE_F16, 16, HEED_LAYOUT_BHSD, &rng);
            const heed_options one = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
            const heed_executor executor = world_executor(threads);
            heed_options many = one;
            many.num_threads = 0;
            many.executor = &executor;
            world_result want = world_run(&w, &s, &one), got = world_run(&w, &s, &many);
            check_case("%d threads, %d rows", (int)threads, (int)rows);
            world_same(&w, &got, &want);
            world_free_result(&want);
            world_free_result(&got);
            world_free(&w);
            check_free_all();
        }
    check_case("%s", "");
}

/* 16-bit queries are exact on the way in, outputs rounded once on the way out, in place too. */
static void queries_and_outputs(void)
{
    check_rng rng = check_rng_named("halves");
    const backends b = usable();
    for (int type = HEED_TYPE_F16; type <= HEED_TYPE_BF16; type++)
        for (size_t i = 0; i < b.count; i++)
            for (int64_t rows = 1; rows <= 120; rows += 119) {
                world w = world_make(1, 2, 1, rows, 70, 24, 24, HEED_TYPE_F32, HEED_TYPE_F32, &rng);
                const size_t n = (size_t)(2 * rows * 24);
                uint16_t *half = check_malloc(n * sizeof *half);
                w.lengths[0] = 70;
                for (size_t j = 0; j < n; j++)
                    half[j] = (uint16_t)(check_between(&rng, 0, 1) << 15 |
                                         (type == HEED_TYPE_F16 ? check_between(&rng, 0, 0x4200)
                                                                : check_between(&rng, 0x3800, 0x4060)));
                for (size_t j = 0; j < n; j++)
                    w.q[j] = store_read((heed_type)type, half, (int64_t)j);
                const heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 1);
                world_result want = world_run(&w, NULL, &o);
                heed_attention a = w.shape;
                heed_tensors t = HEED_TENSORS_INIT;
                a.type_q = a.type_out = (heed_type)type;
                t.q = t.out = half;
                t.k = w.k;
                t.v = w.v;
                run(&a, &t, &o);
                for (size_t j = 0; j < n; j++) {
                    const float rounded = store_round((heed_type)type, want.out[j]);
                    const float got = store_read((heed_type)type, half, (int64_t)j);
                    CHECK(check_equal_bits(got, rounded), "%s: %g, want %g", store_type_name((heed_type)type),
                        (double)got, (double)rounded);
                }
                free(half);
                world_free_result(&want);
                world_free(&w);
                check_free_all();
            }
}

/* Pages that lie before a window may have been given back: their entries may be anything, and nothing of them is read. */
static void pages_given_back(void)
{
    check_rng rng = check_rng_named("given back");
    const backends b = usable();
    for (int64_t rows = 1; rows <= 121; rows += 40)
        for (size_t i = 0; i < b.count; i++)
            for (int32_t threads = 1; threads <= 4; threads += 3) {
                world w = world_make(1, 2, 1, rows, 1500, 16, 16, HEED_TYPE_I8, HEED_TYPE_I8, &rng);
                w.lengths[0] = 1400;
                w.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
                w.shape.window_left = 300;
                store s = world_store(&w, HEED_TYPE_I8, HEED_TYPE_I8, 32, HEED_LAYOUT_BHSD, &rng);
                const heed_executor executor = world_executor(threads);
                heed_options o = check_options(b.list[i], HEED_EXP_DEFAULT, 0);
                o.executor = &executor;
                world_result want = world_run(&w, NULL, &o);
                const int64_t kept = (1400 - rows - 300) / 256 * 256 / 32;
                for (int64_t page = 0; page < kept; page++)
                    s.table[page] = page % 2 ? INT32_MIN : INT32_MAX;
                check_case("%d rows, %d pages given back", (int)rows, (int)kept);
                world_result got = world_run(&w, &s, &o);
                world_same(&w, &got, &want);
                world_free_result(&want);
                world_free_result(&got);
                world_free(&w);
                check_free_all();
            }
    check_case("%s", "");
}

typedef struct fault {
    const char *names;
    int kind;
} fault;

static void refusals(void)
{
    static const fault faults[] = { { "type_q", 0 }, { "type_out", 1 }, { "type_k", 2 }, { "page_size", 3 },
        { "tensors.scales_k", 4 }, { "tensors.page_table", 5 }, { "page_table[0][1]", 6 }, { "num_pages", 7 },
        { "offsets_kv is given with page_size", 8 }, { "page_table_stride", 9 } };
    for (size_t n = 0; n < sizeof faults / sizeof faults[0]; n++) {
        const float x[20 * 4] = { 0 };
        float out[4 * 2], scales[20] = { 0 };
        static const int32_t table[2] = { 0, 3 }, offsets[2] = { 0, 1 };
        heed_attention a = HEED_ATTENTION_INIT;
        heed_tensors t = HEED_TENSORS_INIT;
        a.batch = a.num_heads = a.num_kv_heads = a.seq_len_q = 1;
        a.seq_len_kv = 20;
        a.head_dim = 4;
        a.type_q = faults[n].kind == 0 ? HEED_TYPE_I8 : HEED_TYPE_F32;
        a.type_out = faults[n].kind == 1 ? HEED_TYPE_I8 : HEED_TYPE_F32;
        a.type_k = faults[n].kind == 2 ? (heed_type)-1 : faults[n].kind == 4 ? HEED_TYPE_I8 : HEED_TYPE_F32;
        a.page_size = faults[n].kind == 3 ? 15 : faults[n].kind >= 5 ? 16 : 0;
        a.num_pages = faults[n].kind == 7 ? -1 : 3;
        a.page_table_stride = faults[n].kind == 9;
        t.q = t.k = t.v = x;
        t.out = memset(out, 0xff, sizeof out);
        t.scales_v = scales;
        t.page_table = faults[n].kind == 5 ? NULL : table;
        if (faults[n].kind == 8) {
            a.varlen = 1;
            a.layout = HEED_LAYOUT_BSHD;
            t.offsets_q = t.offsets_kv = offsets;
        }
        heed_error error = { "" };
        CHECK(heed_attend(&a, &t, NULL, &error) == HEED_ERROR_INVALID, "%s: accepted", faults[n].names);
        CHECK(strstr(error.message, faults[n].names), "\"%s\" does not name %s", error.message, faults[n].names);
        check_untouched_bytes(out, sizeof out, "out");
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "E01", case_e01 }, { "E03_E05_E07", case_e03_e05_e07 }, { "E06", case_e06 },
        { "F03", case_f03 }, { "G06", case_g06 }, { "J01", case_j01 }, { "queries_and_outputs", queries_and_outputs },
        { "pages_given_back", pages_given_back }, { "refusals", refusals } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
