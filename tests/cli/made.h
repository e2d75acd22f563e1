/* Files made by hand, byte by byte, for the tests of the readers.
 * May know: the .npy and .safetensors formats, the readers' interfaces.
 * Must not know: how the readers work. */
#ifndef HEED_TESTS_CLI_MADE_H
#define HEED_TESTS_CLI_MADE_H

#include "npy.h"
#include "safetensors.h"

enum { MADE_MAX = 70000, MADE_MESSAGE = 400 };

typedef struct made_file {
    uint8_t bytes[MADE_MAX];
    size_t size;
} made_file;

void made_append(made_file *file, const void *bytes, size_t count);

/* ---- .npy ---- */

/* Starts over with magic, version and the length, right or wrong, in as many bytes as the version has. */
void made_npy_start(made_file *file, int major, uint32_t length);

/* The same with the right length, the header and the data. */
void made_npy(made_file *file, int major, const char *header, const void *data, size_t count);

/* Parses a copy of the first size bytes that ends at a page nobody may touch.  message has MADE_MESSAGE bytes. */
bool made_npy_parse_as(const made_file *file, size_t size, npy_kind kind, npy_array *array, char *message);

/* As NPY_FLOATS. */
bool made_npy_parse(const made_file *file, size_t size, npy_array *array, char *message);

/* ---- .safetensors ---- */

void made_safetensors_start(made_file *file, uint64_t length);
void made_safetensors(made_file *file, const char *header, const void *data, size_t count);

/* As made_npy_parse; made_safetensors_close is due in any case. */
bool made_safetensors_parse(const made_file *made, size_t size, safetensors *file, char *message);
void made_safetensors_close(safetensors *file);

/* ---- Data ---- */

/* Little-endian bytes of binary32. */
void made_f4(uint8_t *bytes, const float *values, size_t count);

#endif
