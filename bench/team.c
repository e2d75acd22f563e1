/* The same work on several threads at once, timed.
 * May know: OpenMP.  Must not know: what the work is. */
#include "team.h"

#include <math.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double team_wall_clock(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double team_clock(int threads)
{
    return read_clock(threads > 1 ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
}

int team_max_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

static double run_alone(void (*work)(void *argument, int index, int threads), void *argument)
{
    const double begin = team_clock(1);
    work(argument, 0, 1);
    return team_clock(1) - begin;
}

#ifdef _OPENMP
double team_run(int threads, void (*work)(void *argument, int index, int threads), void *argument, int *granted)
{
    *granted = 1;
    if (threads <= 1)
        return run_alone(work, argument);
    double begin = INFINITY, end = 0.0;
    int count = 1;
#pragma omp parallel num_threads(threads) reduction(min : begin) reduction(max : end, count)
    {
        count = omp_get_num_threads();
        /* A thread that has slept needs time to wake up, which is not the work's. */
#pragma omp barrier
        begin = team_clock(threads);
        work(argument, omp_get_thread_num(), count);
        end = team_clock(threads);
    }
    *granted = count;
    return end - begin;
}
#else
double team_run(int threads, void (*work)(void *argument, int index, int threads), void *argument, int *granted)
{
    (void)threads;
    *granted = 1;
    return run_alone(work, argument);
}
#endif
