/* The conversions between f32 and the 16-bit storage types: every 16-bit pattern, ties, edges and millions of floats against
 * rounding in double.
 * May know: src/convert.h, check.h.
 * Must not know: the kernels, caches. */
#include "check.h"
#include "convert.h"

#include <math.h>

enum { PATTERNS = 1 << 16, RANDOM = 2000000 };

typedef struct format {
    const char *name;
    int exponent_bits, fraction_bits;
    float (*from)(uint16_t bits);
    uint16_t (*to)(float x);
} format;

static const format formats[] = { { "f16", 5, 10, heed_from_f16, heed_to_f16 },
    { "bf16", 8, 7, heed_from_bf16, heed_to_bf16 } };
enum { FORMATS = sizeof formats / sizeof formats[0] };

static double meaning(const format *f, uint32_t bits)
{
    return check_narrow(bits, f->exponent_bits, f->fraction_bits);
}

/* To nearest even: whole units of the last place, of which no double has too many; what reaches the next power of two behind the
 * largest exponent is infinite. */
static double rounded(const format *f, double x)
{
    const int bias = (1 << (f->exponent_bits - 1)) - 1;
    int exponent;
    if (!isfinite(x) || x == 0.0)
        return x;
    frexp(x, &exponent); /* |x| in [2^(exponent - 1), 2^exponent) */
    exponent = exponent - 1 < 1 - bias ? 1 - bias : exponent - 1;
    const double unit = ldexp(1.0, exponent - f->fraction_bits), result = nearbyint(x / unit) * unit;
    return fabs(result) < ldexp(1.0, bias + 1) ? result : copysign(INFINITY, x);
}

static void check_to(const format *f, float x)
{
    const uint16_t bits = f->to(x);
    const double got = meaning(f, bits), want = rounded(f, (double)x);
    if (isnan(x) ? isnan(got) : got == want && (bits >> 15 != 0) == (signbit(x) != 0))
        return;
    CHECK(false, "%a to %s: %04x = %a, want %a", (double)x, f->name, (unsigned)bits, got, want);
}

static void every_pattern(void)
{
    for (size_t i = 0; i < FORMATS; i++)
        for (uint32_t bits = 0; bits < PATTERNS; bits++) {
            const format *f = &formats[i];
            const float got = f->from((uint16_t)bits);
            const double want = meaning(f, bits);
            const bool right = isnan(want) ? isnan(got) : (double)got == want && !signbit(got) == !(bits >> 15);
            CHECK(right, "%s %04x: %a, want %a", f->name, (unsigned)bits, (double)got, want);
            const uint16_t back = f->to(got);
            CHECK(isnan(want) ? isnan(meaning(f, back)) : back == bits, "%s %04x there and back: %04x", f->name,
                (unsigned)bits, (unsigned)back);
        }
}

/* Between neighbours: half way, and the floats on both sides of it. */
static void ties(void)
{
    for (size_t i = 0; i < FORMATS; i++)
        for (uint32_t bits = 0; bits + 1 < PATTERNS; bits++) {
            const format *f = &formats[i];
            const double low = meaning(f, bits), high = meaning(f, bits + 1);
            if (!isfinite(low) || !isfinite(high))
                continue;
            const float middle = (float)(0.5 * (low + high));
            check_to(f, middle);
            check_to(f, nextafterf(middle, INFINITY));
            check_to(f, nextafterf(middle, -INFINITY));
            CHECK(true, "ties");
        }
}

static void edges(void)
{
    static const struct {
        float x;
        uint16_t f16, bf16;
    } cases[] = { { 0.0f, 0, 0 }, { -0.0f, 0x8000, 0x8000 }, { 1.0f, 0x3c00, 0x3f80 }, { -2.0f, 0xc000, 0xc000 },
        { 65504.0f, 0x7bff, 0x4780 }, { 0x1.ffdffep15f, 0x7bff, 0x4780 }, { 65520.0f, 0x7c00, 0x4780 },
        { -65520.0f, 0xfc00, 0xc780 }, { 0x1p-24f, 1, 0x3380 }, { 0x1p-25f, 0, 0x3300 }, { 0x1.000002p-25f, 1, 0x3300 },
        { 0x1.8p-24f, 2, 0x33c0 }, { 0x1.ffep-15f, 0x0400, 0x3880 }, { 0x1p-14f, 0x0400, 0x3880 }, { 0x1p-149f, 0, 0 },
        { -0x1p-149f, 0x8000, 0x8000 }, { 0x1p-133f, 0, 1 }, { 0x1.fefffep127f, 0x7c00, 0x7f7f },
        { 0x1.ffp127f, 0x7c00, 0x7f80 }, { 0x1.fffffep127f, 0x7c00, 0x7f80 }, { INFINITY, 0x7c00, 0x7f80 },
        { -INFINITY, 0xfc00, 0xff80 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint16_t f16 = heed_to_f16(cases[i].x), bf16 = heed_to_bf16(cases[i].x);
        CHECK(f16 == cases[i].f16, "%a to f16: %04x, want %04x", (double)cases[i].x, (unsigned)f16,
            (unsigned)cases[i].f16);
        CHECK(bf16 == cases[i].bf16, "%a to bf16: %04x, want %04x", (double)cases[i].x, (unsigned)bf16,
            (unsigned)cases[i].bf16);
    }
    /* NaN of every kind, also where all that makes it one is cut off. */
    static const uint32_t nans[] = { 0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0x7f808000u };
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        CHECK(isnan(heed_from_f16(heed_to_f16(check_float(nans[i])))), "%08x to f16 is no NaN", (unsigned)nans[i]);
        CHECK(isnan(heed_from_bf16(heed_to_bf16(check_float(nans[i])))), "%08x to bf16 is no NaN", (unsigned)nans[i]);
    }
}

/* Any bits, and, for f16, exponents around its own. */
static void random_floats(void)
{
    check_rng rng = check_rng_named("random floats");
    for (uint32_t n = 0; n < RANDOM; n++) {
        if (!check_keep(n, 10))
            continue;
        const uint32_t bits = (uint32_t)check_next(&rng);
        const uint32_t near = (bits & 0x807fffffu) | (100 + (bits >> 23 & 0xff) % 46) << 23;
        check_to(&formats[0], check_float(bits));
        check_to(&formats[0], check_float(near));
        check_to(&formats[1], check_float(bits));
    }
    CHECK(true, "random floats");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "every_pattern", every_pattern }, { "ties", ties }, { "edges", edges },
        { "random_floats", random_floats } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
