/* The same work on several threads at once, timed from the first start to the last end.
 * May know: OpenMP.  Must not know: what the work is.
 * They are OpenMP's own threads: after a parallel region of heed's these spin for a while and would take time from
 * others. */
#ifndef HEED_BENCH_TEAM_H
#define HEED_BENCH_TEAM_H

/* Seconds of a clock that never goes back.  For one thread it is the CPU clock of the calling thread: what other
 * programs take on a busy machine is not counted (heed with one thread never waits).  For several it is the wall
 * clock. */
double team_clock(int threads);
double team_wall_clock(void);

/* The most threads OpenMP would use; 1 without OpenMP, where heed too uses one unless its caller brings an executor. */
int team_max_threads(void);

/* Calls work(argument, i, n) for every i < n on n <= threads threads; *granted is n.  Returns seconds. */
double team_run(int threads, void (*work)(void *argument, int index, int threads), void *argument, int *granted);

#endif
