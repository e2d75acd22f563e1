/* The table of tensors of a .safetensors file: parsed, then checked as a whole.
 * May know: the format.
 * Must not know: how tensors are read. */
#include "safetensors_header.h"

#include "command.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

/* A header being parsed. */
typedef struct table {
    safetensors *file;
    json_cursor json;
    int64_t capacity;   /* of file->tensors */
    size_t names_used;  /* bytes of file->names */
    int64_t data_start; /* in the file */
    char *message;
    size_t size;
} table;

/* Bytes of an element, 0 for a dtype that is not known (such tensors can be listed, not read). */
static int64_t dtype_size(const char *dtype)
{
    static const struct {
        const char *name;
        int64_t size;
    } known[] = { { "BOOL", 1 }, { "U8", 1 }, { "I8", 1 }, { "F8_E5M2", 1 }, { "F8_E4M3", 1 }, { "I16", 2 },
        { "U16", 2 }, { "F16", 2 }, { "BF16", 2 }, { "I32", 4 }, { "U32", 4 }, { "F32", 4 }, { "F64", 8 }, { "I64", 8 },
        { "U64", 8 } };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(dtype, known[i].name) == 0) {
            return known[i].size;
        }
    }
    return 0;
}

static bool refuse_json(table *now)
{
    return complain(now->message, now->size, "header: byte %lld: %s", (long long)now->json.at, now->json.problem);
}

static bool refuse(table *now, const char *tensor, const char *reason)
{
    return complain(now->message, now->size, "%.160s: %s", tensor, reason);
}

static bool parse_shape(table *now, tensor_info *tensor)
{
    tensor->ndim = 0;
    if (!json_expect(&now->json, '[')) {
        return refuse_json(now);
    }
    if (json_take(&now->json, ']')) {
        return true;
    }
    do {
        if (tensor->ndim == TENSOR_MAX_DIMS) {
            return refuse(now, tensor->name, "shape: more than 8 dimensions");
        }
        if (!json_size(&now->json, &tensor->shape[tensor->ndim])) {
            return refuse_json(now);
        }
        tensor->ndim++;
    } while (json_take(&now->json, ','));
    return json_expect(&now->json, ']') || refuse_json(now);
}

static bool parse_offsets(table *now, tensor_info *tensor)
{
    json_cursor *json = &now->json;
    if (!json_expect(json, '[') || !json_size(json, &tensor->begin) || !json_expect(json, ',') ||
        !json_size(json, &tensor->end) || !json_expect(json, ']')) {
        return refuse_json(now);
    }
    return true;
}

/* One "key": value of a tensor; seen has a flag for each key that must be there. */
static bool parse_field(table *now, tensor_info *tensor, bool seen[3])
{
    static const char *const fields[3] = { "dtype", "shape", "data_offsets" };
    char key[DTYPE_NAME_MAX];
    if (!json_string(&now->json, key, sizeof key) || !json_expect(&now->json, ':')) {
        return refuse_json(now);
    }
    int found = 0;
    while (found < 3 && strcmp(key, fields[found]) != 0) {
        found++;
    }
    if (found == 3) {
        return refuse(now, tensor->name, "a field other than dtype, shape and data_offsets");
    }
    if (seen[found]) {
        return refuse(now, tensor->name, "a field is given twice");
    }
    seen[found] = true;
    if (found == 0) {
        return json_string(&now->json, tensor->dtype, sizeof tensor->dtype) || refuse_json(now);
    }
    return found == 1 ? parse_shape(now, tensor) : parse_offsets(now, tensor);
}

/* Checks what can be said of one tensor alone and turns its offsets into bytes of the file. */
static bool check_tensor(table *now, tensor_info *tensor)
{
    int64_t bytes = 0;
    int64_t width = dtype_size(tensor->dtype);
    int64_t data_size = now->file->input.size - now->data_start;
    if (tensor->begin > tensor->end || tensor->end > data_size) {
        return refuse(now, tensor->name, "data_offsets: not inside the file");
    }
    if (!checked_product(tensor->ndim, tensor->shape, &tensor->count) ||
        !checked_multiply(tensor->count, width, &bytes)) {
        return refuse(now, tensor->name, "shape: the product of the dimensions overflows");
    }
    if (width != 0 && bytes != tensor->end - tensor->begin) {
        return refuse(now, tensor->name, "data_offsets: dtype and shape need another number of bytes");
    }
    tensor->begin += now->data_start;
    tensor->end += now->data_start;
    return true;
}

static tensor_info *add_tensor(table *now)
{
    safetensors *file = now->file;
    if (file->count == now->capacity) {
        int64_t wanted = now->capacity ? 2 * now->capacity : 64;
        tensor_info *larger = allocate_array(wanted, sizeof *larger);
        if (!larger) {
            complain(now->message, now->size, "header: not enough memory");
            return NULL;
        }
        if (file->count > 0) {
            memcpy(larger, file->tensors, (size_t)file->count * sizeof *larger);
        }
        free(file->tensors);
        file->tensors = larger;
        now->capacity = wanted;
    }
    tensor_info *tensor = &file->tensors[file->count++];
    memset(tensor, 0, sizeof *tensor);
    return tensor;
}

static bool parse_tensor(table *now, const char *name)
{
    tensor_info *tensor = add_tensor(now);
    bool seen[3] = { false, false, false };
    if (!tensor) {
        return false;
    }
    tensor->name = name;
    if (!json_expect(&now->json, '{')) {
        return refuse_json(now);
    }
    if (!json_take(&now->json, '}')) {
        do {
            if (!parse_field(now, tensor, seen)) {
                return false;
            }
        } while (json_take(&now->json, ','));
        if (!json_expect(&now->json, '}')) {
            return refuse_json(now);
        }
    }
    if (!seen[0] || !seen[1] || !seen[2]) {
        return refuse(now, name, "dtype, shape or data_offsets is missing");
    }
    return check_tensor(now, tensor);
}

/* An object of texts, of no interest here. */
static bool parse_metadata(table *now, bool *seen)
{
    if (*seen) {
        return complain(now->message, now->size, "header: __metadata__ is given twice");
    }
    *seen = true;
    return json_skip(&now->json) || refuse_json(now);
}

static bool parse_entries(table *now, size_t length)
{
    bool metadata = false;
    if (!json_expect(&now->json, '{')) {
        return refuse_json(now);
    }
    if (json_take(&now->json, '}')) {
        return true;
    }
    do {
        /* Unescaped names are no longer than the header, which is as long as the memory for them. */
        char *name = now->file->names + now->names_used;
        if (!json_string(&now->json, name, length + 1 - now->names_used) || !json_expect(&now->json, ':')) {
            return refuse_json(now);
        }
        if (strcmp(name, "__metadata__") == 0) {
            if (!parse_metadata(now, &metadata)) {
                return false;
            }
            continue;
        }
        now->names_used += strlen(name) + 1;
        if (!parse_tensor(now, name)) {
            return false;
        }
    } while (json_take(&now->json, ','));
    return json_expect(&now->json, '}') || refuse_json(now);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const tensor_info *)a)->name, ((const tensor_info *)b)->name);
}

static int compare_offsets(const void *a, const void *b)
{
    const tensor_info *left = a;
    const tensor_info *right = b;
    if (left->begin != right->begin) {
        return left->begin < right->begin ? -1 : 1;
    }
    return left->end < right->end ? -1 : left->end > right->end;
}

/* The format wants every byte of the data in exactly one tensor: then no two can overlap and nothing can be hidden. */
static bool check_coverage(table *now)
{
    safetensors *file = now->file;
    int64_t at = now->data_start;
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_offsets);
    for (int64_t i = 0; i < file->count; i++) {
        if (file->tensors[i].begin != at) {
            return refuse(now, file->tensors[i].name,
                file->tensors[i].begin < at ? "data_offsets: overlap another tensor"
                                            : "data_offsets: leave a gap before this tensor");
        }
        at = file->tensors[i].end;
    }
    if (at != file->input.size) {
        return complain(now->message, now->size, "data: trailing bytes: %lld after the last tensor",
            (long long)(file->input.size - at));
    }
    return true;
}

static bool check_names(table *now)
{
    safetensors *file = now->file;
    qsort(file->tensors, (size_t)file->count, sizeof *file->tensors, compare_names);
    for (int64_t i = 1; i < file->count; i++) {
        if (strcmp(file->tensors[i - 1].name, file->tensors[i].name) == 0) {
            return refuse(now, file->tensors[i].name, "the tensor is given twice");
        }
    }
    return true;
}

bool safetensors_parse_header(safetensors *file, const uint8_t *text, size_t length, char *message, size_t size)
{
    table now = { file, { text, length, 0, NULL }, 0, 0, 8 + (int64_t)length, message, size };
    file->names = allocate_array((int64_t)length + 1, 1);
    if (!file->names) {
        return complain(message, size, "header: not enough memory");
    }
    if (length == 0 || text[0] != '{') {
        return complain(message, size, "header: does not start with '{'");
    }
    if (!parse_entries(&now, length)) {
        return false;
    }
    if (!json_at_end(&now.json)) {
        return complain(message, size, "header: byte %lld: something follows the table", (long long)now.json.at);
    }
    return file->count == 0 ? file->input.size == now.data_start ||
                                  complain(message, size, "data: trailing bytes: the table names no tensor")
                            : check_coverage(&now) && check_names(&now);
}
