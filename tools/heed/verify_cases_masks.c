/* The cases of masks, steps and RoPE.  A name, once released, stays with its case.
 * May know: verify_cases.h.
 * Must not know: how cases are run. */
#include "verify_cases.h"

#include <inttypes.h>

typedef struct named_steps {
    const char *name;
    int64_t window_left, window_right;
    unsigned steps;
    float softcap;
} named_steps;

enum { ALL_STEPS = STEP_BIAS | STEP_MASK | STEP_ALIBI | STEP_SINKS | STEP_BLOCKS, STEP_KINDS = 14, SIZES = 3 };

static const named_steps kinds[STEP_KINDS] = {
    { "mask", -1, -1, STEP_MASK, 0.0f },
    { "bias", -1, -1, STEP_BIAS, 0.0f },
    { "window", 9, 4, 0, 0.0f },
    { "window-left", 20, -1, 0, 0.0f },
    { "window-self", 0, 0, 0, 0.0f },
    { "alibi", -1, -1, STEP_ALIBI, 0.0f },
    { "softcap", -1, -1, 0, 5.0f },
    { "sinks", -1, -1, STEP_SINKS, 0.0f },
    { "blocks", -1, -1, STEP_BLOCKS, 0.0f },
    { "mask-bias", -1, -1, STEP_MASK | STEP_BIAS, 0.0f },
    { "mask-nan-values", -1, -1, STEP_MASK | STEP_NAN_VALUES, 0.0f },
    { "sinks-window", 15, -1, STEP_SINKS, 0.0f },
    { "softcap-alibi", -1, -1, STEP_ALIBI, 2.0f },
    { "all", 200, 60, ALL_STEPS, 4.0f },
};

static void give_steps(verify_case *item, const named_steps *steps)
{
    item->steps = steps->steps;
    item->shape.window_left = steps->window_left;
    item->shape.window_right = steps->window_right;
    item->shape.softcap = steps->softcap;
    if (steps->steps & STEP_BLOCKS) {
        item->shape.block_mask_q = 8;
        item->shape.block_mask_kv = 24;
    }
}

/* Every step by itself, some together and all: a short sequence, grouped heads and causal, more than one block of
 * keys. */
static void add_each(case_list *list)
{
    static const int64_t sizes[SIZES][3] = { { 21, 42, 24 }, { 19, 94, 32 }, { 9, 526, 16 } };
    static const heed_causal causal[SIZES] = { HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT, HEED_CAUSAL_TOP_LEFT };
    for (int i = 0; i < SIZES; i++) {
        for (int j = 0; j < STEP_KINDS; j++) {
            verify_case item = cases_attention(i == 1 ? 4 : 2, sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][2] - i);
            item.shape.batch = 2;
            item.shape.num_kv_heads = 2;
            item.shape.causal = i == 2 && j % 2 ? HEED_CAUSAL_OFFSET : causal[i];
            item.shape.causal_offset = 400;
            item.weights = i != 2;
            item.quick = (i + j) % 5 == 0;
            give_steps(&item, &kinds[j]);
            cases_name(&item, "masks/%s-%d", kinds[j].name, i);
            cases_add_with_exps(list, &item);
        }
    }
}

/* The pass between product and softmax has tails of its own. */
static void add_tails(case_list *list)
{
    for (int64_t keys = 1; keys <= 40; keys++) {
        verify_case item = cases_attention(1, 1 + keys % 8, keys, 8, 8);
        item.weights = true;
        item.quick = keys % 8 == 2;
        give_steps(&item, &kinds[keys % 2 ? STEP_KINDS - 1 : 9]);
        cases_name(&item, "masks/keys-%" PRId64, keys);
        cases_add_with_exps(list, &item);
    }
    static const int64_t more[6] = { 255, 266, 270, 513, 522, 782 };
    for (int i = 0; i < 6; i++) {
        verify_case item = cases_attention(1, 6, more[i], 16, 12);
        give_steps(&item, &kinds[i % 2 ? STEP_KINDS - 1 : 0]);
        cases_name(&item, "masks/keys-%" PRId64, more[i]);
        cases_add_with_exps(list, &item);
    }
}

/* Different lengths: padded and packed along the sequence give the same rows, so equal fingerprints. */
static void add_lengths(case_list *list)
{
    static const heed_causal causal[3] = { HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT, HEED_CAUSAL_TOP_LEFT };
    static const named_steps none = { "", -1, -1, 0, 0.0f };
    for (int i = 0; i < 6; i++) {
        for (int packed = 0; packed < 2; packed++) {
            verify_case item = cases_attention(4, 17, 61, 16, 20);
            item.shape.batch = 6;
            item.shape.num_kv_heads = 2;
            item.shape.causal = causal[i % 3];
            item.shape.layout = HEED_LAYOUT_BSHD;
            item.lengths = true;
            item.quick = i == 4;
            give_steps(&item, i < 3 ? &none : &kinds[STEP_KINDS - 1]);
            item.steps |= packed ? STEP_VARLEN : 0;
            cases_name(&item, "masks/lengths-%d:%s", i, packed ? "packed" : "padded");
            cases_add_with_exps(list, &item);
        }
    }
}

static void add_values(case_list *list)
{
    static const verify_fill fills[4] = { FILL_LARGE, FILL_HEAVY, FILL_SUBNORMAL, FILL_POISON };
    static const char *const names[4] = { "large", "heavy", "subnormal", "poison" };
    for (int i = 0; i < 4; i++) {
        verify_case item = cases_attention(2, 23, 130, 32, 32);
        item.fill = fills[i];
        item.weights = true;
        give_steps(&item, &kinds[STEP_KINDS - 1]);
        cases_name(&item, "masks/values-%s", names[i]);
        cases_add_with_exps(list, &item);
    }
}

/* Rows for many tasks, and few rows over many keys. */
static void add_large(case_list *list)
{
    static const int64_t sizes[3][2] = { { 230, 230 }, { 1, 3000 }, { 100, 700 } };
    for (int i = 0; i < 3; i++) {
        verify_case item = cases_attention(4, sizes[i][0], sizes[i][1], 64, 64);
        item.shape.num_kv_heads = i == 1 ? 1 : 4;
        item.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        give_steps(&item, &kinds[i == 0 ? 9 : STEP_KINDS - 1]);
        cases_name(&item, "masks/size-%" PRId64 "x%" PRId64, sizes[i][0], sizes[i][1]);
        cases_add_with_exps(list, &item);
    }
}

void cases_add_masks(case_list *list)
{
    add_each(list);
    add_tails(list);
    add_lengths(list);
    add_values(list);
    add_large(list);
}

void cases_add_rope(case_list *list)
{
    static const char *const names[4] = { "plain", "linear", "llama3", "yarn" };
    static const int64_t firsts[3] = { 0, 1000, 100000 };
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 3; j++) {
            verify_case item = cases_attention(2, 11, 0, 64, 64);
            item.kind = VERIFY_ROPE;
            item.lse = false;
            item.rope = (heed_rope_desc)HEED_ROPE_DESC_INIT;
            item.rope.dim = j == 1 ? 40 : 64;
            item.rope.base = i == 2 ? 500000.0 : 10000.0;
            item.rope.scaling = (heed_rope_scaling)i;
            item.rope.factor = i ? 8.0 : 1.0;
            item.rope.low_freq_factor = 1.0;
            item.rope.high_freq_factor = 4.0;
            item.rope.beta_slow = 1.0;
            item.rope.beta_fast = 32.0;
            item.rope.original_positions = 8192;
            item.pairs = j % 2 ? HEED_ROPE_INTERLEAVED : HEED_ROPE_HALVES;
            item.first = firsts[j];
            item.quick = i == j;
            cases_name(&item, "rope/%s-%" PRId64, names[i], firsts[j]);
            cases_add(list, &item);
        }
    }
}
