/* Faults reported in public that show with certain strides, batches, thread counts, with masks (see test_mask_cases.c).
 * May know: the public header, masked.h, check.h, POSIX.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- B08: mask dimensions of size 1 ---- */

/* The bias or mask with every dimension written out. */
static void expand(masked *m)
{
    const masked from = *m;
    const heed_attention *a = &m->shape;
    m->bias = NULL;
    m->mask = NULL;
    masked_full_bias(m);
    masked_full_mask(m);
    for (int64_t n = 0; n < masked_rows(m) * a->seq_len_kv; n++) {
        const int64_t j = n % a->seq_len_kv, row = n / a->seq_len_kv, i = row % a->seq_len_q;
        const int64_t h = row / a->seq_len_q % a->num_heads, b = row / a->seq_len_q / a->num_heads;
        m->bias[n] = from.bias[masked_at(&from.shape.strides_bias, b, h, i, j)];
        m->mask[n] = from.mask[masked_at(&from.shape.strides_mask, b, h, i, j)];
    }
    free(from.bias);
    free(from.mask);
}

static void b08(void)
{
    check_rng rng = check_rng_named("B08");
    for (unsigned broadcast = 0; broadcast < 16; broadcast++)
        for (int large = 0; large < 2; large++) {
            masked m = large ? masked_make(&rng, 2, 3, 3, 110, 270, 4, 4) : masked_make(&rng, 2, 3, 3, 5, 7, 4, 4);
            masked_add_bias(&m, &rng, broadcast);
            masked_add_mask(&m, &rng, 15 - broadcast);
            masked c = masked_copy(&m);
            expand(&c);
            if (!large || check_keep(broadcast, 8))
                masked_both(&c, &m);
            masked_free(&c);
            masked_free(&m);
        }
}

/* ---- D07: one key/value head for all query heads by a stride of 0, with a mask ---- */

static void d07(void)
{
    enum { HEADS = 8, DIM = 16, QUERIES = 3 };
    static const int64_t sizes[] = { 31, 32, 33, 34, 65, 97 };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("D07");
    for (size_t n = 0; n < 6 * count; n++) {
        const int64_t keys = sizes[n % 6];
        const size_t head = (size_t)(keys * DIM);
        masked m = masked_make(&rng, 1, HEADS, HEADS, QUERIES, keys, DIM, DIM);
        masked_add_mask(&m, &rng, 8);
        for (size_t h = 1; h < HEADS; h++) {
            memcpy(m.k + h * head, m.k, head * sizeof(float));
            memcpy(m.v + h * head, m.v, head * sizeof(float));
        }
        const masked_run run = masked_plain(list[n / 6]);
        masked_result want = masked_execute(&m, &run);
        heed_attention a = m.shape;
        const heed_strides q = { 0, QUERIES * DIM, DIM }, kv = { 0, 0, DIM };
        a.layout = HEED_LAYOUT_STRIDED;
        a.strides_q = a.strides_out = q;
        a.strides_k = a.strides_v = kv;
        heed_tensors t = HEED_TENSORS_INIT;
        t.q = check_input(m.q, HEADS * QUERIES * DIM, CHECK_GUARD_BEHIND);
        t.k = check_input(m.k, head, CHECK_GUARD_BEHIND);
        t.v = check_input(m.v, head, CHECK_GUARD_BEHIND);
        t.mask = check_copy(m.mask, m.mask_count, CHECK_GUARD_BEHIND);
        t.out = check_output(HEADS * QUERIES * DIM, CHECK_GUARD_BEHIND);
        const heed_options options = check_options(list[n / 6], HEED_EXP_DEFAULT, 1);
        heed_error error = { "" };
        CHECK(heed_attend(&a, &t, &options, &error) == HEED_OK, "%s", error.message);
        check_same(t.out, want.out, HEADS * QUERIES * DIM, "repeated by stride");
        check_free_all();
        masked_free_result(&want);
        masked_free(&m);
    }
}

/* ---- D12: masks beyond 2^31 elements, in memory that is reserved but not there ---- */

static void d12(void)
{
    const int64_t far_away = (INT64_C(1) << 31) + 64;
    const size_t floats = ((size_t)far_away + 64) * sizeof(float), bytes = (size_t)far_away + 64;
    const int prot = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *bias_map = mmap(NULL, floats, prot, flags, -1, 0), *mask_map = mmap(NULL, bytes, prot, flags, -1, 0);
    if (bias_map == MAP_FAILED || mask_map == MAP_FAILED)
        check_fatal("no address space for sparse regions of 10 GiB");
    float *bias = bias_map;
    uint8_t *mask = mask_map;
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("D12");
    for (int dimension = 0; dimension < 4; dimension++) { /* which of batch, head, query, key is far apart */
        masked m = masked_make(&rng, 2, 2, 1, 2, 2, 4, 4), c = masked_copy(&m);
        masked_full_bias(&c);
        masked_full_mask(&c);
        heed_mask_strides s = { dimension == 0 ? far_away : 1, dimension == 1 ? far_away : 2,
            dimension == 2 ? far_away : 4, dimension == 3 ? far_away : 8 };
        for (int64_t n = 0; n < 16; n++) {
            const int64_t at = masked_at(&s, n / 8, n / 4 % 2, n / 2 % 2, n % 2);
            bias[at] = c.bias[n] = check_normal(&rng);
            mask[at] = c.mask[n] = check_next(&rng) % 4 != 0;
        }
        heed_attention a = m.shape;
        a.strides_bias = a.strides_mask = s;
        for (size_t i = 0; i < count; i++) {
            const masked_run run = masked_plain(list[i]);
            masked_result want = masked_execute(&c, &run);
            const heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            float out[32];
            heed_tensors t = HEED_TENSORS_INIT;
            heed_error error = { "" };
            t.q = m.q;
            t.k = m.k;
            t.v = m.v;
            t.out = out;
            t.bias = bias;
            t.mask = mask;
            CHECK(heed_attend(&a, &t, &options, &error) == HEED_OK, "%s", error.message);
            check_same(out, want.out, 32, "far apart");
            masked_free_result(&want);
        }
        masked_free(&m);
        masked_free(&c);
    }
    munmap(bias_map, floats);
    munmap(mask_map, bytes);
}

/* ---- E: packed batches ---- */

/* Each sequence of a packed batch against its own call, on one backend. */
static void packed_batch(const masked *m, heed_isa isa)
{
    masked_run run = masked_plain(isa);
    run.storage = MASKED_VARLEN;
    masked_result all = masked_execute(m, &run);
    for (int64_t b = 0; b < m->shape.batch; b++) {
        const masked_range range = masked_sequence(m, b);
        if (range.end_q == 0)
            continue;
        masked one = masked_part(m, &range);
        const masked_run plain = masked_plain(isa);
        masked_result alone = masked_execute(&one, &plain);
        masked_same_part(m, &all, &one, &alone, &range);
        masked_free_result(&alone);
        masked_free(&one);
    }
    masked_free_result(&all);
}

static int32_t *copy_lengths(const int32_t *lengths, size_t count)
{
    return memcpy(check_malloc(count * sizeof *lengths), lengths, count * sizeof *lengths);
}

/* Poisoned caches: every key and value beyond a sequence's own is NaN or infinite, also where rows are packed. */
static void e03_e05(void)
{
    static const int32_t e03[4] = { 32, 64, 96, 48 }, e05[3] = { 5, 0, 7 };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("E03");
    for (size_t n = 0; n < 2 * count; n++) {
        masked m = n % 2 ? masked_make(&rng, 3, 2, 1, 1, 8, 8, 8) : masked_make(&rng, 4, 8, 8, 1, 128, 64, 64);
        m.lengths_kv = copy_lengths(n % 2 ? e05 : e03, n % 2 ? 3 : 4);
        m.shape.window_left = 20;
        masked_add_slopes(&m, &rng);
        const int64_t heads = m.shape.num_kv_heads, keys = m.shape.seq_len_kv, dim = m.shape.head_dim;
        for (int64_t row = 0; row < m.shape.batch * heads * keys; row++)
            for (int64_t d = 0; d < dim && row % keys >= m.lengths_kv[row / keys / heads]; d++)
                m.k[row * dim + d] = m.v[row * dim + d] = d % 2 ? NAN : INFINITY;
        packed_batch(&m, list[n / 2]);
        masked_free(&m);
    }
}

/* Prefill and decode in one packed batch of grouped heads, at a tenth of the reported lengths on every backend. */
static void e06(void)
{
    static const int32_t small_q[4] = { 234, 5, 3, 13 }, small_k[4] = { 234, 5, 16, 513 };
    static const int64_t heads[3][2] = { { 9, 3 }, { 32, 8 }, { 48, 8 } };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("E06");
    for (size_t n = 0; n < 3 && check_keep(n, 3); n++)
        for (size_t i = 0; i < count; i++) {
            masked m = masked_make(&rng, 4, heads[n][0], heads[n][1], 234, 513, n ? 12 : 96, n ? 12 : 96);
            m.lengths_q = copy_lengths(small_q, 4);
            m.lengths_kv = copy_lengths(small_k, 4);
            m.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
            if (i == 0 && n) {
                m.shape.window_left = 40; /* scalar is slow */
                m.shape.softcap = 3.0f;
            }
            packed_batch(&m, list[i]);
            masked_free(&m);
        }
}

/* E06 at its full lengths; padding it would take four times the memory. */
static void e06_full(void)
{
    static const int32_t queries[4] = { 2345, 5, 3, 134 }, keys[4] = { 2345, 5, 16, 5131 };
    if (check_quick() || check_sanitized() || heed_isa_default() == HEED_ISA_SCALAR) {
        CHECK(true, "nothing to check");
        check_note("E06 at a tenth of its lengths only: the full size needs a vector backend at full speed");
        return;
    }
    check_rng rng = check_rng_named("E06 full");
    masked m = masked_make(&rng, 4, 9, 3, 2345, 5131, 96, 96);
    m.lengths_q = copy_lengths(queries, 4);
    m.lengths_kv = copy_lengths(keys, 4);
    m.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    packed_batch(&m, HEED_ISA_AUTO);
    masked_free(&m);
}

/* ---- F: thread counts, chunks ---- */

static void f05(void)
{
    static const int32_t threads[] = { 1, 2, 3, 6, 8, 16 };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("F05");
    masked m = masked_make(&rng, 1, 4, 2, 130, 300, 64, 64);
    masked_add_bias(&m, &rng, 8);
    masked_add_mask(&m, &rng, 8);
    masked_add_sinks(&m, &rng);
    m.shape.softcap = 2.0f;
    m.weights = true;
    masked_run run = masked_plain(HEED_ISA_SCALAR);
    masked_result want = masked_execute(&m, &run);
    int most = 0;
    for (size_t n = 0; n < 12 * count; n++) {
        run = masked_plain(list[n / 12]);
        run.threads = threads[n % 6];
        run.executor = n / 6 % 2;
        const int workers = masked_workers(&m, &run);
        most = workers > most ? workers : most;
        masked_result r = masked_execute(&m, &run);
        masked_same(&m, &r, &want);
        masked_free_result(&r);
    }
    CHECK(most > 2, "never more than %d threads", most);
    masked_free_result(&want);
    masked_free(&m);
}

/* The same prompt at once, in thirds, as 95 + 1, and token by token, with everything that depends on positions. */
static void f09(void)
{
    static const int64_t steps[] = { 32, 95, 1 };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("F09");
    masked m = masked_make(&rng, 1, 4, 2, 96, 96, 16, 16);
    masked_add_slopes(&m, &rng);
    masked_add_bias(&m, &rng, 4);
    m.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    m.shape.window_left = 30;
    m.shape.softcap = 1.5f;
    for (size_t n = 0; n < 3 * count; n++) {
        const masked_run run = masked_plain(list[n / 3]);
        masked_result all = masked_execute(&m, &run);
        masked_range range = { 0, 0, 0, 0, 0 };
        for (; range.first_q < 96; range.first_q = range.end_q) {
            range.end_q = range.first_q + steps[n % 3] < 96 ? range.first_q + steps[n % 3] : 96;
            range.end_kv = range.end_q; /* the cache so far */
            masked chunk = masked_part(&m, &range);
            masked_result r = masked_execute(&chunk, &run);
            masked_same_part(&m, &all, &chunk, &r, &range);
            masked_free_result(&r);
            masked_free(&chunk);
        }
        masked_free_result(&all);
    }
    masked_free(&m);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "B08", b08 }, { "D07", d07 }, { "D12", d12 }, { "E03_E05", e03_e05 },
        { "E06", e06 }, { "E06_full", e06_full }, { "F05", f05 }, { "F09", f09 } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
