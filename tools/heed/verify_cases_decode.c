/* The cases of caches.  A name, once released, stays with its case.  What differs only after the colon has the same inputs and, by
 * the contract, the same bits: however the cache is stored, and whether the queries stand alone or end a prefill.
 * May know: verify_cases.h.
 * Must not know: how cases are run. */
#include "verify_cases.h"

#include <string.h>

enum { TYPES = 4, WAYS = 7, TASK_ROWS = 100 /* of queries and heads of a group: more than one task takes */ };

static const heed_type types[TYPES] = { HEED_TYPE_F32, HEED_TYPE_F16, HEED_TYPE_BF16, HEED_TYPE_I8 };
static const char *const type_names[TYPES] = { "f32", "f16", "bf16", "i8" };

typedef struct way {
    const char *name;
    int64_t page_size, pieces;
    bool prefill;
} way;

static const way ways[WAYS] = {
    { "contiguous", 0, 1, false },
    { "page-16", 16, 3, false },
    { "page-32", 32, 1, false },
    { "page-64", 64, 5, false },
    { "page-128", 128, 2, false },
    { "prefill", 0, 2, true },
    { "prefill-page-32", 32, 4, true },
};

/* Once for each way. */
static void add_ways(case_list *list, const verify_case *item, int count)
{
    for (int i = 0; i < count; i++) {
        verify_case one = *item;
        one.shape.page_size = ways[i].page_size;
        one.pieces = ways[i].pieces;
        one.before = ways[i].prefill ? TASK_ROWS * item->shape.num_kv_heads / item->shape.num_heads : 0;
        one.exp = HEED_EXP_BUILTIN;
        one.quick = i == 1 || i == WAYS - 1;
        cases_name(&one, "%.40s:%s", item->name, ways[i].name);
        cases_add(list, &one);
    }
}

static void add_types(case_list *list, const verify_case *item, int count)
{
    for (int i = 0; i < TYPES; i++) {
        verify_case one = *item;
        one.shape.type_k = one.shape.type_v = types[i];
        cases_name(&one, "decode/%.24s-%s", item->name, type_names[i]);
        add_ways(list, &one, count);
    }
}

static verify_case decode(const char *name, int64_t heads, int64_t kv_heads, int64_t queries, int64_t keys, int64_t dim)
{
    verify_case item = cases_attention(heads, queries, keys, dim, dim);
    item.shape.num_kv_heads = kv_heads;
    item.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    cases_name(&item, "%s", name);
    return item;
}

/* Batch entries of all lengths up to the longest. */
static void add_lengths(case_list *list)
{
    static const struct {
        const char *name;
        int64_t batch, keys, queries, dim;
    } sizes[3] = { { "lengths-1-40", 40, 40, 3, 20 }, { "lengths-253-260", 8, 260, 1, 33 },
        { "lengths-509-516", 8, 516, 2, 16 } };
    for (int i = 0; i < 3; i++) {
        verify_case item = decode(sizes[i].name, 2, 1, sizes[i].queries, sizes[i].keys, sizes[i].dim);
        item.shape.batch = sizes[i].batch;
        item.lengths = true;
        item.weights = i == 0;
        add_types(list, &item, WAYS);
    }
}

/* One query and several (speculative decoding), groups of query heads, work enough for three threads. */
static void add_rows(case_list *list)
{
    verify_case speculative = decode("queries-5", 6, 2, 5, 300, 32);
    add_types(list, &speculative, WAYS);
    verify_case sixteen = decode("queries-16", 2, 2, 16, 70, 64);
    sixteen.weights = true;
    add_types(list, &sixteen, WAYS);
    verify_case group = decode("group-8", 16, 2, 1, 700, 48);
    group.shape.head_dim_v = 25;
    add_types(list, &group, WAYS);
    verify_case heavy = decode("heavy", 3, 1, 1, 400, 16);
    heavy.fill = FILL_HEAVY;
    add_types(list, &heavy, WAYS);
    verify_case split = decode("split", 4, 1, 1, 5000, 64);
    add_types(list, &split, WAYS - 2);
}

/* Keys hidden and scores changed; a prefill would need other masks. */
static void add_steps(case_list *list)
{
    verify_case item = decode("steps", 4, 2, 3, 350, 24);
    item.steps = STEP_BIAS | STEP_MASK | STEP_ALIBI | STEP_SINKS;
    item.shape.window_left = 300;
    item.shape.softcap = 4.0f;
    add_types(list, &item, 5);
}

/* Queries and output of 16 bits, keys and values of two types. */
static void add_mixed(case_list *list)
{
    static const heed_type kinds[4][4] = { { HEED_TYPE_F16, HEED_TYPE_F16, HEED_TYPE_F16, HEED_TYPE_F16 },
        { HEED_TYPE_BF16, HEED_TYPE_BF16, HEED_TYPE_BF16, HEED_TYPE_BF16 },
        { HEED_TYPE_F16, HEED_TYPE_F16, HEED_TYPE_I8, HEED_TYPE_BF16 },
        { HEED_TYPE_BF16, HEED_TYPE_I8, HEED_TYPE_F32, HEED_TYPE_F16 } };
    static const char *const names[4] = { "all-f16", "all-bf16", "f16-f16-i8-bf16", "bf16-i8-f32-f16" };
    for (int i = 0; i < 4; i++) {
        verify_case item = decode("types", 4, 2, 2, 290, 40);
        item.shape.type_q = kinds[i][0];
        item.shape.type_k = kinds[i][1];
        item.shape.type_v = kinds[i][2];
        item.shape.type_out = kinds[i][3];
        cases_name(&item, "decode/types-%s", names[i]);
        add_ways(list, &item, WAYS);
    }
}

void cases_add_decode(case_list *list)
{
    add_lengths(list);
    add_rows(list);
    add_steps(list);
    add_mixed(list);
}
