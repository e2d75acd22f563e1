/* What test_vec.c offers to its main: the tests of one vec.h, compiled with that instruction set's flags.
 * May know: check.h.  Must not know: vectors. */
#ifndef HEED_TESTS_VEC_SUITE_H
#define HEED_TESTS_VEC_SUITE_H

#include "check.h"

typedef struct vec_suite {
    const char *name;
    uint32_t requires_cpu,
        sleef_requires_cpu; /* HEED_CPU_* bits without which no test may run, respectively the last */
    const check_test *tests;
    size_t count, sleef; /* how many tests there are; how many of them, at the end, are SLEEF's */
} vec_suite;

extern const vec_suite vec_under_test;

/* SLEEF's exp for one number, whose bits vf_exp_sleef must have; only with HEED_WITH_SLEEF. */
float vec_suite_exp(float x);

#endif
