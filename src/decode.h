/* Attention for few query rows.
 * May know: plans, row blocks.  Must not know: kernels, OpenMP. */
#ifndef HEED_DECODE_H
#define HEED_DECODE_H

#include "rows.h"

/* 1 if all queries of the sequence fit one block of rows, which then reads keys and values from where they are. */
int heed_is_short(const heed_plan *plan, const heed_sequence *s);

/* Blocks of keys for such rows, merged into their state. */
void heed_short_blocks(heed_row_block *t, heed_span blocks);

#endif
