/* Numbers as files store them, and their conversion to binary32 and binary64.
 * May know: the IEEE-754 formats and bfloat16, little and big endian.
 * Must not know: files, shapes. */
#include "element.h"

#include <math.h>
#include <string.h>

static float float_from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int64_t element_size(element_type type)
{
    switch (type) {
    case ELEMENT_F16:
    case ELEMENT_BF16: return 2;
    case ELEMENT_F64: return 8;
    case ELEMENT_U8: return 1;
    case ELEMENT_F32: break;
    }
    return 4;
}

float float_from_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000U) << 16;
    uint32_t exponent = (bits >> 10) & 0x1FU;
    uint32_t fraction = bits & 0x3FFU;
    if (exponent == 0x1F) {
        /* A signalling NaN is made quiet, as a conversion instruction does. */
        uint32_t quiet = fraction ? 0x00400000U : 0;
        return float_from_bits(sign | 0x7F800000U | quiet | fraction << 13);
    }
    if (exponent == 0) {
        /* Subnormal or zero: fraction * 2^-24 is exact in binary32. */
        float magnitude = (float)fraction * 0x1p-24F;
        return sign ? -magnitude : magnitude;
    }
    return float_from_bits(sign | (exponent + 112U) << 23 | fraction << 13);
}

float float_from_bf16(uint16_t bits)
{
    bool signals = (bits & 0x7F80U) == 0x7F80U && (bits & 0x7FU) != 0;
    return float_from_bits((uint32_t)bits << 16 | (signals ? 0x00400000U : 0));
}

/* The bytes of one element as an unsigned number. */
static uint64_t load(const uint8_t *bytes, int width, bool big_endian)
{
    uint64_t value = 0;
    for (int i = 0; i < width; i++) {
        value |= (uint64_t)bytes[big_endian ? width - 1 - i : i] << (8 * i);
    }
    return value;
}

static double load_double(const uint8_t *bytes, bool big_endian)
{
    uint64_t bits = load(bytes, 8, big_endian);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static bool f32_from_f64(double wide, float *value)
{
    /* The largest number that still rounds to FLT_MAX is below this one, which ties to infinity. */
    if (isfinite(wide) && fabs(wide) >= 0x1.ffffffp127) {
        return false;
    }
    *value = (float)wide;
    return true;
}

/* One loop per width, so that load() becomes one instruction for the byte order of the machine. */
static void convert_halves(bool brain, bool big_endian, const uint8_t *bytes, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits = (uint16_t)load(bytes + 2 * i, 2, big_endian);
        values[i] = brain ? float_from_bf16(bits) : float_from_f16(bits);
    }
}

static void convert_singles(bool big_endian, const uint8_t *bytes, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)load(bytes + 4 * i, 4, big_endian);
        memcpy(&values[i], &bits, sizeof bits);
    }
}

static void convert_bytes(const uint8_t *bytes, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) {
        values[i] = (float)bytes[i];
    }
}

static int64_t convert_doubles(bool big_endian, const uint8_t *bytes, int64_t count, float *values)
{
    for (int64_t i = 0; i < count; i++) {
        if (!f32_from_f64(load_double(bytes + 8 * i, big_endian), &values[i])) {
            return i;
        }
    }
    return -1;
}

int64_t elements_to_f32(element_type type, bool big_endian, const uint8_t *bytes, int64_t count, float *values)
{
    switch (type) {
    case ELEMENT_F16:
    case ELEMENT_BF16: convert_halves(type == ELEMENT_BF16, big_endian, bytes, count, values); return -1;
    case ELEMENT_F64: return convert_doubles(big_endian, bytes, count, values);
    case ELEMENT_U8: convert_bytes(bytes, count, values); return -1;
    case ELEMENT_F32: break;
    }
    convert_singles(big_endian, bytes, count, values);
    return -1;
}

void elements_to_f64(element_type type, bool big_endian, const uint8_t *bytes, int64_t count, double *values)
{
    for (int64_t i = 0; i < count; i++) {
        float narrow;
        const uint8_t *at = bytes + i * element_size(type);
        if (type == ELEMENT_F64) {
            values[i] = load_double(at, big_endian);
        } else {
            elements_to_f32(type, big_endian, at, 1, &narrow);
            values[i] = (double)narrow;
        }
    }
}
