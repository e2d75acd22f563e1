/* A shape: the kind of work and its sizes.  What shapes.txt holds a list of.
 * May know: names of kinds and fields, their limits.  Must not know: how the work is done or measured. */
#ifndef HEED_BENCH_SHAPE_H
#define HEED_BENCH_SHAPE_H

#include <stdint.h>

typedef enum shape_kind {
    SHAPE_ATTENTION,
    SHAPE_LINEAR,
    SHAPE_LAYER,
    SHAPE_SOFTMAX,
    SHAPE_EXP,
    SHAPE_PACK_K,
    SHAPE_PACK_V,
    SHAPE_QK_TILE,
    SHAPE_SOFTMAX_TILE,
    SHAPE_PV_TILE,
    SHAPE_GEMM_TILE,
    SHAPE_KINDS
} shape_kind;

typedef enum shape_field {
    SHAPE_BATCH,
    SHAPE_HEADS,
    SHAPE_KV_HEADS,
    SHAPE_SEQ, /* both of the next two */
    SHAPE_SEQ_Q,
    SHAPE_SEQ_KV,
    SHAPE_DIM,
    SHAPE_DIM_V,
    SHAPE_CAUSAL,
    SHAPE_EXP_KIND, /* a heed_exp */
    SHAPE_STREAM,   /* 1: keys and values, or weights, come from memory at every call, never from a cache */
    SHAPE_MODEL,
    SHAPE_ROWS,
    SHAPE_IN,
    SHAPE_OUT,
    SHAPE_COLS,
    SHAPE_WINDOW, /* keys a query sees at most, with causal; 0: all before it */
    SHAPE_MASK,   /* a shape_mask */
    SHAPE_TYPE,   /* of keys and values: a heed_type */
    SHAPE_PAGE,   /* 0: keys and values are tensors; else they lie in pages of shape_page_size() tokens */
    SHAPE_LAYOUT, /* a heed_layout, BHSD or BSHD */
    SHAPE_IO,     /* of queries and results: f32, f16 or bf16 */
    SHAPE_RAGGED, /* 1: the batch's sequences have lengths of their own, shape_keys() */
    SHAPE_FIELDS
} shape_field;

/* What is done to the scores. */
typedef enum shape_mask { SHAPE_NO_MASK, SHAPE_BIAS, SHAPE_BOOLEAN, SHAPE_ALIBI, SHAPE_SOFTCAP } shape_mask;

enum { SHAPE_NAME_SIZE = 64 };

/* Fields that the kind does not have are 0; all others are given or have taken their default. */
typedef struct bench_shape {
    shape_kind kind;
    char name[SHAPE_NAME_SIZE];
    int64_t field[SHAPE_FIELDS];
} bench_shape;

const char *shape_kind_name(shape_kind kind);

/* Tokens of a page: 16, 32, 64 or 128; 0 without pages. */
int64_t shape_page_size(const bench_shape *shape);

/* Keys of a sequence of the batch: seq_kv, or, ragged, (entry + 1) / batch of it, rounded up. */
int64_t shape_keys(const bench_shape *shape, int64_t entry);

/* Query-key pairs that see each other under the shape's causal rule, of one head, on average over the batch. */
double shape_visible(const bench_shape *shape);

#endif
