/* Included last by every src/<isa>/backend.c: compiles the one text of each kernel over that folder's vec.h and fills the table.
 * May know: the names of all kernels.  Must not know: instruction sets. */
#ifndef HEED_KERNELS_TABLE_H
#define HEED_KERNELS_TABLE_H

#include "../backend.h"
#include "../cpu.h"

#include <math.h>

_Static_assert(HEED_LANES % VEC_LANES == 0, "virtual lanes must be whole vectors");

#include "exp.h"
#include "tile.h"

#include "pack.h"

#include "convert.h"

#include "decode.h"
#include "softmax.h"

#include "scores.h"

extern const heed_backend HEED_FN(heed_backend);
const heed_backend HEED_FN(heed_backend) = {
    .isa = VEC_ISA,
    .requires_cpu = VEC_REQUIRES,
    .sleef_requires_cpu = VEC_SLEEF_REQUIRES,
#ifdef HEED_WITH_SLEEF
    .has_sleef = 1,
#endif
    .lanes = VEC_LANES,
    .mr = TILE_M,
    .nr = NR,
    .pack_k = HEED_FN(pack_k),
    .pack_kt = HEED_FN(pack_kt),
    .pack_v = HEED_FN(pack_v),
    .widen_row = HEED_FN(widen_row),
    .narrow_row = HEED_FN(narrow_row),
    .qk_tile = HEED_FN(qk_tile),
    .score_row = HEED_FN(score_row),
    .softmax_tile = { HEED_FN(softmax_tile_builtin), HEED_FN(softmax_tile_sleef) },
    .merge_rows = { HEED_FN(merge_rows_builtin), HEED_FN(merge_rows_sleef) },
    .scale_row = HEED_FN(scale_row),
    .pv_tile = HEED_FN(pv_tile),
    .blend_row = HEED_FN(blend_row),
    .qk_few = HEED_FN(qk_few),
    .qk_few_t = HEED_FN(qk_few_t),
    .pv_few = HEED_FN(pv_few),
    .finish_row = HEED_FN(finish_row),
    .weights_row = { HEED_FN(weights_row_builtin), HEED_FN(weights_row_sleef) },
    .gemm_tile = HEED_FN(gemm_tile),
    .softmax_row = { HEED_FN(softmax_row_builtin), HEED_FN(softmax_row_sleef) },
    .exp = { HEED_FN(exp_row_builtin), HEED_FN(exp_row_sleef) },
};

#endif
