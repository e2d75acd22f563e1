/* Rotary position embedding: tables against long double, their application bit for bit.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Tables ---- */

static const long double PI = 3.14159265358979323846264338327950288L;

static long double clamp(long double x)
{
    return x < 0.0L ? 0.0L : x > 1.0L ? 1.0L : x;
}

/* Llama 3.1: wave lengths above original / low are stretched, those below original / high kept, linearly between. */
static long double llama3(const heed_rope_desc *d, long double frequency)
{
    const long double wave = 2.0L * PI / frequency, original = (long double)d->original_positions;
    if (wave < original / (long double)d->high_freq_factor)
        return frequency;
    if (wave > original / (long double)d->low_freq_factor)
        return frequency / (long double)d->factor;
    const long double smooth = (original / wave - (long double)d->low_freq_factor) /
                               ((long double)d->high_freq_factor - (long double)d->low_freq_factor);
    return (1.0L - smooth) * frequency / (long double)d->factor + smooth * frequency;
}

/* The pair that turns that often within the original context. */
static long double yarn_pair(const heed_rope_desc *d, long double base, long double turns)
{
    return (long double)d->dim * logl((long double)d->original_positions / (turns * 2.0L * PI)) / (2.0L * logl(base));
}

static long double yarn(const heed_rope_desc *d, long double base, int64_t pair, long double frequency)
{
    const long double fast = d->beta_fast != 0.0 ? (long double)d->beta_fast : 32.0L;
    const long double slow = d->beta_slow != 0.0 ? (long double)d->beta_slow : 1.0L;
    const long double low = fmaxl(floorl(yarn_pair(d, base, fast)), 0.0L);
    long double high = fminl(ceill(yarn_pair(d, base, slow)), (long double)(d->dim - 1));
    if (high == low)
        high += 0.001L;
    const long double stretched = clamp(((long double)pair - low) / (high - low));
    return stretched * frequency / (long double)d->factor + (1.0L - stretched) * frequency;
}

static long double frequency_of(const heed_rope_desc *d, int64_t pair)
{
    const long double base = d->base != 0.0 ? (long double)d->base : 10000.0L;
    const long double plain = powl(base, -2.0L * (long double)pair / (long double)d->dim);
    switch (d->scaling) {
    case HEED_ROPE_LINEAR: return plain / (long double)d->factor;
    case HEED_ROPE_LLAMA3: return llama3(d, plain);
    case HEED_ROPE_YARN: return yarn(d, base, pair, plain);
    default: return plain;
    }
}

static long double magnitude_of(const heed_rope_desc *d)
{
    if (d->scaling != HEED_ROPE_YARN)
        return 1.0L;
    return d->attention_factor != 0.0 ? (long double)d->attention_factor
           : d->factor > 1.0          ? 0.1L * logl((long double)d->factor) + 1.0L
                                      : 1.0L;
}

/* One value: rounded once to float from double arithmetic, whose angle errs by a part of itself: 2^-53 for its
 * product, and what the frequency errs, which is exp of up to ln(base) in double. */
static void check_value(float got, long double want, long double angle, const heed_rope_desc *d, int64_t pair)
{
    const long double base = d->base != 0.0 ? (long double)d->base : 10000.0L;
    const long double in_frequency = pair == 0 ? 2.0L : 4.0L * logl(base) + 16.0L;
    const long double half_unit = want == 0.0L ? 0.0L : ldexpl(1.0L, (int)fmaxl(logbl(want), -126.0L) - 24);
    const long double bound = half_unit + magnitude_of(d) * (angle * in_frequency + 8.0L) * 0x1p-53L;
    CHECK(fabsl((long double)got - want) <= bound, "got %.9g, want %.9Lg within %.3Lg (pair %lld, angle %Lg)",
        (double)got, want, bound, (long long)pair, angle);
}

static void check_table(const heed_rope_desc *d, int64_t first, int64_t positions)
{
    const size_t count = (size_t)(positions * d->dim / 2);
    check_case("scaling %d dim %lld base %g factor %g from %lld", (int)d->scaling, (long long)d->dim, d->base,
        d->factor, (long long)first);
    float *cosines = check_output(count, CHECK_GUARD_BEHIND), *sines = check_output(count, CHECK_GUARD_BEFORE);
    heed_error error = { "x" };
    const heed_status status = heed_rope_table(d, first, positions, cosines, sines, &error);
    CHECK(status == HEED_OK && error.message[0] == '\0', "heed_rope_table: %d %s", (int)status, error.message);
    for (int64_t n = 0; n < (int64_t)count; n++) {
        const int64_t pair = n % (d->dim / 2);
        const long double angle = (long double)(first + n / (d->dim / 2)) * frequency_of(d, pair);
        check_value(cosines[n], magnitude_of(d) * cosl(angle), angle, d, pair);
        check_value(sines[n], magnitude_of(d) * sinl(angle), angle, d, pair);
    }
    check_free_all();
}

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
                check_table(&descs[n], firsts[f], f < 4 ? 40 : 5);
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

typedef struct rotation {
    heed_rope_pairs pairs;
    int64_t dim, width, batch, heads, seq, table_row;
    heed_strides strides;
    size_t span;
} rotation;

static rotation random_rotation(check_rng *rng)
{
    rotation r = { check_between(rng, 0, 1) ? HEED_ROPE_HALVES : HEED_ROPE_INTERLEAVED, 2 * check_between(rng, 1, 20),
        0, check_between(rng, 1, 3), check_between(rng, 1, 4), check_between(rng, 1, 9), check_between(rng, 0, 5),
        { 0, 0, 0 }, 0 };
    r.width = r.dim + check_between(rng, 0, 2) * check_between(rng, 0, 5); /* of a row: what lies behind dim stays */
    const int64_t gap = check_between(rng, 0, 3);
    if (check_between(rng, 0, 1)) {
        r.strides.seq = r.width + gap;
        r.strides.head = r.seq * r.strides.seq + gap;
        r.strides.batch = r.heads * r.strides.head;
    } else {
        r.strides.head = r.width + gap;
        r.strides.batch = r.heads * r.strides.head;
        r.strides.seq = r.batch * r.strides.batch + gap;
    }
    r.span = (size_t)((r.batch - 1) * r.strides.batch + (r.heads - 1) * r.strides.head + (r.seq - 1) * r.strides.seq +
                      r.width);
    return r;
}

static void rotate_pair(float *a, float *b, float c, float s)
{
    const float x = *a, y = *b;
    *a = x * c - y * s;
    *b = y * c + x * s;
}

static void rotate_row(const rotation *r, float *row, const float *cosines, const float *sines)
{
    for (int64_t i = 0; i < r->dim / 2; i++)
        if (r->pairs == HEED_ROPE_HALVES)
            rotate_pair(row + i, row + i + r->dim / 2, cosines[i], sines[i]);
        else
            rotate_pair(row + 2 * i, row + 2 * i + 1, cosines[i], sines[i]);
}

static void applications(void)
{
    check_rng rng = check_rng_named("rope");
    for (int n = 0; n < 200; n++) {
        const rotation r = random_rotation(&rng);
        const int64_t half = r.dim / 2;
        const size_t table = (size_t)((r.table_row + r.seq) * half);
        float *c = check_floats(table), *s = check_floats(table), *want = check_floats(r.span);
        check_fill(&rng, c, 1, table, CHECK_NORMAL);
        check_fill(&rng, s, 1, table, CHECK_NORMAL);
        check_fill(&rng, want, 1, r.span, CHECK_NORMAL);
        float *x = memcpy(check_output(r.span, CHECK_GUARD_BEHIND), want, r.span * sizeof(float));
        for (int64_t row = 0; row < r.batch * r.heads * r.seq; row++) {
            const int64_t i = row % r.seq, h = row / r.seq % r.heads, b = row / r.seq / r.heads;
            rotate_row(&r, want + b * r.strides.batch + h * r.strides.head + i * r.strides.seq,
                c + (r.table_row + i) * half, s + (r.table_row + i) * half);
        }
        check_case("pairs %d dim %lld of %lld batch %lld heads %lld seq %lld row %lld", (int)r.pairs, (long long)r.dim,
            (long long)r.width, (long long)r.batch, (long long)r.heads, (long long)r.seq, (long long)r.table_row);
        heed_error error = { "x" };
        const heed_status status = heed_rope_apply(r.pairs, r.dim, r.batch, r.heads, r.seq, x, r.strides,
            check_input(c, table, CHECK_GUARD_BEHIND), check_input(s, table, CHECK_GUARD_BEHIND), r.table_row, &error);
        CHECK(status == HEED_OK && error.message[0] == '\0', "heed_rope_apply: %d %s", (int)status, error.message);
        check_same(x, want, r.span, "rotated");
        free(c);
        free(s);
        free(want);
        check_free_all();
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
        { "table_parts", table_parts }, { "applications", applications }, { "distances", distances } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
