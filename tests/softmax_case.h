/* Row softmax run through the public API in guarded memory, and its oracle.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_SOFTMAX_CASE_H
#define HEED_TESTS_SOFTMAX_CASE_H

#include "check.h"

typedef struct softmax_case {
    int64_t rows, cols, stride_x, stride_y;
    bool in_place;
    const int32_t *lengths;
} softmax_case;

/* Elements from the first row to the end of the last. */
size_t softmax_span(int64_t rows, int64_t stride, int64_t cols);

/* Runs in guarded memory; x holds stride_x-strided rows.  Returns y packed. */
float *softmax_run(const softmax_case *c, const float *x, heed_isa isa, heed_exp exp, check_side side);

void softmax_check_oracle(const softmax_case *c, const float *x, const float *y);

/* One exp on all backends that have it; the first result is also checked against the oracle. */
void softmax_verify(const softmax_case *c, const float *x, heed_exp exp, check_side side);
void softmax_verify_all(const softmax_case *c, const float *x, check_side side); /* all of heed_exp */

#endif
