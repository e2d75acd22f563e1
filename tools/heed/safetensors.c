/* Files of the .safetensors format: a length, a JSON table of tensors, and their bytes.
 * May know: the format (its table is parsed in safetensors_header.c).
 * Must not know: models, the library heed. */
#include "safetensors.h"

#include "command.h"
#include "element.h"
#include "safetensors_header.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK = 8192 };

static bool read_header(safetensors *file, char *message, size_t size)
{
    uint8_t start[8];
    int64_t available = file->input.size - 8;
    if (available < 0 || !source_read(&file->input, 0, start, 8, message, size)) {
        return complain(message, size, "header length: the file is shorter than 8 bytes");
    }
    uint64_t length = 0;
    for (int i = 0; i < 8; i++) {
        length |= (uint64_t)start[i] << (8 * i);
    }
    if (length > SAFETENSORS_HEADER_MAX || length > (uint64_t)available) {
        return complain(message, size, "header length: %llu bytes: %s", (unsigned long long)length,
            length > (uint64_t)available ? "longer than the file" : "more than 100 MB");
    }
    uint8_t *text = allocate_array((int64_t)length, 1);
    if (!text) {
        return complain(message, size, "header: not enough memory for %llu bytes", (unsigned long long)length);
    }
    bool good = source_read(&file->input, 8, text, (int64_t)length, message, size) &&
                safetensors_parse_header(file, text, (size_t)length, message, size);
    free(text);
    return good;
}

static bool start(safetensors *file, char *message, size_t size)
{
    bool good = read_header(file, message, size);
    if (!good) {
        safetensors_close(file);
    }
    return good;
}

bool safetensors_open(const char *path, safetensors *file, char *message, size_t size)
{
    *file = (safetensors){ { NULL, -1, 0 }, NULL, 0, NULL };
    return source_open(&file->input, path, message, size) && start(file, message, size);
}

bool safetensors_parse(const void *bytes, size_t count, safetensors *file, char *message, size_t size)
{
    *file = (safetensors){ source_from_memory(bytes, count), NULL, 0, NULL };
    return start(file, message, size);
}

void safetensors_close(safetensors *file)
{
    source_close(&file->input);
    free(file->tensors);
    free(file->names);
    *file = (safetensors){ { NULL, -1, 0 }, NULL, 0, NULL };
}

static int compare_to_name(const void *name, const void *tensor)
{
    return strcmp(name, ((const tensor_info *)tensor)->name);
}

const tensor_info *safetensors_find(const safetensors *file, const char *name)
{
    if (file->count == 0) {
        return NULL;
    }
    return bsearch(name, file->tensors, (size_t)file->count, sizeof *file->tensors, compare_to_name);
}

static bool readable_type(const char *dtype, element_type *type)
{
    static const struct {
        const char *name;
        element_type type;
    } known[] = { { "F32", ELEMENT_F32 }, { "F16", ELEMENT_F16 }, { "BF16", ELEMENT_BF16 }, { "F64", ELEMENT_F64 } };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(dtype, known[i].name) == 0) {
            *type = known[i].type;
            return true;
        }
    }
    return false;
}

static bool read_elements(
    const safetensors *file, const tensor_info *tensor, element_type type, float *values, char *message, size_t size)
{
    uint8_t bytes[CHUNK * 8];
    int64_t width = element_size(type);
    for (int64_t done = 0; done < tensor->count; done += CHUNK) {
        int64_t now = tensor->count - done < CHUNK ? tensor->count - done : CHUNK;
        if (!source_read(&file->input, tensor->begin + done * width, bytes, now * width, message, size)) {
            return false;
        }
        int64_t unfit = elements_to_f32(type, false, bytes, now, values + done);
        if (unfit >= 0) {
            return complain(message, size, "%s: element %lld is too large for a 32-bit float", tensor->name,
                (long long)(done + unfit));
        }
    }
    return true;
}

float *safetensors_read(const safetensors *file, const tensor_info *tensor, char *message, size_t size)
{
    element_type type;
    if (!readable_type(tensor->dtype, &type)) {
        complain(
            message, size, "%s: dtype %s is not supported: F32, F16, BF16 and F64 are", tensor->name, tensor->dtype);
        return NULL;
    }
    float *values = allocate_array(tensor->count, sizeof *values);
    if (!values) {
        complain(message, size, "%s: not enough memory for %lld elements", tensor->name, (long long)tensor->count);
        return NULL;
    }
    if (!read_elements(file, tensor, type, values, message, size)) {
        free(values);
        return NULL;
    }
    return values;
}
