/* Files made by hand, byte by byte, for the tests of the readers.
 * May know: the .npy and .safetensors formats, the readers' interfaces.
 * Must not know: how the readers work. */
#include "made.h"

#include "check.h"

#include <string.h>

void made_append(made_file *file, const void *bytes, size_t count)
{
    if (count > MADE_MAX - file->size) {
        check_fatal("a made file is too large");
    }
    memcpy(file->bytes + file->size, bytes, count);
    file->size += count;
}

/* The length in so many bytes, the lowest first. */
static void append_number(made_file *file, uint64_t number, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        uint8_t byte = (uint8_t)(number >> (8 * i));
        made_append(file, &byte, 1);
    }
}

void made_npy_start(made_file *file, int major, uint32_t length)
{
    file->size = 0;
    made_append(file, "\x93NUMPY", 6);
    made_append(file, (uint8_t[2]){ (uint8_t)major, 0 }, 2);
    append_number(file, length, major == 1 ? 2 : 4);
}

void made_npy(made_file *file, int major, const char *header, const void *data, size_t count)
{
    made_npy_start(file, major, (uint32_t)strlen(header));
    made_append(file, header, strlen(header));
    made_append(file, data, count);
}

/* A copy that ends at a page nobody may touch. */
static const uint8_t *guarded_copy(const made_file *file, size_t size)
{
    uint8_t *copy = check_alloc(size, CHECK_GUARD_BEHIND);
    memcpy(copy, file->bytes, size);
    return copy;
}

bool made_npy_parse_as(const made_file *file, size_t size, npy_kind kind, npy_array *array, char *message)
{
    message[0] = 0;
    bool good = npy_parse_as(guarded_copy(file, size), size, kind, array, message, MADE_MESSAGE);
    check_free_all();
    return good;
}

bool made_npy_parse(const made_file *file, size_t size, npy_array *array, char *message)
{
    return made_npy_parse_as(file, size, NPY_FLOATS, array, message);
}

void made_safetensors_start(made_file *file, uint64_t length)
{
    file->size = 0;
    append_number(file, length, 8);
}

void made_safetensors(made_file *file, const char *header, const void *data, size_t count)
{
    made_safetensors_start(file, strlen(header));
    made_append(file, header, strlen(header));
    made_append(file, data, count);
}

bool made_safetensors_parse(const made_file *made, size_t size, safetensors *file, char *message)
{
    message[0] = 0;
    return safetensors_parse(guarded_copy(made, size), size, file, message, MADE_MESSAGE);
}

void made_safetensors_close(safetensors *file)
{
    safetensors_close(file);
    check_free_all();
}

void made_f4(uint8_t *bytes, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = check_bits(values[i]);
        for (size_t b = 0; b < 4; b++) {
            bytes[4 * i + b] = (uint8_t)(bits >> (8 * b));
        }
    }
}
