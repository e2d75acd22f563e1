/* What this machine can do at best: fused multiply-adds and bytes read a second, measured where and when it is needed.
 * May know: instruction sets by name, teams of threads, the public header.  Must not know: benchmarks, shapes, kernels.
 *
 * A shared machine changes its clock from one moment to the next.  So a share of the peak is the median of quotients of
 * neighbours in time: each sample here takes about a millisecond, to be taken right before and after what is
 * measured. */
#ifndef HEED_BENCH_MACHINE_H
#define HEED_BENCH_MACHINE_H

#include "heed/heed.h"

#include <stddef.h>
#include <stdint.h>

/* The FMA loop of one vector width. */
typedef struct machine_loops {
    heed_isa isa;
    int flops_per_round;
    float (*fma)(int64_t rounds, const float seed[2]);
} machine_loops;

/* Bytes of the last-level cache, as the system tells. */
size_t machine_last_cache(void);

/* The loop as wide as a backend; NULL for the scalar one, which has no such instruction of its own, or where the CPU
 * lacks it. */
const machine_loops *machine_loops_of(heed_isa isa);

/* The widest loop this CPU can run; NULL if there is none. */
const machine_loops *machine_widest(void);

/* One sample: floating-point operations a second (two each multiply-add) of so many threads together. */
double machine_fma_peak(const machine_loops *loops, int threads);

/* How much more the widest vectors do than these, by samples taken in turn: 1 for the widest themselves. */
double machine_widest_ratio(const machine_loops *loops, int threads);

/* A buffer far larger than the last-level cache.  Its next slice is read by each sample, so that none is still in a
 * cache. */
typedef struct machine_reader {
    uint64_t *buffer;
    size_t slices, next;
} machine_reader;

/* 0 if there is no memory for it. */
int machine_reader_create(machine_reader *reader);
void machine_reader_destroy(machine_reader *reader);

enum { MACHINE_SLICE_BYTES = 16 << 20 /* a millisecond at 16 GB/s */ };

/* One sample: bytes read a second by so many threads together, MACHINE_SLICE_BYTES from there on, respectively the next slice. */
double machine_read_rate(const void *from, int threads);
double machine_read_peak(machine_reader *reader, int threads);

#endif
