/* Rotary embedding (see rope_case.h).
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "rope_case.h"

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

void rope_check_table(const heed_rope_desc *d, int64_t first, int64_t positions)
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

/* ---- Application ---- */

rope_rotation rope_random(check_rng *rng)
{
    rope_rotation r = { check_between(rng, 0, 1) ? HEED_ROPE_HALVES : HEED_ROPE_INTERLEAVED,
        2 * check_between(rng, 1, 20), 0, check_between(rng, 1, 3), check_between(rng, 1, 4), check_between(rng, 1, 9),
        check_between(rng, 0, 5), { 0, 0, 0 }, 0 };
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

static void rotate_row(const rope_rotation *r, float *row, const float *cosines, const float *sines)
{
    for (int64_t i = 0; i < r->dim / 2; i++)
        if (r->pairs == HEED_ROPE_HALVES)
            rotate_pair(row + i, row + i + r->dim / 2, cosines[i], sines[i]);
        else
            rotate_pair(row + 2 * i, row + 2 * i + 1, cosines[i], sines[i]);
}

void rope_check_rotation(const rope_rotation *r, check_rng *rng)
{
    const int64_t half = r->dim / 2;
    const size_t table = (size_t)((r->table_row + r->seq) * half);
    float *c = check_floats(table), *s = check_floats(table), *want = check_floats(r->span);
    check_fill(rng, c, 1, table, CHECK_NORMAL);
    check_fill(rng, s, 1, table, CHECK_NORMAL);
    check_fill(rng, want, 1, r->span, CHECK_NORMAL);
    float *x = memcpy(check_output(r->span, CHECK_GUARD_BEHIND), want, r->span * sizeof(float));
    for (int64_t row = 0; row < r->batch * r->heads * r->seq; row++) {
        const int64_t i = row % r->seq, h = row / r->seq % r->heads, b = row / r->seq / r->heads;
        rotate_row(r, want + b * r->strides.batch + h * r->strides.head + i * r->strides.seq,
            c + (r->table_row + i) * half, s + (r->table_row + i) * half);
    }
    check_case("pairs %d dim %lld of %lld batch %lld heads %lld seq %lld row %lld", (int)r->pairs, (long long)r->dim,
        (long long)r->width, (long long)r->batch, (long long)r->heads, (long long)r->seq, (long long)r->table_row);
    heed_error error = { "x" };
    const heed_status status = heed_rope_apply(r->pairs, r->dim, r->batch, r->heads, r->seq, x, r->strides,
        check_input(c, table, CHECK_GUARD_BEHIND), check_input(s, table, CHECK_GUARD_BEHIND), r->table_row, &error);
    CHECK(status == HEED_OK && error.message[0] == '\0', "heed_rope_apply: %d %s", (int)status, error.message);
    check_same(x, want, r->span, "rotated");
    free(c);
    free(s);
    free(want);
    check_free_all();
}
