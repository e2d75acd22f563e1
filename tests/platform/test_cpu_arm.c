/* Detection on AArch64 under macOS and Windows, whose answers are made up here: to HWCAP words, and on to features.
 * May know: src/cpu.h, check.h.
 * Must not know: the machine that runs the test. */
#include "check.h"
#include "cpu.h"

#include <string.h>

enum { N1 = HEED_CPU_NEON | HEED_CPU_FP16 | HEED_CPU_DOTPROD, M2 = N1 | HEED_CPU_I8MM | HEED_CPU_BF16, QUESTIONS = 8 };

/* What a system answers; every question that is not listed gets -1 (macOS: unknown) or 0 (Windows). */
typedef struct answers {
    const char *what;
    struct {
        const char *name;
        int value;
    } sysctls[QUESTIONS];
    uint32_t present[QUESTIONS];
    uint32_t features;
} answers;

static int answer_sysctl(const void *context, const char *name)
{
    const answers *system = context;
    for (int i = 0; i < QUESTIONS && system->sysctls[i].name; i++)
        if (strcmp(system->sysctls[i].name, name) == 0)
            return system->sysctls[i].value;
    return -1;
}

static int answer_present(const void *context, uint32_t feature)
{
    const answers *system = context;
    for (int i = 0; i < QUESTIONS && system->present[i]; i++)
        if (system->present[i] == feature)
            return 1;
    return 0;
}

static void expect(const answers *system, heed_hwcap_words words)
{
    check_case("%s", system->what);
    const uint32_t got = heed_cpu_features_aarch64(&words);
    CHECK(got == system->features, "features %#x, want %#x", (unsigned)got, (unsigned)system->features);
}

static void macos(void)
{
    static const answers systems[] = {
        { "M1",
            { { "hw.optional.AdvSIMD", 1 }, { "hw.optional.arm.FEAT_FP16", 1 }, { "hw.optional.arm.FEAT_DotProd", 1 },
                { "hw.optional.arm.FEAT_I8MM", 0 }, { "hw.optional.arm.FEAT_BF16", 0 } },
            { 0 }, N1 },
        { "M2",
            { { "hw.optional.AdvSIMD", 1 }, { "hw.optional.arm.FEAT_FP16", 1 }, { "hw.optional.arm.FEAT_DotProd", 1 },
                { "hw.optional.arm.FEAT_I8MM", 1 }, { "hw.optional.arm.FEAT_BF16", 1 } },
            { 0 }, M2 },
        { "macOS 11, which has older names", { { "hw.optional.neon", 1 }, { "hw.optional.neon_fp16", 1 } }, { 0 },
            HEED_CPU_NEON | HEED_CPU_FP16 },
        { "a sandbox that answers nothing", { { NULL, 0 } }, { 0 }, HEED_CPU_NEON },
        { "the new name goes before the old", { { "hw.optional.arm.FEAT_FP16", 0 }, { "hw.optional.neon_fp16", 1 } },
            { 0 }, HEED_CPU_NEON },
        { "no Advanced SIMD, by either name",
            { { "hw.optional.AdvSIMD", 0 }, { "hw.optional.neon", 1 }, { "hw.optional.arm.FEAT_FP16", 1 } }, { 0 }, 0 },
        { "no Advanced SIMD, by the old name", { { "hw.optional.neon", 0 }, { "hw.optional.arm.FEAT_I8MM", 1 } }, { 0 },
            0 },
        { "names of a Mac of the other kind", { { "hw.optional.avx2_0", 1 }, { "hw.optional.avx512f", 1 } }, { 0 },
            HEED_CPU_NEON },
    };
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++)
        expect(&systems[i], heed_hwcap_of_macos(answer_sysctl, &systems[i]));
}

/* The numbers are those of <winnt.h>. */
static void windows(void)
{
    static const answers systems[] = {
        { "Windows 10 on a Cortex-A72", { { NULL, 0 } }, { 18, 19, 29, 30, 31 }, HEED_CPU_NEON },
        { "Windows 11 on a Neoverse-N1, without a number for f16", { { NULL, 0 } }, { 19, 29, 34, 43 },
            HEED_CPU_NEON | HEED_CPU_DOTPROD },
        { "Windows 11 24H2 on a Neoverse-N1", { { NULL, 0 } }, { 19, 29, 43, 67 }, N1 },
        { "Windows 11 24H2 on an Oryon", { { NULL, 0 } }, { 19, 29, 43, 66, 67, 68 }, M2 },
        { "Windows 11 24H2 on a Neoverse-N2", { { NULL, 0 } }, { 19, 43, 46, 47, 66, 67, 68 }, M2 | HEED_CPU_SVE },
        { "SVE's own i8mm, bf16 and f32mm", { { NULL, 0 } }, { 19, 52, 57, 58 }, HEED_CPU_NEON },
        { "everything but Advanced SIMD", { { NULL, 0 } }, { 43, 46, 66, 67, 68 }, 0 },
        { "nothing", { { NULL, 0 } }, { 0 }, 0 },
    };
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++)
        expect(&systems[i], heed_hwcap_of_windows(answer_present, &systems[i]));
}

/* The words themselves, as Linux has them: nothing else may be set. */
static void words(void)
{
    static const answers all_macos = { "",
        { { "hw.optional.AdvSIMD", 1 }, { "hw.optional.arm.FEAT_FP16", 1 }, { "hw.optional.arm.FEAT_DotProd", 1 },
            { "hw.optional.arm.FEAT_I8MM", 1 }, { "hw.optional.arm.FEAT_BF16", 1 } },
        { 0 }, 0 };
    static const answers all_windows = { "", { { NULL, 0 } }, { 19, 43, 46, 66, 67, 68 }, 0 };
    const heed_hwcap_words m = heed_hwcap_of_macos(answer_sysctl, &all_macos);
    const heed_hwcap_words w = heed_hwcap_of_windows(answer_present, &all_windows);
    CHECK(m.hwcap == 0x100602 && m.hwcap2 == 0x6000, "macOS: %#llx %#llx", (unsigned long long)m.hwcap,
        (unsigned long long)m.hwcap2);
    CHECK(w.hwcap == 0x500602 && w.hwcap2 == 0x6000, "Windows: %#llx %#llx", (unsigned long long)w.hwcap,
        (unsigned long long)w.hwcap2);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "macos", macos }, { "windows", windows }, { "words", words } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
