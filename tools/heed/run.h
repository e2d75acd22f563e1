/* `heed run`: what is asked for, and what comes out.
 * May know: heed.h, npy.h.
 * Must not know: anything of the other commands. */
#ifndef HEED_TOOL_RUN_H
#define HEED_TOOL_RUN_H

#include "command.h"
#include "npy.h"

#include "heed/heed.h"

typedef struct run_request {
    const char *q, *k, *v;             /* files, or NULL */
    const char *x, *weights, *names;   /* files and --names, or NULL */
    const char *out, *lse, *attention; /* files, or NULL */
    int64_t layer;                     /* -1: not given */
    int64_t heads, kv_heads;           /* 0: not given */
    float scale;
    heed_causal causal;
    int64_t causal_offset;
    heed_layout layout;
    int32_t *lengths_q, *lengths; /* malloc'ed, or NULL */
    int64_t num_lengths_q, num_lengths;
    heed_options options;
    bool quiet;
} run_request;

/* Why something failed; file may be NULL. */
typedef struct run_problem {
    const char *file;
    char message[MESSAGE_SIZE];
} run_problem;

typedef struct run_result {
    npy_array out, lse, weights; /* lse and weights are empty unless asked for */
    char summary[4096];          /* whole lines for people */
} run_result;

/* Fills request from the arguments; false with *exit_code when the command is to end here.  request_free either way. */
bool run_parse(int argc, char **argv, run_request *request, int *exit_code);
void run_request_free(run_request *request);

/* --q --k --v: attention on ready queries, keys and values. */
bool run_attention(const run_request *request, run_result *result, run_problem *problem);

/* --x --weights: the whole layer of a model. */
bool run_layer(const run_request *request, run_result *result, run_problem *problem);

/* ---- Shared by both (run_common.c) ----------------------------------------------------------------------------- */

/* Sets *problem and returns false. */
bool run_refuse(run_problem *problem, const char *file, const char *format, ...);

/* An array of this shape, its values not set. */
bool run_allocate(npy_array *array, int ndim, const int64_t *shape, const char *what, run_problem *problem);

/* Every length is at most seq_len, and there is one for each of batch sequences. */
bool run_check_lengths(
    const char *option, const int32_t *lengths, int64_t count, int64_t batch, int64_t seq_len, run_problem *problem);

/* Appends to result->summary. */
void run_say(run_result *result, const char *format, ...);

#endif
