/* CPU detection on AArch64: the answers of Linux, macOS and Windows as HWCAP words, the words as features.
 * May know: how to ask these systems.  Must not know: backends.
 * All but the questions themselves is compiled, and tested, on every machine. */
#include "cpu.h"

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#elif defined(__aarch64__) && defined(_WIN32)
#include <windows.h>
#endif

/* Bits of <asm/hwcap.h>, spelled out so that every machine can test them. */
static const uint64_t hwcap_asimd = 1 << 1, hwcap_fphp = 1 << 9, hwcap_asimdhp = 1 << 10, hwcap_asimddp = 1 << 20,
                      hwcap_sve = 1 << 22, hwcap2_i8mm = 1 << 13, hwcap2_bf16 = 1 << 14;

uint32_t heed_cpu_features_aarch64(const heed_hwcap_words *words)
{
    const uint64_t hwcap = words->hwcap, hwcap2 = words->hwcap2;
    if (!(hwcap & hwcap_asimd))
        return 0;
    uint32_t features = HEED_CPU_NEON;
    if ((hwcap & hwcap_fphp) && (hwcap & hwcap_asimdhp))
        features |= HEED_CPU_FP16;
    if (hwcap & hwcap_asimddp)
        features |= HEED_CPU_DOTPROD;
    if (hwcap & hwcap_sve)
        features |= HEED_CPU_SVE;
    if (hwcap2 & hwcap2_i8mm)
        features |= HEED_CPU_I8MM;
    if (hwcap2 & hwcap2_bf16)
        features |= HEED_CPU_BF16;
    return features;
}

/* Names of Apple's "Determining instruction set characteristics"; macOS 11 had others for some of them. */
heed_hwcap_words heed_hwcap_of_macos(int (*sysctl)(const void *context, const char *name), const void *context)
{
    const struct {
        const char *name, *old_name;
        uint64_t hwcap, hwcap2;
    } questions[] = {
        { "hw.optional.arm.FEAT_FP16", "hw.optional.neon_fp16", hwcap_fphp | hwcap_asimdhp, 0 },
        { "hw.optional.arm.FEAT_DotProd", NULL, hwcap_asimddp, 0 },
        { "hw.optional.arm.FEAT_I8MM", NULL, 0, hwcap2_i8mm },
        { "hw.optional.arm.FEAT_BF16", NULL, 0, hwcap2_bf16 },
    };
    heed_hwcap_words words = { 0, 0 };
    int simd = sysctl(context, "hw.optional.AdvSIMD");
    if (simd < 0)
        simd = sysctl(context, "hw.optional.neon");
    if (simd != 0) /* a sandbox may forbid the question; the system's ABI has Advanced SIMD */
        words.hwcap |= hwcap_asimd;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        int has = sysctl(context, questions[i].name);
        if (has < 0 && questions[i].old_name)
            has = sysctl(context, questions[i].old_name);
        if (has > 0) {
            words.hwcap |= questions[i].hwcap;
            words.hwcap2 |= questions[i].hwcap2;
        }
    }
    return words;
}

/* Numbers of <winnt.h>: older headers lack some, and older systems answer 0 to what they do not know. */
heed_hwcap_words heed_hwcap_of_windows(int (*present)(const void *context, uint32_t feature), const void *context)
{
    enum { ARM_NEON = 19, ARM_V82_DP = 43, ARM_SVE = 46, ARM_V82_I8MM = 66, ARM_V82_FP16 = 67, ARM_V86_BF16 = 68 };
    const struct {
        uint32_t feature;
        uint64_t hwcap, hwcap2;
    } questions[] = {
        { ARM_NEON, hwcap_asimd, 0 },
        { ARM_V82_FP16, hwcap_fphp | hwcap_asimdhp, 0 },
        { ARM_V82_DP, hwcap_asimddp, 0 },
        { ARM_SVE, hwcap_sve, 0 },
        { ARM_V82_I8MM, 0, hwcap2_i8mm },
        { ARM_V86_BF16, 0, hwcap2_bf16 },
    };
    heed_hwcap_words words = { 0, 0 };
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++)
        if (present(context, questions[i].feature)) {
            words.hwcap |= questions[i].hwcap;
            words.hwcap2 |= questions[i].hwcap2;
        }
    return words;
}

#if defined(__aarch64__)
#if defined(__linux__)
static heed_hwcap_words ask(void)
{
    const heed_hwcap_words words = { getauxval(AT_HWCAP), getauxval(AT_HWCAP2) };
    return words;
}
#elif defined(__APPLE__)
static int ask_sysctl(const void *context, const char *name)
{
    (void)context;
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) != 0 ? -1 : value != 0;
}

static heed_hwcap_words ask(void)
{
    return heed_hwcap_of_macos(ask_sysctl, NULL);
}
#elif defined(_WIN32)
static int ask_present(const void *context, uint32_t feature)
{
    (void)context;
    return IsProcessorFeaturePresent(feature) != 0;
}

static heed_hwcap_words ask(void)
{
    return heed_hwcap_of_windows(ask_present, NULL);
}
#else
static heed_hwcap_words ask(void)
{
    const heed_hwcap_words words = { 0, 0 }; /* a system that heed cannot ask promises nothing */
    return words;
}
#endif

uint32_t heed_cpu_detect(void)
{
    const heed_hwcap_words words = ask();
    return heed_cpu_features_aarch64(&words);
}

uint32_t heed_cpu_detect_preferences(void)
{
    return 0;
}
#endif
