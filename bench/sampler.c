/* Batches of calls between samples of the peaks.
 * May know: works, the machine.  Must not know: shapes, reports. */
#include "sampler.h"

#include "statistics.h"
#include "team.h"

#include <string.h>

static heed_status time_calls(bench_work *work, int64_t calls, double *seconds, heed_error *error)
{
    const double begin = team_clock(work->threads);
    heed_status status = HEED_OK;
    for (int64_t i = 0; i < calls && status == HEED_OK; i++)
        status = work->run(work, error);
    *seconds = team_clock(work->threads) - begin;
    return status;
}

/* From the memory that the work streams, where there is enough: a virtual machine's pages differ by a third (docs/performance.md). */
static double read_peak(sampler *s)
{
    const void *own = s->work->streamed ? s->work->streamed(s->work, MACHINE_SLICE_BYTES) : NULL;
    return own ? machine_read_rate(own, s->work->threads) : machine_read_peak(s->reader, s->work->threads);
}

static void sample_peaks(sampler *s)
{
    if (s->loops)
        s->fma_peak = machine_fma_peak(s->loops, s->work->threads);
    if (s->reader)
        s->read_peak = read_peak(s);
}

heed_status sampler_prepare(
    sampler *s, bench_work *work, machine_reader *reader, double batch_seconds, heed_error *error)
{
    double seconds = 0.0;
    memset(s, 0, sizeof *s);
    s->work = work;
    s->loops = work->flops > 0.0 ? machine_loops_of(work->isa) : NULL;
    s->reader = work->stream ? reader : NULL;
    s->widest_ratio = s->loops ? machine_widest_ratio(s->loops, work->threads) : 0.0;
    /* The very first call also pays for untouched pages and sleeping threads. */
    heed_status status = time_calls(work, 1, &s->first_call, error);
    for (s->calls = 1; status == HEED_OK; s->calls *= 2) {
        if (s->calls > 1 || s->first_call < batch_seconds)
            status = time_calls(work, s->calls, &seconds, error);
        else
            seconds = s->first_call;
        if (seconds > 0.5 * batch_seconds)
            break;
    }
    if (status == HEED_OK)
        sampler_restart(s);
    return status;
}

void sampler_restart(sampler *s)
{
    s->count = 0;
    s->paused = s->timed = 0.0;
    sample_peaks(s);
}

heed_status sampler_batch(sampler *s, heed_error *error)
{
    const double begin = team_wall_clock();
    const heed_status status = time_calls(s->work, s->calls, &s->batch, error);
    s->paused += team_wall_clock() - begin - s->batch;
    s->timed += s->batch;
    return status;
}

void sampler_file(sampler *s)
{
    const double fma_before = s->fma_peak, read_before = s->read_peak;
    const size_t at = s->count++ % SAMPLER_MOST_BATCHES;
    sample_peaks(s);
    s->seconds[at] = s->batch / (double)s->calls;
    s->fma_peaks[at] = 0.5 * (fma_before + s->fma_peak);
    s->read_peaks[at] = 0.5 * (read_before + s->read_peak);
}

/* The median of amount / (seconds * peak) over the batches. */
static double median_share(const double *seconds, const double *peaks, size_t n, double amount)
{
    double values[SAMPLER_MOST_BATCHES];
    for (size_t i = 0; i < n; i++)
        values[i] = amount / (seconds[i] * peaks[i]);
    return statistics_median(values, n);
}

static double median(const double *from, size_t n)
{
    double values[SAMPLER_MOST_BATCHES];
    memcpy(values, from, n * sizeof *values);
    return statistics_median(values, n);
}

void sampler_summarize(const sampler *s, sampler_summary *summary)
{
    const bench_work *w = s->work;
    const size_t n = s->count < SAMPLER_MOST_BATCHES ? s->count : SAMPLER_MOST_BATCHES;
    memset(summary, 0, sizeof *summary);
    summary->batches = s->count;
    summary->seconds = median(s->seconds, n);
    summary->flops = w->flops / summary->seconds;
    summary->bytes = w->bytes / summary->seconds;
    summary->elements = w->elements / summary->seconds;
    if (s->paused > 0.0)
        summary->paused_share = s->paused / (s->paused + s->timed);
    if (s->loops) {
        summary->fma_peak = median(s->fma_peaks, n);
        summary->fma_share = median_share(s->seconds, s->fma_peaks, n, w->flops);
        summary->widest_share = summary->fma_share / s->widest_ratio;
    }
    if (s->reader) {
        summary->read_peak = median(s->read_peaks, n);
        summary->read_share = median_share(s->seconds, s->read_peaks, n, w->bytes);
    }
}
