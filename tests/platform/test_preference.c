/* What CPUs prefer, apart from what they can run: made-up and published CPUID words, and what dispatch makes of them.
 * May know: src/cpu.h, src/backend.h, check.h.
 * Must not know: the machine that runs the test. */
#include "backend.h"
#include "check.h"
#include "cpu.h"

#include <string.h>

enum {
    YMM_BITS = HEED_CPU_AVX | HEED_CPU_AVX2 | HEED_CPU_FMA | HEED_CPU_F16C,
    ZMM_BITS = YMM_BITS | HEED_CPU_AVX512F | HEED_CPU_AVX512DQ | HEED_CPU_AVX512BW | HEED_CPU_AVX512VL
};

/* size bytes of text as CPUID gives them, four a word, lowest first; zeros behind its end. */
static void words_of(uint32_t *words, size_t size, const char *text)
{
    const size_t length = strlen(text);
    for (size_t i = 0; i < size; i++) {
        if (i % 4 == 0)
            words[i / 4] = 0;
        words[i / 4] |= (uint32_t)(unsigned char)(i < length ? text[i] : '\0') << i % 4 * 8;
    }
}

static uint32_t preferences(const char *vendor, uint32_t signature, const char *brand)
{
    heed_cpuid_model model;
    words_of(model.vendor, sizeof model.vendor, vendor);
    words_of(model.brand, sizeof model.brand, brand);
    model.signature = signature;
    return heed_cpu_preferences_x86(&model);
}

static void chips(void)
{
    static const char intel[] = "GenuineIntel", amd[] = "AuthenticAMD";
    static const struct {
        const char *vendor;
        uint32_t signature;
        const char *brand;
        uint32_t want;
    } known[] = {
        { intel, 0x50654, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", HEED_CPU_PREFERS_256 },
        { intel, 0x50657, "Intel(R) Xeon(R) Silver 4214 CPU @ 2.20GHz", HEED_CPU_PREFERS_256 },
        { intel, 0x50654, "Intel(R) Xeon(R) Bronze 3106 CPU @ 1.70GHz", HEED_CPU_PREFERS_256 },
        { intel, 0x50657, "Intel(R) Xeon(R) Bronze 3204 CPU @ 1.90GHz", HEED_CPU_PREFERS_256 },
        { intel, 0x50654, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", 0 },
        { intel, 0x50654, "Intel(R) Xeon(R) Gold 5122 CPU @ 3.60GHz", 0 },
        { intel, 0x50657, "Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz", 0 },
        { intel, 0x50654, "Intel(R) Core(TM) i9-7900X CPU @ 3.30GHz", 0 },
        { intel, 0x50654, "Intel Xeon Processor (Skylake, IBRS)", 0 }, /* a hypervisor's */
        { intel, 0x50654, "", 0 },
        { intel, 0x606a6, "Intel(R) Xeon(R) Silver 4310 CPU @ 2.10GHz", 0 }, /* Ice Lake: two units */
        { intel, 0x406f1, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 0 }, /* no such thing: model 4fh */
        { intel, 0x50f54, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 0 }, /* nor this: family 15 */
        { intel, 0x00654, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 0 }, /* nor this: model 05h */
        { intel, 0x806c1, "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz", 0 },
        { amd, 0xa10f11, "AMD EPYC 9554 64-Core Processor", 0 },
        { amd, 0x50654, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 0 },
        { "", 0x50654, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 0 },
        { "", 0, "", 0 },
        { intel, 0x50654, "Intel(R) Xeon(R) Silver", 0 },
        { intel, 0x50654, "An Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz", 0 },
        { intel, 0x50654, "Intel(R) Xeon(R) Silver 4110 CPU @ 2.10GHz no end", HEED_CPU_PREFERS_256 }, /* cut to 48 */
        { intel, 0x50654, "................................................", 0 },
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        check_case("%s %#x '%s'", known[i].vendor, (unsigned)known[i].signature, known[i].brand);
        const uint32_t got = preferences(known[i].vendor, known[i].signature, known[i].brand);
        CHECK(got == known[i].want, "prefers %#x, want %#x", (unsigned)got, (unsigned)known[i].want);
    }
}

static void choice(void)
{
    static const struct {
        const char *what, *env;
        uint32_t features;
        heed_isa wants[3]; /* the first of them that is compiled */
    } machines[] = {
        { "AVX-512 legal, not preferred", NULL, ZMM_BITS, { HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_SCALAR } },
        { "AVX-512 legal, asked for", "avx512", ZMM_BITS, { HEED_ISA_AVX512, HEED_ISA_AVX2, HEED_ISA_SCALAR } },
        { "scalar asked for", "scalar", ZMM_BITS, { HEED_ISA_SCALAR } },
        { "nonsense asked for", "avx1024", ZMM_BITS, { HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_SCALAR } },
        { "AVX-512 neither", NULL, YMM_BITS, { HEED_ISA_AVX2, HEED_ISA_SCALAR } },
        { "AVX-512 neither, asked for", "avx512", YMM_BITS, { HEED_ISA_AVX2, HEED_ISA_SCALAR } },
        { "256 bits preferred, illegal", NULL, YMM_BITS & ~HEED_CPU_FMA, { HEED_ISA_SCALAR } },
        { "256 bits preferred, illegal, asked for", "avx2", HEED_CPU_AVX, { HEED_ISA_SCALAR } },
        { "nothing legal", NULL, 0, { HEED_ISA_SCALAR } },
        { "narrower than the preference", NULL, HEED_CPU_NEON, { HEED_ISA_NEON, HEED_ISA_SCALAR } },
    };
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        size_t w = 0;
        while (!heed_isa_compiled(machines[i].wants[w]))
            w++;
        check_case("%s", machines[i].what);
        const heed_backend *got = heed_backend_choose(machines[i].features, HEED_CPU_PREFERS_256, machines[i].env);
        if (CHECK(got != NULL, "no backend"))
            CHECK(got->isa == machines[i].wants[w], "chose %s, want %s", heed_isa_name(got->isa),
                heed_isa_name(machines[i].wants[w]));
    }
}

/* Whatever the features: the choice is legal, and a preference changes it only from wider vectors to 256 bits or
 * fewer. */
static void any(void)
{
    check_rng rng = check_rng_named("any");
    size_t wrong = 0;
    for (int i = 0; i < 20000; i++) {
        const uint32_t features = i % 2 ? (uint32_t)check_next(&rng) : (uint32_t)check_next(&rng) | ZMM_BITS;
        const heed_backend *without = heed_backend_choose(features, 0, NULL);
        const heed_backend *with = heed_backend_choose(features, HEED_CPU_PREFERS_256, NULL);
        wrong += !heed_backend_usable(with, features) || !heed_backend_usable(without, features);
        wrong += with != without && (without->lanes <= 8 || with->lanes > 8 || with->lanes == 1);
    }
    CHECK(wrong == 0, "%zu of 20000 made-up machines", wrong);
}

/* What this machine says of itself is no reason to refuse anything. */
static void separate(void)
{
    const int32_t bits = heed_cpu_preferred_bits();
    CHECK(bits == 0 || bits == 256, "%d bits", (int)bits);
    for (size_t i = 0; heed_backends[i]; i++)
        CHECK(heed_isa_usable(heed_backends[i]->isa) == heed_backend_usable(heed_backends[i], heed_cpu()),
            "%s: usable is not what the features say", heed_isa_name(heed_backends[i]->isa));
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "chips", chips }, { "choice", choice }, { "any", any },
        { "separate", separate } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
