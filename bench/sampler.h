/* Times a piece of work in batches of calls, between samples of what the machine can do at that moment.
 * May know: works, the machine.  Must not know: shapes, reports.
 *
 *   peak | batch | peak | batch | peak ...        share of a batch = its speed / mean of its two neighbours
 *
 * A share is the median over the batches: a machine that slows down for a while slows both, and a batch or a peak that
 * was interrupted is an outlier. */
#ifndef HEED_BENCH_SAMPLER_H
#define HEED_BENCH_SAMPLER_H

#include "machine.h"
#include "work.h"

enum { SAMPLER_MOST_BATCHES = 4096 };

typedef struct sampler {
    bench_work *work;
    const machine_loops *loops; /* as wide as the work's backend; NULL: no such peak */
    machine_reader *reader;     /* NULL: the work is not measured against memory */
    double widest_ratio;
    int64_t calls; /* of a batch */
    double first_call;

    double batch;         /* seconds of the batch not yet filed */
    double paused, timed; /* seconds in which the calling thread waited for a processor; on the clock of the figures */
    size_t count;         /* batches; only the last SAMPLER_MOST_BATCHES are kept */
    double fma_peak, read_peak; /* the samples before the next batch */
    double seconds[SAMPLER_MOST_BATCHES], fma_peaks[SAMPLER_MOST_BATCHES], read_peaks[SAMPLER_MOST_BATCHES];
} sampler;

/* What the batches say; 0 where it does not apply. */
typedef struct sampler_summary {
    double seconds;                /* of a call */
    double flops, bytes, elements; /* a second */
    double fma_peak, read_peak;    /* a second */
    double fma_share, widest_share, read_share;
    double paused_share; /* of the wall clock, by one thread: how busy others kept the machine */
    size_t batches;
} sampler_summary;

/* Makes the first calls, and finds how many are a batch: about batch_seconds.  reader may be NULL. */
heed_status sampler_prepare(
    sampler *s, bench_work *work, machine_reader *reader, double batch_seconds, heed_error *error);

/* Forgets all batches. */
void sampler_restart(sampler *s);

/* Makes one batch, ... */
heed_status sampler_batch(sampler *s, heed_error *error);

/* ... and afterwards, outside what others may time, samples the peaks and files the batch. */
void sampler_file(sampler *s);

void sampler_summarize(const sampler *s, sampler_summary *summary);

#endif
