/* The reader of cases.bin, whose format is told at the top of generate.py.
 * May know: the C library, the file's format.
 * Must not know: heed, what the cases mean. */
#ifndef HEED_REFERENCE_FILE_H
#define HEED_REFERENCE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REFERENCE_NAME = 48, REFERENCE_NUMBERS = 32, REFERENCE_TENSORS = 16, REFERENCE_DIMS = 4 };

typedef struct reference_number {
    char name[REFERENCE_NAME];
    double value;
} reference_number;

/* Exactly one of f32, f64, i32 and u8 is not NULL. */
typedef struct reference_tensor {
    char name[REFERENCE_NAME];
    size_t count, shape[REFERENCE_DIMS]; /* sizes of dimensions that the tensor does not have are 1 */
    float *f32;
    double *f64;
    int32_t *i32;
    uint8_t *u8;
} reference_tensor;

typedef struct reference_case {
    char kind[REFERENCE_NAME], name[REFERENCE_NAME];
    reference_number numbers[REFERENCE_NUMBERS];
    reference_tensor tensors[REFERENCE_TENSORS];
    size_t num_numbers, num_tensors;
} reference_case;

typedef struct reference_file {
    char versions[256];
    reference_case *cases;
    size_t num_cases;
} reference_file;

/* On failure prints one line with the line number of the file and returns false; close it all the same. */
bool reference_open(reference_file *file, const char *path);
void reference_close(reference_file *file);

/* A missing name ends the test: the file and the test do not belong together. */
double reference_get(const reference_case *c, const char *name);
int64_t reference_size(const reference_case *c, const char *name);
const float *reference_f32(const reference_case *c, const char *name);
const double *reference_f64(const reference_case *c, const char *name);

/* NULL when the case has no tensor of that name. */
const reference_tensor *reference_find(const reference_case *c, const char *name);
const float *reference_f32_or_null(const reference_case *c, const char *name);
const int32_t *reference_i32_or_null(const reference_case *c, const char *name);

#endif /* HEED_REFERENCE_FILE_H */
