/* The FMA peak loop for 512-bit vectors: AVX-512F.
 * May know: AVX-512 intrinsics.  Must not know: how the loop is used.
 * Compiled with these flags alone of all files beside fma_avx2.c: the program still runs on a baseline CPU. */
#include <immintrin.h>

enum {
    VEC_FLOATS = 16,
    CHAINS = 16 /* of 32 registers */
};

typedef __m512 vec;

static inline vec vec_set1(float x)
{
    return _mm512_set1_ps(x);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
static inline void vec_store(float *to, vec a)
{
    _mm512_storeu_ps(to, a);
}

#include "fma_loop.h"

#include "machine.h"

extern const machine_loops machine_loops_avx512;
const machine_loops machine_loops_avx512 = { HEED_ISA_AVX512, 2 * VEC_FLOATS *CHAINS, fma_loop };
