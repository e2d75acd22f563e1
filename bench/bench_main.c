/* heed_bench: one loop registers every shape on every backend and thread count, one function measures any of them.
 * May know: shapes, works, the sampler, bench.h.  Must not know: kinds of work, instruction sets, C++. */
#include "bench.h"
#include "options.h"
#include "sampler.h"
#include "shape_file.h"
#include "system.h"
#include "team.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 160, TEXT_SIZE = 512 };

static const double BATCH_SECONDS = 0.01;

/* What all benchmarks share: at any time one of them is ready to run. */
typedef struct driver {
    const bench_options *options;
    machine_reader reader;
    int has_reader; /* made when the first shape needs it */
    size_t cache;
    const struct entry *ready; /* whose work and sampler these are; NULL: nobody's */
    bench_work *work;
    sampler sampler;
} driver;

/* One benchmark. */
typedef struct entry {
    driver *driver;
    const bench_shape *shape;
    heed_isa isa;
    int threads;
} entry;

static void clear(driver *d)
{
    work_destroy(d->work);
    d->work = NULL;
    d->ready = NULL;
}

/* Google Benchmark calls a function several times until it has run long enough; the work is made once. */
static int make_ready(const entry *e, heed_error *error)
{
    driver *d = e->driver;
    if (d->ready == e)
        return 1;
    clear(d);
    const work_options options = { e->isa, e->threads, d->cache };
    d->work = work_create(e->shape, &options, error);
    if (!d->work)
        return 0;
    if (d->work->stream && !d->has_reader)
        d->has_reader = machine_reader_create(&d->reader);
    if (sampler_prepare(&d->sampler, d->work, d->has_reader ? &d->reader : NULL, BATCH_SECONDS, error) != HEED_OK) {
        clear(d);
        return 0;
    }
    d->ready = e;
    return 1;
}

static void report(bench_state *state, const entry *e)
{
    const driver *d = e->driver;
    sampler_summary s;
    sampler_summarize(&d->sampler, &s);
    if (s.flops > 0.0)
        bench_counter(state, "GFLOP/s", 1e-9 * s.flops);
    bench_counter(state, "GB/s", 1e-9 * s.bytes);
    if (s.elements > 0.0)
        bench_counter(state, "ns/elem", 1e9 / s.elements);
    if (s.fma_peak > 0.0) {
        bench_counter(state, "fma_%", 100.0 * s.fma_share);
        bench_counter(state, "widest_%", 100.0 * s.widest_share);
        bench_counter(state, "fma_peak", 1e-9 * s.fma_peak);
    }
    if (s.read_peak > 0.0) {
        bench_counter(state, "read_%", 100.0 * s.read_share);
        bench_counter(state, "read_peak", 1e-9 * s.read_peak);
    }
    if (e->threads == 1)
        bench_counter(state, "paused_%", 100.0 * s.paused_share);
    bench_counter(state, "median_s", s.seconds);
    bench_counter(state, "threads", e->threads);
    bench_counter(state, "workspace", (double)d->work->workspace);
    bench_counter(state, "batches", (double)s.batches);
}

static void measure(bench_state *state, void *argument)
{
    const entry *e = argument;
    driver *d = e->driver;
    heed_error error;
    char text[TEXT_SIZE];
    if (!heed_isa_usable(e->isa)) {
        snprintf(text, sizeof text, "this CPU, or its system, cannot run %s", heed_isa_name(e->isa));
        bench_skip(state, text);
        return;
    }
    if (!make_ready(e, &error)) {
        bench_skip(state, error.message);
        return;
    }
    sampler_restart(&d->sampler);
    while (bench_next(state, d->sampler.calls)) {
        if (sampler_batch(&d->sampler, &error) != HEED_OK) {
            bench_skip(state, error.message);
            return;
        }
        bench_pause(state);
        sampler_file(&d->sampler);
        bench_resume(state);
    }
    report(state, e);
}

/* ---- Registration ---- */

static double flops_of(const bench_shape *shape)
{
    const int64_t *f = shape->field;
    const double rows = (double)f[SHAPE_BATCH] * (double)f[SHAPE_SEQ_Q], dim = (double)f[SHAPE_DIM];
    const double heads = (double)f[SHAPE_HEADS], kv_heads = (double)f[SHAPE_KV_HEADS];
    double flops = 2.0 * (double)f[SHAPE_ROWS] * (double)f[SHAPE_IN] * (double)f[SHAPE_OUT];
    flops += 4.0 * (double)f[SHAPE_BATCH] * heads * shape_visible(shape) * dim;
    return flops + 4.0 * rows * (double)f[SHAPE_MODEL] * dim * (heads + kv_heads);
}

static void register_entry(entry *e)
{
    char name[NAME_SIZE], threads[32] = "";
    if (e->threads != 1)
        snprintf(threads, sizeof threads, "/threads:%d", e->threads);
    snprintf(name, sizeof name, "%s/%s/%s%s", shape_kind_name(e->shape->kind), heed_isa_name(e->isa), e->shape->name,
        threads);
    bench_register(name, measure, e);
}

/* Single kernels know no threads. */
static int has_threads(const bench_shape *shape)
{
    return shape->kind <= SHAPE_SOFTMAX;
}

/* Returns the entries, which must live as long as the benchmarks. */
static entry *register_all(driver *d, const shape_list *list)
{
    const bench_options *o = d->options;
    entry *entries = calloc(list->count * OPTIONS_ISAS * OPTIONS_MOST_THREADS, sizeof *entries);
    entry *next = entries;
    size_t left_out = 0;
    for (int isa = OPTIONS_ISAS - 1; entries && isa >= HEED_ISA_SCALAR; isa--) {
        if (!o->isas[isa] || !heed_isa_compiled((heed_isa)isa))
            continue;
        for (size_t i = 0; i < list->count; i++) {
            const bench_shape *shape = &list->shapes[i];
            if (isa == HEED_ISA_SCALAR && flops_of(shape) > o->most_scalar_flops) {
                left_out++;
                continue;
            }
            for (int t = 0; t < (has_threads(shape) ? o->num_threads : 1); t++) {
                const entry e = { d, shape, (heed_isa)isa, has_threads(shape) ? o->threads[t] : 1 };
                *next = e;
                register_entry(next++);
            }
        }
    }
    if (left_out)
        fprintf(
            stderr, "heed_bench: %zu large shapes are left out on the scalar backend; --heavy runs them\n", left_out);
    return entries;
}

static void describe_run(int argc, char **argv)
{
    char text[TEXT_SIZE] = "";
    for (int i = 1; i < argc; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%s", i > 1 ? " " : "", argv[i]);
    }
    bench_context("arguments", text);
}

static void describe_machine(void)
{
    const system_facts facts = system_examine();
    char text[TEXT_SIZE];
    bench_context("cpu", facts.model);
    heed_cpu_features(text, sizeof text);
    bench_context("cpu_features", text);
    bench_context("compiler", HEED_BENCH_COMPILER);
    bench_context("build_type", HEED_BENCH_BUILD_TYPE);
    bench_context("heed_version", heed_version());
    bench_context("default_backend", heed_isa_name(heed_isa_default()));
    const machine_loops *widest = machine_widest();
    bench_context("widest_vectors", widest ? heed_isa_name(widest->isa) : "none with fused multiply-add");
    snprintf(text, sizeof text, "%d", team_max_threads());
    bench_context("max_threads", text);
}

int main(int argc, char **argv)
{
    bench_options options;
    shape_list list;
    char message[SHAPE_MESSAGE_SIZE];
    describe_run(argc, argv);
    if (!options_parse(&options, &argc, argv, message)) {
        fprintf(stderr, "heed_bench: %s\n", message);
        return 2;
    }
    if (options.help) {
        options_print_help();
        return 0;
    }
    if (!shape_list_read(&list, options.shapes, message)) {
        fprintf(stderr, "heed_bench: %s\n", message);
        return 2;
    }
    driver *d = calloc(1, sizeof *d);
    if (!d)
        return 2;
    d->options = &options;
    d->cache = machine_last_cache();
    entry *entries = register_all(d, &list);
    describe_machine();
    const int code = entries ? bench_run(argc, argv) : 2;
    clear(d);
    if (d->has_reader)
        machine_reader_destroy(&d->reader);
    free(entries);
    free(d);
    shape_list_free(&list);
    return code;
}
