/* What the tests of the kernel tables share: the usable tables, sizes, random rows, storage types.
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

/* Elements of a storage type: bytes, and what each means, by a definition of its own. */
typedef struct kernel_stored {
    heed_type type;
    size_t size; /* bytes of an element */
    unsigned char *bytes;
    float *values;
} kernel_stored;

const char *kernels_type_name(heed_type type);

/* Random finite elements of like magnitude, some of them subnormal or -0. */
kernel_stored kernels_stored(check_rng *rng, heed_type type, size_t count);

/* Makes an element NaN, infinite, -infinite (which: 0, 1, 2) or the largest finite one (3); int8 has only the last. */
void kernels_stored_set(kernel_stored *s, size_t index, size_t which);

/* Elements from first on, read-only, up to a page that cannot be read. */
const void *kernels_stored_input(const kernel_stored *s, size_t first, size_t count);
void kernels_stored_free(kernel_stored *s);

size_t kernels_up(size_t n, size_t multiple);
float *kernels_random(check_rng *rng, size_t count);

#endif /* HEED_TESTS_KERNELS_H */
