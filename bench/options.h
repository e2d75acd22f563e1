/* The arguments of heed_bench that are its own, and its help.
 * May know: instruction sets by name.  Must not know: shapes, how anything is measured. */
#ifndef HEED_BENCH_OPTIONS_H
#define HEED_BENCH_OPTIONS_H

#include "heed/heed.h"

enum { OPTIONS_MOST_THREADS = 8, OPTIONS_ISAS = HEED_ISA_NEON + 1, OPTIONS_MESSAGE_SIZE = 160 };

typedef struct bench_options {
    int help;
    const char *shapes; /* path */
    int threads[OPTIONS_MOST_THREADS];
    int num_threads;
    int isas[OPTIONS_ISAS];   /* by heed_isa: 1 if wanted */
    double most_scalar_flops; /* of a call on the scalar backend */
} bench_options;

/* Takes its own arguments out of argv and leaves the others, for Google Benchmark, in front; *argc is then their
 * number. Returns 1, or 0 with one line in message. */
int options_parse(bench_options *options, int *argc, char **argv, char *message);

void options_print_help(void);

#endif
