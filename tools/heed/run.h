/* `heed run`: what is asked for, and what comes out.
 * May know: heed.h, npy.h.
 * Must not know: anything of the other commands. */
#ifndef HEED_TOOL_RUN_H
#define HEED_TOOL_RUN_H

#include "command.h"
#include "npy.h"

#include "heed/heed.h"

/* The options of the rotary embedding. */
typedef struct run_rope {
    bool given;         /* --rope */
    const char *detail; /* which of the others was given, without dashes; NULL: none */
    heed_rope_pairs pairs;
    heed_rope_desc desc; /* dim 0: not given */
    int64_t offset;      /* position of the first row */
} run_rope;

typedef struct run_request {
    const char *q, *k, *v;                 /* files, or NULL */
    const char *bias, *mask;               /* files, or NULL */
    const char *alibi, *sinks;             /* files, or NULL */
    const char *x, *weights, *names;       /* files and --names, or NULL */
    const char *out, *lse, *attention;     /* files, or NULL */
    const char *expect, *expect_attention; /* files, or NULL */
    bool wants_weights;                    /* for either of attention and expect_attention */
    double tolerance;                      /* of a comparison, relative to the largest value */
    int64_t layer;                         /* -1: not given */
    int64_t heads, kv_heads;               /* 0: not given */
    float scale;
    heed_causal causal;
    int64_t causal_offset;
    int64_t window_left, window_right; /* -1: unlimited */
    float softcap;                     /* 0: none */
    run_rope rope;
    heed_layout layout;
    heed_type kv_type;            /* of the cache, if there is one */
    int64_t page_size;            /* 0: not given */
    int64_t decode_step;          /* queries of the step; 0: not given */
    bool bf16_npy;                /* what NumPy calls V2 is bfloat16 */
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
    int axis;                    /* of the queries in out */
    int64_t skipped;             /* queries before those of a decode step */
    char summary[4096];          /* whole lines for people */
} run_result;

/* Fills request from the arguments; false with *exit_code when the command is to end here.  request_free either way. */
bool run_parse(int argc, char **argv, run_request *request, int *exit_code);
void run_request_free(run_request *request);

/* Parses all of --rope*; a text is NULL where the option is not given. */
bool run_rope_parse(const char *pairs, const char *base, const char *dim, const char *scaling, const char *offset,
    run_rope *rope, char *message, size_t size);

/* --q --k --v: attention on ready queries, keys and values. */
bool run_attention(const run_request *request, run_result *result, run_problem *problem);

/* --x --weights: the whole layer of a model. */
bool run_layer(const run_request *request, run_result *result, run_problem *problem);

/* What a tensor of 2, 3 or 4 dimensions means; the left-out ones are 1. */
typedef struct run_extents {
    int64_t batch, heads, seq, dim;
} run_extents;

/* Reads one of --q, --k, --v (run_tensor.c): a .npy file, or FILE.safetensors:NAME. */
bool run_read_tensor(
    const run_request *request, const char *option, const char *path, npy_array *array, run_problem *problem);

/* ---- Keys and values through a cache (run_cache.c) -------------------------------------------------------------- */

typedef struct run_cache {
    heed_kv_cache cache;
    void *k, *v;
    float *scales_k, *scales_v;
    int32_t *table;
} run_cache;

bool run_cache_wanted(const run_request *request);

/* k and v in the request's layout.  run_cache_free either way. */
bool run_cache_build(const run_request *request, const run_extents *keys, int64_t dim_v, const float *k, const float *v,
    run_cache *made, run_problem *problem);
void run_cache_free(run_cache *made);

void run_cache_describe(const run_cache *made, heed_attention *attention);
void run_cache_point(const run_cache *made, heed_tensors *tensors);

/* Appends a line on it to the summary. */
void run_cache_say(const run_cache *made, int64_t steps, run_result *result);

/* ---- What changes the scores of ready queries and keys (run_scores.c) ------------------------------------------ */

/* Empty where nothing is given. */
typedef struct run_scores {
    npy_array bias, mask, alibi, sinks;
    heed_mask_strides strides_bias, strides_mask;
} run_scores;

/* sizes: batch, heads, queries, keys. */
bool run_scores_read(const run_request *request, const int64_t sizes[4], run_scores *scores, run_problem *problem);
void run_scores_free(run_scores *scores);

/* ---- Rotary position embedding (run_rope.c) -------------------------------------------------------------------- */

typedef struct run_rope_tables {
    float *cosines, *sines; /* NULL: nothing is rotated */
} run_rope_tables;

/* What to do with heads of this size: as asked, or as such a model does.  In *chosen pairs and dim are settled. */
bool run_rope_choose(
    const run_rope *asked, bool model_rotates, int64_t head_dim, run_rope *chosen, run_problem *problem);

/* run_rope_free either way. */
bool run_rope_compute(const run_rope *rope, int64_t positions, run_rope_tables *tables, run_problem *problem);
void run_rope_free(run_rope_tables *tables);

/* Appends a line on it to the summary. */
void run_rope_say(const run_rope *rope, int64_t head_dim, run_result *result);

/* ---- Comparison with expected values (run_expect.c) ------------------------------------------------------------ */

/* Empty where nothing is expected. */
typedef struct run_expected {
    npy_array out, weights; /* as doubles */
} run_expected;

bool run_expect_read(const run_request *request, run_expected *expected, run_problem *problem);
void run_expect_free(run_expected *expected);

/* 0, with *problem set: a shape is not that of the result.  Of a decode step's values those of all queries will do, too:
 * its own are kept. */
bool run_expect_fits(
    const run_request *request, run_expected *expected, const run_result *result, run_problem *problem);

/* Prints the errors of what fits on stdout.  EXIT_CHECK_FAILED: one is above the tolerance. */
int run_expect_compare(const run_request *request, const run_expected *expected, const run_result *result);

/* ---- Shared by both (run_common.c) ----------------------------------------------------------------------------- */

/* Sets *problem and returns false. */
bool run_refuse(run_problem *problem, const char *file, const char *format, ...);

/* An array of this shape, its values not set. */
bool run_allocate(npy_array *array, int ndim, const int64_t *shape, const char *what, run_problem *problem);

/* Keeps the last count entries of a dimension of an array of floats or doubles. */
void run_keep_last(npy_array *array, int axis, int64_t count);

/* "[2, 3]". */
enum { SHAPE_SIZE = 8 * 21 + 3 };
void run_shape(const npy_array *array, char text[SHAPE_SIZE]);

/* Every length is at most seq_len, and there is one for each of batch sequences. */
bool run_check_lengths(
    const char *option, const int32_t *lengths, int64_t count, int64_t batch, int64_t seq_len, run_problem *problem);

/* Appends to result->summary. */
void run_say(run_result *result, const char *format, ...);

#endif
