/* What a line of shapes.txt may say.
 * May know: shapes, heed's exp choices and the size of its blocks.  Must not know: the syntax of the file. */
#include "shape_rules.h"

#include "backend.h"

#include <string.h>

static const char *const mask_words[] = { "none", "bias", "boolean", "alibi", "softcap", NULL };
static const char *const type_words[] = { "f32", "f16", "bf16", "i8", NULL };
static const char *const layout_words[] = { "bhsd", "bshd", NULL };
static const char *const io_words[] = { "f32", "f16", "bf16", NULL };
static const char *const page_words[] = { "none", "16", "32", "64", "128", NULL };
static const char *const exp_words[] = { "default", "builtin", "sleef", NULL };

/* The limits keep every product of sizes far below 2^63: the largest tensor has 2^10 * 2^10 * 2^20 * 2^12 elements. */
enum { MOST_BATCH = 1 << 10, MOST_HEADS = 1 << 10, MOST_SEQ = 1 << 20, MOST_DIM = 1 << 12, MOST_WIDTH = 1 << 20 };

const field_rule shape_field_rules[SHAPE_FIELDS] = {
    [SHAPE_BATCH] = { "batch", 1, MOST_BATCH, NULL },
    [SHAPE_HEADS] = { "heads", 1, MOST_HEADS, NULL },
    [SHAPE_KV_HEADS] = { "kv_heads", 1, MOST_HEADS, NULL },
    [SHAPE_SEQ] = { "seq", 1, MOST_SEQ, NULL },
    [SHAPE_SEQ_Q] = { "seq_q", 1, MOST_SEQ, NULL },
    [SHAPE_SEQ_KV] = { "seq_kv", 1, MOST_SEQ, NULL },
    [SHAPE_DIM] = { "dim", 1, MOST_DIM, NULL },
    [SHAPE_DIM_V] = { "dim_v", 1, MOST_DIM, NULL },
    [SHAPE_CAUSAL] = { "causal", 0, 1, NULL },
    [SHAPE_EXP_KIND] = { "exp", HEED_EXP_DEFAULT, HEED_EXP_SLEEF, exp_words },
    [SHAPE_STREAM] = { "stream", 0, 1, NULL },
    [SHAPE_MODEL] = { "model", 1, MOST_WIDTH, NULL },
    [SHAPE_ROWS] = { "rows", 1, MOST_SEQ, NULL },
    [SHAPE_IN] = { "in", 1, MOST_WIDTH, NULL },
    [SHAPE_OUT] = { "out", 1, MOST_WIDTH, NULL },
    [SHAPE_COLS] = { "cols", 1, MOST_SEQ, NULL },
    [SHAPE_WINDOW] = { "window", 0, MOST_SEQ, NULL },
    [SHAPE_MASK] = { "mask", SHAPE_NO_MASK, SHAPE_SOFTCAP, mask_words },
    [SHAPE_TYPE] = { "type", HEED_TYPE_F32, HEED_TYPE_I8, type_words },
    [SHAPE_LAYOUT] = { "layout", HEED_LAYOUT_BHSD, HEED_LAYOUT_BSHD, layout_words },
    [SHAPE_IO] = { "io", HEED_TYPE_F32, HEED_TYPE_BF16, io_words },
    [SHAPE_PAGE] = { "page", 0, 4, page_words },
    [SHAPE_RAGGED] = { "ragged", 0, 1, NULL },
};

/* Fields of a kind, ending with SHAPE_FIELDS. */
enum { MOST_FIELDS = 19 };

static const shape_field fields_of[SHAPE_KINDS][MOST_FIELDS] = {
    [SHAPE_ATTENTION] = { SHAPE_BATCH, SHAPE_HEADS, SHAPE_KV_HEADS, SHAPE_SEQ, SHAPE_SEQ_Q, SHAPE_SEQ_KV, SHAPE_DIM,
        SHAPE_DIM_V, SHAPE_CAUSAL, SHAPE_EXP_KIND, SHAPE_STREAM, SHAPE_WINDOW, SHAPE_MASK, SHAPE_TYPE, SHAPE_LAYOUT,
        SHAPE_IO, SHAPE_PAGE, SHAPE_RAGGED, SHAPE_FIELDS },
    [SHAPE_LINEAR] = { SHAPE_ROWS, SHAPE_IN, SHAPE_OUT, SHAPE_STREAM, SHAPE_FIELDS },
    [SHAPE_LAYER] = { SHAPE_BATCH, SHAPE_SEQ, SHAPE_MODEL, SHAPE_HEADS, SHAPE_KV_HEADS, SHAPE_DIM, SHAPE_CAUSAL,
        SHAPE_FIELDS },
    [SHAPE_SOFTMAX] = { SHAPE_ROWS, SHAPE_COLS, SHAPE_EXP_KIND, SHAPE_FIELDS },
    [SHAPE_EXP] = { SHAPE_COLS, SHAPE_EXP_KIND, SHAPE_FIELDS },
    [SHAPE_PACK_K] = { SHAPE_ROWS, SHAPE_DIM, SHAPE_FIELDS },
    [SHAPE_PACK_V] = { SHAPE_ROWS, SHAPE_DIM, SHAPE_FIELDS },
    [SHAPE_QK_TILE] = { SHAPE_ROWS, SHAPE_DIM, SHAPE_FIELDS },
    [SHAPE_SOFTMAX_TILE] = { SHAPE_ROWS, SHAPE_EXP_KIND, SHAPE_FIELDS },
    [SHAPE_PV_TILE] = { SHAPE_ROWS, SHAPE_DIM, SHAPE_FIELDS },
    [SHAPE_GEMM_TILE] = { SHAPE_ROWS, SHAPE_IN, SHAPE_FIELDS },
};

static int same(const char *name, const char *text, size_t length)
{
    return strlen(name) == length && memcmp(name, text, length) == 0;
}

int shape_find_field(const char *name, size_t length)
{
    for (int f = 0; f < SHAPE_FIELDS; f++)
        if (same(shape_field_rules[f].name, name, length))
            return f;
    return -1;
}

int shape_find_kind(const char *name, size_t length)
{
    for (int k = 0; k < SHAPE_KINDS; k++)
        if (same(shape_kind_name((shape_kind)k), name, length))
            return k;
    return -1;
}

int shape_has_field(shape_kind kind, shape_field field)
{
    for (int i = 0; fields_of[kind][i] != SHAPE_FIELDS; i++)
        if (fields_of[kind][i] == field)
            return 1;
    return 0;
}

/* Returns the wrong field, or -1; afterwards seq, seq_q and seq_kv are all set. */
static int complete_lengths(bench_shape *shape, const char **reason)
{
    int64_t *f = shape->field;
    if (!shape_has_field(shape->kind, SHAPE_SEQ))
        return -1;
    *reason = "is missing";
    if (!f[SHAPE_SEQ] && !f[SHAPE_SEQ_Q] && !f[SHAPE_SEQ_KV])
        return SHAPE_SEQ;
    if (f[SHAPE_SEQ] && (f[SHAPE_SEQ_Q] || f[SHAPE_SEQ_KV])) {
        *reason = "is given beside seq_q or seq_kv";
        return SHAPE_SEQ;
    }
    if (f[SHAPE_SEQ])
        f[SHAPE_SEQ_Q] = f[SHAPE_SEQ_KV] = f[SHAPE_SEQ];
    if (!f[SHAPE_SEQ_Q] || !f[SHAPE_SEQ_KV])
        return f[SHAPE_SEQ_Q] ? SHAPE_SEQ_KV : SHAPE_SEQ_Q;
    return -1;
}

int shape_complete(bench_shape *shape, const char **reason)
{
    int64_t *f = shape->field;
    const int wrong = complete_lengths(shape, reason);
    if (wrong >= 0)
        return wrong;
    if (!f[SHAPE_BATCH])
        f[SHAPE_BATCH] = shape_has_field(shape->kind, SHAPE_BATCH);
    if (shape_has_field(shape->kind, SHAPE_KV_HEADS) && !f[SHAPE_KV_HEADS])
        f[SHAPE_KV_HEADS] = f[SHAPE_HEADS];
    if (shape_has_field(shape->kind, SHAPE_DIM_V) && !f[SHAPE_DIM_V])
        f[SHAPE_DIM_V] = f[SHAPE_DIM];
    *reason = "is missing";
    for (int i = 0; fields_of[shape->kind][i] != SHAPE_FIELDS; i++) {
        const shape_field field = fields_of[shape->kind][i];
        if (field != SHAPE_SEQ && f[field] < shape_field_rules[field].least)
            return (int)field;
    }
    if (f[SHAPE_KV_HEADS] && f[SHAPE_HEADS] % f[SHAPE_KV_HEADS] != 0) {
        *reason = "does not divide heads";
        return SHAPE_KV_HEADS;
    }
    if (f[SHAPE_WINDOW] && !f[SHAPE_CAUSAL]) {
        *reason = "needs causal=1";
        return SHAPE_WINDOW;
    }
    if (f[SHAPE_RAGGED] && (f[SHAPE_SEQ_Q] != 1 || f[SHAPE_WINDOW] || f[SHAPE_MASK])) {
        *reason = "needs seq_q=1 and neither window nor mask";
        return SHAPE_RAGGED;
    }
    if ((shape->kind == SHAPE_PACK_K || shape->kind == SHAPE_PACK_V) && f[SHAPE_ROWS] > HEED_BLOCK_KV) {
        *reason = "is more than one block of keys";
        return SHAPE_ROWS;
    }
    return -1;
}
