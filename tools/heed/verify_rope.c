/* RoPE cases: the library's tables and rotated rows, and the same in double by the formulas of the models' own code.
 * May know: the public header, verify.h.
 * Must not know: how the library computes an angle. */
#include "verify.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

heed_status verify_call_rope(const verify_case *item, const verify_data *data, float *results, heed_error *error)
{
    const heed_attention *s = &item->shape;
    verify_part parts[VERIFY_PARTS];
    verify_parts(item, parts);
    float *cosines = results + parts[0].count, *sines = cosines + parts[1].count;
    const heed_strides packed = { s->num_heads * s->seq_len_q * s->head_dim, s->seq_len_q * s->head_dim, s->head_dim };
    memcpy(results, data->inputs[0], (size_t)parts[0].count * sizeof *results);
    heed_status status = heed_rope_table(&item->rope, item->first, s->seq_len_q, cosines, sines, error);
    if (status != HEED_OK)
        return status;
    return heed_rope_apply(
        item->pairs, item->rope.dim, s->batch, s->num_heads, s->seq_len_q, results, packed, cosines, sines, 0, error);
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

/* The pair, as a real number, that turns so many times over the original positions. */
static double yarn_pair(const heed_rope_desc *d, double turns)
{
    return (double)d->dim * log((double)d->original_positions / (turns * 2.0 * pi)) / (2.0 * log(d->base));
}

/* How much of the unscaled frequency pair i keeps. */
static double kept(const heed_rope_desc *d, int64_t i, double frequency)
{
    if (d->scaling == HEED_ROPE_PLAIN)
        return 1.0;
    if (d->scaling == HEED_ROPE_LINEAR)
        return 0.0;
    if (d->scaling == HEED_ROPE_LLAMA3) {
        const double turns = (double)d->original_positions * frequency / (2.0 * pi);
        return clamp((turns - d->low_freq_factor) / (d->high_freq_factor - d->low_freq_factor), 0.0, 1.0);
    }
    const double low = fmax(floor(yarn_pair(d, d->beta_fast)), 0.0);
    const double high = fmin(ceil(yarn_pair(d, d->beta_slow)), (double)d->dim - 1.0);
    return 1.0 - clamp(((double)i - low) / (low == high ? 0.001 : high - low), 0.0, 1.0);
}

static double amplitude(const heed_rope_desc *d)
{
    return d->scaling == HEED_ROPE_YARN ? 0.1 * log(d->factor) + 1.0 : 1.0;
}

/* A table is rounded once; two computations of an angle in double differ by some of its units in the last place. */
static void refer_tables(const verify_case *item, double *cosines, double *sines, double *bounds, int64_t count)
{
    const heed_rope_desc *d = &item->rope;
    const int64_t pairs = d->dim / 2;
    for (int64_t n = 0; n < count; n++) {
        const double frequency = pow(d->base, -2.0 * (double)(n % pairs) / (double)d->dim);
        const double keep = kept(d, n % pairs, frequency);
        const int64_t row = n / pairs;
        const double position = (double)(item->first + row);
        const double angle = position * (keep * frequency + (1.0 - keep) * frequency / d->factor);
        cosines[n] = amplitude(d) * cos(angle);
        sines[n] = amplitude(d) * sin(angle);
        bounds[n] = bounds[count + n] = amplitude(d) * ((double)FLT_EPSILON / 2.0 + 1e-14 * (1.0 + position));
    }
}

/* Two products and their sum, of entries that are off by one rounding each: four roundings of |a| + |b|. */
static void rotate(double *a, double *b, double cosine, double sine, double *bounds_a, double *bounds_b, double size)
{
    const double x = *a, y = *b;
    *a = x * cosine - y * sine;
    *b = y * cosine + x * sine;
    *bounds_a = *bounds_b = 4.0 * (double)FLT_EPSILON / 2.0 * size * (fabs(x) + fabs(y)) + 0x1p-149;
}

void verify_rope_reference(const verify_case *item, const verify_data *data, double *want, double *bounds)
{
    const heed_attention *s = &item->shape;
    verify_part parts[VERIFY_PARTS];
    verify_parts(item, parts);
    const int64_t pairs = item->rope.dim / 2, table = parts[1].count;
    double *cosines = want + parts[0].count, *sines = cosines + table;
    refer_tables(item, cosines, sines, bounds + parts[0].count, table);
    for (int64_t i = 0; i < parts[0].count; i++) {
        want[i] = (double)data->inputs[0][i];
        bounds[i] = 0.0; /* what is not rotated stays as it is */
    }
    for (int64_t row = 0; row < parts[0].count / s->head_dim; row++) {
        for (int64_t i = 0; i < pairs; i++) {
            const bool halves = item->pairs == HEED_ROPE_HALVES;
            const int64_t a = row * s->head_dim + (halves ? i : 2 * i), b = a + (halves ? pairs : 1);
            const int64_t at = row % s->seq_len_q * pairs + i;
            rotate(want + a, want + b, cosines[at], sines[at], bounds + a, bounds + b, amplitude(&item->rope));
        }
    }
}
