/* Reading files of NumPy's .npy format, versions 1 to 3.
 * May know: the format (header in npy_header.c).
 * Must not know: attention, the library heed. */
#include "npy.h"

#include "command.h"
#include "npy_header.h"
#include "source.h"

#include <stdlib.h>
#include <string.h>

/* Data is converted in pieces of this many elements, so a file of any size needs one copy only. */
enum { CHUNK = 8192 };

/* Where the elements of a file in Fortran order go: the first index runs fastest. */
typedef struct fortran_walk {
    int64_t index[NPY_MAX_DIMS];
    int64_t stride[NPY_MAX_DIMS]; /* in C order */
    int64_t at;
} fortran_walk;

static fortran_walk walk_start(const npy_array *array)
{
    fortran_walk walk = { { 0 }, { 0 }, 0 };
    int64_t stride = 1;
    for (int i = array->ndim - 1; i >= 0; i--) {
        walk.stride[i] = stride;
        stride *= array->shape[i];
    }
    return walk;
}

static void walk_next(fortran_walk *walk, const npy_array *array)
{
    for (int i = 0; i < array->ndim; i++) {
        walk->index[i]++;
        walk->at += walk->stride[i];
        if (walk->index[i] < array->shape[i]) {
            return;
        }
        walk->at -= walk->index[i] * walk->stride[i];
        walk->index[i] = 0;
    }
}

/* Where the elements go. */
static void *values_of(const npy_array *array)
{
    return array->doubles ? (void *)array->doubles : array->bytes ? (void *)array->bytes : (void *)array->data;
}

static size_t value_size(npy_kind kind)
{
    return kind == NPY_DOUBLES ? sizeof(double) : kind == NPY_BYTES ? 1 : sizeof(float);
}

static bool allocate_values(npy_array *array, npy_kind kind, int64_t count)
{
    void *values = allocate_array(count, value_size(kind));
    switch (kind) {
    case NPY_FLOATS:
    case NPY_FLOATS_OR_BF16: array->data = values; break;
    case NPY_DOUBLES: array->doubles = values; break;
    case NPY_BYTES: array->bytes = values; break;
    }
    return values != NULL;
}

/* Returns the index of an element that does not fit, or -1. */
static int64_t convert(const npy_header *header, const uint8_t *bytes, int64_t count, void *values)
{
    switch (header->kind) {
    case NPY_DOUBLES: elements_to_f64(header->type, header->big_endian, bytes, count, values); return -1;
    case NPY_BYTES: memcpy(values, bytes, (size_t)count); return -1;
    case NPY_FLOATS:
    case NPY_FLOATS_OR_BF16: break;
    }
    return elements_to_f32(header->type, header->big_endian, bytes, count, values);
}

static bool read_data(
    const source *input, const npy_header *header, int64_t count, npy_array *array, char *message, size_t size)
{
    uint8_t bytes[CHUNK * 8];
    union {
        float floats[CHUNK];
        double doubles[CHUNK];
        uint8_t bytes[CHUNK];
    } piece;
    int64_t width = element_size(header->type);
    size_t step = value_size(header->kind);
    char *values = values_of(array);
    fortran_walk walk = walk_start(array);
    for (int64_t done = 0; done < count; done += CHUNK) {
        int64_t now = count - done < CHUNK ? count - done : CHUNK;
        if (!source_read(input, header->data_offset + done * width, bytes, now * width, message, size)) {
            return false;
        }
        char *to = header->fortran_order ? (char *)&piece : values + (size_t)done * step;
        int64_t unfit = convert(header, bytes, now, to);
        if (unfit >= 0) {
            return complain(
                message, size, "data: element %lld is too large for a 32-bit float", (long long)(done + unfit));
        }
        for (int64_t i = 0; header->fortran_order && i < now; i++) {
            memcpy(values + (size_t)walk.at * step, to + (size_t)i * step, step);
            walk_next(&walk, array);
        }
    }
    return true;
}

static bool read_source(const source *input, npy_kind kind, npy_array *array, char *message, size_t size)
{
    npy_header header;
    if (!npy_read_header(input, kind, &header, message, size)) {
        return false;
    }
    int64_t count = 0;
    int64_t bytes = 0;
    if (!checked_product(header.ndim, header.shape, &count) ||
        !checked_multiply(count, element_size(header.type), &bytes)) {
        return complain(message, size, "shape: the product of the dimensions overflows");
    }
    int64_t available = input->size - header.data_offset;
    if (available != bytes) {
        return complain(message, size, "data: %s: shape and dtype need %lld bytes after the header, the file has %lld",
            available < bytes ? "truncated" : "trailing bytes", (long long)bytes, (long long)available);
    }
    if (!allocate_values(array, kind, count)) {
        return complain(message, size, "data: not enough memory for %lld elements", (long long)count);
    }
    array->ndim = header.ndim;
    for (int i = 0; i < header.ndim; i++) {
        array->shape[i] = header.shape[i];
    }
    if (!read_data(input, &header, count, array, message, size)) {
        npy_free(array);
        return false;
    }
    return true;
}

bool npy_parse_as(const void *bytes, size_t count, npy_kind kind, npy_array *array, char *message, size_t size)
{
    *array = (npy_array){ 0 };
    source input = source_from_memory(bytes, count);
    return read_source(&input, kind, array, message, size);
}

bool npy_read_as(const char *path, npy_kind kind, npy_array *array, char *message, size_t size)
{
    *array = (npy_array){ 0 };
    source input;
    if (!source_open(&input, path, message, size)) {
        return false;
    }
    bool read = read_source(&input, kind, array, message, size);
    source_close(&input);
    return read;
}

bool npy_read(const char *path, npy_array *array, char *message, size_t size)
{
    return npy_read_as(path, NPY_FLOATS, array, message, size);
}

void npy_free(npy_array *array)
{
    free(array->data);
    free(array->doubles);
    free(array->bytes);
    *array = (npy_array){ 0 };
}

int64_t npy_count(const npy_array *array)
{
    int64_t count = 0;
    return values_of(array) && checked_product(array->ndim, array->shape, &count) ? count : 0;
}
