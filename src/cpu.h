/* CPU features as a set of bits, computed by pure functions of the words the hardware reports.
 * May know: CPUID, XCR0 and HWCAP words.  Must not know: backends.
 * Pure, so that tests feed in the words of machines nobody has at hand. */
#ifndef HEED_CPU_H
#define HEED_CPU_H

#include <stddef.h>
#include <stdint.h>

enum {
    HEED_CPU_AVX = 1 << 0,
    HEED_CPU_AVX2 = 1 << 1,
    HEED_CPU_FMA = 1 << 2,
    HEED_CPU_F16C = 1 << 3,
    HEED_CPU_AVX512F = 1 << 4,
    HEED_CPU_AVX512DQ = 1 << 5,
    HEED_CPU_AVX512BW = 1 << 6,
    HEED_CPU_AVX512VL = 1 << 7,
    HEED_CPU_NEON = 1 << 8,
    HEED_CPU_FP16 = 1 << 9, /* AArch64 half-precision arithmetic, scalar and vector */
    HEED_CPU_DOTPROD = 1 << 10,
    HEED_CPU_SVE = 1 << 11,
    HEED_CPU_I8MM = 1 << 12,
    HEED_CPU_BF16 = 1 << 13,
    HEED_CPU_COUNT = 14
};

/* What CPUID and XGETBV answer.  Leaves above max_leaf must be given as 0; xcr0 as 0 when OSXSAVE is clear. */
typedef struct heed_cpuid_words {
    uint32_t max_leaf;
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t xcr0; /* low half: the register state the operating system saves */
} heed_cpuid_words;

/* A feature counts only if the CPU has it AND the operating system saves its registers. */
uint32_t heed_cpu_features_x86(const heed_cpuid_words *words);

/* Linux AT_HWCAP and AT_HWCAP2 of AArch64. */
uint32_t heed_cpu_features_aarch64(uint64_t hwcap, uint64_t hwcap2);

/* The features of this machine. */
uint32_t heed_cpu_detect(void);

/* "avx2" for HEED_CPU_AVX2, ...; bit is one bit. */
const char *heed_cpu_feature_name(uint32_t bit);

#endif
