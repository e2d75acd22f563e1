/* Conversion of file elements to binary32 and binary64: every f16, bf16 and u8 value, the edges of f64.
 * May know: element.h.
 * Must not know: how element.c does it. */
#include "check.h"
#include "element.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void check_value(uint32_t bits, float got, double want)
{
    if (isnan(want)) {
        CHECK(isnan(got), "bits %04x: %g is no NaN", bits, (double)got);
    } else {
        CHECK((double)got == want, "bits %04x: %g, not %g", bits, (double)got, want);
    }
    CHECK((signbit(got) != 0) == (bits >> 15 != 0), "bits %04x: wrong sign", bits);
}

static void test_f16(void)
{
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        check_value(bits, float_from_f16((uint16_t)bits), check_narrow(bits, 5, 10));
    }
}

static void test_bf16(void)
{
    for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
        check_value(bits, float_from_bf16((uint16_t)bits), check_narrow(bits, 8, 7));
    }
}

/* The low byte first; big: last. */
static void store(uint8_t *bytes, uint64_t bits, int width, bool big)
{
    for (int i = 0; i < width; i++) {
        bytes[big ? width - 1 - i : i] = (uint8_t)(bits >> (8 * i));
    }
}

static int64_t convert_f64(double value, bool big, float *got)
{
    uint8_t bytes[8];
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    store(bytes, bits, 8, big);
    return elements_to_f32(ELEMENT_F64, big, bytes, 1, got);
}

static void test_f64_edges(void)
{
    static const struct {
        double value;
        float want;
    } cases[] = { { 0.0, 0.0f }, { -0.0, -0.0f }, { 1.0, 1.0f }, { -1.5, -1.5f }, { 0x1.000001p0, 1.0f },
        { 0x1.0000010000001p0, 0x1.000002p0f }, { 0x1.000003p0, 0x1.000004p0f }, { 0x1p-149, 0x1p-149f },
        { 0x1p-150, 0.0f }, { 0x1.0000000000001p-150, 0x1p-149f }, { 0x1.8p-149, 0x1p-148f }, { 5e-324, 0.0f },
        { 0x1.fffffep127, FLT_MAX }, { 0x1.fffffefffffffp127, FLT_MAX }, { INFINITY, INFINITY },
        { -INFINITY, -INFINITY } };
    static const double unfit[] = { 0x1.ffffffp127, -0x1.ffffffp127, 0x1p128, -1e300, DBL_MAX };
    for (int big = 0; big < 2; big++) {
        float got = 0;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            CHECK(convert_f64(cases[i].value, big, &got) == -1, "%a is refused", cases[i].value);
            CHECK(memcmp(&got, &cases[i].want, sizeof got) == 0, "%a becomes %a, not %a", cases[i].value, (double)got,
                (double)cases[i].want);
        }
        for (size_t i = 0; i < sizeof unfit / sizeof unfit[0]; i++) {
            CHECK(convert_f64(unfit[i], big, &got) == 0, "%a is not refused", unfit[i]);
        }
        CHECK(convert_f64((double)NAN, big, &got) == -1 && isnan(got), "NaN becomes %g", (double)got);
    }
}

/* Random doubles: no neighbour of the result is nearer, and a tie goes to the even one. */
static void test_f64_rounding(void)
{
    check_rng rng = check_rng_named("f64_rounding");
    for (int i = 0; i < 100000; i++) {
        double value = ldexp(check_uniform(&rng) * 2.0 - 1.0, (int)check_between(&rng, -155, 127));
        float got;
        CHECK(convert_f64(value, false, &got) == -1, "%a is refused", value);
        double error = fabs((double)got - value);
        double up = fabs((double)nextafterf(got, INFINITY) - value);
        double down = fabs((double)nextafterf(got, -INFINITY) - value);
        bool even = (check_bits(got) & 1) == 0;
        CHECK(error < up || (error == up && even), "%a becomes %a: the next one up is nearer", value, (double)got);
        CHECK(
            error < down || (error == down && even), "%a becomes %a: the next one down is nearer", value, (double)got);
    }
}

/* Many elements at once in both byte orders, and the index of one that does not fit. */
static void test_runs(void)
{
    enum { COUNT = 37 };
    uint8_t bytes[8 * COUNT];
    float got[COUNT];
    for (int big = 0; big < 2; big++) {
        for (int i = 0; i < COUNT; i++) {
            store(bytes + 2 * i, (uint64_t)(0x3C00 + i), 2, big);
        }
        CHECK(elements_to_f32(ELEMENT_F16, big, bytes, COUNT, got) == -1, "f16 refused");
        CHECK(got[36] == 1.0f + 36.0f / 1024.0f, "f16 number 36 is %g", (double)got[36]);
        for (int i = 0; i < COUNT; i++) {
            float value = (float)i * 1.25f - 7.0f;
            store(bytes + 4 * i, check_bits(value), 4, big);
        }
        CHECK(elements_to_f32(ELEMENT_F32, big, bytes, COUNT, got) == -1, "f32 refused");
        CHECK(got[0] == -7.0f && got[36] == 38.0f, "f32 ends are %g and %g", (double)got[0], (double)got[36]);
        for (int i = 0; i < COUNT; i++) {
            double value = i == 29 ? 1e39 : (double)i;
            uint64_t bits;
            memcpy(&bits, &value, sizeof bits);
            store(bytes + 8 * i, bits, 8, big);
        }
        CHECK(elements_to_f32(ELEMENT_F64, big, bytes, COUNT, got) == 29, "1e39 is not found at 29");
        CHECK(elements_to_f32(ELEMENT_F64, big, bytes, 29, got) == -1 && got[28] == 28.0f, "f64 before it");
    }
    uint8_t byte = 200;
    CHECK(elements_to_f32(ELEMENT_U8, false, &byte, 1, got) == -1 && got[0] == 200.0f, "u8 is %g", (double)got[0]);
    CHECK(element_size(ELEMENT_U8) == 1 && element_size(ELEMENT_F16) == 2 && element_size(ELEMENT_BF16) == 2 &&
              element_size(ELEMENT_F32) == 4 && element_size(ELEMENT_F64) == 8,
        "sizes");
}

/* To binary64 a double keeps its bits, and every other value is what it is as binary32. */
static void test_doubles(void)
{
    static const double wide[] = { 0.0, -0.0, 1.0 / 3.0, 5e-324, -DBL_MAX, 1e300, INFINITY, -INFINITY };
    uint8_t bytes[8 * 8];
    double got[8];
    for (int big = 0; big < 2; big++) {
        for (size_t i = 0; i < 8; i++) {
            uint64_t bits;
            memcpy(&bits, &wide[i], sizeof bits);
            store(bytes + 8 * i, bits, 8, big);
        }
        elements_to_f64(ELEMENT_F64, big, bytes, 8, got);
        CHECK(memcmp(got, wide, sizeof wide) == 0, "doubles are changed");
        for (uint32_t bits = 0; bits <= 0xFFFF; bits++) {
            store(bytes, bits, 2, big);
            elements_to_f64(ELEMENT_F16, big, bytes, 1, got);
            check_value(bits, (float)got[0], check_narrow(bits, 5, 10));
        }
        for (size_t i = 0; i < 8; i++) {
            store(bytes + 4 * i, check_bits(0.1f * (float)i), 4, big);
            bytes[32 + i] = (uint8_t)(i * 36);
        }
        elements_to_f64(ELEMENT_F32, big, bytes, 8, got);
        CHECK(got[3] == (double)(0.1f * 3.0f) && got[7] == (double)(0.1f * 7.0f), "f32: %.17g", got[3]);
        elements_to_f64(ELEMENT_U8, big, bytes + 32, 8, got);
        CHECK(got[0] == 0.0 && got[7] == 252.0, "u8: %.17g", got[7]);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "f16", test_f16 },
        { "bf16", test_bf16 },
        { "f64_edges", test_f64_edges },
        { "f64_rounding", test_f64_rounding },
        { "runs", test_runs },
        { "doubles", test_doubles },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
