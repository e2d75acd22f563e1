/* The natural logarithm for LSE, from IEEE-754 double operations only, so that it has the same bits everywhere (libm's differ).
 * May know: nothing.  Must not know: anything. */
#ifndef HEED_LOG_H
#define HEED_LOG_H

#include "ieee.h"

/* log(x) for a finite x > 0, within some 1e-15 of its value. */
double heed_log(double x);

/* max + log(sum), the LSE of a row whose scores have this maximum and this sum of exp(score - max): -inf for a sum of 0, NaN
 * where either is NaN or infinite. */
float heed_lse(float max, float sum);

#endif
