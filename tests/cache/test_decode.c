/* Attention over caches: the bits of plain f32 tensors with the same numbers, whatever the storage, the pages, the threads, the
 * batch and the chunks; against the oracle where storage rounds; the public cases of caches and ragged batches.
 * May know: the public header, check.h, store.h, world.h, oracle.h.
 * Must not know: anything under src/. */
#include "oracle.h"
#include "world.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t page_sizes[] = { 0, 16, 32, 64, 128 };
static const heed_layout layouts[] = { HEED_LAYOUT_BHSD, HEED_LAYOUT_BSHD, HEED_LAYOUT_STRIDED };
static const int32_t threads[] = { 1, 2, 7 };

/* Every backend, one thread and several, from the cache; want is from plain tensors. */
static void check_cache(const world *w, const store *s, const world_result *want)
{
    heed_isa isas[CHECK_MAX_BACKENDS];
    const size_t backends = check_backends(isas);
    for (size_t i = 0; i < backends; i++)
        for (size_t n = 0; n < sizeof threads / sizeof threads[0]; n++) {
            const heed_executor executor = world_executor(threads[n]);
            heed_options o = check_options(isas[i], HEED_EXP_DEFAULT, 0);
            o.executor = &executor;
            world_result got = world_run(w, s, &o);
            if (!world_same(w, &got, want))
                check_note("on %s with %d threads", heed_isa_name(isas[i]), (int)threads[n]);
            world_free_result(&got);
        }
}

static world_result plain(const world *w)
{
    const heed_options o = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
    return world_run(w, NULL, &o);
}

static void storage_changes_no_bit(void)
{
    check_rng rng = check_rng_named("storage");
    const int rounds = check_quick() ? 60 : 400;
    for (int n = 0; n < rounds; n++) {
        const heed_type type_k = (heed_type)(n % 4),
                        type_v = (heed_type)(check_between(&rng, 0, 2) ? n % 4 : n / 4 % 4);
        const int64_t page = page_sizes[check_between(&rng, 0, 4)];
        const heed_layout layout = layouts[check_between(&rng, 0, 2)];
        world w = world_random(&rng, type_k, type_v);
        const heed_attention *a = &w.shape;
        check_case("%d: k %s v %s pages %d layout %d: %dx%d/%d, %dx%d, dims %d %d, causal %d", n,
            store_type_name(type_k), store_type_name(type_v), (int)page, (int)layout, (int)a->batch, (int)a->num_heads,
            (int)a->num_kv_heads, (int)a->seq_len_q, (int)a->seq_len_kv, (int)a->head_dim, (int)a->head_dim_v,
            (int)a->causal);
        world_result want = plain(&w);
        const store s = world_store(&w, type_k, type_v, page, layout, &rng);
        check_cache(&w, &s, &want);
        world_free_result(&want);
        world_free(&w);
        check_free_all();
    }
    check_case("%s", "");
}

/* All lengths around strips, units, blocks; one, few and many rows. */
static void every_length(void)
{
    check_rng rng = check_rng_named("lengths");
    for (int64_t keys = 1; keys <= 530; keys += keys < 80 ? 1 : check_between(&rng, 1, 40))
        for (int64_t rows = 1; rows <= 8 && check_keep((size_t)keys, 5); rows = rows < 4 ? rows + 1 : rows * 2) {
            const heed_type type = (heed_type)check_between(&rng, 0, 3);
            world w = world_make(1, rows, 1, 1, keys, 24, 40, type, type, &rng);
            const int64_t page = page_sizes[check_between(&rng, 0, 4)];
            check_case("%s, pages of %d: %d rows, %d keys", store_type_name(type), (int)page, (int)rows, (int)keys);
            w.lengths[0] = (int32_t)keys;
            world_result want = plain(&w);
            const store s = world_store(&w, type, type, page, HEED_LAYOUT_BHSD, &rng);
            check_cache(&w, &s, &want);
            world_free_result(&want);
            world_free(&w);
            check_free_all();
        }
    check_case("%s", "");
}

/* From every second kv head: a block of keys, and one key more, whose value is not finite where storage can say so. */
static void hide_from_some_heads(world *w, check_rng *rng)
{
    heed_attention *a = &w->shape;
    const int64_t rows = a->seq_len_q, keys = a->seq_len_kv, group = a->num_heads / a->num_kv_heads;
    const int64_t block = check_between(rng, 0, (keys - 1) / 256) * 256, key = check_between(rng, 0, keys - 1);
    w->bias = check_floats((size_t)(a->num_heads * rows * keys));
    for (int64_t n = 0; n < a->num_heads * rows * keys; n++) {
        const int64_t j = n % keys;
        const bool hides = n / (rows * keys) / group % 2 && (j == key || (j >= block && j < block + 256));
        w->bias[n] = hides ? -INFINITY : 0.25f;
    }
    a->strides_bias = (heed_mask_strides){ 0, rows * keys, keys, 1 };
    for (int64_t head = 0; head < a->batch * a->num_kv_heads; head++)
        if (head % a->num_kv_heads % 2)
            w->v[(head * keys + key) * a->head_dim_v + check_between(rng, 0, a->head_dim_v - 1)] = NAN;
}

/* All heads of a token side by side, read by one task: few tokens and many, whole strips and rests, one to seventeen rows, tokens wider
 * than a strip allows for, and a split over threads. */
static void heads_side_by_side(void)
{
    static const int64_t keys[] = { 1, 16, 31, 33, 64, 200, 257, 1100, 2100 }, dims[] = { 8, 24, 33, 64, 300 };
    check_rng rng = check_rng_named("side");
    const int rounds = check_quick() ? 30 : 200;
    for (int n = 0; n < rounds; n++) {
        const int64_t kv_heads = check_between(&rng, 2, 8),
                      heads = kv_heads * check_between(&rng, 1, WORLD_HEADS / kv_heads);
        const int64_t rows = check_between(&rng, 1, 17 * kv_heads / heads), dim = dims[check_between(&rng, 0, 4)];
        const heed_type type_k = (heed_type)(n % 4), type_v = (heed_type)(n / 4 % 4);
        world w = world_make(check_between(&rng, 1, 2), heads, kv_heads, rows, keys[check_between(&rng, 0, 8)], dim,
            dims[check_between(&rng, 0, 4)], type_k, type_v, &rng);
        check_case("%d: k %s v %s: %dx%d/%d, %dx%d, dims %d %d", n, store_type_name(type_k), store_type_name(type_v),
            (int)w.shape.batch, (int)heads, (int)kv_heads, (int)rows, (int)w.shape.seq_len_kv, (int)dim,
            (int)w.shape.head_dim_v);
        w.shape.causal = check_between(&rng, 0, 1) ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
        for (int b = 0; b < WORLD_BATCH; b++)
            w.lengths[b] = (int32_t)(b ? check_between(&rng, 0, w.shape.seq_len_kv) : w.shape.seq_len_kv);
        if (n % 3 == 0 && type_v != HEED_TYPE_I8)
            hide_from_some_heads(&w, &rng);
        world_result want = plain(&w);
        const store s = world_store(&w, type_k, type_v, 0, HEED_LAYOUT_BSHD, &rng);
        check_cache(&w, &s, &want);
        world_free_result(&want);
        world_free(&w);
        check_free_all();
    }
    check_case("%s", "");
}

/* The last rows of a prefill, whose keys are packed and shared, and the same queries as decode steps; case F09. */
static void steps_of_a_prefill(void)
{
    check_rng rng = check_rng_named("steps");
    enum { HEADS = 4, DIM = 32, KEYS = 300 };
    static const int64_t steps[] = { 1, 2, 5, 16, 24 };
    for (int type = 0; type <= HEED_TYPE_I8; type++)
        for (size_t n = 0; n < sizeof steps / sizeof steps[0]; n++) {
            world all = world_make(1, HEADS, 2, KEYS, KEYS, DIM, DIM, (heed_type)type, (heed_type)type, &rng);
            all.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
            all.lengths[0] = KEYS;
            world_result want = plain(&all);
            world last = all;
            last.shape.seq_len_q = steps[n];
            last.q = check_floats((size_t)(HEADS * steps[n] * DIM));
            const store s = world_store(&all, (heed_type)type, (heed_type)type, page_sizes[n], HEED_LAYOUT_BHSD, &rng);
            for (int64_t h = 0; h < HEADS; h++)
                memcpy(last.q + h * steps[n] * DIM, all.q + ((h + 1) * KEYS - steps[n]) * DIM,
                    (size_t)(steps[n] * DIM) * sizeof(float));
            check_case("%s, %d rows", store_type_name((heed_type)type), (int)steps[n]);
            const heed_options o = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
            world_result whole = world_run(&all, &s, &o), got = world_run(&last, &s, &o);
            world_same(&all, &whole, &want);
            for (int64_t h = 0; h < HEADS; h++)
                check_same(got.out + h * steps[n] * DIM, want.out + ((h + 1) * KEYS - steps[n]) * DIM,
                    (size_t)(steps[n] * DIM), "step");
            free(last.q);
            world_free_result(&want);
            world_free_result(&whole);
            world_free_result(&got);
            world_free(&all);
            check_free_all();
        }
    check_case("%s", "");
}

/* Quantised keys and values against the oracle over what the integers and scales say. */
static void quantised(void)
{
    check_rng rng = check_rng_named("quantised");
    enum { B = 2, H = 4, HK = 2, LQ = 3, LK = 330, D = 48 };
    heed_isa isas[CHECK_MAX_BACKENDS];
    const size_t backends = check_backends(isas), tokens = B * HK * LK;
    world w = world_make(B, H, HK, LQ, LK, D, D, HEED_TYPE_F32, HEED_TYPE_F32, &rng);
    w.lengths[0] = w.lengths[1] = LK;
    world_result first = { NULL, NULL, NULL };
    double *k = check_malloc(tokens * D * sizeof *k), *v = check_malloc(tokens * D * sizeof *v);
    for (size_t t = 0; t < tokens; t++) {
        store_token(HEED_TYPE_I8, w.k + t * D, D, k + t * D);
        store_token(HEED_TYPE_I8, w.v + t * D, D, v + t * D);
    }
    for (size_t i = 0; i < backends; i++)
        for (size_t p = 0; p < 5; p++) {
            const store s = world_store(&w, HEED_TYPE_I8, HEED_TYPE_I8, page_sizes[p], HEED_LAYOUT_BHSD, &rng);
            const heed_options o = check_options(isas[i], HEED_EXP_DEFAULT, 1);
            check_case("%s, pages of %d", heed_isa_name(isas[i]), (int)page_sizes[p]);
            world_result got = world_run(&w, &s, &o);
            if (!first.out)
                first = got;
            else {
                world_same(&w, &got, &first);
                world_free_result(&got);
            }
            check_free_all();
        }
    double out[B * H * LQ * D];
    for (int row = 0; row < B * H * LQ; row++) {
        const double *keys = k + row / (H * LQ) * HK * LK * D + row / LQ % H / (H / HK) * LK * D;
        const double *values = v + (keys - k);
        double score[LK], most = -INFINITY, sum = 0.0;
        for (int j = 0; j < LK; j++) {
            score[j] = 0.0;
            for (int i = 0; i < D; i++)
                score[j] += (double)w.q[row * D + i] * keys[j * D + i];
            score[j] /= sqrt(D);
            most = fmax(most, score[j]);
        }
        for (int i = 0; i < D; i++)
            out[row * D + i] = 0.0;
        for (int j = 0; j < LK; j++) {
            const double p = exp(score[j] - most);
            sum += p;
            for (int i = 0; i < D; i++)
                out[row * D + i] += p * values[j * D + i];
        }
        for (int i = 0; i < D; i++)
            out[row * D + i] /= sum;
    }
    check_close(first.out, out, B * H * LQ * D, 4e-6, "int8"); /* f32 scores of about 5 err by some 1e-6 */
    free(k);
    free(v);
    world_free_result(&first);
    world_free(&w);
    check_case("%s", "");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "storage_changes_no_bit", storage_changes_no_bit },
        { "every_length", every_length }, { "heads_side_by_side", heads_side_by_side },
        { "steps_of_a_prefill", steps_of_a_prefill }, { "quantised", quantised } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
