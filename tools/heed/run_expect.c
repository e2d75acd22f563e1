/* `heed run --expect`: how far the results are from values that are known.
 * May know: run.h, npy.h.
 * Must not know: how the results are computed. */
#include "run.h"

#include <math.h>

static bool read_one(const char *path, npy_array *array, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    return !path || npy_read_as(path, NPY_DOUBLES, array, message, sizeof message) ||
           run_refuse(problem, path, "%s", message);
}

bool run_expect_read(const run_request *request, run_expected *expected, run_problem *problem)
{
    return read_one(request->expect, &expected->out, problem) &&
           read_one(request->expect_attention, &expected->weights, problem);
}

void run_expect_free(run_expected *expected)
{
    npy_free(&expected->out);
    npy_free(&expected->weights);
}

static bool check_shape(
    const char *path, const npy_array *expected, const char *what, const npy_array *result, run_problem *problem)
{
    bool same = expected->ndim == result->ndim;
    for (int d = 0; same && d < result->ndim; d++) {
        same = expected->shape[d] == result->shape[d];
    }
    if (same) {
        return true;
    }
    char wanted[SHAPE_SIZE];
    char got[SHAPE_SIZE];
    run_shape(expected, wanted);
    run_shape(result, got);
    return run_refuse(problem, path, "shape: %s, but that of the %s is %s", wanted, what, got);
}

/* A NaN is expected where a NaN is; nothing else is near it, nor near an infinity. */
static double distance(double got, double wanted)
{
    if (got == wanted || (isnan(got) && isnan(wanted))) {
        return 0.0;
    }
    double apart = fabs(got - wanted);
    return isnan(apart) ? INFINITY : apart;
}

static void say_where(const npy_array *expected, const npy_array *result, int64_t worst)
{
    npy_array place = *expected;
    char text[SHAPE_SIZE];
    int64_t rest = worst;
    for (int d = expected->ndim - 1; d >= 0; d--) {
        place.shape[d] = rest % expected->shape[d];
        rest /= expected->shape[d];
    }
    run_shape(&place, text);
    printf("  the worst is at %s: %.9g, where %.17g is expected\n", text, (double)result->data[worst],
        expected->doubles[worst]);
}

/* Whether the result is near enough. */
static bool compare(const char *path, const npy_array *expected, const npy_array *result, double tolerance)
{
    double error = 0.0;
    double largest = 0.0;
    int64_t worst = 0;
    int64_t count = npy_count(expected);
    for (int64_t i = 0; i < count; i++) {
        double now = distance((double)result->data[i], expected->doubles[i]);
        if (now > error) {
            error = now;
            worst = i;
        }
        if (isfinite(expected->doubles[i])) {
            largest = fmax(largest, fabs(expected->doubles[i]));
        }
    }
    double relative = error == 0.0 ? 0.0 : error / largest;
    bool near = relative <= tolerance;
    fputs("error against ", stdout);
    print_clean(stdout, path);
    printf(": max abs %.1e, relative to the largest value %.1e: %s the tolerance %g\n", error, relative,
        near ? "within" : "ABOVE", tolerance);
    if (!near) {
        say_where(expected, result, worst);
    }
    return near;
}

/* Of the rows of all queries those of the step. */
static void keep_step(npy_array *expected, int axis, const npy_array *result, int64_t skipped)
{
    if (skipped > 0 && result->ndim > 0 && expected->ndim == result->ndim &&
        expected->shape[axis] == result->shape[axis] + skipped) {
        run_keep_last(expected, axis, result->shape[axis]);
    }
}

bool run_expect_fits(const run_request *request, run_expected *expected, const run_result *result, run_problem *problem)
{
    keep_step(&expected->out, result->axis, &result->out, result->skipped);
    keep_step(&expected->weights, result->weights.ndim - 2, &result->weights, result->skipped);
    return (!request->expect || check_shape(request->expect, &expected->out, "output", &result->out, problem)) &&
           (!request->expect_attention ||
               check_shape(request->expect_attention, &expected->weights, "weights", &result->weights, problem));
}

int run_expect_compare(const run_request *request, const run_expected *expected, const run_result *result)
{
    bool near = true;
    if (request->expect) {
        near &= compare(request->expect, &expected->out, &result->out, request->tolerance);
    }
    if (request->expect_attention) {
        near &= compare(request->expect_attention, &expected->weights, &result->weights, request->tolerance);
    }
    return near ? EXIT_OK : EXIT_CHECK_FAILED;
}
