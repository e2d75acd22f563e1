/* What a cache holds, in double: the reference of attention over it is that of plain attention on these values.
 * May know: verify.h, command.h for memory, the storage types.
 * Must not know: the library's functions. */
#include "command.h"
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Bits of a fraction with the leading one, least exponent of a normal number, largest number. */
typedef struct format {
    int digits, least;
    double largest;
} format;

static format format_of(heed_type type)
{
    return type == HEED_TYPE_F16 ? (format){ 11, -14, 65504.0 } : (format){ 8, -126, 0x1.FEp127 };
}

/* To nearest even in the type's own unit; nearbyint rounds so. */
static double rounded(double value, heed_type type)
{
    const format f = format_of(type);
    int exponent = 0;
    if (!isfinite(value) || value == 0.0)
        return value;
    frexp(value, &exponent);
    const int least = exponent - 1 < f.least ? f.least : exponent - 1;
    const double unit = ldexp(1.0, least + 1 - f.digits), near = nearbyint(value / unit) * unit;
    return fabs(near) > f.largest ? copysign(INFINITY, value) : near;
}

uint16_t verify_encode(float value, heed_type type)
{
    const format f = format_of(type);
    const double near = rounded((double)value, type), magnitude = fabs(near);
    const unsigned sign = signbit(value) ? 0x8000u : 0, infinite = type == HEED_TYPE_F16 ? 0x7C00u : 0x7F80u;
    if (!isfinite(near))
        return (uint16_t)(sign | infinite | (isnan(near) ? 1u << (f.digits - 2) : 0));
    int exponent = 0;
    frexp(magnitude, &exponent);
    const int power = magnitude == 0.0 || exponent - 1 < f.least ? f.least : exponent - 1;
    const unsigned steps = (unsigned)ldexp(magnitude, f.digits - 1 - power);
    const unsigned one = 1u << (f.digits - 1); /* a normal number has it; it is not stored */
    const unsigned field = steps < one ? 0u : (unsigned)(power - f.least + 1);
    return (uint16_t)(sign | field << (f.digits - 1) | (steps & (one - 1)));
}

/* int8: one scale a row, its largest magnitude / 127; NaN and infinity make it NaN.  The products are rounded to f32
 * here, which allow_scales knows. */
static void quantise(float *row, int64_t width)
{
    float most = 0.0f;
    for (int64_t i = 0; i < width; i++)
        most = isfinite(row[i]) && !isnan(most) ? fmaxf(most, fabsf(row[i])) : NAN;
    const float scale = most / 127.0f;
    for (int64_t i = 0; i < width; i++)
        row[i] = scale == 0.0f ? 0.0f : fminf(fmaxf(nearbyintf(row[i] / scale), -127.0f), 127.0f) * scale;
}

static float *stored_copy(const float *values, int64_t count, int64_t width, heed_type type)
{
    float *copy = allocate_array(count, sizeof *copy);
    if (!copy)
        return NULL;
    memcpy(copy, values, (size_t)count * sizeof *copy);
    for (int64_t i = 0; type == HEED_TYPE_I8 && i < count; i += width)
        quantise(copy + i, width);
    for (int64_t i = 0; (type == HEED_TYPE_F16 || type == HEED_TYPE_BF16) && i < count; i++)
        copy[i] = (float)rounded((double)copy[i], type);
    return copy;
}

/* The last rounding, of an output of a 16-bit type: half a unit of the value. */
static void allow_rounding(const verify_case *item, const double *want, double *bounds)
{
    const heed_attention *s = &item->shape;
    if (s->type_out == HEED_TYPE_F32)
        return;
    const format f = format_of(s->type_out);
    for (int64_t i = 0; i < s->batch * s->num_heads * s->seq_len_q * s->head_dim_v; i++)
        bounds[i] += ldexp(fabs(want[i]) + bounds[i], -f.digits) + ldexp(1.0, f.least - f.digits);
}

static double largest_norm(const float *values, int64_t count, int64_t width)
{
    double most = 0.0;
    for (int64_t row = 0; row < count; row += width) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; i++)
            sum += (double)values[row + i] * (double)values[row + i];
        most = isfinite(sum) && sum > most ? sum : most;
    }
    return sqrt(most);
}

/* Scales are one rounding more of a score and of a value, and one of the number itself above: as far as that moves a row's
 * weights, by twice the error of the scores, and their mean of the values. */
static void allow_scales(const verify_case *item, const verify_data *stored, double *bounds)
{
    const heed_attention *s = &item->shape;
    verify_part parts[VERIFY_PARTS];
    const double scale = s->scale != 0.0f ? fabs((double)s->scale) : 1.0 / sqrt((double)s->head_dim);
    const double q = largest_norm(stored->inputs[0], stored->counts[0], s->head_dim);
    const double k = largest_norm(stored->inputs[1], stored->counts[1], s->head_dim);
    const double v = largest_norm(stored->inputs[2], stored->counts[2], 1);
    const double score = s->type_k == HEED_TYPE_I8 ? 0x1p-23 * scale * q * k : 0.0;
    const double value = s->type_v == HEED_TYPE_I8 ? 0x1p-23 * v : 0.0;
    for (int part = 0, count = verify_parts(item, parts); part < count; bounds += parts[part++].count)
        for (int64_t i = 0; i < parts[part].count; i++)
            bounds[i] += part == 0 ? 2.0 * score * v + value : 2.0 * score;
}

bool verify_decode_reference(const verify_case *item, const verify_data *data, double *want, double *bounds)
{
    const heed_attention *s = &item->shape;
    verify_case plain = *item;
    verify_data stored = *data;
    plain.pieces = 0;
    stored.inputs[0] = stored_copy(data->inputs[0], data->counts[0], s->head_dim, s->type_q);
    stored.inputs[1] = stored_copy(data->inputs[1], data->counts[1], s->head_dim, s->type_k);
    stored.inputs[2] = stored_copy(data->inputs[2], data->counts[2], s->head_dim_v, s->type_v);
    const bool done =
        stored.inputs[0] && stored.inputs[1] && stored.inputs[2] && verify_reference(&plain, &stored, want, bounds);
    if (done) {
        allow_scales(item, &stored, bounds);
        allow_rounding(item, want, bounds);
    }
    for (int i = 0; i < 3; i++)
        free(stored.inputs[i]);
    return done;
}
