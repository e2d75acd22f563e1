/* CPU features and preferences as sets of bits, by pure functions of the words that hardware and system report.
 * May know: CPUID, XCR0 and HWCAP words, the questions that macOS and Windows answer.  Must not know: backends.
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

/* What a CPU is better off with, whatever else it can run: never a reason to run, or to refuse, anything. */
enum { HEED_CPU_PREFERS_256 = 1 << 0 /* vectors of at most 256 bits */ };

/* What CPUID and XGETBV answer.  Leaves above max_leaf must be given as 0; xcr0 as 0 when OSXSAVE is clear. */
typedef struct heed_cpuid_words {
    uint32_t max_leaf;
    uint32_t leaf1_ecx;
    uint32_t leaf7_ebx;
    uint32_t xcr0; /* low half: the register state the operating system saves */
} heed_cpuid_words;

/* Which CPU it is, as CPUID says.  Leaves beyond the last must be given as 0. */
typedef struct heed_cpuid_model {
    uint32_t vendor[3]; /* leaf 0: EBX, EDX, ECX */
    uint32_t signature; /* leaf 1 EAX: family, model, stepping */
    uint32_t brand[12]; /* leaves 0x80000002 to 0x80000004: EAX, EBX, ECX, EDX of each */
} heed_cpuid_model;

/* A feature counts only if the CPU has it AND the operating system saves its registers. */
uint32_t heed_cpu_features_x86(const heed_cpuid_words *words);

/* HEED_CPU_PREFERS_* bits. */
uint32_t heed_cpu_preferences_x86(const heed_cpuid_model *model);

/* AArch64: everything becomes the two words that Linux has, AT_HWCAP and AT_HWCAP2. */
typedef struct heed_hwcap_words {
    uint64_t hwcap, hwcap2;
} heed_hwcap_words;

uint32_t heed_cpu_features_aarch64(const heed_hwcap_words *words);

/* macOS: sysctl(name) is 1, 0, or -1 where the system does not know the name. */
heed_hwcap_words heed_hwcap_of_macos(int (*sysctl)(const void *context, const char *name), const void *context);

/* Windows: present(feature) is what IsProcessorFeaturePresent says, 0 for features it does not know. */
heed_hwcap_words heed_hwcap_of_windows(int (*present)(const void *context, uint32_t feature), const void *context);

/* The features and preferences of this machine. */
uint32_t heed_cpu_detect(void);
uint32_t heed_cpu_detect_preferences(void);

/* "avx2" for HEED_CPU_AVX2, ...; bit is one bit. */
const char *heed_cpu_feature_name(uint32_t bit);

#endif
