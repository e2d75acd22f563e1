/* Every function of a vec.h against its definition in src/kernels/vec.md: special values, all tails, guard pages.
 * May know: src/kernels/vec.md, check.h; VEC_HEADER is the vec.h to test.
 * Must not know: the kernels, how a vec.h is written.  The definitions below share no code with it. */
#include "../../src/cpu.h"
/* VEC_REQUIRES names bits of cpu.h, VEC_ISA a value of heed.h. */
#include VEC_HEADER

#include "vec_suite.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

enum { LANES = VEC_LANES, RANDOM = 4000 };

typedef struct lanes {
    float at[LANES];
} lanes;

/* ---- Values ---- */

static const float special[] = { 0.0f, -0.0f, 1.0f, -1.0f, 1.5f, -2.75f, INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX,
    FLT_MIN, -FLT_MIN, 0x1p-149f, -0x1p-149f, 0x1.8p-140f, 0x1.fffffep-127f, 0x1p-126f, 0x1p23f, 0x1.8p23f,
    0x1.0000fep23f, -0x1.5d589ep6f, -0x1.5d58a0p6f, 0x1.fffffep127f, 0.625f, 3.0f, 0x1.555556p-2f };
enum { SPECIAL = sizeof special / sizeof special[0] };

/* Half of them special, the others from all exponents. */
static float any_value(check_rng *rng)
{
    const uint64_t bits = check_next(rng);
    return bits >> 63 ? special[bits % SPECIAL] : check_float((uint32_t)bits);
}

static lanes any_lanes(check_rng *rng)
{
    lanes x;
    for (int i = 0; i < LANES; i++)
        x.at[i] = any_value(rng);
    return x;
}

static vf vector(const lanes *x)
{
    return vf_load(x->at);
}

static lanes unpack(vf v)
{
    lanes x;
    vf_store(x.at, v);
    return x;
}

/* The same bits, where any NaN equals any NaN; unlike check_same it tells +0 from -0. */
static void same_floats(const float *got, const float *want, size_t n, const char *what)
{
    size_t i = 0;
    while (i < n && (check_bits(got[i]) == check_bits(want[i]) || (isnan(got[i]) && isnan(want[i]))))
        i++;
    const float g = i < n ? got[i] : 0.0f, w = i < n ? want[i] : 0.0f;
    CHECK(i == n, "%s lane %zu of %zu: got %08x (%a), want %08x (%a)", what, i, n, (unsigned)check_bits(g), (double)g,
        (unsigned)check_bits(w), (double)w);
}

static void same(const lanes *got, const lanes *want, const char *what)
{
    same_floats(got->at, want->at, LANES, what);
}

/* ---- Memory ---- */

static void whole_vectors(void)
{
    check_rng rng = check_rng_named("whole vectors");
    for (size_t offset = 0; offset < 16; offset++) {
        lanes x = any_lanes(&rng);
        float *in = check_alloc((offset + LANES) * sizeof(float), CHECK_GUARD_BEHIND);
        float *out = check_output(offset + LANES + 1, CHECK_GUARD_BEHIND);
        memcpy(in + offset, x.at, sizeof x.at);
        vf_store(out + offset, vf_load(in + offset));
        same_floats(out + offset, x.at, LANES, "vf_load and vf_store");
        check_untouched(out, offset, "before vf_store");
        check_untouched(out + offset + LANES, 1, "behind vf_store");
        float *last = check_output(LANES, CHECK_GUARD_BEHIND), *first = check_output(LANES, CHECK_GUARD_BEFORE);
        vf_store(last, vf_load(check_input(x.at, LANES, CHECK_GUARD_BEHIND)));
        vf_store(first, vf_load(check_input(x.at, LANES, CHECK_GUARD_BEFORE)));
        same_floats(last, x.at, LANES, "vf_load and vf_store before a page");
        same_floats(first, x.at, LANES, "vf_load and vf_store behind a page");
        check_free_all();
    }
}

static void tails(void)
{
    check_rng rng = check_rng_named("tails");
    for (size_t n = 1; n <= LANES; n++)
        for (int side = 0; side < 2; side++) {
            lanes x = any_lanes(&rng), want = x;
            for (size_t i = n; i < LANES; i++)
                want.at[i] = 0.0f;
            const lanes got = unpack(vf_load_n(check_input(x.at, n, (check_side)side), n));
            same(&got, &want, "vf_load_n");
            float *out = check_output(n, (check_side)side), *gap = check_output(LANES, CHECK_GUARD_BEHIND);
            vf_store_n(out, vector(&x), n);
            vf_store_n(gap, vector(&x), n);
            same_floats(out, x.at, n, "vf_store_n at the edge of a page");
            same_floats(gap, x.at, n, "vf_store_n");
            check_untouched(gap + n, LANES - n, "behind vf_store_n");
            check_free_all();
        }
}

static void constants(void)
{
    for (size_t i = 0; i < SPECIAL; i++) {
        lanes want, zero = { { 0.0f } };
        for (int j = 0; j < LANES; j++)
            want.at[j] = special[i];
        const lanes got = unpack(vf_set1(special[i])), got_zero = unpack(vf_zero());
        const lanes got_one = unpack(vf_load1(check_input(special + i, 1, CHECK_GUARD_BEHIND)));
        same(&got, &want, "vf_set1");
        same(&got_one, &want, "vf_load1");
        same(&got_zero, &zero, "vf_zero");
        check_free_all();
    }
}

/* ---- Storage types ---- */

typedef enum narrow { F16, BF16, I8, NARROWS } narrow;

static const char *const narrow_names[NARROWS] = { "vf_load_f16", "vf_load_bf16", "vf_load_i8" };

static float narrow_value(narrow type, uint32_t pattern)
{
    if (type == I8)
        return pattern < 128 ? (float)pattern : (float)pattern - 256.0f;
    return (float)(type == F16 ? check_narrow(pattern, 5, 10) : check_narrow(pattern, 8, 7));
}

static vf narrow_load(narrow type, const void *p)
{
    return type == F16 ? vf_load_f16(p) : type == BF16 ? vf_load_bf16(p) : vf_load_i8(p);
}

/* Every pattern in every lane, read from right before and right behind a page that cannot be read. */
static void narrow_type(narrow type)
{
    const uint32_t patterns = type == I8 ? 256 : 65536;
    const size_t bytes = LANES * (type == I8 ? 1 : 2);
    void *const sides[] = { check_alloc(bytes, CHECK_GUARD_BEHIND), check_alloc(bytes, CHECK_GUARD_BEFORE) };
    for (uint32_t first = 0; first < patterns; first++) {
        uint16_t halves[LANES];
        uint8_t few[LANES];
        lanes want;
        for (uint32_t i = 0; i < LANES; i++) {
            const uint32_t pattern = (first + 4099 * i) % patterns; /* neighbours unlike each other */
            halves[i] = (uint16_t)pattern;
            few[i] = (uint8_t)pattern;
            want.at[i] = narrow_value(type, pattern);
        }
        void *to = sides[first % 2];
        memcpy(to, type == I8 ? (const void *)few : (const void *)halves, bytes);
        const lanes got = unpack(narrow_load(type, to));
        same(&got, &want, narrow_names[type]);
    }
    check_free_all();
}

static void narrow_types(void)
{
    for (int type = 0; type < NARROWS; type++)
        narrow_type((narrow)type);
}

static uint32_t infinite_pattern(narrow type)
{
    return type == F16 ? 0x7c00 : 0x7f80;
}

/* The magnitude that a pattern without sign stands for; infinity's is where the next number would be, to which what is nearer rounds. */
static double magnitude(narrow type, uint32_t pattern)
{
    const uint32_t infinite = infinite_pattern(type);
    if (pattern < infinite)
        return fabs((double)narrow_value(type, pattern));
    return 2.0 * magnitude(type, infinite - 1) - magnitude(type, infinite - 2);
}

/* Whether x rounds to the pattern: no neighbour is nearer, or as near and even. */
static bool rounds_to(narrow type, float x, uint32_t pattern)
{
    const uint32_t rest = pattern & 0x7fff, infinite = infinite_pattern(type);
    if (isnan(x))
        return rest > infinite;
    if (rest > infinite || (pattern >> 15 != 0) != (signbit(x) != 0))
        return false;
    if (isinf(x))
        return rest == infinite;
    const double far = fabs(fabs((double)x) - magnitude(type, rest));
    for (int side = -1; side <= 1; side += 2) {
        if ((side < 0 && rest == 0) || (side > 0 && rest == infinite))
            continue;
        const double other = fabs(fabs((double)x) - magnitude(type, side < 0 ? rest - 1 : rest + 1));
        if (other < far || (other == far && rest % 2 != 0))
            return false;
    }
    return true;
}

/* Numbers half way between two patterns, and the floats beside them; after all those any number. */
static float rounding_value(check_rng *rng, narrow type, uint32_t index)
{
    const uint32_t pattern = index / 3;
    if (pattern >= infinite_pattern(type))
        return any_value(rng);
    const float middle = (float)(0.5 * (magnitude(type, pattern) + magnitude(type, pattern + 1)));
    const float x = index % 3 == 0 ? middle : nextafterf(middle, index % 3 == 1 ? 0.0f : INFINITY);
    return pattern % 2 ? -x : x;
}

static void narrow_stores(void)
{
    check_rng rng = check_rng_named("stores of 16 bits");
    const size_t bytes = LANES * sizeof(uint16_t);
    void *const sides[] = { check_alloc(bytes, CHECK_GUARD_BEHIND), check_alloc(bytes, CHECK_GUARD_BEFORE) };
    for (int type = F16; type <= BF16; type++)
        for (uint32_t first = 0; first < 3 * 0x8000; first += LANES) {
            uint16_t *to = sides[first / LANES % 2];
            lanes x;
            for (uint32_t i = 0; i < LANES; i++)
                x.at[i] = rounding_value(&rng, (narrow)type, first + i);
            if (type == F16)
                vf_store_f16(to, vector(&x));
            else
                vf_store_bf16(to, vector(&x));
            for (int i = 0; i < LANES; i++)
                CHECK(rounds_to((narrow)type, x.at[i], to[i]), "%s of %a: %04x",
                    type == F16 ? "vf_store_f16" : "vf_store_bf16", (double)x.at[i], (unsigned)to[i]);
        }
    check_free_all();
}

/* ---- Arithmetic ---- */

typedef enum operation { ADD, SUB, MUL, DIV, MAX, OPERATIONS } operation;

static const char *const names[OPERATIONS] = { "vf_add", "vf_sub", "vf_mul", "vf_div", "vf_max" };

static float defined(operation op, float a, float b)
{
    switch (op) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return a / b;
    default: return a > b ? a : b;
    }
}

static vf computed(operation op, vf a, vf b)
{
    switch (op) {
    case ADD: return vf_add(a, b);
    case SUB: return vf_sub(a, b);
    case MUL: return vf_mul(a, b);
    case DIV: return vf_div(a, b);
    default: return vf_max(a, b);
    }
}

static void check_pair(const lanes *a, const lanes *b)
{
    for (int op = 0; op < OPERATIONS; op++) {
        lanes want;
        for (int i = 0; i < LANES; i++)
            want.at[i] = defined((operation)op, a->at[i], b->at[i]);
        const lanes got = unpack(computed((operation)op, vector(a), vector(b)));
        same(&got, &want, names[op]);
    }
}

static void two_operands(void)
{
    check_rng rng = check_rng_named("two operands");
    for (size_t i = 0; i < SPECIAL; i++)
        for (size_t j = 0; j < SPECIAL; j++) {
            lanes a, b;
            for (size_t l = 0; l < LANES; l++) {
                a.at[l] = special[(i + l) % SPECIAL];
                b.at[l] = special[(j + 5 * l) % SPECIAL];
            }
            check_pair(&a, &b);
        }
    for (int i = 0; i < RANDOM; i++) {
        const lanes a = any_lanes(&rng), b = any_lanes(&rng);
        check_pair(&a, &b);
    }
}

/* A product and a sum rounded one after the other, or the sum in double and then again, get these wrong. */
static const float once[][3] = { { 97.0f, 172961.0f * 0x1p-24f,
                                     0x1p-60f }, /* 1 + 2^-24 + 2^-60: above a tie that double does not see */
    { -97.0f, 172961.0f * 0x1p-24f, -0x1p-60f }, { 97.0f, 172961.0f * 0x1p-24f, -0x1p-60f },
    { 0x1.000002p0f, 0x1.000002p0f, -1.0f }, { 0x1p-75f, 0x1.8p-75f, 0x1p-149f }, /* ties of subnormal numbers */
    { 0x1p-75f, 0x1.000002p-75f, 0x1p-149f }, { 0x1p-100f, 0x1p-100f, -0x1p-126f },
    { 0x1p-100f, -0x1p-100f, 0x1p-126f }, { 0x1p100f, 0x1p100f, -INFINITY }, { 0x1p64f, 0x1p64f, -FLT_MAX },
    { INFINITY, 0.0f, NAN }, { INFINITY, 0.0f, 1.0f }, { -0.0f, 1.0f, -0.0f }, { -0.0f, 1.0f, 0.0f },
    { 0x1p-100f, -0x1p-100f, 0.0f } };

static void check_fma(const lanes *a, const lanes *b, const lanes *c)
{
    lanes want;
    for (int i = 0; i < LANES; i++)
        want.at[i] = fmaf(a->at[i], b->at[i], c->at[i]);
    const lanes got = unpack(vf_fma(vector(a), vector(b), vector(c)));
    same(&got, &want, "vf_fma");
}

static void fused(void)
{
    check_rng rng = check_rng_named("fused");
    for (size_t i = 0; i < sizeof once / sizeof once[0]; i++) {
        lanes x[3];
        for (int o = 0; o < 3; o++)
            for (int l = 0; l < LANES; l++)
                x[o].at[l] = once[i][o];
        check_fma(&x[0], &x[1], &x[2]);
    }
    for (int i = 0; i < 10 * RANDOM; i++) {
        lanes a = any_lanes(&rng), b = any_lanes(&rng), c = any_lanes(&rng);
        if (i % 2)
            for (int l = 0; l < LANES; l++) { /* sums of like size, where roundings matter */
                a.at[l] = check_normal(&rng);
                b.at[l] = check_normal(&rng);
                c.at[l] = -a.at[l] * b.at[l] * (1.0f + 0x1p-20f * (float)check_between(&rng, -8, 8));
            }
        check_fma(&a, &b, &c);
    }
}

/* ---- Choices and bits ---- */

static void choices(void)
{
    check_rng rng = check_rng_named("choices");
    for (int n = 0; n < RANDOM; n++) {
        const lanes x = any_lanes(&rng), a = any_lanes(&rng), b = any_lanes(&rng);
        const float bound = n % 2 ? special[(size_t)n / 2 % SPECIAL] : x.at[n % LANES];
        lanes zero, select, shift;
        for (int i = 0; i < LANES; i++) {
            zero.at[i] = x.at[i] < bound ? 0.0f : a.at[i];
            select.at[i] = x.at[i] < bound ? a.at[i] : b.at[i];
            shift.at[i] = check_float(check_bits(x.at[i]) << 23);
        }
        const lanes got_zero = unpack(vf_zero_below(vector(&x), bound, vector(&a)));
        const lanes got_select = unpack(vf_select_below(vector(&x), bound, vector(&a), vector(&b)));
        const lanes got_shift = unpack(vf_bits_shl23(vector(&x)));
        same(&got_zero, &zero, "vf_zero_below");
        same(&got_select, &select, "vf_select_below");
        same(&got_shift, &shift, "vf_bits_shl23");
    }
}

/* Signs of zeros, infinities and all. */
static void signs(void)
{
    check_rng rng = check_rng_named("signs");
    for (int n = 0; n < RANDOM; n++) {
        const lanes x = any_lanes(&rng), y = any_lanes(&rng);
        lanes magnitude, with_sign;
        for (int i = 0; i < LANES; i++) {
            magnitude.at[i] = check_float(check_bits(x.at[i]) & 0x7FFFFFFFu);
            with_sign.at[i] = check_float(check_bits(magnitude.at[i]) | (check_bits(y.at[i]) & 0x80000000u));
        }
        const lanes got_magnitude = unpack(vf_abs(vector(&x)));
        const lanes got_sign = unpack(vf_signed(vector(&magnitude), vector(&y)));
        same(&got_magnitude, &magnitude, "vf_abs");
        same(&got_sign, &with_sign, "vf_signed");
    }
}

static void hiding(void)
{
    check_rng rng = check_rng_named("hiding");
    static const uint8_t bytes[] = { 0, 1, 0, 2, 128, 0, 255, 64 };
    for (int n = 0; n < RANDOM / 10; n++) {
        const lanes x = any_lanes(&rng);
        uint8_t *visible = check_alloc(LANES, n % 2 ? CHECK_GUARD_BEFORE : CHECK_GUARD_BEHIND);
        lanes want;
        for (int i = 0; i < LANES; i++) {
            visible[i] = bytes[check_next(&rng) % sizeof bytes];
            want.at[i] = visible[i] ? x.at[i] : -INFINITY;
        }
        const lanes got = unpack(vf_hide(vector(&x), visible));
        same(&got, &want, "vf_hide");
        check_free_all();
    }
}

/* ---- Across lanes ---- */

static void reductions(void)
{
    check_rng rng = check_rng_named("reductions");
    for (int n = 0; n < RANDOM; n++) {
        lanes x = any_lanes(&rng);
        for (int i = 0; i < LANES && n % 2; i++)
            x.at[i] = check_normal(&rng) * (i % 3 ? 1.0f : 1e4f);
        lanes sum = x;
        for (int w = LANES / 2; w > 0; w /= 2)
            for (int i = 0; i < w; i++)
                sum.at[i] = sum.at[i] + sum.at[i + w];
        const float got = vf_reduce_add(vector(&x));
        CHECK(check_equal_bits(got, sum.at[0]), "vf_reduce_add: %a, want %a", (double)got, (double)sum.at[0]);
        float max = -INFINITY;
        for (int i = 0; i < LANES; i++) {
            x.at[i] = isnan(x.at[i]) ? -INFINITY : x.at[i];
            max = x.at[i] > max ? x.at[i] : max;
        }
        const float got_max = vf_reduce_max(vector(&x));
        CHECK(check_equal_bits(got_max, max), "vf_reduce_max: %a, want %a", (double)got_max, (double)max);
    }
}

static void transposed(void)
{
    check_rng rng = check_rng_named("transposed");
    for (int n = 0; n < 40; n++) {
        lanes x[LANES];
        vf r[LANES];
        for (int i = 0; i < LANES; i++) {
            x[i] = any_lanes(&rng);
            r[i] = vector(&x[i]);
        }
        vf_transpose(r);
        for (int i = 0; i < LANES; i++) {
            lanes want;
            for (int j = 0; j < LANES; j++)
                want.at[j] = x[j].at[i];
            const lanes got = unpack(r[i]);
            same(&got, &want, "vf_transpose");
        }
    }
}

/* Rows in both directions, the last of which ends before a page that cannot be read. */
static void columns(void)
{
    check_rng rng = check_rng_named("columns");
    for (size_t gap = 0; gap < 9; gap++) {
        const size_t ld = VEC_COLUMNS + gap, size = (LANES - 1) * ld + VEC_COLUMNS;
        float *x = check_floats(size);
        for (size_t i = 0; i < size; i++)
            x[i] = any_value(&rng);
        const float *first = check_input(x, size, CHECK_GUARD_BEHIND);
        for (int backwards = 0; backwards < 2; backwards++) {
            vf r[VEC_COLUMNS];
            vf_load_columns(
                r, backwards ? first + (LANES - 1) * ld : first, backwards ? -(ptrdiff_t)ld : (ptrdiff_t)ld);
            for (size_t c = 0; c < VEC_COLUMNS; c++) {
                lanes want;
                for (size_t i = 0; i < LANES; i++)
                    want.at[i] = x[(backwards ? LANES - 1 - i : i) * ld + c];
                const lanes got = unpack(r[c]);
                same(&got, &want, "vf_load_columns");
            }
        }
        check_free_all();
        free(x);
    }
}

/* Pieces of 16 bytes, the last of which ends before a page that cannot be read. */
static void deal(check_rng *rng, size_t size, ptrdiff_t distance)
{
    const size_t keys = 32 / size, dims = 16 / size, bytes = (keys - 1) * (size_t)labs(distance) + 16;
    const size_t floats = (bytes + 3) / 4, spare = floats * 4 - bytes;
    float *x = check_floats(floats);
    for (size_t i = 0; i < floats; i++)
        x[i] = any_value(rng);
    const char *first = (const char *)check_input(x, floats, CHECK_GUARD_BEHIND) + spare;
    char *to = (char *)check_output(512 / size / sizeof(float), CHECK_GUARD_BEHIND);
    if (distance < 0)
        first += (keys - 1) * (size_t)-distance;
    if (size == 2)
        vf_deal_16(to, first, distance);
    else
        vf_deal_8(to, first, distance);
    for (size_t c = 0; c < dims; c++)
        for (size_t i = 0; i < keys; i++)
            CHECK(!memcmp(to + 32 * c + i * size, first + (ptrdiff_t)i * distance + c * size, size),
                "vf_deal_%zu: distance %td key %zu element %zu", 8 * size, distance, i, c);
    check_free_all();
    free(x);
}

static void deals(void)
{
    check_rng rng = check_rng_named("deals");
    for (ptrdiff_t distance = 16; distance < 140; distance++)
        for (size_t size = 1; size <= 2; size++) {
            deal(&rng, size, distance);
            deal(&rng, size, -distance);
        }
}

/* ---- SLEEF ---- */

#ifdef HEED_WITH_SLEEF
static void sleef(void)
{
    check_rng rng = check_rng_named("sleef");
    for (int n = 0; n < 10 * RANDOM; n++) {
        lanes x = any_lanes(&rng), want;
        for (int i = 0; i < LANES; i++) {
            if (n % 4)
                x.at[i] = -104.0f * (float)check_uniform(&rng);
            want.at[i] = vec_suite_exp(x.at[i]);
        }
        const lanes got = unpack(vf_exp_sleef(vector(&x)));
        same(&got, &want, "vf_exp_sleef");
    }
}
#endif

static const check_test tests[] = {
    { "whole_vectors", whole_vectors },
    { "tails", tails },
    { "constants", constants },
    { "narrow_types", narrow_types },
    { "narrow_stores", narrow_stores },
    { "two_operands", two_operands },
    { "fused", fused },
    { "choices", choices },
    { "signs", signs },
    { "hiding", hiding },
    { "reductions", reductions },
    { "transposed", transposed },
    { "columns", columns },
    { "deals", deals },
#ifdef HEED_WITH_SLEEF
    { "sleef", sleef },
#endif
};
enum { COUNT = sizeof tests / sizeof tests[0], WITHOUT_SLEEF = 12 };

const vec_suite vec_under_test = { TEXT(HEED_ISA_SUFFIX), VEC_REQUIRES, VEC_SLEEF_REQUIRES, tests, COUNT,
    COUNT - WITHOUT_SLEEF };
