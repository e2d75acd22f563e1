/* `heed run`: what both of its ways share.
 * May know: run.h.
 * Must not know: files, attention. */
#include "run.h"

#include <stdarg.h>
#include <string.h>

bool run_refuse(run_problem *problem, const char *file, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    problem->file = file;
    vsnprintf(problem->message, sizeof problem->message, format, values);
    va_end(values);
    return false;
}

bool run_allocate(npy_array *array, int ndim, const int64_t *shape, const char *what, run_problem *problem)
{
    int64_t count = 0;
    *array = (npy_array){ 0 };
    array->ndim = ndim;
    if (checked_product(ndim, shape, &count)) {
        array->data = allocate_array(count, sizeof(float));
    }
    if (!array->data) {
        return run_refuse(problem, NULL, "%s: not enough memory", what);
    }
    memcpy(array->shape, shape, (size_t)ndim * sizeof *shape);
    return true;
}

void run_keep_last(npy_array *array, int axis, int64_t count)
{
    int64_t outer = 1;
    int64_t inner = 1;
    for (int d = 0; d < array->ndim; d++) {
        outer *= d < axis ? array->shape[d] : 1;
        inner *= d > axis ? array->shape[d] : 1;
    }
    int64_t has = array->shape[axis];
    size_t size = array->doubles ? sizeof(double) : sizeof(float);
    char *values = array->doubles ? (char *)array->doubles : (char *)array->data;
    for (int64_t i = 0; i < outer; i++) {
        memmove(values + (size_t)(i * count * inner) * size, values + (size_t)((i * has + has - count) * inner) * size,
            (size_t)(count * inner) * size);
    }
    array->shape[axis] = count;
}

void run_shape(const npy_array *array, char text[SHAPE_SIZE])
{
    int used = snprintf(text, SHAPE_SIZE, "[");
    for (int d = 0; d < array->ndim; d++) {
        used += snprintf(text + used, SHAPE_SIZE - (size_t)used, "%s%lld", d ? ", " : "", (long long)array->shape[d]);
    }
    snprintf(text + used, SHAPE_SIZE - (size_t)used, "]");
}

bool run_check_lengths(
    const char *option, const int32_t *lengths, int64_t count, int64_t batch, int64_t seq_len, run_problem *problem)
{
    if (lengths && count != batch) {
        return run_refuse(
            problem, NULL, "%s: %lld given for a batch of %lld", option, (long long)count, (long long)batch);
    }
    for (int64_t i = 0; lengths && i < count; i++) {
        if (lengths[i] > seq_len) {
            return run_refuse(problem, NULL, "%s: entry %lld is %ld, but the sequence has %lld positions", option,
                (long long)i, (long)lengths[i], (long long)seq_len);
        }
    }
    return true;
}

void run_say(run_result *result, const char *format, ...)
{
    va_list values;
    size_t used = strlen(result->summary);
    va_start(values, format);
    vsnprintf(result->summary + used, sizeof result->summary - used, format, values);
    va_end(values);
}
