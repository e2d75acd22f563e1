/* What this machine can do at best, by samples of about a millisecond.
 * May know: the FMA and reading loops, teams of threads, what system.h and heed tell of the CPU.
 * Must not know: benchmarks, kernels. */
#include "machine.h"

#include "read_loop.h"
#include "statistics.h"
#include "system.h"
#include "team.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
    SAMPLE_FLOPS = 100 * 1000 * 1000, /* a millisecond of a fast core */
    LEAST_SLICES = 16,
    CACHES_A_BUFFER = 4,
    RATIO_SAMPLES = 9,
    FEATURES_SIZE = 512
};

size_t machine_last_cache(void)
{
    const system_facts facts = system_examine();
    size_t bytes = 32 << 20; /* where the system does not say */
    int level = 0;
    for (int i = 0; i < facts.num_caches; i++)
        if (facts.caches[i].level > level && facts.caches[i].bytes > 0) {
            level = facts.caches[i].level;
            bytes = (size_t)facts.caches[i].bytes;
        }
    return bytes;
}

/* ---- Fused multiply-adds ---- */

extern const machine_loops machine_loops_avx2, machine_loops_avx512, machine_loops_neon;

/* Widest first, with the features that the file was compiled for. */
static const struct {
    const machine_loops *loops;
    const char *features[2];
} all_loops[] = {
#ifdef MACHINE_HAS_AVX512
    { &machine_loops_avx512, { " avx512f ", " fma " } },
#endif
#ifdef MACHINE_HAS_AVX2
    { &machine_loops_avx2, { " avx2 ", " fma " } },
#endif
#ifdef MACHINE_HAS_NEON
    { &machine_loops_neon, { " neon ", " neon " } },
#endif
    { NULL, { NULL, NULL } }
};

/* The features heed reports, not its usable backends: the CPU may be wider than this build of heed. */
static int can_run(const char *const features[2])
{
    char words[FEATURES_SIZE] = " ";
    heed_cpu_features(words + 1, sizeof words - 2);
    strcat(words, " ");
    return strstr(words, features[0]) && strstr(words, features[1]);
}

const machine_loops *machine_widest(void)
{
    for (int i = 0; all_loops[i].loops; i++)
        if (can_run(all_loops[i].features))
            return all_loops[i].loops;
    return NULL;
}

const machine_loops *machine_loops_of(heed_isa isa)
{
    for (int i = 0; all_loops[i].loops; i++)
        if (all_loops[i].loops->isa == isa && can_run(all_loops[i].features))
            return all_loops[i].loops;
    return NULL;
}

typedef struct fma_job {
    const machine_loops *loops;
    int64_t rounds;
} fma_job;

static void fma_work(void *argument, int index, int threads)
{
    static const float seed[2] = { 0.5f, 1.0f }; /* every chain tends to 2: no overflow, no subnormals */
    const fma_job *job = argument;
    (void)index;
    (void)threads;
    volatile float sink = job->loops->fma(job->rounds, seed);
    (void)sink;
}

double machine_fma_peak(const machine_loops *loops, int threads)
{
    fma_job job = { loops, SAMPLE_FLOPS / loops->flops_per_round };
    int granted;
    const double seconds = team_run(threads, fma_work, &job, &granted);
    return (double)granted * (double)job.rounds * loops->flops_per_round / seconds;
}

double machine_widest_ratio(const machine_loops *loops, int threads)
{
    const machine_loops *widest = machine_widest();
    double ratios[RATIO_SAMPLES];
    if (widest == loops)
        return 1.0;
    for (int i = 0; i < RATIO_SAMPLES; i++) {
        const double wide = machine_fma_peak(widest, threads);
        ratios[i] = wide / machine_fma_peak(loops, threads);
    }
    return statistics_median(ratios, RATIO_SAMPLES);
}

/* ---- Reading memory ---- */

int machine_reader_create(machine_reader *reader)
{
    const size_t wanted = CACHES_A_BUFFER * machine_last_cache() / MACHINE_SLICE_BYTES;
    reader->slices = wanted > LEAST_SLICES ? wanted : LEAST_SLICES;
    reader->next = 0;
    reader->buffer = malloc(reader->slices * MACHINE_SLICE_BYTES);
    if (!reader->buffer)
        return 0;
    memset(
        reader->buffer, 1, reader->slices * MACHINE_SLICE_BYTES); /* untouched pages are all the same page of zeros */
    return 1;
}

void machine_reader_destroy(machine_reader *reader)
{
    free(reader->buffer);
    reader->buffer = NULL;
}

static void read_work(void *argument, int index, int threads)
{
    const uint64_t *slice = argument; /* divided by pages: a page is many times READ_STREAMS lines */
    const size_t page = 4096 / sizeof *slice, pages = MACHINE_SLICE_BYTES / 4096;
    const size_t first = pages * (size_t)index / (size_t)threads, end = pages * (size_t)(index + 1) / (size_t)threads;
    volatile uint64_t sink = read_loop(slice + first * page, (end - first) * page);
    (void)sink;
}

double machine_read_rate(const void *from, int threads)
{
    int granted;
    return MACHINE_SLICE_BYTES / team_run(threads, read_work, (void *)(uintptr_t)from, &granted);
}

double machine_read_peak(machine_reader *reader, int threads)
{
    const uint64_t *slice = reader->buffer + reader->next * (MACHINE_SLICE_BYTES / sizeof *slice);
    reader->next = (reader->next + 1) % reader->slices;
    return machine_read_rate(slice, threads);
}
