/* Files of NumPy's .npy format: reading versions 1 to 3, writing version 1.
 * May know: the format.
 * Must not know: attention, the library heed. */
#ifndef HEED_TOOL_NPY_H
#define HEED_TOOL_NPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { NPY_MAX_DIMS = 8 };

/* Which dtypes are wanted and what they become: f2, f4 and f8 of either byte order as binary32, or as binary64; b1 and
 * u1 as bytes.  NumPy has no bfloat16: ml_dtypes saves it as V2, two bytes without a meaning, which are read only where
 * the user has said that they are bfloat16. */
typedef enum npy_kind { NPY_FLOATS, NPY_DOUBLES, NPY_BYTES, NPY_FLOATS_OR_BF16 } npy_kind;

typedef struct npy_array {
    float *data; /* C order, the last dimension contiguous; never NULL after success */
    int ndim;
    int64_t shape[NPY_MAX_DIMS];
    double *doubles; /* in place of data, of an array read as NPY_DOUBLES */
    uint8_t *bytes;  /* in place of data, of one read as NPY_BYTES */
} npy_array;

/* Reads a file in C or Fortran order.  On failure returns false with one line "field: reason" in message, which does
 * not name the file, and *array is empty.  Nothing the header says is believed: its length, the shape and the data are
 * compared with the file before memory is taken. */
bool npy_read_as(const char *path, npy_kind kind, npy_array *array, char *message, size_t size);

/* As NPY_FLOATS. */
bool npy_read(const char *path, npy_array *array, char *message, size_t size);

/* The same from memory. */
bool npy_parse_as(const void *bytes, size_t count, npy_kind kind, npy_array *array, char *message, size_t size);

/* Harmless on an empty array ({0}). */
void npy_free(npy_array *array);

/* The number of elements. */
int64_t npy_count(const npy_array *array);

/* Writes a whole file of version 1, dtype <f4, C order. */
bool npy_write(FILE *file, const float *data, int ndim, const int64_t *shape, char *message, size_t size);

#endif
