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

enum { MOST_SHARES = 32, SHARE_BYTES = 64 /* a cache line: workers do not wait for each other's counters */ };

/* A stretch of tasks that some workers begin with. */
typedef struct parallel_share {
    _Alignas(SHARE_BYTES) _Atomic int64_t next;
    int64_t end;
} parallel_share;

typedef struct parallel_loop {
    heed_task task;
    void *argument;
    int32_t workers, shares;
    parallel_share share[MOST_SHARES];
} parallel_loop;

static void run_share(const parallel_loop *loop, parallel_share *share, int32_t worker)
{
    for (;;) {
        const int64_t index = atomic_fetch_add_explicit(&share->next, 1, memory_order_relaxed);
        if (index >= share->end)
            return;
        loop->task(loop->argument, index, worker);
    }
}

/* Its own share first, then what others have left. */
static void run_worker(void *argument, int64_t worker)
{
    parallel_loop *loop = argument;
    const int64_t own = worker * loop->shares / loop->workers;
    for (int64_t i = 0; i < loop->shares; i++)
        run_share(loop, &loop->share[(own + i) % loop->shares], (int32_t)worker);
}

/* Whole groups, as evenly as they go. */
static void deal_shares(parallel_loop *loop, heed_tasks tasks)
{
    const int64_t most = loop->workers < MOST_SHARES ? loop->workers : MOST_SHARES;
    loop->shares = (int32_t)(tasks.groups < most ? tasks.groups : most);
    int64_t first = 0;
    for (int32_t i = 0; i < loop->shares; i++) {
        atomic_init(&loop->share[i].next, first * tasks.group);
        first += (tasks.groups - first) / (loop->shares - i);
        loop->share[i].end = first * tasks.group;
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

void heed_parallel(const heed_threads *threads, int32_t workers, heed_tasks tasks, heed_task task, void *argument)
{
    const int64_t count = tasks.groups * tasks.group;
    if (workers <= 1 || count <= 1) {
        for (int64_t i = 0; i < count; i++)
            task(argument, i, 0);
        return;
    }
    parallel_loop loop = { .task = task, .argument = argument, .workers = workers };
    deal_shares(&loop, tasks);
    if (threads->executor.parallel_for) {
        threads->executor.parallel_for(threads->executor.context, workers, run_worker, &loop);
        return;
    }
    run_workers(&loop, workers);
}
