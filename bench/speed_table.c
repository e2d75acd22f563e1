/* heed_speed: a table of what heed does on this machine, in about ten seconds.
 * May know: shapes, works, the sampler.  Must not know: kinds of work, instruction sets, Google Benchmark.
 * The figures are made as those of heed_bench are; the shapes are few and fixed. */
#include "sampler.h"
#include "system.h"
#include "team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LEAST_BATCHES = 3, NAME_WIDTH = 44 };

static const double BATCH_SECONDS = 0.01;
static const double FIGURE_SECONDS = 0.4;
static const double LONGEST_CALL = 1.0; /* seconds: what takes longer is left out, with a word */
static const double BUSY = 0.1;         /* share of paused time from which on the machine is called busy */
static const double MEMORY_FOR_LARGE = 2e9;

typedef struct row {
    const char *title;
    bench_shape shape;
} row;

/* Ascending in work, so that a slow machine is known as one before it is asked for much. */
static const row rows[] = {
    { "512 x 512, head_dim 64", { SHAPE_ATTENTION, "", { 1, 2, 2, 512, 512, 512, 64, 64, [SHAPE_CAUSAL] = 0 } } },
    { "512 x 512, head_dim 128", { SHAPE_ATTENTION, "", { 1, 2, 2, 512, 512, 512, 128, 128, [SHAPE_CAUSAL] = 0 } } },
    { "2048 x 2048, head_dim 64", { SHAPE_ATTENTION, "", { 1, 2, 2, 2048, 2048, 2048, 64, 64, [SHAPE_CAUSAL] = 0 } } },
    { "2048 x 2048, head_dim 128",
        { SHAPE_ATTENTION, "", { 1, 2, 2, 2048, 2048, 2048, 128, 128, [SHAPE_CAUSAL] = 0 } } },
    { "2048 x 2048, head_dim 128, causal",
        { SHAPE_ATTENTION, "", { 1, 2, 2, 2048, 2048, 2048, 128, 128, [SHAPE_CAUSAL] = 1 } } },
    { "512 x 512, 32/8 heads of 128, causal",
        { SHAPE_ATTENTION, "", { 1, 32, 8, 512, 512, 512, 128, 128, [SHAPE_CAUSAL] = 1 } } },
    { "8192 x 8192, head_dim 128, window 1024",
        { SHAPE_ATTENTION, "", { 1, 1, 1, 8192, 8192, 8192, 128, 128, [SHAPE_CAUSAL] = 1, [SHAPE_WINDOW] = 1024 } } },
    { "1 x 8192, 32/8 heads of 128 (decode)",
        { SHAPE_ATTENTION, "", { 1, 32, 8, 0, 1, 8192, 128, 128, [SHAPE_CAUSAL] = 1, [SHAPE_STREAM] = 1 } } },
    { "projection 512 x 1024 x 1024",
        { SHAPE_LINEAR, "", { [SHAPE_ROWS] = 512, [SHAPE_IN] = 1024, [SHAPE_OUT] = 1024 } } },
    { "projection 512 x 4096 x 4096",
        { SHAPE_LINEAR, "", { [SHAPE_ROWS] = 512, [SHAPE_IN] = 4096, [SHAPE_OUT] = 4096 } } },
};

typedef struct table {
    machine_reader reader;
    int has_reader;
    size_t cache;
    double seconds;      /* for one figure */
    double slowest_rate; /* floating-point operations a second that rows reached so far on one thread; 0: none yet */
    double most_paused;  /* share of the time in which one thread had to wait for a processor */
    sampler sampler;
} table;

static int enough_memory(const bench_shape *shape)
{
#ifdef _SC_PHYS_PAGES
    const double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return shape->field[SHAPE_IN] < 4096 || memory > MEMORY_FOR_LARGE;
#else
    (void)shape;
    return 1;
#endif
}

/* 1, or 0 with the reason in error. */
static int measure(table *t, const bench_shape *shape, int threads, sampler_summary *summary, heed_error *error)
{
    const work_options options = { heed_isa_default(), threads, t->cache };
    bench_work *work = work_create(shape, &options, error);
    if (!work)
        return 0;
    if (t->slowest_rate > 0.0 && work->flops / t->slowest_rate > LONGEST_CALL) {
        snprintf(error->message, sizeof error->message, "left out: %.0f s a call", work->flops / t->slowest_rate);
        work_destroy(work);
        return 0;
    }
    heed_status status = sampler_prepare(&t->sampler, work, t->has_reader ? &t->reader : NULL, BATCH_SECONDS, error);
    const double end = team_wall_clock() + t->seconds;
    for (int n = 0; status == HEED_OK && (n < LEAST_BATCHES || team_wall_clock() < end); n++) {
        status = sampler_batch(&t->sampler, error);
        sampler_file(&t->sampler);
    }
    if (status == HEED_OK) {
        sampler_summarize(&t->sampler, summary);
        if (threads == 1 && !work->stream && (t->slowest_rate <= 0.0 || summary->flops < t->slowest_rate))
            t->slowest_rate = summary->flops;
        if (threads == 1 && summary->paused_share > t->most_paused)
            t->most_paused = summary->paused_share;
    }
    work_destroy(work);
    return status == HEED_OK;
}

static void print_figure(const table *t, const bench_shape *shape, int threads, const sampler_summary *s)
{
    const int stream = (int)shape->field[SHAPE_STREAM];
    const double share = stream ? s->read_share : s->fma_share;
    const double rate = 1e-9 * (stream ? s->bytes : s->flops);
    printf("  %8.*f %-7s", rate < 10.0 ? 2 : 1, rate, stream ? "GB/s" : "GFLOP/s");
    if (threads > 1 && t->most_paused > BUSY)
        printf("    busy");
    else if (share > 0.0)
        printf(" %5.1f %%", 100.0 * share);
    else
        printf(" %5s  ", "-");
}

static void print_row(table *t, const row *r, const int *threads, int counts)
{
    printf("%-*s", NAME_WIDTH, r->title);
    fflush(stdout);
    for (int i = 0; i < counts; i++) {
        sampler_summary summary;
        heed_error error;
        if (!enough_memory(&r->shape))
            printf("  %-24s", "left out: little memory");
        else if (measure(t, &r->shape, threads[i], &summary, &error))
            print_figure(t, &r->shape, threads[i], &summary);
        else
            printf("  %-24s", error.message);
        fflush(stdout);
    }
    putchar('\n');
}

static void print_head(const int *threads, int counts)
{
    const system_facts facts = system_examine();
    const machine_loops *widest = machine_widest();
    const time_t now = time(NULL);
    char date[32] = "";
    const struct tm *utc = gmtime(&now);
    if (utc)
        strftime(date, sizeof date, "%Y-%m-%d", utc);
    printf("heed %s, backend %s, on %s (%s)\n", heed_version(), heed_isa_name(heed_isa_default()), facts.model, date);
    printf("compiled by %s, %s; widest vectors of this CPU: %s\n\n", HEED_BENCH_COMPILER, HEED_BENCH_BUILD_TYPE,
        widest ? heed_isa_name(widest->isa) : "none with fused multiply-add");
    printf("%-*s", NAME_WIDTH, "attention, f32");
    for (int i = 0; i < counts; i++) {
        char title[32];
        snprintf(title, sizeof title, "%d thread%s", threads[i], threads[i] == 1 ? "" : "s");
        printf("  %16s %7s", title, "of peak");
    }
    putchar('\n');
}

static void print_peaks(table *t, const int *threads, int counts)
{
    const machine_loops *loops = machine_loops_of(heed_isa_default());
    if (loops) {
        printf("\n%-*s", NAME_WIDTH, "FMA peak of the backend's vectors");
        for (int i = 0; i < counts; i++)
            printf("  %8.1f %-15s", 1e-9 * machine_fma_peak(loops, threads[i]), "GFLOP/s");
    }
    if (t->has_reader) {
        printf("\n%-*s", NAME_WIDTH, "reading from memory");
        for (int i = 0; i < counts; i++)
            printf("  %8.1f %-15s", 1e-9 * machine_read_peak(&t->reader, threads[i]), "GB/s");
    }
    printf("\n\nThe peak is measured in turn with each row: fused multiply-adds, for decode reading from memory.\n");
    if (!loops)
        printf("The %s backend has no vectors and so no peak.\n", heed_isa_name(heed_isa_default()));
    if (counts > 1 && t->most_paused > BUSY)
        printf("Other programs kept the machine busy, %.0f %% of the time at the worst: one thread is measured by its "
               "own\n"
               "CPU time, but several wait for each other, and their figures are of little worth.\n",
            100.0 * t->most_paused);
}

static const char help[] =
    "heed_speed prints what heed does on this machine: attention, decode, projections, on one thread\n"
    "and on all, with the share of the peak measured in the same process.\n"
    "\n"
    "Usage: heed_speed [--seconds=S]\n"
    "\n"
    "  --seconds=S   time for each figure (default 0.4; there are about 18)\n"
    "  --help        this text\n"
    "\n"
    "The environment variable HEED_ISA picks another backend, OMP_NUM_THREADS another number of threads.\n";

/* 1: go on; 0: done; -1: wrong. */
static int parse(int argc, char **argv, double *seconds)
{
    for (int i = 1; i < argc; i++) {
        char *end;
        if (strcmp(argv[i], "--help") == 0) {
            fputs(help, stdout);
            return 0;
        }
        *seconds = strncmp(argv[i], "--seconds=", 10) == 0 ? strtod(argv[i] + 10, &end) : -1.0;
        if (!(*seconds > 0.0 && *seconds <= 3600.0) || *end) {
            fprintf(stderr, "heed_speed: '%s' is not --seconds=S with S in (0, 3600]\n", argv[i]);
            return -1;
        }
    }
    return 1;
}

int main(int argc, char **argv)
{
    double seconds = FIGURE_SECONDS;
    const int go = parse(argc, argv, &seconds);
    if (go <= 0)
        return go < 0 ? 2 : 0;
    const int threads[2] = { 1, team_max_threads() }, counts = threads[1] > 1 ? 2 : 1;
    table *t = calloc(1, sizeof *t);
    if (!t) {
        fprintf(stderr, "heed_speed: no memory\n");
        return 1;
    }
    t->seconds = seconds;
    t->cache = machine_last_cache();
    t->has_reader = machine_reader_create(&t->reader);
    print_head(threads, counts);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        print_row(t, &rows[i], threads, counts);
    print_peaks(t, threads, counts);
    if (t->has_reader)
        machine_reader_destroy(&t->reader);
    free(t);
    return 0;
}
