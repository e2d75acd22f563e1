/* The public row softmax.
 * May know: the backend table, options.  Must not know: instruction sets, OpenMP. */
#include "plan.h"

#include <string.h>

typedef struct softmax_rows {
    const heed_backend *backend;
    int exp;
    int64_t rows, cols, stride_x, stride_y;
    const float *x;
    float *y;
    const int32_t *lengths;
} softmax_rows;

/* Elements of a task, some three microseconds of work. */
enum { SOFTMAX_TASK = 8192 };

static int64_t task_rows(const softmax_rows *s)
{
    return (SOFTMAX_TASK - 1) / s->cols + 1;
}

static void softmax_task(void *argument, int64_t index, int32_t worker)
{
    (void)worker;
    const softmax_rows *s = argument;
    const int64_t each = task_rows(s), first = index * each;
    const int64_t last = s->rows - first < each ? s->rows : first + each;
    for (int64_t r = first; r < last; r++) {
        const size_t n = (size_t)(s->lengths ? s->lengths[r] : s->cols);
        float *y = s->y + r * s->stride_y;
        if (n)
            s->backend->softmax_row[s->exp](y, s->x + r * s->stride_x, n);
        if (n < (size_t)s->cols)
            memset(y + n, 0, ((size_t)s->cols - n) * sizeof(float));
    }
}

static heed_status check_softmax(const softmax_rows *s, heed_error *error)
{
    if (s->rows < 0 || s->cols < 0)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least 0", s->rows < 0 ? "rows" : "cols",
            (long long)(s->rows < 0 ? s->rows : s->cols));
    if (s->rows == 0 || s->cols == 0)
        return HEED_OK;
    if (!s->x || !s->y)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", s->x ? "y" : "x");
    if (s->rows > 1 && (s->stride_x < 0 || s->stride_y < s->cols))
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least %lld",
            s->stride_x < 0 ? "stride_x" : "stride_y", (long long)(s->stride_x < 0 ? s->stride_x : s->stride_y),
            (long long)(s->stride_x < 0 ? 0 : s->cols));
    const int64_t most = (int64_t)(PTRDIFF_MAX / sizeof(float));
    const int64_t stride = s->stride_x > s->stride_y ? s->stride_x : s->stride_y;
    if (s->cols > most || (s->rows > 1 && stride > (most - s->cols) / (s->rows - 1)))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "rows %lld x cols %lld: does not fit the address space",
            (long long)s->rows, (long long)s->cols);
    for (int64_t r = 0; s->lengths && r < s->rows; r++)
        if (s->lengths[r] < 0 || s->lengths[r] > s->cols)
            return heed_fail(error, HEED_ERROR_INVALID, "lengths[%lld] is %d, must be in 0 .. %lld", (long long)r,
                (int)s->lengths[r], (long long)s->cols);
    return HEED_OK;
}

heed_status heed_softmax(int64_t rows, int64_t cols, const float *x, int64_t stride_x, float *y, int64_t stride_y,
    const int32_t *lengths, const heed_options *options, heed_error *error)
{
    softmax_rows s = { NULL, 0, rows, cols, stride_x, stride_y, x, y, lengths };
    heed_options o;
    heed_status status = heed_copy_options(&o, options, error);
    if (status == HEED_OK)
        status = heed_choose(&o, HEED_KERNEL_SLEEF, &s.backend, &s.exp, error);
    if (status == HEED_OK)
        status = check_softmax(&s, error);
    if (status != HEED_OK)
        return status;
    if (rows == 0 || cols == 0)
        return heed_succeed(error);
    const heed_threads threads = heed_threads_of(&o);
    /* Of a tile's multiply-adds an exp and its division cost as much as some thirty, and what a row begins and ends with as some
     * six hundred. */
    const int32_t workers = heed_threads_for(&threads, (double)rows * (30.0 * (double)cols + 600.0), rows);
    heed_parallel(&threads, workers, (heed_tasks){ (rows - 1) / task_rows(&s) + 1, 1 }, softmax_task, &s);
    return heed_succeed(error);
}
