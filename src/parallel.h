/* A parallel loop over tasks: the only header whose implementation knows OpenMP.
 * May know: options.  Must not know: what the tasks do. */
#ifndef HEED_PARALLEL_H
#define HEED_PARALLEL_H

#include "ieee.h"

#include "heed/heed.h"

typedef struct heed_threads {
    int32_t num_threads;    /* resolved, >= 1 */
    heed_executor executor; /* parallel_for NULL: OpenMP or a plain loop */
} heed_threads;

/* The most threads these options may use. */
heed_threads heed_threads_of(const heed_options *options);

/* Threads worth waking for that many multiply-adds in that many tasks. */
int32_t heed_threads_for(const heed_threads *threads, double multiply_adds, int64_t tasks);

typedef void (*heed_task)(void *argument, int64_t index, int32_t worker);

/* groups x group tasks; those of a group (of one kv head, say) share what they read. */
typedef struct heed_tasks {
    int64_t groups, group;
} heed_tasks;

/* Calls task(argument, i, worker) once for every task i, in any order, from at most workers concurrent workers numbered [0, workers),
 * each of which runs one task at a time.  Each worker begins with a stretch of whole groups of its own, in ascending order, the same in
 * every loop over the same groups, so that it finds in its caches what it left there; then it takes what others have left.  No
 * worker waits for another: with fewer threads than asked for, fewer workers do all the work. */
void heed_parallel(const heed_threads *threads, int32_t workers, heed_tasks tasks, heed_task task, void *argument);

#endif
