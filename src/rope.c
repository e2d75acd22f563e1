/* Rotary position embedding: tables of cosines and sines, and their application.
 * May know: the public structs.  Must not know: layers, backends.
 * Double arithmetic of its own throughout, because libm's sin, cos and pow differ between machines in the last bit. */
#include "plan.h"

#include "log.h"

#include <math.h>

/* exp(x) for |x| < 700: 2^n times a Taylor series of degree 13 on [-ln2/2, ln2/2] (remainder below 1e-17). */
static double exp_double(double x)
{
    const double n = floor(x * 0x1.71547652b82fep0 + 0.5);
    const double r = (x - n * 0x1.62e42fefa38p-1) - n * 0x1.ef35793c7673p-45;
    double series = 1.0;
    for (int k = 13; k >= 1; k--)
        series = series * r / k + 1.0;
    return ldexp(series, (int)n);
}

/* sin and cos for 0 <= x < 2^30: a multiple of pi/2 in three parts (Cody & Waite 1980), then Taylor series on [-pi/4, pi/4]. */
static void sincos_double(double x, double *sine, double *cosine)
{
    const double n = floor(x * 0x1.45f306dc9c883p-1 + 0.5);
    const double r = ((x - n * 0x1.921fb544p0) - n * 0x1.0b4611a6p-34) - n * 0x1.3198a2e037073p-69;
    const double y = r * r;
    double s = 1.0, c = 1.0;
    for (int k = 18; k >= 2; k -= 2) {
        c = 1.0 - c * y / (k * (k - 1));
        s = 1.0 - s * y / (k * (k + 1));
    }
    s *= r;
    switch ((int64_t)n & 3) {
    case 0: *sine = s, *cosine = c; break;
    case 1: *sine = c, *cosine = -s; break;
    case 2: *sine = -s, *cosine = -c; break;
    default: *sine = -c, *cosine = s; break;
    }
}

static const double TWO_PI = 0x1.921fb54442d18p2;

static double clamp01(double x)
{
    return x < 0.0 ? 0.0 : x > 1.0 ? 1.0 : x;
}

/* Share of a frequency that is kept unscaled: 0 or below for low frequencies, 1 or above for high ones. */
static double llama3_kept(const heed_rope_desc *d, double frequency)
{
    const double turns = (double)d->original_positions * frequency / TWO_PI;
    return clamp01((turns - d->low_freq_factor) / (d->high_freq_factor - d->low_freq_factor));
}

/* YaRN blends over the index of the pair, between those that make beta_fast and beta_slow turns. */
static double yarn_kept(const heed_rope_desc *d, double base, double pair)
{
    const double slow = d->beta_slow != 0.0 ? d->beta_slow : 1.0, fast = d->beta_fast != 0.0 ? d->beta_fast : 32.0;
    const double scale = (double)d->dim / (2.0 * heed_log(base)), length = (double)d->original_positions / TWO_PI;
    const double most = (double)(d->dim - 1);
    double low = floor(scale * heed_log(length / fast)), high = ceil(scale * heed_log(length / slow));
    low = low < 0.0 ? 0.0 : low;
    high = high > most ? most : high;
    high = high == low ? high + 0.001 : high;
    return 1.0 - clamp01((pair - low) / (high - low));
}

static double frequency_of(const heed_rope_desc *d, int64_t pair)
{
    const double base = d->base != 0.0 ? d->base : 10000.0;
    const double plain = exp_double(-2.0 * (double)pair / (double)d->dim * heed_log(base));
    double kept = 1.0;
    if (d->scaling == HEED_ROPE_LINEAR)
        kept = 0.0;
    else if (d->scaling == HEED_ROPE_LLAMA3)
        kept = llama3_kept(d, plain);
    else if (d->scaling == HEED_ROPE_YARN)
        kept = yarn_kept(d, base, (double)pair);
    return d->scaling == HEED_ROPE_PLAIN ? plain : plain * kept + plain / d->factor * (1.0 - kept);
}

static double magnitude_of(const heed_rope_desc *d)
{
    if (d->scaling != HEED_ROPE_YARN)
        return 1.0;
    if (d->attention_factor != 0.0)
        return d->attention_factor;
    return d->factor > 1.0 ? 0.1 * heed_log(d->factor) + 1.0 : 1.0;
}

static heed_status check_scaling(const heed_rope_desc *d, heed_error *error)
{
    if ((int)d->scaling < HEED_ROPE_PLAIN || (int)d->scaling > HEED_ROPE_YARN)
        return heed_fail(error, HEED_ERROR_INVALID, "scaling is %d, not a value of heed_rope_scaling", (int)d->scaling);
    if (d->scaling == HEED_ROPE_PLAIN)
        return HEED_OK;
    if (!(d->factor >= 1.0) || !isfinite(d->factor))
        return heed_fail(error, HEED_ERROR_INVALID, "factor is %f, must be finite and at least 1", d->factor);
    if (d->scaling != HEED_ROPE_LINEAR && d->original_positions < 1)
        return heed_fail(error, HEED_ERROR_INVALID, "original_positions is %lld, must be at least 1",
            (long long)d->original_positions);
    if (d->scaling == HEED_ROPE_LLAMA3 &&
        !(d->low_freq_factor >= 0.0 && d->high_freq_factor > d->low_freq_factor && isfinite(d->high_freq_factor)))
        return heed_fail(error, HEED_ERROR_INVALID,
            "high_freq_factor is %f, must be finite and above low_freq_factor %f", d->high_freq_factor,
            d->low_freq_factor);
    if (d->scaling == HEED_ROPE_YARN &&
        (!(d->beta_slow >= 0.0) || !(d->beta_fast >= 0.0) || !isfinite(d->beta_slow + d->beta_fast)))
        return heed_fail(error, HEED_ERROR_INVALID, "beta_slow %f and beta_fast %f must be finite and at least 0",
            d->beta_slow, d->beta_fast);
    if (!isfinite(d->attention_factor))
        return heed_fail(error, HEED_ERROR_INVALID, "attention_factor is %f, must be finite", d->attention_factor);
    return HEED_OK;
}

static heed_status check_rope(const heed_rope_desc *d, int64_t first, int64_t positions, heed_error *error)
{
    const int64_t most = INT64_C(1) << 30; /* positions beyond lose the angle's digits */
    if (d->dim < 2 || d->dim % 2 || d->dim > most)
        return heed_fail(error, HEED_ERROR_INVALID, "dim is %lld, must be even and at least 2", (long long)d->dim);
    if (!isfinite(d->base) || (d->base != 0.0 && d->base <= 1.0))
        return heed_fail(error, HEED_ERROR_INVALID, "base is %f, must be above 1, or 0 for 10000", d->base);
    if (first < 0 || positions < 0 || first > most || positions > most)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be in 0 .. %lld",
            first < 0 || first > most ? "first_position" : "positions",
            (long long)(first < 0 || first > most ? first : positions), (long long)most);
    return check_scaling(d, error);
}

heed_status heed_rope_table(const heed_rope_desc *desc, int64_t first_position, int64_t positions, float *cosines,
    float *sines, heed_error *error)
{
    if (!desc)
        return heed_fail(error, HEED_ERROR_INVALID, "desc is NULL");
    heed_rope_desc d = HEED_ROPE_DESC_INIT;
    heed_status status = heed_copy_struct(&d, sizeof d, desc, "desc", error);
    if (status == HEED_OK)
        status = check_rope(&d, first_position, positions, error);
    if (status != HEED_OK)
        return status;
    if (positions && (!cosines || !sines))
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", cosines ? "sines" : "cosines");
    const int64_t pairs = positions ? d.dim / 2 : 0; /* an empty table takes no time, however wide */
    const double magnitude = magnitude_of(&d);
    for (int64_t i = 0; i < pairs; i++) {
        const double frequency = frequency_of(&d, i);
        for (int64_t p = 0; p < positions; p++) {
            double sine, cosine;
            sincos_double((double)(first_position + p) * frequency, &sine, &cosine);
            cosines[p * pairs + i] = (float)(cosine * magnitude);
            sines[p * pairs + i] = (float)(sine * magnitude);
        }
    }
    return heed_succeed(error);
}

/* One row: element a of each pair becomes a c - b s, element b becomes b c + a s, each product rounded. */
static void rotate_row(heed_rope_pairs pairs, int64_t dim, float *x, const float *cosines, const float *sines)
{
    const int64_t half = dim / 2, step = pairs == HEED_ROPE_HALVES ? 1 : 2,
                  apart = pairs == HEED_ROPE_HALVES ? half : 1;
    for (int64_t i = 0; i < half; i++) {
        const float a = x[i * step], b = x[i * step + apart], c = cosines[i], s = sines[i];
        x[i * step] = a * c - b * s;
        x[i * step + apart] = b * c + a * s;
    }
}

heed_status heed_rope_apply(heed_rope_pairs pairs, int64_t dim, int64_t batch, int64_t heads, int64_t seq_len, float *x,
    heed_strides strides, const float *cosines, const float *sines, int64_t table_row, heed_error *error)
{
    if (pairs != HEED_ROPE_HALVES && pairs != HEED_ROPE_INTERLEAVED)
        return heed_fail(
            error, HEED_ERROR_INVALID, "pairs is %d, must be HEED_ROPE_HALVES or HEED_ROPE_INTERLEAVED", (int)pairs);
    if (dim < 2 || dim % 2)
        return heed_fail(error, HEED_ERROR_INVALID, "dim is %lld, must be even and at least 2", (long long)dim);
    if (batch < 0 || heads < 0 || seq_len < 0 || table_row < 0)
        return heed_fail(error, HEED_ERROR_INVALID,
            "batch %lld, heads %lld, seq_len %lld and table_row %lld must be at least 0", (long long)batch,
            (long long)heads, (long long)seq_len, (long long)table_row);
    if (batch == 0 || heads == 0 || seq_len == 0)
        return heed_succeed(error);
    if (!x || !cosines || !sines)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", !x ? "x" : cosines ? "sines" : "cosines");
    if (table_row > INT64_MAX - seq_len || table_row + seq_len > (int64_t)(PTRDIFF_MAX / sizeof(float)) / dim)
        return heed_fail(error, HEED_ERROR_OVERFLOW, "table_row %lld: the tables do not fit the address space",
            (long long)table_row);
    const heed_status status = heed_check_tensor("strides", &strides, batch, heads, seq_len, dim, 1, error);
    if (status != HEED_OK)
        return status;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < seq_len; i++)
            for (int64_t h = 0; h < heads; h++) {
                const int64_t row = (table_row + i) * (dim / 2);
                rotate_row(
                    pairs, dim, x + b * strides.batch + h * strides.head + i * strides.seq, cosines + row, sines + row);
            }
    return heed_succeed(error);
}
