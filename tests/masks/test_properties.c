/* Two ways of saying the same thing have the same bits: masks for windows, -inf for masks, parts for the whole.
 * May know: the public header, masked.h, check.h.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Problems of a test: many small ones, some of several tasks and blocks; fewer of both in quick mode. */
static int rounds(int many)
{
    return check_quick() ? (many + 9) / 10 : many;
}

static masked problem(check_rng *rng, int round)
{
    return masked_random(rng, round % 12 == 7);
}

/* Indices of a row [batch][head][query]. */
typedef struct place {
    int64_t b, h, i;
} place;

static place place_of(const masked *m, int64_t row)
{
    const heed_attention *a = &m->shape;
    const place p = { row / a->seq_len_q / a->num_heads, row / a->seq_len_q % a->num_heads, row % a->seq_len_q };
    return p;
}

/* What the problem sees, bias of -inf included, as a full mask. */
static void mask_of_all(masked *m)
{
    const masked before = *m;
    m->mask = NULL;
    masked_full_mask(m);
    for (int64_t row = 0; row < masked_rows(m); row++)
        for (int64_t j = 0; j < m->shape.seq_len_kv; j++) {
            const place p = place_of(m, row);
            m->mask[masked_place(m, p.b, p.h, p.i, j)] = masked_sees(&before, p.b, p.h, p.i, j);
        }
    free(before.mask);
}

/* ---- Hiding in other words ---- */

static void window_as_mask(void)
{
    check_rng rng = check_rng_named("window as mask");
    for (int n = 0; n < rounds(100); n++) {
        masked m = problem(&rng, n);
        if (m.shape.causal > HEED_CAUSAL_BOTTOM_RIGHT) { /* ALiBi needs the position, which the mask does not tell */
            free(m.slopes);
            m.slopes = NULL;
        }
        if (n % 3 == 0)
            m.shape.window_left = check_between(&rng, 0, 40);
        masked c = masked_copy(&m);
        mask_of_all(&c);
        c.shape.causal = HEED_CAUSAL_NONE;
        c.shape.window_left = c.shape.window_right = -1;
        masked_both(&c, &m);
        masked_free(&c);
        masked_free(&m);
    }
}

/* The mask as a full bias of -inf, added to the bias that was there. */
static void bias_of_mask(masked *m)
{
    const masked before = *m;
    m->bias = NULL;
    masked_full_bias(m);
    for (int64_t row = 0; row < masked_rows(m); row++)
        for (int64_t j = 0; j < m->shape.seq_len_kv; j++) {
            const place p = place_of(m, row);
            float *bias = m->bias + masked_place(m, p.b, p.h, p.i, j);
            if (before.bias)
                *bias = before.bias[masked_at(&before.shape.strides_bias, p.b, p.h, p.i, j)];
            if (!m->mask[masked_at(&m->shape.strides_mask, p.b, p.h, p.i, j)])
                *bias = -INFINITY;
        }
    free(before.bias);
    free(m->mask);
    m->mask = NULL;
}

static void mask_as_bias(void)
{
    check_rng rng = check_rng_named("mask as bias");
    for (int n = 0; n < rounds(100); n++) {
        masked m = problem(&rng, n);
        if (!m.mask)
            masked_add_mask(&m, &rng, (unsigned)check_between(&rng, 0, 15));
        masked c = masked_copy(&m);
        bias_of_mask(&c);
        masked_both(&c, &m);
        masked_free(&c);
        masked_free(&m);
    }
}

static void blocks_as_mask(void)
{
    check_rng rng = check_rng_named("blocks as mask");
    for (int n = 0; n < rounds(100); n++) {
        masked m = problem(&rng, n);
        masked_add_blocks(&m, &rng, check_between(&rng, 1, 40), check_between(&rng, 1, n % 2 ? 20 : 300));
        masked c = masked_copy(&m);
        mask_of_all(&c);
        free(c.blocks);
        c.blocks = NULL;
        masked_both(&c, &m);
        masked_free(&c);
        masked_free(&m);
    }
}

/* Lengths move positions where they are counted from the end, so only without those. */
static void lengths_as_mask(void)
{
    check_rng rng = check_rng_named("lengths as mask");
    for (int n = 0; n < rounds(100); n++) {
        masked m = problem(&rng, n);
        m.shape.causal = n % 2 ? HEED_CAUSAL_TOP_LEFT : HEED_CAUSAL_OFFSET;
        masked_add_lengths(&m, &rng, n % 3 != 0, n % 3 != 1);
        masked c = masked_copy(&m);
        mask_of_all(&c);
        free(c.lengths_q);
        free(c.lengths_kv);
        c.lengths_q = c.lengths_kv = NULL;
        masked_both(&c, &m);
        masked_free(&c);
        masked_free(&m);
    }
}

/* Hides all keys but one from all rows. */
static void show_one(masked *m, check_rng *rng, int way, int64_t key)
{
    const int64_t keys = m->shape.seq_len_kv;
    if (way == 0)
        masked_full_mask(m);
    if (way == 1)
        masked_full_bias(m);
    if (way == 2)
        masked_add_blocks(m, rng, m->shape.seq_len_q, 1);
    for (int64_t j = 0; way == 2 && j < keys; j++)
        m->blocks[j] = j == key;
    for (int64_t n = 0; way < 2 && n < masked_rows(m) * keys; n++) {
        if (way == 0)
            m->mask[n] = n % keys == key;
        if (way == 1)
            m->bias[n] = n % keys == key ? 1.0f : -INFINITY;
    }
}

/* The only visible key, at the edges of vectors and of blocks, has weight 1: out is its value bit for bit. */
static void one_visible_key(void)
{
    enum { DIM = 8, KEYS = 520 };
    static const int64_t places[] = { 0, 15, 16, 255, 256, 511, 512, KEYS - 1 };
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    check_rng rng = check_rng_named("one visible key");
    for (int n = 0; n < 8 * 3 * 2; n++) {
        const int64_t key = places[n % 8];
        masked m = masked_make(&rng, 1, 1, 1, n < 24 ? 3 : 120, KEYS, DIM, DIM);
        show_one(&m, &rng, n / 8 % 3, key);
        for (size_t i = 0; i < count; i++) {
            const masked_run run = masked_plain(list[i]);
            masked_result r = masked_execute(&m, &run);
            for (int64_t row = 0; row < masked_rows(&m); row++)
                check_same(r.out + row * DIM, m.v + key * DIM, DIM, "the value of the only key");
            masked_free_result(&r);
        }
        masked_free(&m);
    }
}

/* ---- ALiBi ---- */

static int64_t position(const masked *m, int64_t b, int64_t i)
{
    const int64_t keys = m->lengths_kv ? m->lengths_kv[b] : m->shape.seq_len_kv,
                  queries = m->lengths_q ? m->lengths_q[b] : m->shape.seq_len_q;
    return m->shape.causal == HEED_CAUSAL_TOP_LEFT ? i
           : m->shape.causal == HEED_CAUSAL_OFFSET || m->shape.causal == HEED_CAUSAL_NONE_OFFSET
               ? i + m->shape.causal_offset
               : i + keys - queries;
}

/* A bias in place of the slopes; returns the greatest rounding error of it. */
static double slopes_to_bias(masked *m)
{
    double worst = 0.0;
    masked_full_bias(m);
    for (int64_t row = 0; row < masked_rows(m); row++)
        for (int64_t j = 0; j < m->shape.seq_len_kv; j++) {
            const place p = place_of(m, row);
            const double exact = (double)m->slopes[p.h] * (double)(j - position(m, p.b, p.i));
            float *bias = m->bias + masked_place(m, p.b, p.h, p.i, j);
            *bias = (float)exact;
            worst = fmax(worst, fabs((double)*bias - exact));
        }
    free(m->slopes);
    m->slopes = NULL;
    return worst;
}

/* With slopes of few digits slope times distance is exact, and both ways round the same sum once. */
static void slopes_as_bias(void)
{
    check_rng rng = check_rng_named("slopes as bias");
    for (int n = 0; n < rounds(100); n++) {
        masked m = problem(&rng, n);
        free(m.bias);
        m.bias = NULL;
        masked_add_slopes(&m, &rng);
        for (int64_t h = 0; h < m.shape.num_heads && n % 2; h++)
            m.slopes[h] = (float)check_between(&rng, -255, 255) * 0x1p-8f;
        masked c = masked_copy(&m);
        const double rounding = slopes_to_bias(&c);
        CHECK(n % 2 == 0 || rounding == 0.0, "a slope of 8 bits is not exact");
        if (n % 2) {
            masked_both(&c, &m);
        } else {
            const masked_run run = masked_plain(HEED_ISA_AUTO);
            masked_result r = masked_execute(&c, &run);
            masked_check_near(&m, &r, rounding);
            masked_free_result(&r);
        }
        masked_free(&c);
        masked_free(&m);
    }
}

/* ---- Heads, batches, parts ---- */

static float *repeat_heads(const float *from, int64_t heads, int64_t group, size_t size)
{
    float *to = check_floats((size_t)(heads * group) * size);
    for (int64_t h = 0; h < heads * group; h++)
        memcpy(to + (size_t)h * size, from + (size_t)(h / group) * size, size * sizeof *to);
    return to;
}

static void repeated_heads(void)
{
    check_rng rng = check_rng_named("repeated heads");
    for (int n = 0; n < rounds(80); n++) {
        masked m = problem(&rng, n);
        const heed_attention *a = &m.shape;
        masked c = masked_copy(&m);
        const int64_t heads = a->batch * a->num_kv_heads, group = a->num_heads / a->num_kv_heads;
        free(c.k);
        free(c.v);
        c.shape.num_kv_heads = a->num_heads;
        c.k = repeat_heads(m.k, heads, group, (size_t)(a->seq_len_kv * a->head_dim));
        c.v = repeat_heads(m.v, heads, group, (size_t)(a->seq_len_kv * a->head_dim_v));
        masked_both(&c, &m);
        masked_free(&c);
        masked_free(&m);
    }
}

/* Runs the part on every backend against the same rows of the whole. */
static void same_as_part(const masked *m, const masked_range *range, masked_storage storage)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    masked part = masked_part(m, range);
    for (size_t i = 0; i < count; i++) {
        masked_run run = masked_plain(list[i]);
        masked_result got = masked_execute(&part, &run);
        run.storage = storage;
        masked_result all = masked_execute(m, &run);
        masked_same_part(m, &all, &part, &got, range);
        masked_free_result(&all);
        masked_free_result(&got);
    }
    masked_free(&part);
}

/* A sequence of a batch, padded or packed, is what it is alone and without padding, whatever lies beside it. */
static void separate_calls(void)
{
    check_rng rng = check_rng_named("separate calls");
    for (int n = 0; n < rounds(80); n++) {
        masked m = problem(&rng, n);
        masked_add_lengths(&m, &rng, n % 5 != 0, n % 5 != 1);
        const int64_t b = check_between(&rng, 0, m.shape.batch - 1), d = m.shape.head_dim;
        const masked_range range = masked_sequence(&m, b);
        const size_t keys = (size_t)(m.shape.num_kv_heads * m.shape.seq_len_kv);
        for (int64_t other = 0; other < m.shape.batch; other++)
            if (other != b && n % 2)
                for (size_t i = 0; i < keys * (size_t)d; i++)
                    m.k[(size_t)other * keys * (size_t)d + i] = NAN;
        if (range.end_q > 0)
            same_as_part(&m, &range, (masked_storage)(n % MASKED_STORAGE_COUNT));
        masked_free(&m);
    }
}

static int64_t border(check_rng *rng, const uint8_t *blocks, int64_t block, int64_t most)
{
    const int64_t at = check_between(rng, 0, most);
    return blocks ? at / block * block : at;
}

/* Queries in chunks, each with the offset of its first query. */
static void chunked_queries(void)
{
    check_rng rng = check_rng_named("chunked queries");
    for (int n = 0; n < rounds(80); n++) {
        masked m = problem(&rng, n);
        const int64_t b = check_between(&rng, 0, m.shape.batch - 1), queries = masked_sequence(&m, b).end_q;
        masked_range range = masked_sequence(&m, b);
        for (range.first_q = 0; range.first_q < queries; range.first_q = range.end_q) {
            range.end_q = border(&rng, m.blocks, m.shape.block_mask_q, queries);
            if (range.end_q <= range.first_q)
                range.end_q = queries;
            same_as_part(&m, &range, MASKED_BHSD);
        }
        masked_free(&m);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "window_as_mask", window_as_mask }, { "mask_as_bias", mask_as_bias },
        { "blocks_as_mask", blocks_as_mask }, { "lengths_as_mask", lengths_as_mask },
        { "one_visible_key", one_visible_key }, { "slopes_as_bias", slopes_as_bias },
        { "repeated_heads", repeated_heads }, { "separate_calls", separate_calls },
        { "chunked_queries", chunked_queries } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
