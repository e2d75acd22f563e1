/* Files of the .safetensors format: the table of tensors, and reading one of them as binary32.
 * May know: the format.
 * Must not know: models, the library heed. */
#ifndef HEED_TOOL_SAFETENSORS_H
#define HEED_TOOL_SAFETENSORS_H

#include "source.h"

enum { TENSOR_MAX_DIMS = 8, DTYPE_NAME_MAX = 16 };

typedef struct tensor_info {
    const char *name;
    char dtype[DTYPE_NAME_MAX];
    int ndim;
    int64_t shape[TENSOR_MAX_DIMS];
    int64_t count;      /* of elements */
    int64_t begin, end; /* bytes of the file, inside its data */
} tensor_info;

typedef struct safetensors {
    source input;
    tensor_info *tensors; /* sorted by name, no two alike */
    int64_t count;
    char *names;
} safetensors;

/* Reads and checks the whole header: every tensor lies inside the data, none overlaps another, there are no gaps, and
 * dtype, shape and byte count agree.  The data itself is left in the file.  On failure returns false with one line
 * "field: reason" in message, which does not name the file, and nothing is open. */
bool safetensors_open(const char *path, safetensors *file, char *message, size_t size);

/* The same from memory, which must outlive file. */
bool safetensors_parse(const void *bytes, size_t count, safetensors *file, char *message, size_t size);

void safetensors_close(safetensors *file);

/* NULL if there is no such tensor. */
const tensor_info *safetensors_find(const safetensors *file, const char *name);

/* Reads one tensor of dtype F32, F16, BF16 or F64; the caller frees it.  NULL and a message on failure. */
float *safetensors_read(const safetensors *file, const tensor_info *tensor, char *message, size_t size);

#endif
