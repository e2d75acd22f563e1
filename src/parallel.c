/* A parallel loop over tasks, by OpenMP, the caller's executor, or a plain loop.
 * May know: OpenMP.  Must not know: what the tasks do.
 * Reads OpenMP's defaults, never changes them. */
#include "parallel.h"

#include <stdatomic.h>
#include <stddef.h>
#ifdef _OPENMP
#include <omp.h>
#endif

int heed_has_openmp(void)
{
#ifdef _OPENMP
    return 1;
#else
    return 0;
#endif
}

heed_threads heed_threads_of(const heed_options *options)
{
    heed_threads threads = { 1, { NULL, 1, NULL } };
    if (options->executor) {
        threads.executor = *options->executor;
        threads.num_threads = options->executor->num_threads;
        if (options->num_threads > 0 && options->num_threads < threads.num_threads)
            threads.num_threads = options->num_threads;
        return threads;
    }
#ifdef _OPENMP
    threads.num_threads = options->num_threads > 0 ? options->num_threads : omp_get_max_threads();
#endif
    return threads;
}

int32_t heed_threads_for(const heed_threads *threads, double multiply_adds, int64_t tasks)
{
    /* A thread that still spins joins within a microsecond; waking one costs more, and far more where the cores are busy with other
     * things: it should have at least some 8 microseconds of work. */
    const double worth = 5e5;
    int64_t most = threads->num_threads;
    if (most > tasks)
        most = tasks;
    if ((double)most > multiply_adds / worth)
        most = (int64_t)(multiply_adds / worth);
    return most < 1 ? 1 : (int32_t)most;
}

typedef struct parallel_loop {
    heed_task task;
    void *argument;
    int64_t count;
    _Atomic int64_t next;
} parallel_loop;

static void run_worker(void *argument, int64_t worker)
{
    parallel_loop *loop = argument;
    for (;;) {
        const int64_t index = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
        if (index >= loop->count)
            return;
        loop->task(loop->argument, index, (int32_t)worker);
    }
}

/* Apart from its caller: clang asks the OpenMP runtime for the thread's number on entry, and so starts it, even where the loop
 * is not reached. */
static void run_workers(parallel_loop *loop, int32_t workers)
{
#ifdef _OPENMP
#pragma omp parallel for num_threads(workers) schedule(static, 1)
#endif
    for (int32_t worker = 0; worker < workers; worker++)
        run_worker(loop, worker);
}

void heed_parallel(const heed_threads *threads, int32_t workers, int64_t count, heed_task task, void *argument)
{
    if (workers <= 1 || count <= 1) {
        for (int64_t i = 0; i < count; i++)
            task(argument, i, 0);
        return;
    }
    parallel_loop loop = { task, argument, count, 0 };
    if (threads->executor.parallel_for) {
        threads->executor.parallel_for(threads->executor.context, workers, run_worker, &loop);
        return;
    }
    run_workers(&loop, workers);
}
