/* Google Benchmark for C: the few of its functions that the benchmarks need.
 * May know: that benchmarks are named, repeated and reported.  Must not know: heed, the machine, C++.
 * The clock stands still between bench_pause and bench_resume, for what is measured beside the benchmark itself. */
#ifndef HEED_BENCH_H
#define HEED_BENCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_state bench_state;
typedef void (*bench_function)(bench_state *state, void *argument);

/* The function is called when the filter lets the name pass; argument must live as long as bench_run. */
void bench_register(const char *name, bench_function function, void *argument);

/* 1: make a batch of that many calls; 0: enough, report the counters and return. */
int bench_next(bench_state *state, int64_t calls);
void bench_pause(bench_state *state);
void bench_resume(bench_state *state);

/* One number of the report. */
void bench_counter(bench_state *state, const char *name, double value);

/* The report shows the reason in place of figures; return from the function without measuring. */
void bench_skip(bench_state *state, const char *reason);

/* A line of the report's head. */
void bench_context(const char *name, const char *value);

/* Takes the arguments --benchmark_*, runs what they select and writes the report.  Returns the exit code: 0, or 2 if an
 * argument is unknown or nothing was selected. */
int bench_run(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
