/* What the tests of the kernel tables share: the usable tables, sizes, random rows.
 * May know: src/backend.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#ifndef HEED_TESTS_KERNELS_H
#define HEED_TESTS_KERNELS_H

#include "backend.h"
#include "check.h"

/* The tables this machine can run, the scalar one first; ends with NULL. */
typedef struct kernel_tables {
    const heed_backend *list[CHECK_MAX_BACKENDS + 1];
} kernel_tables;

kernel_tables kernels_usable(void);

/* 1 if the scalar backend, hence every usable one, has SLEEF here. */
int kernels_have_sleef(void);

size_t kernels_up(size_t n, size_t multiple);
float *kernels_random(check_rng *rng, size_t count);

#endif /* HEED_TESTS_KERNELS_H */
