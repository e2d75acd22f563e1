/* `heed run`: one of --q, --k, --v from a .npy or a .safetensors file.
 * May know: run.h, npy.h, safetensors.h.
 * Must not know: what the tensors are for. */
#include "run.h"

#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)TENSOR_MAX_DIMS <= (int)NPY_MAX_DIMS, "an array holds every tensor's shape");

/* Where ".safetensors" ends that ends the path, or that a colon follows; NULL: it is another file. */
static const char *end_of_name(const char *path)
{
    static const char suffix[] = ".safetensors";
    const char *at = strstr(path, suffix);
    while (at && at[sizeof suffix - 1] != 0 && at[sizeof suffix - 1] != ':') {
        at = strstr(at + 1, suffix);
    }
    return at ? at + sizeof suffix - 1 : NULL;
}

/* Without a name it is the option's own, or the only one of the file. */
static const tensor_info *choose(
    const safetensors *file, const char *option, const char *name, const char *path, run_problem *problem)
{
    const tensor_info *tensor = safetensors_find(file, name ? name : option);
    if (!tensor && !name && file->count == 1) {
        tensor = &file->tensors[0];
    }
    if (!tensor && name) {
        run_refuse(problem, path, "%.96s: no such tensor", name);
    } else if (!tensor) {
        run_refuse(problem, path, "%s: no such tensor, and not just one; name it: FILE.safetensors:NAME", option);
    }
    return tensor;
}

static bool read_named(const safetensors *file, const char *option, const char *name, const char *path,
    npy_array *array, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    const tensor_info *tensor = choose(file, option, name, path, problem);
    if (!tensor) {
        return false;
    }
    array->data = safetensors_read(file, tensor, message, sizeof message);
    if (!array->data) {
        return run_refuse(problem, path, "%s", message);
    }
    array->ndim = tensor->ndim;
    memcpy(array->shape, tensor->shape, sizeof tensor->shape);
    return true;
}

static bool read_safetensors(
    const char *option, const char *path, size_t length, npy_array *array, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    safetensors file;
    char *name = allocate_array((int64_t)length + 1, 1);
    if (!name) {
        return run_refuse(problem, path, "not enough memory");
    }
    memcpy(name, path, length);
    name[length] = 0;
    bool done = safetensors_open(name, &file, message, sizeof message);
    free(name);
    if (!done) {
        return run_refuse(problem, path, "%s", message);
    }
    done = read_named(&file, option, path[length] ? path + length + 1 : NULL, path, array, problem);
    safetensors_close(&file);
    return done;
}

bool run_read_tensor(
    const run_request *request, const char *option, const char *path, npy_array *array, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    const char *end = end_of_name(path);
    *array = (npy_array){ 0 };
    progress_show("reading", 0, 0);
    if (end) {
        return read_safetensors(option, path, (size_t)(end - path), array, problem);
    }
    npy_kind kind = request->bf16_npy ? NPY_FLOATS_OR_BF16 : NPY_FLOATS;
    return npy_read_as(path, kind, array, message, sizeof message) || run_refuse(problem, path, "%s", message);
}
