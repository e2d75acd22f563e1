/* CPU detection on x86, by CPUID and XGETBV, and the names of all features; cpu_arm.c has AArch64.
 * May know: how to ask the hardware.  Must not know: backends.
 * Never probes by executing an instruction: only what the CPU and the system promise counts. */
#include "cpu.h"

#include <string.h>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
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

/* The bytes of count words, lowest first, and a final 0. */
static void text_of(char *text, const uint32_t *words, size_t count)
{
    for (size_t i = 0; i < 4 * count; i++)
        text[i] = (char)(words[i / 4] >> i % 4 * 8 & 0xff);
    text[4 * count] = '\0';
}

static int starts_with(const char *text, const char *start)
{
    while (*start && *text == *start)
        text++, start++;
    return *start == '\0';
}

/* Intel's Xeon Silver and Bronze of family 6, model 55h (Skylake and Cascade Lake).  They have one unit for products
 * of 512 bits (Intel's product pages, "# of AVX-512 FMA Units": 1), the two for 256 bits working as one, so that a
 * cycle does the same work either way; but heavy 512-bit instructions have the lowest of the three clocks of these
 * chips.  See Intel's Optimization Reference Manual: "Skylake Server Power Management" and "Servers with a Single
 * FMA Unit".  CPUID tells neither the number of units nor the clocks, so the name must; a hypervisor that hides it
 * leaves no preference.  Not listed, for they are better off with AVX-512 here: chips with two units (all Platinum
 * and most Gold: twice the products a cycle outweigh the clock), the later ones with one unit (Ice Lake, Tiger Lake,
 * Rocket Lake: their clock hardly falls), and Zen 4, measured with heed_bench. */
uint32_t heed_cpu_preferences_x86(const heed_cpuid_model *model)
{
    char vendor[13], brand[49];
    text_of(vendor, model->vendor, 3);
    text_of(brand, model->brand, 12);
    const uint32_t family = model->signature >> 8 & 0xf;
    const uint32_t number = (model->signature >> 4 & 0xf) | (model->signature >> 12 & 0xf0);
    if (strcmp(vendor, "GenuineIntel") != 0 || family != 6 || number != 0x55)
        return 0;
    const int one_unit =
        starts_with(brand, "Intel(R) Xeon(R) Silver ") || starts_with(brand, "Intel(R) Xeon(R) Bronze ");
    return one_unit ? HEED_CPU_PREFERS_256 : 0;
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

uint32_t heed_cpu_detect_preferences(void)
{
    heed_cpuid_model model = { { 0 }, 0, { 0 } };
    uint32_t last, unused[3];
    __cpuid(0, last, model.vendor[0], model.vendor[2], model.vendor[1]);
    if (last >= 1)
        __cpuid(1, model.signature, unused[0], unused[1], unused[2]);
    __cpuid(0x80000000, last, unused[0], unused[1], unused[2]);
    for (uint32_t i = 0; i < 3 && last >= 0x80000004; i++) {
        uint32_t *brand = model.brand + 4 * i;
        __cpuid(0x80000002 + i, brand[0], brand[1], brand[2], brand[3]);
    }
    return heed_cpu_preferences_x86(&model);
}
#elif !defined(__aarch64__)
uint32_t heed_cpu_detect(void)
{
    return 0;
}

uint32_t heed_cpu_detect_preferences(void)
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
