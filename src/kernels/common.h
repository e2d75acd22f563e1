/* Compiler spellings shared by the kernel texts and the vec.h files: the only place for them.
 * May know: the compiler.  Must not know: an instruction set or an algorithm.
 * Everything is static and always inlined, so no object leaves a function another object could pick up. */
#ifndef HEED_KERNELS_COMMON_H
#define HEED_KERNELS_COMMON_H

#include "../ieee.h"

#include <stddef.h>

enum { CACHE_LINE = 64 /* bytes */ };

#define INLINE static inline __attribute__((always_inline))
/* A register tile has no vector register to spare: apart from its caller, nothing else can be live across its loop.  One copy is enough,
 * where gcc makes one for each constant that it is called with. */
#if defined(__clang__)
#define NOINLINE static __attribute__((noinline))
#define RARE NOINLINE
#else
#define NOINLINE static __attribute__((noinline, noclone))
#define RARE static __attribute__((noinline, noclone, cold))
#endif

/* A function of one short loop that begins a line of code: where it falls across two, the loop may take half as long again. */
#define ALONE NOINLINE __attribute__((aligned(64)))

/* Full unrolling of the register loops: without it gcc -O2 keeps the accumulators of a tile in memory (a third of the
 * speed), and clang does when given gcc's spelling. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#elif defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 64")
#define ROLLED _Pragma("GCC unroll 1")
#else
#define UNROLL
#define ROLLED
#endif

/* x, of which clang then knows nothing: left to itself it derives the rows of a tile from each other by additions
 * inside the loop (53 instructions instead of 42 for the 12 x 2 tile of AVX-512).  gcc does better when it knows. */
INLINE size_t opaque(size_t x)
{
#if defined(__clang__)
    __asm__("" : "+r"(x));
#endif
    return x;
}

/* The same address, unknown to the compiler: what was read from it is read again, where the compiler would keep it in registers
 * that are not there, that is on the stack. */
INLINE const float *fresh(const float *p)
{
#if defined(__GNUC__)
    __asm__("" : "+r"(p));
#endif
    return p;
}

/* qk_tile -> qk_tile_avx2: profiles and backtraces say which backend ran. */
#define HEED_PASTE2(name, isa) name##_##isa
#define HEED_PASTE(name, isa) HEED_PASTE2(name, isa)
#define HEED_FN(name) HEED_PASTE(name, HEED_ISA_SUFFIX)

#endif
