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
        char shape[SHAPE_SIZE];
        run_shape(targets[i].array, shape);
        fputs("wrote ", stdout);
        print_clean(stdout, targets[i].path);
        printf(" %s\n", shape);
    }
}

static bool compute(const run_request *request, run_result *result, run_problem *problem)
{
    return request->x ? run_layer(request, result, problem) : run_attention(request, result, problem);
}

static bool write_results(const run_request *request, run_result *result, run_problem *problem)
{
    outputs set = { { { NULL, NULL, NULL } }, 0 };
    const target targets[TARGETS] = { { request->out, &result->out }, { request->lse, &result->lse },
        { request->attention, &result->weights } };
    const bool done = write_all(targets, &set, problem);
    outputs_discard(&set);
    progress_clear();
    if (done && !request->quiet) {
        print_summary(result, targets);
    }
    return done;
}

/* What is expected is read first: a file that cannot be read ends the run before the long work, and an output may
 * replace it.  One of a wrong shape ends it before anything is written. */
static int run_all(const run_request *request, run_expected *expected, run_result *result, run_problem *problem)
{
    if (!check_targets(request, problem) || !run_expect_read(request, expected, problem) ||
        !compute(request, result, problem) || !run_expect_fits(request, expected, result, problem) ||
        !write_results(request, result, problem)) {
        return EXIT_BAD_INPUT;
    }
    return run_expect_compare(request, expected, result);
}

int command_run(int argc, char **argv)
{
    run_request request;
    run_problem problem = { NULL, "" };
    run_result result;
    run_expected expected;
    int exit_code = EXIT_OK;
    memset(&result, 0, sizeof result);
    memset(&expected, 0, sizeof expected);
    if (run_parse(argc, argv, &request, &exit_code)) {
        exit_code = run_all(&request, &expected, &result, &problem);
        if (exit_code == EXIT_BAD_INPUT) {
            fail("run", problem.file, "%s", problem.message);
        }
    }
    npy_free(&result.out);
    npy_free(&result.lse);
    npy_free(&result.weights);
    run_expect_free(&expected);
    run_request_free(&request);
    return exit_code;
}
