/* Faults reported in public that show with certain shapes, storage or lengths, each by its id (see test_cases.c).
 * May know: the public header, attend.h, check.h, oracle.h, POSIX.
 * Must not know: anything under src/. */
#include "attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* ---- D05: one tensor of the four in BLHD while the others are BHLD ---- */

static heed_strides strides_of(bool blhd, int64_t heads, int64_t seq, int64_t dim)
{
    heed_strides strides = { heads * seq * dim, blhd ? dim : seq * dim, blhd ? heads * dim : dim };
    return strides;
}

/* [head][seq][dim] to [seq][head][dim], or back with the sizes swapped. */
static void swap_order(float *to, const float *from, int64_t heads, int64_t seq, int64_t dim)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t i = 0; i < seq; i++)
            memcpy(to + (i * heads + h) * dim, from + (h * seq + i) * dim, (size_t)dim * sizeof *to);
}

static void d05(void)
{
    enum { H = 16, L = 62, D = 128, COUNT = H * L * D };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    check_rng rng = check_rng_named("D05");
    attend_case c = attend_make(1, H, H, L, L, D, 0);
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    float *moved = check_floats(COUNT), *out = check_floats(COUNT), *back = check_floats(COUNT);
    for (size_t i = 0; i < count; i++) {
        attend_run run = attend_plain(list[i]);
        attend_result want = attend_execute(&c, &data, &run);
        for (int which = 0; which < 4; which++) { /* q, k, v, out */
            check_case("%s tensor %d", heed_isa_name(list[i]), which);
            float *tensors[4] = { data.q, data.k, data.v, out };
            heed_attention a = c.shape;
            a.layout = HEED_LAYOUT_STRIDED;
            heed_strides *strides[4] = { &a.strides_q, &a.strides_k, &a.strides_v, &a.strides_out };
            for (int t = 0; t < 4; t++)
                *strides[t] = strides_of(t == which, H, L, D);
            if (which < 3) {
                swap_order(moved, tensors[which], H, L, D);
                tensors[which] = moved;
            }
            heed_tensors t = attend_tensors(tensors[0], tensors[1], tensors[2], out);
            heed_error error = { "" };
            CHECK(heed_attend(&a, &t, &run.options, &error) == HEED_OK, "%s", error.message);
            if (which == 3)
                swap_order(back, out, L, H, D);
            check_same(which == 3 ? back : out, want.out, COUNT, "against packed");
        }
        attend_free_result(&want);
    }
    attend_free_data(&data);
    free(moved);
    free(out);
    free(back);
}

/* ---- D07, D08, D09, D11: key counts, head sizes, value widths ---- */

static void d07(void)
{
    static const int64_t sizes[] = { 31, 32, 33, 34, 65, 97 };
    check_rng rng = check_rng_named("D07");
    for (size_t n = 0; n < 6; n++) {
        attend_case c = attend_make(2, 8, 8, 3, sizes[n], 64, 0);
        c.equal_kv = true;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        attend_run run = attend_plain(HEED_ISA_SCALAR);
        run.storage = ATTEND_BROADCAST;
        attend_verify(&c, &data, &run);
        attend_free_data(&data);
    }
}

static void d08_d09_d11(void)
{
    static const int64_t dims[] = { 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 37, 40, 46, 48, 63, 65, 72, 80, 96, 112,
        127, 129, 160, 255, 256, 257, 512, 576 };
    check_rng rng = check_rng_named("D08");
    attend_run run = attend_plain(HEED_ISA_SCALAR);
    run.storage = ATTEND_BSHD;
    for (int64_t keys = 1; keys <= 130; keys++)
        for (int64_t n = 0; n < 9; n++) {
            if (!check_keep((size_t)(keys * 9 + n), 50))
                continue;
            attend_case c =
                attend_make(1, 2, 1, n / 3 == 2 ? 8 : n / 3 + 1, keys, n % 3 == 2 ? 128 : 64 + 32 * (n % 3), 0);
            attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
            attend_verify(&c, &data, &run);
            attend_free_data(&data);
        }
    for (size_t d = 0; d < sizeof dims / sizeof dims[0] + 3; d++) {
        static const int64_t d11[3][2] = { { 32, 24 }, { 32, 24 }, { 128, 64 } };
        attend_case c = attend_make(2, 13, 13, 3, 21, 0, 0);
        if (d < 3)
            c = attend_make(d == 0 ? 8 : 1, 4, d == 0 ? 1 : 4, d == 0 ? 1 : 16, d == 0 ? 36 : 16, d11[d][0], d11[d][1]);
        else
            c.shape.head_dim = dims[d - 3];
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        if (check_keep(d, 4))
            attend_verify(&c, &data, &run);
        attend_free_data(&data);
    }
}

/* ---- D12: offsets beyond 2^31 elements, in memory that is reserved but not there ---- */

static void d12(void)
{
    enum { ROW = 2 * 4 };
    const int64_t far_away = (INT64_C(1) << 31) + 64;
    const size_t bytes = ((size_t)far_away + ROW) * sizeof(float);
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    float *maps[4];
    for (size_t i = 0; i < 4; i++) {
        void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (map == MAP_FAILED)
            check_fatal("no address space for four sparse regions of 8 GiB");
        maps[i] = map;
    }
    check_rng rng = check_rng_named("D12");
    attend_case c = attend_make(2, 1, 1, 2, 2, 4, 0);
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    const float *packed[3] = { data.q, data.k, data.v };
    heed_attention batch = c.shape;
    const heed_strides strides = { far_away, 0, 4 };
    batch.layout = HEED_LAYOUT_STRIDED;
    batch.strides_q = batch.strides_k = batch.strides_v = batch.strides_out = strides;
    for (size_t t = 0; t < 3; t++) {
        memcpy(maps[t], packed[t], ROW * sizeof(float));
        memcpy(maps[t] + far_away, packed[t] + ROW, ROW * sizeof(float));
    }
    for (size_t i = 0; i < count; i++)
        for (int32_t threads = 1; threads <= 2; threads++) {
            attend_run run = attend_plain(list[i]);
            run.options.num_threads = threads;
            attend_result want = attend_execute(&c, &data, &run);
            heed_tensors t = attend_tensors(maps[0], maps[1], maps[2], maps[3]);
            heed_error error = { "" };
            CHECK(heed_attend(&batch, &t, &run.options, &error) == HEED_OK, "%s", error.message);
            check_same(maps[3], want.out, ROW, "first batch entry");
            check_same(maps[3] + far_away, want.out + ROW, ROW, "second batch entry");
            attend_free_result(&want);
        }
    for (size_t i = 0; i < 4; i++)
        munmap(maps[i], bytes);
    attend_free_data(&data);
}

/* ---- D14: pointers 4 bytes past a boundary, rows of 46 and 47 ---- */

static void d14(void)
{
    enum { L = 33, D = 46, ROOM = L * 47 + 16 };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    check_rng rng = check_rng_named("D14");
    attend_case c = attend_make(1, 1, 1, L, L, D, 0);
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    const float *packed[3] = { data.q, data.k, data.v };
    for (size_t i = 0; i < count; i++) {
        attend_run run = attend_plain(list[i]);
        attend_result want = attend_execute(&c, &data, &run);
        for (unsigned bits = 0; bits < 32; bits++) { /* which of q k v out are misaligned, and the row stride */
            check_case("%s bits %u", heed_isa_name(list[i]), bits);
            int64_t stride = bits & 16 ? 47 : 46;
            heed_attention a = c.shape;
            const heed_strides strides = { 0, 0, stride };
            a.layout = HEED_LAYOUT_STRIDED;
            a.strides_q = a.strides_k = a.strides_v = a.strides_out = strides;
            float *memory[4];
            for (size_t t = 0; t < 4; t++) {
                memory[t] = (float *)check_alloc(ROOM * sizeof(float), CHECK_GUARD_BEFORE) + (bits >> t & 1);
                for (int64_t r = 0; r < L && t < 3; r++)
                    memcpy(memory[t] + r * stride, packed[t] + r * D, D * sizeof(float));
            }
            heed_tensors t = attend_tensors(memory[0], memory[1], memory[2], memory[3]);
            heed_error error = { "" };
            CHECK(heed_attend(&a, &t, &run.options, &error) == HEED_OK, "%s", error.message);
            for (int64_t r = 0; r < L; r++)
                check_same(memory[3] + r * stride, want.out + r * D, D, "row");
            check_free_all();
        }
        attend_free_result(&want);
    }
    attend_free_data(&data);
}

/* ---- E03, E06: caches and ragged batches ---- */

/* Row b of a ragged batch as a problem of its own, bit for bit. */
static void same_alone(
    const attend_case *c, const attend_data *data, const attend_result *all, int64_t b, const attend_run *run)
{
    const heed_attention *s = &c->shape;
    int64_t lq = c->lengths_q ? c->lengths_q[b] : s->seq_len_q, lk = c->lengths_kv[b], d = s->head_dim;
    attend_case one = attend_make(1, s->num_heads, s->num_kv_heads, lq, lk, d, 0);
    one.shape.causal = s->causal;
    attend_data own = { check_floats((size_t)(s->num_heads * lq * d)), check_floats((size_t)(s->num_kv_heads * lk * d)),
        check_floats((size_t)(s->num_kv_heads * lk * d)) };
    for (int64_t h = 0; h < s->num_heads; h++)
        memcpy(
            own.q + h * lq * d, data->q + (b * s->num_heads + h) * s->seq_len_q * d, (size_t)(lq * d) * sizeof(float));
    for (int64_t g = 0; g < s->num_kv_heads; g++) {
        int64_t from = (b * s->num_kv_heads + g) * s->seq_len_kv * d;
        memcpy(own.k + g * lk * d, data->k + from, (size_t)(lk * d) * sizeof(float));
        memcpy(own.v + g * lk * d, data->v + from, (size_t)(lk * d) * sizeof(float));
    }
    attend_result r = attend_execute(&one, &own, run);
    for (int64_t h = 0; h < s->num_heads; h++)
        check_same(all->out + (b * s->num_heads + h) * s->seq_len_q * d, r.out + h * lq * d, (size_t)(lq * d), "alone");
    attend_free_result(&r);
    attend_free_data(&own);
}

static void ragged(const attend_case *c, heed_isa isa)
{
    check_rng rng = check_rng_named("ragged");
    attend_data data = attend_fill(c, &rng, CHECK_NORMAL); /* NaN and Inf beyond the lengths */
    attend_run run = attend_plain(isa);
    attend_result all = attend_execute(c, &data, &run);
    int64_t bad = 0, d = c->shape.head_dim;
    for (size_t i = 0; i < attend_size_out(c); i++)
        bad += !isfinite(all.out[i]);
    CHECK(bad == 0, "%lld values are not finite", (long long)bad);
    for (int64_t b = 0; b < c->shape.batch; b++) {
        same_alone(c, &data, &all, b, &run);
        for (int64_t row = c->lengths_q ? c->lengths_q[b] : c->shape.seq_len_q; row < c->shape.seq_len_q; row++)
            if (all.out[(b * c->shape.num_heads * c->shape.seq_len_q + row) * d] != 0.0f)
                CHECK(false, "padding row %lld of %lld is not 0", (long long)row, (long long)b);
    }
    attend_free_result(&all);
    attend_free_data(&data);
}

static void e03_e06(void)
{
    static const int32_t e03[4] = { 32, 64, 96, 48 }, e06_q[4] = { 2345, 5, 3, 134 }, e06_k[4] = { 2345, 5, 16, 5131 };
    static const int32_t small_q[4] = { 234, 5, 3, 13 }, small_k[4] = { 234, 5, 16, 513 };
    static const int64_t heads[3][2] = { { 9, 3 }, { 32, 8 }, { 48, 8 } };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++) {
        attend_case c = attend_make(4, 8, 8, 1, 128, 64, 0);
        c.lengths_kv = e03;
        ragged(&c, list[i]);
        for (size_t n = 0; n < 3 && check_keep(n, 3); n++) {
            attend_case mixed = attend_make(4, heads[n][0], heads[n][1], 234, 513, n ? 24 : 96, 0);
            mixed.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
            mixed.lengths_q = small_q;
            mixed.lengths_kv = small_k;
            ragged(&mixed, list[i]);
        }
    }
    if (check_quick() || heed_isa_default() == HEED_ISA_SCALAR) {
        check_note("E06 at a tenth of its lengths only: the full size needs a vector backend");
        return;
    }
    attend_case full = attend_make(4, 9, 3, 2345, 5131, 96, 0);
    full.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    full.lengths_q = e06_q;
    full.lengths_kv = e06_k;
    ragged(&full, HEED_ISA_AUTO);
}

/* ---- F05: repeated runs with several thread counts ---- */

static void f05(void)
{
    static const int32_t threads[] = { 1, 2, 3, 6, 8, 16 };
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    check_rng rng = check_rng_named("F05");
    attend_case c = attend_make(1, 2, 2, 130, 130, 64, 0);
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    attend_run run = attend_plain(HEED_ISA_SCALAR);
    attend_result want = attend_execute(&c, &data, &run);
    for (size_t i = 0; i < count; i++)
        for (size_t t = 0; t < 6; t++)
            for (int n = 0; n < (check_quick() ? 1 : 20); n++) {
                run.options = check_options(list[i], HEED_EXP_DEFAULT, threads[t]);
                attend_result r = attend_execute(&c, &data, &run);
                attend_same(&c, &r, &want);
                attend_free_result(&r);
            }
    attend_free_result(&want);
    attend_free_data(&data);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "D05", d05 }, { "D07", d07 }, { "D08_D09_D11", d08_d09_d11 }, { "D12", d12 },
        { "D14", d14 }, { "E03_E06", e03_e06 }, { "F05", f05 } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
