/* The libFuzzer entry of the file readers: any bytes must be refused or read, without touching what is not theirs.
 * May know: the readers.
 * Must not know: how they work inside. */
#include "json.h"
#include "names.h"
#include "npy.h"
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

enum { MESSAGE = 320, ZEROS = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool truth)
{
    if (!truth) {
        abort();
    }
}

static void read_npy(const uint8_t *bytes, size_t size)
{
    static const npy_kind kinds[] = { NPY_FLOATS, NPY_DOUBLES, NPY_BYTES, NPY_FLOATS_OR_BF16 };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        char message[MESSAGE] = "";
        npy_array array;
        bool read = npy_parse_as(bytes, size, kinds[i], &array, message, sizeof message);
        require(read == (array.data || array.doubles || array.bytes));
        if (read) {
            require(array.ndim >= 0 && array.ndim <= NPY_MAX_DIMS);
            require(npy_count(&array) >= 0 && (uint64_t)npy_count(&array) <= size);
        } else {
            require(message[0] && strlen(message) < sizeof message);
        }
        npy_free(&array);
    }
}

static void read_safetensors(const uint8_t *bytes, size_t size)
{
    char message[MESSAGE] = "";
    safetensors file;
    layer_names names;
    if (!safetensors_parse(bytes, size, &file, message, sizeof message)) {
        require(message[0] && strlen(message) < sizeof message && !file.tensors);
        safetensors_close(&file);
        return;
    }
    for (int64_t i = 0; i < file.count; i++) {
        const tensor_info *tensor = &file.tensors[i];
        require(tensor->begin >= 8 && tensor->begin <= tensor->end && (uint64_t)tensor->end <= size);
        require(safetensors_find(&file, tensor->name) == tensor);
        free(safetensors_read(&file, tensor, message, sizeof message));
    }
    names_find(&file, 0, NULL, &names, message, sizeof message);
    safetensors_close(&file);
}

/* The bytes as a header of the right length, with some data behind: what guessing rarely gets right. */
static void read_wrapped(const uint8_t *bytes, size_t size)
{
    enum { START = 12 };
    uint8_t *file = calloc(1, START + size + ZEROS);
    require(file != NULL);
    memcpy(file, "\x93NUMPY\x02", 7);
    for (size_t i = 0; i < 4; i++) {
        file[8 + i] = (uint8_t)(size >> (8 * i));
    }
    memcpy(file + START, bytes, size);
    read_npy(file, START + size + ZEROS);
    for (size_t i = 0; i < 8; i++) {
        file[i] = (uint8_t)((uint64_t)size >> (8 * i));
    }
    memcpy(file + 8, bytes, size);
    memset(file + 8 + size, 0, ZEROS);
    read_safetensors(file, 8 + size + ZEROS);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    json_cursor json = { bytes, size, 0, NULL };
    require(json_skip(&json) || json.problem);
    require(json.at <= size);
    read_npy(bytes, size);
    read_safetensors(bytes, size);
    if (size > 0) {
        read_wrapped(bytes, size);
    }
    return 0;
}
