/* The FMA peak loop for 256-bit vectors: AVX2 and FMA.
 * May know: AVX and FMA intrinsics.  Must not know: how the loop is used.
 * Compiled with these flags alone of all files beside fma_avx512.c: the program still runs on a baseline CPU. */
#include <immintrin.h>

enum {
    VEC_FLOATS = 8,
    CHAINS = 12 /* and two operands, of 16 registers */
};

typedef __m256 vec;

static inline vec vec_set1(float x)
{
    return _mm256_set1_ps(x);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
static inline void vec_store(float *to, vec a)
{
    _mm256_storeu_ps(to, a);
}

#include "fma_loop.h"

#include "machine.h"

extern const machine_loops machine_loops_avx2;
const machine_loops machine_loops_avx2 = { HEED_ISA_AVX2, 2 * VEC_FLOATS *CHAINS, fma_loop };
