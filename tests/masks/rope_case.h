/* Rotary embedding through the public API in guarded memory: tables in long double, rotations bit for bit.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_ROPE_CASE_H
#define HEED_TESTS_ROPE_CASE_H

#include "check.h"

/* A table from position first on, each value within its bound. */
void rope_check_table(const heed_rope_desc *d, int64_t first, int64_t positions);

typedef struct rope_rotation {
    heed_rope_pairs pairs;
    int64_t dim, width, batch, heads, seq, table_row;
    heed_strides strides;
    size_t span;
} rope_rotation;

rope_rotation rope_random(check_rng *rng);

/* Of random numbers by random tables. */
void rope_check_rotation(const rope_rotation *r, check_rng *rng);

#endif
