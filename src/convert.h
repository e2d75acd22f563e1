/* Conversions between f32 and the 16-bit storage types, element by element, from integer operations and exact float ones: what the vector
 * layers' instructions must give, and the scalar one's own.
 * May know: baseline C.  Must not know: vectors, caches.
 * To 16 bits: one rounding to nearest even, NaN stays NaN, what is too large becomes infinite.  From 16 bits: exact, whatever the host
 * does with subnormal numbers: those of f16 are made from normal ones. */
#ifndef HEED_CONVERT_H
#define HEED_CONVERT_H

#include "heed/heed.h"

#include "ieee.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint32_t heed_bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float heed_float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float heed_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = h & 0x7fffu;
    const uint32_t normal = (rest << 13) + (112u << 23); /* exponent bias 127 for 15 */
    const uint32_t special = (rest << 13) | 0x7f800000u; /* infinity, NaN */
    /* 0.5 has units of 2^-24, those of f16's subnormals. */
    const uint32_t subnormal = heed_bits_of(heed_float_of(0x3f000000u | rest) - 0.5f);
    const uint32_t finite = rest < 0x400u ? subnormal : normal;
    return heed_float_of(sign | (rest < 0x7c00u ? finite : special));
}

static inline float heed_from_bf16(uint16_t h)
{
    return heed_float_of((uint32_t)h << 16);
}

static inline uint16_t heed_to_f16(float x)
{
    const uint32_t bits = heed_bits_of(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    const uint32_t normal = ((rest + 0xfffu + (rest >> 13 & 1u)) >> 13) - (112u << 10);
    const uint32_t subnormal = heed_bits_of(heed_float_of(rest < 0x38800000u ? rest : 0u) + 0.5f) - 0x3f000000u;
    const uint32_t special = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t finite = rest < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | (rest < 0x477ff000u ? finite : special)); /* 65520 and above round to infinity */
}

static inline uint16_t heed_to_bf16(float x)
{
    const uint32_t bits = heed_bits_of(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, nan = bits >> 16 | 0x40u;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

#endif
