/* What the parts of the command verify share: cases, their data, results.
 * May know: the public header of the library.
 * Must not know: anything under src/. */
#ifndef HEED_TOOL_VERIFY_H
#define HEED_TOOL_VERIFY_H

#include <heed/heed.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- Cases (verify_cases.c) ------------------------------------------------------------------------------------ */

enum { VERIFY_NAME_SIZE = 64, VERIFY_DETAIL_SIZE = 240, VERIFY_PARTS = 3, VERIFY_INPUTS = 9 };

typedef enum verify_kind { VERIFY_ATTENTION, VERIFY_LINEAR, VERIFY_LAYER, VERIFY_SOFTMAX, VERIFY_ROPE } verify_kind;

/* What an attention has besides its sizes; window and softcap are in the shape. */
enum {
    STEP_BIAS = 1 << 0, /* one a head; some elements are -inf */
    STEP_MASK = 1 << 1, /* one a batch entry; some rows see nothing, some a single key */
    STEP_ALIBI = 1 << 2,
    STEP_SINKS = 1 << 3,
    STEP_BLOCKS = 1 << 4,    /* of shape.block_mask_q x block_mask_kv; NaN in what none of them shows */
    STEP_VARLEN = 1 << 5,    /* needs lengths; results are unpacked, so they are those of padded sequences */
    STEP_NAN_VALUES = 1 << 6 /* values hold a NaN here and there: rows that do not see it do not get it */
};

typedef enum verify_fill {
    FILL_PLAIN,     /* 24 random bits in [-2, 2), denser near 0 */
    FILL_LARGE,     /* plain times 64: scores of thousands */
    FILL_HEAVY,     /* plain times 2^n with probability 2^-n */
    FILL_ONE_HOT,   /* one 8 in a row, else 0 */
    FILL_CONSTANT,  /* one value per row */
    FILL_SUBNORMAL, /* subnormal numbers of both signs */
    FILL_POISON     /* plain; some rows of the first input hold a NaN or an infinity */
} verify_fill;

typedef struct verify_case {
    char name[VERIFY_NAME_SIZE]; /* also the seed of its data */
    verify_kind kind;
    heed_exp exp; /* DEFAULT where no exp is computed */
    verify_fill fill;
    bool quick; /* also part of the short run */
    /* Attention: as it is.  Layer: seq_len_q is its sequence length, layout is not used. */
    heed_attention shape;
    unsigned steps; /* STEP_ bits of an attention */
    bool lengths;   /* sequences, or rows of a softmax, of different lengths */
    bool lse, weights;
    /* Keys and values go through a cache of the shape's types and page_size, in so many calls of heed_kv_append; 0: there is
     * none.  So many rows of queries come before those of the case, which are then the end of a prefill. */
    int64_t pieces, before;
    /* Projection: rows x in -> rows x out.  Layer: in and out are its widths.  Softmax: rows of in columns. */
    int64_t rows, in, out;
    bool bias;
    bool in_out; /* weights are stored [in][out] */
    /* RoPE: rows [batch][num_heads][seq_len_q][head_dim] of the shape, from position first on. */
    heed_rope_desc rope;
    heed_rope_pairs pairs;
    int64_t first;
} verify_case;

/* An attention with steps, a window or softcap: it has a reference of its own. */
bool verify_is_masked(const verify_case *item);

/* All cases in their fixed order, malloc'ed; NULL when memory runs out. */
verify_case *verify_cases_create(int64_t *count);

/* ---- Inputs (verify_data.c, verify_random.c) ------------------------------------------------------------------- */

/* Attention: q, k, v packed [batch][head][seq][dim]; bias, what the mask is made of, slopes, sinks, what the block
 * mask is made of.  Projection: x, weight, bias.  Layer: x, weights of q, k, v, o, their biases.  Softmax, RoPE: x. */
typedef struct verify_data {
    float *inputs[VERIFY_INPUTS]; /* NULL: absent */
    int64_t counts[VERIFY_INPUTS];
    int32_t *lengths_q, *lengths_kv; /* NULL, or one per batch entry or softmax row */
    uint8_t *mask, *blocks;          /* with STEP_MASK, STEP_BLOCKS */
    int32_t *offsets_q, *offsets_kv; /* with STEP_VARLEN */
} verify_data;

/* One input of a case: so many rows of width elements, times unit. */
typedef struct verify_input {
    int64_t rows, width;
    float unit;
} verify_input;

/* The parts of the above that belong to steps (verify_masks.c). */
enum { INPUT_BIAS = 3, INPUT_MASK, INPUT_SLOPES, INPUT_SINKS, INPUT_BLOCKS };
void verify_masks_list(const verify_case *item, verify_input sizes[VERIFY_INPUTS]);
bool verify_masks_create(verify_data *data, const verify_case *item);
void verify_masks_attach(
    const verify_case *item, const verify_data *data, heed_attention *shape, heed_tensors *tensors);

bool verify_data_create(verify_data *data, const verify_case *item);
void verify_data_destroy(verify_data *data);

uint64_t verify_hash(uint64_t hash, const void *bytes, size_t count); /* FNV-1a */
extern const uint64_t verify_hash_start;

typedef struct verify_random {
    uint64_t state[4];
} verify_random;

verify_random verify_random_seeded(uint64_t seed);

/* Every value is made of integers and powers of two, so it is the same on every machine.  unit multiplies all of them
 * and must be a power of two. */
void verify_fill_rows(verify_random *random, verify_fill kind, float unit, int64_t rows, int64_t width, float *values);

/* ---- Outputs (verify_call.c) ----------------------------------------------------------------------------------- */

typedef struct verify_part {
    const char *name;
    int64_t count;
} verify_part;

/* The outputs of a case, packed one after the other; returns how many. */
int verify_parts(const verify_case *item, verify_part parts[VERIFY_PARTS]);
int64_t verify_output_count(const verify_case *item);

/* Runs the case by the public API. */
heed_status verify_call(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error);

/* Attention over a cache (verify_decode.c). */
heed_status verify_call_decode(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error);

/* Tables and rotated rows of a RoPE case (verify_rope.c). */
heed_status verify_call_rope(const verify_case *item, const verify_data *data, float *results, heed_error *error);

/* ---- The reference in f64 (verify_reference.c and _bound.c, _masks_reference.c, _decode_reference.c, _rope.c) ---- */

/* The same outputs in double, and how far each element may be off; false when memory runs out. */
bool verify_reference(const verify_case *item, const verify_data *data, double *want, double *bounds);
bool verify_masks_reference(const verify_case *item, const verify_data *data, double *want, double *bounds);
bool verify_decode_reference(const verify_case *item, const verify_data *data, double *want, double *bounds);
void verify_rope_reference(const verify_case *item, const verify_data *data, double *want, double *bounds);

/* Bits of a value in a 16-bit type, rounded to nearest even (verify_decode_reference.c). */
uint16_t verify_encode(float value, heed_type type);

/* How far each output may be off, from the sizes and norms of the inputs. */
void verify_bounds(const verify_case *item, const verify_data *data, double bounds[VERIFY_PARTS]);

/* ---- Running (verify_run.c) ------------------------------------------------------------------------------------ */

typedef struct verify_result {
    bool ran;
    bool skipped;  /* left out on request */
    bool same;     /* all backends and thread counts gave the same bits */
    bool accurate; /* within the bound of f64 */
    uint64_t fingerprint;
    double ulp;      /* largest |v - r| in units in the last place of r, the value in f64, where r is a normal number */
    double relative; /* largest |v - r| of an output divided by the largest |r| of that output */
    char detail[VERIFY_DETAIL_SIZE];
} verify_result;

enum { VERIFY_BACKENDS = 4 };

typedef struct verify_backends {
    heed_isa list[VERIFY_BACKENDS];
    int count;
} verify_backends;

/* The usable ones, scalar first, or just one. */
verify_backends verify_backends_find(heed_isa only);

void verify_run(const verify_case *item, const verify_backends *backends, verify_result *result);

/* ---- Fingerprint files (verify_file.c) ------------------------------------------------------------------------- */

enum { VERIFY_FILE_VERSION = 1 };

/* Parallel to the cases: what a file says about each. */
typedef struct verify_expected {
    bool present, ran;
    uint64_t fingerprint;
} verify_expected;

/* Cases of a file that do not exist here: how many, and the first names. */
typedef struct verify_unknown {
    int64_t count;
    char names[4][VERIFY_NAME_SIZE];
} verify_unknown;

/* expected has an entry for each case.  False: message says why the file is refused. */
bool verify_file_read(const char *path, const verify_case *cases, int64_t count, verify_expected *expected,
    verify_unknown *unknown, char *message, size_t size);

/* Writes {"version": 1, "cases": [{"name": "...", "fingerprint": "16 digits"}, ...]}; the fingerprint of a case that
 * was not run is "not run". */
void verify_file_write(FILE *file, const verify_case *cases, const verify_result *results, int64_t count);

/* ---- Reports (verify_report.c) --------------------------------------------------------------------------------- */

typedef struct verify_report {
    const verify_case *cases;
    const verify_result *results;
    const verify_expected *expected; /* NULL without --check */
    int64_t count;
    const verify_backends *backends;
    const verify_unknown *unknown; /* NULL without --check */
    double seconds;
} verify_report;

/* What became of a case. */
typedef enum verify_verdict {
    VERDICT_SAME,
    VERDICT_NOT_RUN,   /* cannot be run here; agrees with nothing */
    VERDICT_SKIPPED,   /* left out on request; agrees with nothing */
    VERDICT_UNCHECKED, /* run here, but not where the file was written */
    VERDICT_DIFFERENT, /* between backends or thread counts, or an error */
    VERDICT_WRONG,     /* too far from f64 */
    VERDICT_CHANGED,   /* the file has another fingerprint */
    VERDICT_MISSING,   /* the file does not know the case */
    VERDICT_COUNT
} verify_verdict;

verify_verdict verify_judge(const verify_report *report, int64_t index);

/* Both print on stdout and return whether everything that was run agrees, and the file has no unknown cases. */
bool verify_print_table(const verify_report *report);
bool verify_print_json(const verify_report *report);

#endif
