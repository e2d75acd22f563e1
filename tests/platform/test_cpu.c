/* Detection and dispatch on machines nobody has at hand: their CPUID, XCR0 and HWCAP words fed into the pure functions.
 * May know: src/cpu.h, src/backend.h, check.h.
 * Must not know: the machine that runs the test. */
#include "backend.h"
#include "check.h"
#include "cpu.h"

#include <stdlib.h>
#include <string.h>

enum {
    YMM_BITS = HEED_CPU_AVX | HEED_CPU_AVX2 | HEED_CPU_FMA | HEED_CPU_F16C,
    ZMM_BITS = YMM_BITS | HEED_CPU_AVX512F | HEED_CPU_AVX512DQ | HEED_CPU_AVX512BW | HEED_CPU_AVX512VL
};

/* Bits of CPUID leaf 1 ECX and leaf 7 EBX, written out once more: an error in the library's own list must show. */
static const uint32_t ecx1_fma = UINT32_C(1) << 12, ecx1_osxsave = UINT32_C(1) << 27, ecx1_avx = UINT32_C(1) << 28,
                      ecx1_f16c = UINT32_C(1) << 29, ebx7_avx2 = UINT32_C(1) << 5, ebx7_avx512f = UINT32_C(1) << 16,
                      ebx7_avx512dq = UINT32_C(1) << 17, ebx7_avx512bw = UINT32_C(1) << 30,
                      ebx7_avx512vl = UINT32_C(1) << 31;

/* Words as published for the real chips. */
static const heed_cpuid_words nehalem = { 0xb, 0x0098e3bd, 0, 0 };                 /* Core i7-920 */
static const heed_cpuid_words sandy_bridge = { 0xd, 0x1fbae3ff, 0, 0x7 };          /* Core i7-2600K */
static const heed_cpuid_words haswell = { 0xd, 0x7ffafbff, 0x000027ab, 0x7 };      /* Core i7-4770 */
static const heed_cpuid_words knights = { 0xd, 0x7ff8f3bf, 0x1c0d23ab, 0xe7 };     /* Xeon Phi 7250 */
static const heed_cpuid_words skylake_x = { 0x16, 0x7ffefbff, 0xd39ffffb, 0x2ff }; /* Xeon Gold 6248 */
static const heed_cpuid_words zen3 = { 0x10, 0x7ed8320b, 0x219c97a9, 0x207 };      /* Ryzen 9 5950X */
static const heed_cpuid_words zen4 = { 0x10, 0x7ef8320b, 0xf1bf97a9, 0x2e7 };      /* Ryzen 9 7950X */
static const heed_cpuid_words translated = { 0xd, 0x00982203, 0x00000209, 0 };     /* runs AVX, does not list it */

static heed_cpuid_words without1(heed_cpuid_words words, uint32_t leaf1_bits)
{
    words.leaf1_ecx &= ~leaf1_bits;
    if (!(words.leaf1_ecx & ecx1_osxsave))
        words.xcr0 = 0; /* nobody may ask for it then */
    return words;
}

static heed_cpuid_words without7(heed_cpuid_words words, uint32_t leaf7_bits)
{
    words.leaf7_ebx &= ~leaf7_bits;
    return words;
}

static heed_cpuid_words with_xcr0(heed_cpuid_words words, uint32_t xcr0)
{
    words.xcr0 = xcr0;
    return words;
}

static heed_cpuid_words with_max_leaf(heed_cpuid_words words, uint32_t max_leaf)
{
    words.max_leaf = max_leaf;
    if (max_leaf < 7)
        words.leaf7_ebx = 0;
    if (max_leaf < 1)
        words.leaf1_ecx = words.xcr0 = 0;
    return words;
}

/* The best of this build that a machine whose best is known can run: every set of features includes the ones below. */
static heed_isa best_compiled(heed_isa best)
{
    static const heed_isa order[] = { HEED_ISA_AVX512, HEED_ISA_AVX2, HEED_ISA_SCALAR };
    if (best == HEED_ISA_NEON)
        return heed_isa_compiled(HEED_ISA_NEON) ? HEED_ISA_NEON : HEED_ISA_SCALAR;
    size_t i = 0;
    while (order[i] != best)
        i++;
    while (!heed_isa_compiled(order[i]))
        i++;
    return order[i];
}

static void check_choice(uint32_t features, heed_isa best)
{
    const heed_backend *chosen = heed_backend_choose(features, 0, NULL);
    const heed_isa want = best_compiled(best);
    if (!CHECK(chosen != NULL, "no backend at all"))
        return;
    CHECK(chosen->isa == want, "chose %s, the best usable one is %s", heed_isa_name(chosen->isa), heed_isa_name(want));
    CHECK(heed_backend_usable(chosen, features), "chose what the machine cannot run");
}

static void check_x86(const char *name, heed_cpuid_words words, uint32_t want, heed_isa best)
{
    check_case("%s: max_leaf %#x ecx1 %08x ebx7 %08x xcr0 %#x", name, (unsigned)words.max_leaf,
        (unsigned)words.leaf1_ecx, (unsigned)words.leaf7_ebx, (unsigned)words.xcr0);
    const uint32_t got = heed_cpu_features_x86(&words);
    CHECK(got == want, "features %#x, want %#x", (unsigned)got, (unsigned)want);
    check_choice(got, best);
}

static void x86_chips(void)
{
    check_x86("nehalem", nehalem, 0, HEED_ISA_SCALAR);
    check_x86("sandy bridge", sandy_bridge, HEED_CPU_AVX, HEED_ISA_SCALAR);
    check_x86("haswell", haswell, YMM_BITS, HEED_ISA_AVX2);
    check_x86("zen 3", zen3, YMM_BITS, HEED_ISA_AVX2);
    check_x86("knights landing: F without DQ, BW, VL", knights, YMM_BITS | HEED_CPU_AVX512F, HEED_ISA_AVX2);
    check_x86("skylake-x", skylake_x, ZMM_BITS, HEED_ISA_AVX512);
    check_x86("zen 4", zen4, ZMM_BITS, HEED_ISA_AVX512);
    check_x86("AVX runs but is not listed", translated, 0, HEED_ISA_SCALAR);
}

/* One thing missing at a time: what hypervisors, emulators and boot options do. */
static void x86_cut(void)
{
    check_x86("haswell -fma", without1(haswell, ecx1_fma), YMM_BITS & ~HEED_CPU_FMA, HEED_ISA_SCALAR);
    check_x86("haswell -f16c", without1(haswell, ecx1_f16c), YMM_BITS & ~HEED_CPU_F16C, HEED_ISA_SCALAR);
    check_x86("haswell -avx, leaf 7 still says avx2", without1(haswell, ecx1_avx), 0, HEED_ISA_SCALAR);
    check_x86("haswell -xsave", without1(haswell, ecx1_osxsave), 0, HEED_ISA_SCALAR);
    check_x86("haswell -avx2", without7(haswell, ebx7_avx2), YMM_BITS & ~HEED_CPU_AVX2, HEED_ISA_SCALAR);
    check_x86("zen 4 -xsave", without1(zen4, ecx1_osxsave), 0, HEED_ISA_SCALAR);
    check_x86("zen 4 -fma", without1(zen4, ecx1_fma), ZMM_BITS & ~HEED_CPU_FMA, HEED_ISA_SCALAR);
    check_x86("zen 4 -avx512dq", without7(zen4, ebx7_avx512dq), ZMM_BITS & ~HEED_CPU_AVX512DQ, HEED_ISA_AVX2);
    check_x86("zen 4 -avx512bw", without7(zen4, ebx7_avx512bw), ZMM_BITS & ~HEED_CPU_AVX512BW, HEED_ISA_AVX2);
    check_x86("zen 4 -avx512vl", without7(zen4, ebx7_avx512vl), ZMM_BITS & ~HEED_CPU_AVX512VL, HEED_ISA_AVX2);
    check_x86("zen 4 -avx512f, the others still listed", without7(zen4, ebx7_avx512f), YMM_BITS, HEED_ISA_AVX2);
    check_x86(
        "zen 4 -avx2, avx512 still listed", without7(zen4, ebx7_avx2), YMM_BITS & ~HEED_CPU_AVX2, HEED_ISA_SCALAR);
    check_x86("haswell, leaf 1 the last", with_max_leaf(haswell, 1), YMM_BITS & ~HEED_CPU_AVX2, HEED_ISA_SCALAR);
    /* Beyond the last leaf Intel answers with the last one's words: they mean nothing. */
    heed_cpuid_words beyond = haswell;
    beyond.max_leaf = 6;
    check_x86("haswell, leaf 6 the last, words in leaf 7", beyond, YMM_BITS & ~HEED_CPU_AVX2, HEED_ISA_SCALAR);
    check_x86("haswell, leaf 6 the last", with_max_leaf(haswell, 6), YMM_BITS & ~HEED_CPU_AVX2, HEED_ISA_SCALAR);
    check_x86("haswell, leaf 7 the last", with_max_leaf(haswell, 7), YMM_BITS, HEED_ISA_AVX2);
    check_x86("haswell, leaf 0 the last", with_max_leaf(haswell, 0), 0, HEED_ISA_SCALAR);
}

/* What the system saves: AVX needs SSE and AVX state, AVX-512 the opmasks and both halves of the ZMM state as well. */
static void x86_systems(void)
{
    static const struct {
        uint32_t xcr0, features;
        heed_isa best;
    } systems[] = { { 0x0, 0, HEED_ISA_SCALAR }, { 0x1, 0, HEED_ISA_SCALAR }, { 0x3, 0, HEED_ISA_SCALAR },
        { 0x5, 0, HEED_ISA_SCALAR }, { 0xe3, 0, HEED_ISA_SCALAR }, { 0x7, YMM_BITS, HEED_ISA_AVX2 },
        { 0x207, YMM_BITS, HEED_ISA_AVX2 }, { 0x27, YMM_BITS, HEED_ISA_AVX2 }, { 0x67, YMM_BITS, HEED_ISA_AVX2 },
        { 0xa7, YMM_BITS, HEED_ISA_AVX2 }, { 0xc7, YMM_BITS, HEED_ISA_AVX2 }, { 0xe7, ZMM_BITS, HEED_ISA_AVX512 },
        { 0x2e7, ZMM_BITS, HEED_ISA_AVX512 }, { 0x602e7, ZMM_BITS, HEED_ISA_AVX512 } };
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++) {
        check_x86("zen 4 under this system", with_xcr0(zen4, systems[i].xcr0), systems[i].features, systems[i].best);
        const int has_zmm = systems[i].best == HEED_ISA_AVX512;
        check_x86("haswell under this system", with_xcr0(haswell, systems[i].xcr0),
            has_zmm ? (uint32_t)YMM_BITS : systems[i].features, has_zmm ? HEED_ISA_AVX2 : systems[i].best);
    }
}

/* Any words at all: every feature claimed stands in the words, and never more follows from fewer bits. */
static void x86_any(void)
{
    check_rng rng = check_rng_named("x86_any");
    size_t wrong = 0;
    for (int i = 0; i < 20000; i++) {
        heed_cpuid_words w = { 7, (uint32_t)check_next(&rng), (uint32_t)check_next(&rng), (uint32_t)check_next(&rng) };
        if (i % 2)
            w.leaf1_ecx |= ecx1_osxsave | ecx1_avx;
        if (i % 4 > 1)
            w.xcr0 |= 0xe6;
        const int ymm = (w.leaf1_ecx & ecx1_osxsave) && (w.leaf1_ecx & ecx1_avx) && (w.xcr0 & 6) == 6;
        const int zmm = ymm && (w.leaf7_ebx & ebx7_avx2) && (w.leaf7_ebx & ebx7_avx512f) && (w.xcr0 & 0xe6) == 0xe6;
        uint32_t want = ymm ? HEED_CPU_AVX : 0;
        want |= ymm && (w.leaf1_ecx & ecx1_fma) ? HEED_CPU_FMA : 0;
        want |= ymm && (w.leaf1_ecx & ecx1_f16c) ? HEED_CPU_F16C : 0;
        want |= ymm && (w.leaf7_ebx & ebx7_avx2) ? HEED_CPU_AVX2 : 0;
        want |= zmm ? HEED_CPU_AVX512F : 0;
        want |= zmm && (w.leaf7_ebx & ebx7_avx512dq) ? HEED_CPU_AVX512DQ : 0;
        want |= zmm && (w.leaf7_ebx & ebx7_avx512bw) ? HEED_CPU_AVX512BW : 0;
        want |= zmm && (w.leaf7_ebx & ebx7_avx512vl) ? HEED_CPU_AVX512VL : 0;
        wrong += heed_cpu_features_x86(&w) != want;
    }
    CHECK(wrong == 0, "%zu of 20000 made-up machines", wrong);
}

/* AT_HWCAP and AT_HWCAP2 as Linux programs see them on these models. */
static void aarch64_chips(void)
{
    enum { FP16 = HEED_CPU_NEON | HEED_CPU_FP16, N1 = FP16 | HEED_CPU_DOTPROD, I8 = HEED_CPU_I8MM | HEED_CPU_BF16 };
    static const struct {
        const char *name;
        uint64_t hwcap, hwcap2;
        uint32_t features;
    } chips[] = { { "cortex-a53", 0x8fb, 0, HEED_CPU_NEON }, { "cortex-a72", 0x8fb, 0, HEED_CPU_NEON },
        { "cortex-a76", 0x119ffb, 0, N1 }, { "neoverse-n1", 0x119ffb, 0, N1 },
        { "a64fx: sve, no dot product", 0x415ffb, 0, FP16 | HEED_CPU_SVE },
        { "max", 0xecfffffb, 0x7f877fff, N1 | HEED_CPU_SVE | I8 },
        { "max, sve=off: i8mm and bf16 without sve", 0xecbffffb, 0x76181, N1 | I8 },
        { "half precision in scalars only", 0x8fb | 1 << 9, 0, HEED_CPU_NEON },
        { "half precision in vectors only", 0x8fb | 1 << 10, 0, HEED_CPU_NEON },
        { "bits 13 and 14 of the first word are others", 0x8fb | 1 << 13 | 1 << 14, 0, HEED_CPU_NEON },
        { "sve's own i8mm and bf16 in the second word", 0x8fb, 1 << 9 | 1 << 12, HEED_CPU_NEON },
        { "nothing", 0, 0, 0 }, { "no Advanced SIMD", 0x8f9, 0x76181, 0 } };
    for (size_t i = 0; i < sizeof chips / sizeof chips[0]; i++) {
        check_case("%s", chips[i].name);
        const heed_hwcap_words words = { chips[i].hwcap, chips[i].hwcap2 };
        const uint32_t got = heed_cpu_features_aarch64(&words);
        CHECK(got == chips[i].features, "features %#x, want %#x", (unsigned)got, (unsigned)chips[i].features);
        check_choice(got, got ? HEED_ISA_NEON : HEED_ISA_SCALAR);
    }
}

/* HEED_ISA on made-up machines: it lowers the choice to a backend the machine can run, and does nothing else. */
static void environment(void)
{
    static const char *const values[] = { "scalar", "avx2", "avx512", "neon", "AVX2", "avx2 ", " avx2", "avx", "auto",
        "unknown", "garbage", "1", "", "scalar,avx2" };
    static const struct {
        uint32_t features;
        heed_isa best;
    } machines[] = { { 0, HEED_ISA_SCALAR }, { HEED_CPU_AVX, HEED_ISA_SCALAR }, { YMM_BITS, HEED_ISA_AVX2 },
        { YMM_BITS & ~HEED_CPU_F16C, HEED_ISA_SCALAR }, { ZMM_BITS, HEED_ISA_AVX512 },
        { HEED_CPU_NEON, HEED_ISA_NEON } };
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++) {
            check_case("features %#x, HEED_ISA='%s'", (unsigned)machines[m].features, values[v]);
            heed_isa want = best_compiled(machines[m].best);
            for (size_t i = 0; heed_backends[i]; i++)
                if (strcmp(values[v], heed_isa_name(heed_backends[i]->isa)) == 0 &&
                    heed_backend_usable(heed_backends[i], machines[m].features))
                    want = heed_backends[i]->isa;
            const heed_backend *got = heed_backend_choose(machines[m].features, 0, values[v]);
            if (CHECK(got != NULL, "no backend"))
                CHECK(got->isa == want, "chose %s, want %s", heed_isa_name(got->isa), heed_isa_name(want));
        }
        check_choice(machines[m].features, machines[m].best);
    }
    check_case("%s", "");
    CHECK(heed_backend_choose(ZMM_BITS, 0, "scalar")->isa == HEED_ISA_SCALAR, "scalar is there for everybody");
    if (heed_isa_compiled(HEED_ISA_AVX2)) {
        CHECK(heed_backend_choose(ZMM_BITS, 0, "avx2")->isa == HEED_ISA_AVX2, "avx2 on an AVX-512 machine");
        CHECK(heed_backend_choose(0, 0, "avx2")->isa == HEED_ISA_SCALAR, "avx2 on a machine without it");
    }
}

/* Every backend asks for every feature its object is compiled with; nothing is usable with one of them missing. */
static void requirements(void)
{
    static const struct {
        heed_isa isa;
        uint32_t needs, sleef_needs;
    } wants[] = {
        { HEED_ISA_AVX512, ZMM_BITS & ~HEED_CPU_AVX, ZMM_BITS & ~HEED_CPU_AVX },
        { HEED_ISA_AVX2, YMM_BITS & ~HEED_CPU_AVX, YMM_BITS & ~HEED_CPU_AVX },
        { HEED_ISA_NEON, HEED_CPU_NEON, 0 },
#if defined(__x86_64__) || defined(__i386__)
        { HEED_ISA_SCALAR, 0, HEED_CPU_FMA }
    };
#else
        { HEED_ISA_SCALAR, 0, 0 }
    };
#endif
    for (size_t i = 0; heed_backends[i]; i++) {
        const heed_backend *backend = heed_backends[i];
        size_t w = 0;
        while (wants[w].isa != backend->isa)
            w++;
        check_case("%s", heed_isa_name(backend->isa));
        CHECK((backend->requires_cpu & wants[w].needs) == wants[w].needs, "asks only for %#x",
            (unsigned)backend->requires_cpu);
        CHECK(heed_backend_usable(backend, UINT32_MAX), "not usable with everything");
        CHECK(heed_backend_sleef_usable(backend, UINT32_MAX) == backend->has_sleef, "SLEEF with everything");
        for (uint32_t bit = 1; bit < UINT32_C(1) << HEED_CPU_COUNT; bit <<= 1) {
            CHECK(heed_backend_usable(backend, ~bit) == !(wants[w].needs & bit), "without %s",
                heed_cpu_feature_name(bit));
            if (wants[w].sleef_needs & bit)
                CHECK(!heed_backend_sleef_usable(backend, ~bit), "SLEEF without %s", heed_cpu_feature_name(bit));
        }
    }
}

/* The list is best first, without a gap or a double, and ends with the one that always works. */
static void list(void)
{
    size_t count = 0;
    while (heed_backends[count])
        count++;
    CHECK(count > 0 && heed_backends[count - 1]->isa == HEED_ISA_SCALAR, "scalar comes last");
    for (size_t i = 0; i < count; i++) {
        const heed_backend *b = heed_backends[i];
        CHECK(i == 0 || b->lanes < heed_backends[i - 1]->lanes, "%s is not narrower", heed_isa_name(b->isa));
        CHECK(b->lanes > 0 && HEED_LANES % b->lanes == 0 && b->mr > 0 && b->nr % b->lanes == 0 &&
                  HEED_BLOCK_KV % b->nr == 0,
            "%s: %d lanes, tile %d x %d", heed_isa_name(b->isa), (int)b->lanes, (int)b->mr, (int)b->nr);
        CHECK(heed_backend_find(b->isa) == b, "%s is not found by its name", heed_isa_name(b->isa));
        CHECK(b->pack_k && b->pack_v && b->qk_tile && b->pv_tile && b->finish_row && b->gemm_tile, "a NULL entry");
        for (int e = 0; e < HEED_EXP_KINDS; e++)
            CHECK(b->softmax_tile[e] && b->weights_row[e] && b->softmax_row[e] && b->exp[e], "a NULL entry");
    }
    CHECK(!heed_backend_find((heed_isa)77), "a backend 77");
}

static void names(void)
{
    for (uint32_t i = 0; i < HEED_CPU_COUNT; i++) {
        const char *name = heed_cpu_feature_name(UINT32_C(1) << i);
        CHECK(name && *name && !strpbrk(name, " \n") && strcmp(name, "unknown") != 0, "bit %u", (unsigned)i);
        for (uint32_t j = 0; j < i; j++)
            CHECK(
                strcmp(name, heed_cpu_feature_name(UINT32_C(1) << j)) != 0, "bits %u and %u", (unsigned)i, (unsigned)j);
    }
    CHECK(strcmp(heed_cpu_feature_name(HEED_CPU_AVX512VL), "avx512vl") == 0, "the name of a bit");
    CHECK(strcmp(heed_cpu_feature_name(0), "unknown") == 0, "no bit");
    CHECK(strcmp(heed_cpu_feature_name(HEED_CPU_AVX | HEED_CPU_FMA), "unknown") == 0, "two bits");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "x86_chips", x86_chips }, { "x86_cut", x86_cut },
        { "x86_systems", x86_systems }, { "x86_any", x86_any }, { "aarch64_chips", aarch64_chips },
        { "environment", environment }, { "requirements", requirements }, { "list", list }, { "names", names } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
