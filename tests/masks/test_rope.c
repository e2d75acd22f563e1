/* Rotary position embedding: tables against long double, their application bit for bit.
 * May know: the public header, rope_case.h, check.h.
 * Must not know: anything under src/. */
#include "rope_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables ---- */

/* Values of published models, and the ends of what the fields may hold.  The last three have YaRN's first pair below
 * 0, its last beyond the pairs, and both at 0. */
static const heed_rope_desc descs[] = {
    { sizeof(heed_rope_desc), 128, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 },
    { sizeof(heed_rope_desc), 2, 10000, HEED_ROPE_PLAIN, 0, 0, 0, 0, 0, 0, 0 },
    { sizeof(heed_rope_desc), 64, 1e6, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 },
    { sizeof(heed_rope_desc), 10, 1.0001, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 },
    { sizeof(heed_rope_desc), 6, 1e300, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 },
    { sizeof(heed_rope_desc), 96, 10000, HEED_ROPE_LINEAR, 4, 0, 0, 0, 0, 0, 0 },
    { sizeof(heed_rope_desc), 128, 500000, HEED_ROPE_LLAMA3, 8, 1, 4, 0, 0, 0, 8192 },
    { sizeof(heed_rope_desc), 64, 500000, HEED_ROPE_LLAMA3, 32, 1, 4, 0, 0, 0, 8192 },
    { sizeof(heed_rope_desc), 128, 1e6, HEED_ROPE_YARN, 4, 0, 0, 0, 0, 0, 32768 },
    { sizeof(heed_rope_desc), 64, 10000, HEED_ROPE_YARN, 40, 0, 0, 1, 32, 1.0, 4096 },
    { sizeof(heed_rope_desc), 128, 10000, HEED_ROPE_YARN, 16, 0, 0, 2, 20, 0, 4096 },
    { sizeof(heed_rope_desc), 16, 10000, HEED_ROPE_YARN, 1, 0, 0, 0, 0, 0, 1 },
    { sizeof(heed_rope_desc), 8, 100, HEED_ROPE_YARN, 2.5, 0, 0, 0.5, 0.5, 0.75, 50 },
    { sizeof(heed_rope_desc), 16, 10000, HEED_ROPE_YARN, 4, 0, 0, 0, 0, 0, 100 },
    { sizeof(heed_rope_desc), 16, 7, HEED_ROPE_YARN, 4, 0, 0, 0, 0, 0, 300 },
    { sizeof(heed_rope_desc), 16, 10000, HEED_ROPE_YARN, 4, 0, 0, 0, 0, 0, 6 },
};
enum { DESCS = sizeof descs / sizeof descs[0] };

static void tables(void)
{
    static const int64_t firsts[] = { 0, 1000, 131071, (INT64_C(1) << 23) - 7, (INT64_C(1) << 30) - 5 };
    for (size_t n = 0; n < DESCS; n++)
        for (size_t f = 0; f < 5; f++)
            if (check_keep(n * 5 + f, 4))
                rope_check_table(&descs[n], firsts[f], f < 4 ? 40 : 5);
}

/* Llama 3.1 keeps pairs of wave lengths below 2048, stretches those above 8192 by 8; YaRN stretches the last pairs. */
static void scaled_frequencies(void)
{
    float cosines[64], sines[64], plain_c[64], plain_s[64], stretched_c[64], stretched_s[64];
    heed_rope_desc plain = descs[6], stretched = descs[6];
    plain.scaling = HEED_ROPE_PLAIN;
    stretched.scaling = HEED_ROPE_LINEAR;
    CHECK(heed_rope_table(&descs[6], 3, 1, cosines, sines, NULL) == HEED_OK, "llama3");
    CHECK(heed_rope_table(&plain, 3, 1, plain_c, plain_s, NULL) == HEED_OK, "plain");
    CHECK(heed_rope_table(&stretched, 3, 1, stretched_c, stretched_s, NULL) == HEED_OK, "linear");
    int kept = 0, slowed = 0;
    for (int i = 0; i < 64; i++) {
        kept += check_bits(sines[i]) == check_bits(plain_s[i]) && check_bits(cosines[i]) == check_bits(plain_c[i]);
        slowed += check_bits(sines[i]) == check_bits(stretched_s[i]);
    }
    /* 2 pi base^(2i/128) < 2048 for i <= 28, > 8192 for i >= 35 */
    CHECK(kept == 29 && slowed == 29, "%d pairs kept, %d stretched by 8", kept, slowed);
}

/* Nothing to write is nothing to compute: otherwise this takes a minute. */
static void empty_tables(void)
{
    heed_rope_desc desc = HEED_ROPE_DESC_INIT;
    desc.dim = INT64_C(1) << 30;
    for (int n = 0; n < 100; n++)
        CHECK(heed_rope_table(&desc, 0, 0, NULL, NULL, NULL) == HEED_OK, "no positions");
}

/* A table from position n on is the whole one from its row n on. */
static void table_parts(void)
{
    for (size_t n = 0; n < DESCS; n++) {
        const size_t row = (size_t)descs[n].dim / 2;
        float *c = check_floats(20 * row), *s = check_floats(20 * row), *c2 = check_floats(9 * row),
              *s2 = check_floats(9 * row);
        CHECK(heed_rope_table(&descs[n], 100, 20, c, s, NULL) == HEED_OK, "whole");
        CHECK(heed_rope_table(&descs[n], 111, 9, c2, s2, NULL) == HEED_OK, "part");
        check_same(c2, c + 11 * row, 9 * row, "cosines");
        check_same(s2, s + 11 * row, 9 * row, "sines");
        CHECK(heed_rope_table(&descs[n], 5, 0, NULL, NULL, NULL) == HEED_OK, "no positions");
        float *const all[] = { c, s, c2, s2 };
        for (int i = 0; i < 4; i++)
            free(all[i]);
    }
}

/* ---- Application ---- */

static void applications(void)
{
    check_rng rng = check_rng_named("rope");
    for (int n = 0; n < 200; n++) {
        const rope_rotation r = rope_random(&rng);
        rope_check_rotation(&r, &rng);
    }
}

/* Scores depend on the distance of positions alone: what the embedding is for. */
static void distances(void)
{
    enum { D = 32, L = 64 };
    check_rng rng = check_rng_named("rope distances");
    static float c[L * D / 2], s[L * D / 2], q[L * D], k[L * D];
    const heed_strides strides = { 0, 0, D };
    heed_rope_desc desc = HEED_ROPE_DESC_INIT;
    desc.dim = D;
    CHECK(heed_rope_table(&desc, 0, L, c, s, NULL) == HEED_OK, "table");
    for (int pairs = HEED_ROPE_HALVES; pairs <= HEED_ROPE_INTERLEAVED; pairs++) {
        check_fill(&rng, q, 1, D, CHECK_NORMAL);
        check_fill(&rng, k, 1, D, CHECK_NORMAL);
        double size = 0.0;
        for (int d = 0; d < D; d++)
            size += fabs((double)q[d]) + fabs((double)k[d]);
        for (int i = 1; i < L; i++) {
            memcpy(q + i * D, q, D * sizeof *q);
            memcpy(k + i * D, k, D * sizeof *k);
        }
        const float first = q[0];
        heed_rope_apply((heed_rope_pairs)pairs, D, 1, 1, L, q, strides, c, s, 0, NULL);
        heed_rope_apply((heed_rope_pairs)pairs, D, 1, 1, L, k, strides, c, s, 0, NULL);
        CHECK(q[0] == first && q[D] != first, "position 0 is not rotated, position 1 is");
        for (int i = 0; i + 7 < L; i++) {
            double near = 0.0, far = 0.0;
            for (int d = 0; d < D; d++) {
                near += (double)q[(i + 7) * D + d] * (double)k[i * D + d];
                far += (double)q[(L - 1) * D + d] * (double)k[(L - 8) * D + d];
            }
            CHECK(
                fabs(near - far) <= 16.0 * 0x1p-24 * size * size, "distance 7 at %d: %g, at the end %g", i, near, far);
        }
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "tables", tables }, { "scaled_frequencies", scaled_frequencies },
        { "empty_tables", empty_tables }, { "table_parts", table_parts }, { "applications", applications },
        { "distances", distances } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
