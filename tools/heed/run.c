/* `heed run`: attention or a whole layer on files.
 * May know: run.h, output files.
 * Must not know: how either is computed. */
#include "run.h"

#include <string.h>

/* One output: where it goes and what. */
typedef struct target {
    const char *path;
    const npy_array *array;
} target;

enum { TARGETS = 3 };

/* Refuses what cannot be written before the long work, not after it. */
static bool check_targets(const run_request *request, run_problem *problem)
{
    const char *paths[TARGETS] = { request->out, request->lse, request->attention };
    for (int i = 0; i < TARGETS; i++) {
        if (paths[i] && !output_check(paths[i], problem->message, sizeof problem->message)) {
            problem->file = paths[i];
            return false;
        }
    }
    return true;
}

static bool write_all(const target *targets, outputs *set, run_problem *problem)
{
    const char *opened[TARGETS] = { NULL };
    for (int i = 0; i < TARGETS; i++) {
        if (!targets[i].path) {
            continue;
        }
        progress_show("writing", 0, 0);
        problem->file = targets[i].path;
        opened[set->count] = targets[i].path;
        FILE *file = outputs_open(set, targets[i].path, problem->message, sizeof problem->message);
        const npy_array *array = targets[i].array;
        if (!file ||
            !npy_write(file, array->data, array->ndim, array->shape, problem->message, sizeof problem->message)) {
            return false;
        }
    }
    int failed = 0;
    if (!outputs_commit(set, &failed, problem->message, sizeof problem->message)) {
        problem->file = opened[failed];
        return false;
    }
    return true;
}

static void print_summary(const run_result *result, const target *targets)
{
    fputs(result->summary, stdout);
    for (int i = 0; i < TARGETS; i++) {
        if (!targets[i].path) {
            continue;
        }
        fputs("wrote ", stdout);
        print_clean(stdout, targets[i].path);
        for (int d = 0; d < targets[i].array->ndim; d++) {
            printf("%s%lld", d ? ", " : " [", (long long)targets[i].array->shape[d]);
        }
        fputs("]\n", stdout);
    }
}

static bool run_and_write(const run_request *request, run_result *result, run_problem *problem)
{
    outputs set = { { { NULL, NULL, NULL } }, 0 };
    if (!check_targets(request, problem)) {
        return false;
    }
    bool done = request->x ? run_layer(request, result, problem) : run_attention(request, result, problem);
    if (!done) {
        return false;
    }
    const target targets[TARGETS] = { { request->out, &result->out }, { request->lse, &result->lse },
        { request->attention, &result->weights } };
    done = write_all(targets, &set, problem);
    outputs_discard(&set);
    progress_clear();
    if (done && !request->quiet) {
        print_summary(result, targets);
    }
    return done;
}

int command_run(int argc, char **argv)
{
    run_request request;
    run_problem problem = { NULL, "" };
    run_result result;
    int exit_code = EXIT_OK;
    memset(&result, 0, sizeof result);
    if (run_parse(argc, argv, &request, &exit_code) && !run_and_write(&request, &result, &problem)) {
        exit_code = fail("run", problem.file, "%s", problem.message);
    }
    npy_free(&result.out);
    npy_free(&result.lse);
    npy_free(&result.weights);
    run_request_free(&request);
    return exit_code;
}
