/* `heed run`: the files that change or hide scores: bias, mask, ALiBi slopes, sinks.
 * May know: run.h, npy.h, strides.
 * Must not know: queries, keys, values. */
#include "run.h"

/* Dimensions are matched from the last one on; one of size 1, or left out, stands for all. */
static bool broadcast(
    const char *path, const npy_array *array, const int64_t sizes[4], heed_mask_strides *strides, run_problem *problem)
{
    static const char *const names[4] = { "batch", "the number of heads", "the number of queries",
        "the number of keys" };
    int64_t steps[4] = { 0 };
    int64_t step = 1;
    if (array->ndim > 4) {
        return run_refuse(problem, path, "shape: %d dimensions, not at most 4", array->ndim);
    }
    for (int d = array->ndim - 1; d >= 0; d--) {
        int at = 4 - array->ndim + d;
        int64_t has = array->shape[d];
        if (has != 1 && has != sizes[at]) {
            return run_refuse(problem, path, "shape: %s is %lld, neither 1 nor %lld", names[at], (long long)has,
                (long long)sizes[at]);
        }
        steps[at] = has == 1 ? 0 : step;
        step *= has;
    }
    *strides = (heed_mask_strides){ steps[0], steps[1], steps[2], steps[3] };
    return true;
}

static bool read_scores(const char *path, npy_kind kind, const int64_t sizes[4], npy_array *array,
    heed_mask_strides *strides, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    if (!path) {
        return true;
    }
    progress_show("reading", 0, 0);
    if (!npy_read_as(path, kind, array, message, sizeof message)) {
        return run_refuse(problem, path, "%s", message);
    }
    return broadcast(path, array, sizes, strides, problem);
}

static bool read_heads(const char *path, int64_t heads, npy_array *array, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    if (!path) {
        return true;
    }
    if (!npy_read(path, array, message, sizeof message)) {
        return run_refuse(problem, path, "%s", message);
    }
    if (array->ndim != 1 || array->shape[0] != heads) {
        return run_refuse(problem, path, "shape: not [%lld], one number for each head", (long long)heads);
    }
    return true;
}

bool run_scores_read(const run_request *request, const int64_t sizes[4], run_scores *scores, run_problem *problem)
{
    return read_scores(request->bias, NPY_FLOATS, sizes, &scores->bias, &scores->strides_bias, problem) &&
           read_scores(request->mask, NPY_BYTES, sizes, &scores->mask, &scores->strides_mask, problem) &&
           read_heads(request->alibi, sizes[1], &scores->alibi, problem) &&
           read_heads(request->sinks, sizes[1], &scores->sinks, problem);
}

void run_scores_free(run_scores *scores)
{
    npy_free(&scores->bias);
    npy_free(&scores->mask);
    npy_free(&scores->alibi);
    npy_free(&scores->sinks);
}
