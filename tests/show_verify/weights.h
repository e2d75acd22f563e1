/* Weights files for the tests of heed show.
 * May know: npy.h, check.h.
 * Must not know: how they are shown. */
#ifndef HEED_TESTS_WEIGHTS_H
#define HEED_TESTS_WEIGHTS_H

#include <stdint.h>

/* "cats chase mice": cats.npy [3][3] and cats.txt. */
void weights_cats(void);

/* heads identity matrices of size x size. */
void weights_identity(const char *path, int64_t heads, int64_t size);

/* [rows][cols] of 1/cols, but for one place. */
void weights_spike(const char *path, int64_t rows, int64_t cols, int64_t row, int64_t col, float spike);

/* Any values. */
void weights_save(const char *path, const float *values, int ndim, const int64_t *shape);

#endif
