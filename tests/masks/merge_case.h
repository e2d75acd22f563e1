/* Partial results merged through the public API in guarded memory, and the formula in double.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_MERGE_CASE_H
#define HEED_TESTS_MERGE_CASE_H

#include "check.h"

enum { MERGE_MOST_PARTS = 64 };

/* Partial results of rows, each packed with its own row stride. */
typedef struct merge_parts {
    int64_t count, rows, dim, stride;
    float *out[MERGE_MOST_PARTS], *lse[MERGE_MOST_PARTS];
} merge_parts;

typedef struct merged {
    float *out, *lse; /* packed */
} merged;

/* Zeros, NaN between rows. */
merge_parts merge_make_parts(int64_t count, int64_t rows, int64_t dim, int64_t stride);
merge_parts merge_random_parts(check_rng *rng);
void merge_free_parts(merge_parts *p);

/* Merges in guarded memory; the output's row stride is dim + gap. */
merged merge_run(const merge_parts *p, heed_isa isa, heed_exp exp, int64_t gap);
void merge_free(merged *m);

/* One row of finite parts, or of LSE -inf, against the formula. */
void merge_check_row(const merge_parts *p, const merged *got, int64_t row);

#endif
