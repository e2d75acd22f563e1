/* The arguments of heed_bench that are its own, and its help.
 * May know: instruction sets by name.  Must not know: shapes, how anything is measured. */
#include "options.h"

#include "team.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double FLOPS_FOR_SCALAR = 1e9;

static const char help[] =
    "heed_bench measures heed: every shape of a list on every backend this CPU can run.\n"
    "\n"
    "Usage: heed_bench [options] [--benchmark_...]\n"
    "\n"
    "  --shapes=FILE        the list of shapes; its syntax is explained at its head (default: bench/shapes.txt of the\n"
    "                       source tree)\n"
    "  --threads=LIST       thread counts, such as 1,2 or 1,all (default: 1); names end in /threads:N unless N is 1\n"
    "  --backends=LIST      of scalar, avx2, avx512, neon (default: all); one that the CPU cannot run is reported as\n"
    "                       skipped, with the reason\n"
    "  --heavy              also runs, on the scalar backend, shapes of more than 1 GFLOP a call: that takes minutes\n"
    "  --help               this text\n"
    "\n"
    "Options of Google Benchmark that are useful here:\n"
    "\n"
    "  --benchmark_filter=REGEX       only names that match: attention/avx2/llama, tile, linear/.*/512x4096x4096\n"
    "  --benchmark_list_tests         prints the names and measures nothing\n"
    "  --benchmark_min_time=SECONDS   time spent on each (default: 0.5)\n"
    "  --benchmark_repetitions=N      each N times: bench/compare needs at least 4 to tell a change from noise\n"
    "  --benchmark_out=FILE           also writes the report as JSON, for bench/compare and bench/report\n"
    "  --benchmark_format=json        JSON instead of the table\n"
    "\n"
    "Names are KIND/BACKEND/SHAPE.  Figures of a line:\n"
    "\n"
    "  Time, CPU     of one call, by the wall clock and as CPU time of the calling thread: means\n"
    "  median_s      seconds of a call: the median of batches of calls, and what all other figures are made of.  With "
    "one\n"
    "                thread it is CPU time, so that what other programs take on a busy machine is not counted\n"
    "  GFLOP/s       two for each multiply-add; with a causal mask only what is visible counts\n"
    "  GB/s          each input read once and each output written once, whatever is read in truth; keys and values\n"
    "                count as they are stored (f16 two bytes, int8 one and a scale a token), of ragged batches what "
    "is\n"
    "                there\n"
    "  ns/elem       where the work is a function of each element\n"
    "  fma_%         of the FMA peak (fma_peak, GFLOP/s) of as many threads and the backend's own vector width\n"
    "  widest_%      of the FMA peak with the widest vectors of the CPU\n"
    "  read_%        of the bandwidth (read_peak, GB/s) with which as many threads read the same memory, or a buffer "
    "far\n"
    "                larger than the caches; for shapes whose keys and values, or weights, come from memory at every "
    "call\n"
    "  paused_%      how long the thread waited for a processor: on a quiet machine almost 0\n"
    "  threads, workspace, batches   asked for; bytes of workspace; timed batches behind the figures\n"
    "\n"
    "Peaks are measured in turn with the benchmark, about a millisecond each, and a percentage is the median of the\n"
    "quotients: the clock of a shared machine changes, and both change with it.  The scalar backend has no vectors and "
    "so\n"
    "no fma_%.\n"
    "\n"
    "Exit code: 0; 2 if an argument or the list of shapes is wrong, or no name matches.\n";

void options_print_help(void)
{
    fputs(help, stdout);
}

/* The value of --NAME=VALUE, or NULL. */
static const char *value_of(const char *argument, const char *name)
{
    const size_t length = strlen(name);
    return strncmp(argument, name, length) == 0 && argument[length] == '=' ? argument + length + 1 : NULL;
}

/* Copies the next item of a list separated by commas; returns what follows it, NULL at the end. */
static const char *next_item(const char *list, char *item, size_t size)
{
    const size_t length = strcspn(list, ",");
    snprintf(item, size, "%.*s", (int)(length < size ? length : size - 1), list);
    return list[length] ? list + length + 1 : NULL;
}

static int parse_threads(bench_options *o, const char *list, char *message)
{
    char item[16];
    o->num_threads = 0;
    while (list) {
        list = next_item(list, item, sizeof item);
        char *end;
        const long n = strcmp(item, "all") == 0 ? (end = item + 3, (long)team_max_threads()) : strtol(item, &end, 10);
        if (*end || end == item || n < 1 || n > 1024) {
            snprintf(message, OPTIONS_MESSAGE_SIZE, "--threads: '%s' is neither 'all' nor a number in 1 .. 1024", item);
            return 0;
        }
        int known = 0;
        for (int i = 0; i < o->num_threads; i++)
            known |= o->threads[i] == (int)n;
        if (!known && o->num_threads == OPTIONS_MOST_THREADS) {
            snprintf(message, OPTIONS_MESSAGE_SIZE, "--threads: more than %d counts", OPTIONS_MOST_THREADS);
            return 0;
        }
        if (!known)
            o->threads[o->num_threads++] = (int)n;
    }
    return 1;
}

static int parse_backends(bench_options *o, const char *list, char *message)
{
    char item[16];
    memset(o->isas, 0, sizeof o->isas);
    while (list) {
        list = next_item(list, item, sizeof item);
        int found = 0;
        for (int isa = HEED_ISA_SCALAR; isa < OPTIONS_ISAS; isa++)
            if (strcmp(item, heed_isa_name((heed_isa)isa)) == 0)
                found = isa;
        if (!found || !heed_isa_compiled((heed_isa)found)) {
            snprintf(message, OPTIONS_MESSAGE_SIZE, "--backends: '%s' is not a backend of this build", item);
            return 0;
        }
        o->isas[found] = 1;
    }
    return 1;
}

/* 1: taken; 0: not ours; -1: wrong. */
static int parse_one(bench_options *o, const char *argument, char *message)
{
    const char *value;
    if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
        o->help = 1;
    else if (strcmp(argument, "--heavy") == 0)
        o->most_scalar_flops = INFINITY;
    else if ((value = value_of(argument, "--shapes")))
        o->shapes = value;
    else if ((value = value_of(argument, "--threads")))
        return parse_threads(o, value, message) ? 1 : -1;
    else if ((value = value_of(argument, "--backends")))
        return parse_backends(o, value, message) ? 1 : -1;
    else
        return 0;
    return 1;
}

int options_parse(bench_options *o, int *argc, char **argv, char *message)
{
    const bench_options defaults = { 0, HEED_BENCH_SHAPES, { 1 }, 1, { 0, 1, 1, 1, 1 }, FLOPS_FOR_SCALAR };
    int left = *argc > 0;
    *o = defaults;
    for (int i = 1; i < *argc; i++) {
        const int taken = parse_one(o, argv[i], message);
        if (taken < 0)
            return 0;
        if (!taken)
            argv[left++] = argv[i];
    }
    argv[left] = NULL;
    *argc = left;
    return 1;
}
