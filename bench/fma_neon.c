/* The FMA peak loop for 128-bit vectors: AArch64 Advanced SIMD.
 * May know: Advanced SIMD intrinsics.  Must not know: how the loop is used.
 * Four units of four cycles, the most there is today, need 16 chains. */
#include <arm_neon.h>

enum {
    VEC_FLOATS = 4,
    CHAINS = 24 /* of 32 registers */
};

typedef float32x4_t vec;

static inline vec vec_set1(float x)
{
    return vdupq_n_f32(x);
}
static inline vec vec_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
static inline void vec_store(float *to, vec a)
{
    vst1q_f32(to, a);
}

#include "fma_loop.h"

#include "machine.h"

extern const machine_loops machine_loops_neon;
const machine_loops machine_loops_neon = { HEED_ISA_NEON, 2 * VEC_FLOATS *CHAINS, fma_loop };
