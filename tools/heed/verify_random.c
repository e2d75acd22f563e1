/* Random numbers that are the same on every machine: xoshiro256** seeded by splitmix64, integers and powers of two.
 * May know: verify.h.
 * Must not know: libm, what the numbers are used for. */
#include "verify.h"

#include <string.h>

const uint64_t verify_hash_start = 0xCBF29CE484222325u;

uint64_t verify_hash(uint64_t hash, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001B3u;
    return hash;
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t split(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

verify_random verify_random_seeded(uint64_t seed)
{
    verify_random random;
    for (int i = 0; i < 4; i++)
        random.state[i] = split(&seed);
    return random;
}

static uint64_t rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

/* xoshiro256** (Blackman, Vigna 2018). */
static uint64_t next(verify_random *random)
{
    uint64_t *s = random->state;
    uint64_t result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* The difference of two 23-bit integers has 24 bits: exact in binary32, as is the division by a power of two. */
static float plain(uint64_t bits)
{
    int32_t a = (int32_t)(bits & 0x7FFFFF), b = (int32_t)(bits >> 23 & 0x7FFFFF);
    return (float)(a - b) * (1.0f / 4194304.0f);
}

static float heavy(uint64_t bits)
{
    float value = plain(bits);
    for (int i = 46; i < 60 && (bits >> i & 1); i++)
        value *= 2.0f;
    return value;
}

static float subnormal(uint64_t bits)
{
    uint32_t word = (uint32_t)(bits & 0x807FFFFF);
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float one(verify_random *random, verify_fill kind)
{
    uint64_t bits = next(random);
    if (kind == FILL_LARGE)
        return 64.0f * plain(bits);
    if (kind == FILL_HEAVY)
        return heavy(bits);
    return kind == FILL_SUBNORMAL ? subnormal(bits) : plain(bits);
}

static void fill_row(verify_random *random, verify_fill kind, float unit, int64_t width, float *row)
{
    uint64_t draw = kind == FILL_ONE_HOT || kind == FILL_CONSTANT ? next(random) : 0;
    for (int64_t i = 0; i < width; i++) {
        if (kind == FILL_ONE_HOT)
            row[i] = i == (int64_t)(draw % (uint64_t)width) ? 8.0f : 0.0f;
        else
            row[i] = unit * (kind == FILL_CONSTANT ? plain(draw) : one(random, kind));
    }
}

void verify_fill_rows(verify_random *random, verify_fill kind, float unit, int64_t rows, int64_t width, float *values)
{
    for (int64_t r = 0; r < rows; r++)
        fill_row(random, kind, unit, width, values + r * width);
}
