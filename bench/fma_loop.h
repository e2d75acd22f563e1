/* The one text of the loop that finds the FMA peak, compiled once for each vector width by fma_<isa>.c.
 * May know: what the including file defines: vec, VEC_FLOATS, CHAINS, vec_set1, vec_fma, vec_store.  Must not know:
 * which instruction set that is.
 *
 * A fused multiply-add takes about 4 cycles and a core starts 2 to 4 of them a cycle: 8 to 16 independent chains keep
 * every unit busy.  The chains must stay in registers, or their loads and stores are measured instead. */
#ifndef HEED_BENCH_FMA_LOOP_H
#define HEED_BENCH_FMA_LOOP_H

#include "kernels/common.h"

#include <stdint.h>

/* seed[0] is the factor, seed[1] the summand: read from memory, so that the compiler can foresee nothing.  The value
 * returned depends on every chain. */
static float fma_loop(int64_t rounds, const float seed[2])
{
    const vec factor = vec_set1(seed[0]), summand = vec_set1(seed[1]);
    vec chain[CHAINS];
    UNROLL
    for (int i = 0; i < CHAINS; i++)
        chain[i] = vec_set1((float)i);
    for (; rounds > 0; rounds--) {
        UNROLL
        for (int i = 0; i < CHAINS; i++)
            chain[i] = vec_fma(chain[i], factor, summand);
    }
    UNROLL
    for (int i = 1; i < CHAINS; i++)
        chain[0] = vec_fma(chain[i], factor, chain[0]);
    float lanes[VEC_FLOATS], sum = 0.0f;
    vec_store(lanes, chain[0]);
    for (int i = 0; i < VEC_FLOATS; i++)
        sum += lanes[i];
    return sum;
}

#endif
