/* One projection run through the public API in guarded memory, and its oracle.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_LINEAR_CASE_H
#define HEED_TESTS_LINEAR_CASE_H

#include "check.h"

typedef struct linear_case {
    int64_t rows, in, out, stride_x, stride_y;
    bool transposed, bias; /* transposed: stored [out][in] */
    int64_t pad;           /* added to the outer stride of the weight */
} linear_case;

typedef struct linear_data {
    float *x, *weight, *bias; /* x packed, weight with its strides */
} linear_data;

/* Random values; gaps of the weight are NaN. */
linear_data linear_fill(const linear_case *c, check_rng *rng, check_values kind);
void linear_free(linear_data *d);

/* Runs the case on guarded memory and returns y packed. */
float *linear_run(const linear_case *c, const linear_data *d, const heed_options *options, check_side side);

/* A result of finite numbers against the oracle. */
void linear_check_oracle(const linear_case *c, const linear_data *d, const float *y);

/* The scalar backend against the oracle, all backends against the scalar bits. */
void linear_verify(const linear_case *c, check_rng *rng, check_values kind, int32_t threads);

#endif
