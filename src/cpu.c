/* CPU detection: CPUID + XGETBV on x86, HWCAP on AArch64.
 * May know: how to ask the hardware and the system.  Must not know: backends.
 * Never probes by executing an instruction: only what the CPU and the system promise counts. */
#include "cpu.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

/* CPUID bits (Intel SDM volume 2, AMD APM volume 3). */
enum {
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_OSXSAVE = 1 << 27,
    LEAF1_ECX_AVX = 1 << 28,
    LEAF1_ECX_F16C = 1 << 29,
    LEAF7_EBX_AVX2 = 1 << 5,
    LEAF7_EBX_AVX512F = 1 << 16,
    LEAF7_EBX_AVX512DQ = 1 << 17,
    LEAF7_EBX_AVX512BW = 1 << 30,
    XCR0_YMM = 0x06, /* SSE and AVX state */
    XCR0_ZMM = 0xe6  /* and opmask, upper ZMM0-15, ZMM16-31 */
};
static const uint32_t LEAF7_EBX_AVX512VL = UINT32_C(1) << 31;

static uint32_t avx512_features(const heed_cpuid_words *words)
{
    if ((words->xcr0 & XCR0_ZMM) != XCR0_ZMM || !(words->leaf7_ebx & LEAF7_EBX_AVX512F))
        return 0;
    uint32_t features = HEED_CPU_AVX512F;
    if (words->leaf7_ebx & LEAF7_EBX_AVX512DQ)
        features |= HEED_CPU_AVX512DQ;
    if (words->leaf7_ebx & LEAF7_EBX_AVX512BW)
        features |= HEED_CPU_AVX512BW;
    if (words->leaf7_ebx & LEAF7_EBX_AVX512VL)
        features |= HEED_CPU_AVX512VL;
    return features;
}

uint32_t heed_cpu_features_x86(const heed_cpuid_words *words)
{
    const uint32_t needed = LEAF1_ECX_OSXSAVE | LEAF1_ECX_AVX;
    if (words->max_leaf < 1 || (words->leaf1_ecx & needed) != needed || (words->xcr0 & XCR0_YMM) != XCR0_YMM)
        return 0; /* without AVX the later bits may still be set (seen with AVX masked off), and mean nothing */
    uint32_t features = HEED_CPU_AVX;
    if (words->leaf1_ecx & LEAF1_ECX_FMA)
        features |= HEED_CPU_FMA;
    if (words->leaf1_ecx & LEAF1_ECX_F16C)
        features |= HEED_CPU_F16C;
    if (words->max_leaf < 7)
        return features;
    if (words->leaf7_ebx & LEAF7_EBX_AVX2)
        features |= HEED_CPU_AVX2 | avx512_features(words);
    return features;
}

/* Bits of <asm/hwcap.h>, spelled out so that every machine can test them. */
uint32_t heed_cpu_features_aarch64(uint64_t hwcap, uint64_t hwcap2)
{
    const uint64_t hwcap_asimd = 1 << 1, hwcap_fphp = 1 << 9, hwcap_asimdhp = 1 << 10, hwcap_asimddp = 1 << 20,
                   hwcap_sve = 1 << 22, hwcap2_i8mm = 1 << 13, hwcap2_bf16 = 1 << 14;
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

#if defined(__x86_64__) || defined(__i386__)
static uint32_t read_xcr0(void)
{
    uint32_t low, high;
    /* The bytes of XGETBV: the mnemonic needs -mxsave, which a baseline file must not have. */
    __asm__ volatile(".byte 0x0f, 0x01, 0xd0" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    return low;
}

uint32_t heed_cpu_detect(void)
{
    heed_cpuid_words words = { 0, 0, 0, 0 };
    uint32_t eax, ebx, ecx, edx;
    words.max_leaf = (uint32_t)__get_cpuid_max(0, NULL);
    if (words.max_leaf >= 1) {
        __cpuid(1, eax, ebx, ecx, edx);
        words.leaf1_ecx = ecx;
    }
    if (words.max_leaf >= 7) {
        __cpuid_count(7, 0, eax, ebx, ecx, edx);
        words.leaf7_ebx = ebx;
    }
    if (words.leaf1_ecx & LEAF1_ECX_OSXSAVE)
        words.xcr0 = read_xcr0();
    return heed_cpu_features_x86(&words);
}
#elif defined(__aarch64__) && defined(__linux__)
uint32_t heed_cpu_detect(void)
{
    return heed_cpu_features_aarch64(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
}
#elif defined(__aarch64__)
uint32_t heed_cpu_detect(void)
{
    return HEED_CPU_NEON; /* every AArch64 system of Apple and Microsoft has Advanced SIMD */
}
#else
uint32_t heed_cpu_detect(void)
{
    return 0;
}
#endif

const char *heed_cpu_feature_name(uint32_t bit)
{
    static const char *const names[HEED_CPU_COUNT] = { "avx", "avx2", "fma", "f16c", "avx512f", "avx512dq", "avx512bw",
        "avx512vl", "neon", "fp16", "dotprod", "sve", "i8mm", "bf16" };
    for (int i = 0; i < HEED_CPU_COUNT; i++)
        if (bit == UINT32_C(1) << i)
            return names[i];
    return "unknown";
}
