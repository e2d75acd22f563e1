/* The fixed list of cases.  A name, once released, stays with its case: fingerprints of two versions are compared by
 * it.
 * May know: verify.h.
 * Must not know: how cases are run. */
#include "verify_cases.h"
#include "command.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT_SIZES = 64 };

void cases_add(case_list *list, const verify_case *item)
{
    if (list->count == list->room && !list->failed) {
        int64_t room = list->room ? 2 * list->room : COUNT_SIZES;
        verify_case *items = realloc(list->items, (size_t)room * sizeof *items);
        list->failed = !items;
        list->items = items ? items : list->items;
        list->room = items ? room : list->room;
    }
    if (!list->failed)
        list->items[list->count++] = *item;
}

void cases_add_with_exps(case_list *list, const verify_case *item)
{
    static const heed_exp exps[2] = { HEED_EXP_BUILTIN, HEED_EXP_SLEEF };
    static const char *const names[2] = { "builtin", "sleef" };
    for (int i = 0; i < 2; i++) {
        verify_case both = *item;
        both.exp = exps[i];
        snprintf(both.name, sizeof both.name, "%.52s:%s", item->name, names[i]);
        cases_add(list, &both);
    }
}

void cases_name(verify_case *item, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(item->name, sizeof item->name, format, values);
    va_end(values);
}

verify_case cases_attention(int64_t heads, int64_t queries, int64_t keys, int64_t dim, int64_t dim_v)
{
    verify_case item = { .kind = VERIFY_ATTENTION, .shape = HEED_ATTENTION_INIT, .lse = true };
    item.shape.batch = 1;
    item.shape.num_heads = item.shape.num_kv_heads = heads;
    item.shape.seq_len_q = queries;
    item.shape.seq_len_kv = keys;
    item.shape.head_dim = dim;
    item.shape.head_dim_v = dim_v;
    return item;
}

enum { KEY_COUNTS = 69, DIMS = 33, QUERY_COUNTS = 18 };

/* Tails of every vector width, then of the blocks of 256 keys.  A case's other sizes follow from its place: new ones
 * go to the end.  With them every count from 1 to 40 is there. */
static const int64_t key_counts[KEY_COUNTS] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 19, 23, 24, 25, 31,
    32, 33, 39, 47, 48, 49, 57, 63, 64, 65, 79, 95, 96, 97, 127, 128, 129, 130, 191, 255, 256, 257, 271, 511, 512, 513,
    767, 1025, 10, 14, 18, 20, 21, 22, 26, 27, 28, 29, 30, 34, 35, 36, 37, 38, 40, 266, 270, 522, 526 };
static const int64_t dims[DIMS] = { 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 72, 80, 96,
    100, 112, 127, 128, 129, 160, 192, 255, 256, 257 };
static const int64_t query_counts[QUERY_COUNTS] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 17, 23, 31, 48, 65, 130 };

static void add_tails(case_list *list)
{
    for (int i = 0; i < KEY_COUNTS; i++) {
        verify_case item =
            cases_attention(2, 1 + i % 7, key_counts[i], dims[(7 * i + 3) % DIMS], dims[(5 * i + 1) % DIMS]);
        item.weights = true;
        item.quick = i % 4 == 0;
        cases_name(&item, "attention/keys-%" PRId64, key_counts[i]);
        cases_add_with_exps(list, &item);
    }
    for (int i = 0; i < DIMS; i++) {
        verify_case item = cases_attention(1, 5, 37, dims[i], dims[i]);
        item.quick = i % 4 == 1;
        cases_name(&item, "attention/dim-%" PRId64, dims[i]);
        cases_add_with_exps(list, &item);
    }
    for (int i = 0; i < QUERY_COUNTS; i++) {
        verify_case item = cases_attention(1, query_counts[i], 70, 32, 20);
        item.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        item.quick = i % 4 == 2;
        cases_name(&item, "attention/queries-%" PRId64, query_counts[i]);
        cases_add_with_exps(list, &item);
    }
}

static void add_causal(case_list *list)
{
    static const int64_t sizes[3][2] = { { 40, 40 }, { 17, 150 }, { 50, 17 } };
    static const int64_t offsets[5] = { -1000, -3, 0, 5, 1000 };
    for (int i = 0; i < 3; i++) {
        verify_case item = cases_attention(2, sizes[i][0], sizes[i][1], 24, 24);
        item.weights = true;
        item.quick = i == 1;
        item.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        cases_name(&item, "attention/causal-bottom-right-%d", i);
        cases_add_with_exps(list, &item);
        item.shape.causal = HEED_CAUSAL_TOP_LEFT;
        cases_name(&item, "attention/causal-top-left-%d", i);
        cases_add_with_exps(list, &item);
        item.shape.causal = HEED_CAUSAL_OFFSET;
        for (int j = 0; j < 5; j++) {
            item.shape.causal_offset = offsets[j];
            cases_name(&item, "attention/causal-offset%+" PRId64 "-%d", offsets[j], i);
            cases_add_with_exps(list, &item);
        }
    }
}

static void add_heads(case_list *list)
{
    static const int64_t heads[6][2] = { { 8, 8 }, { 8, 4 }, { 8, 2 }, { 8, 1 }, { 6, 3 }, { 5, 1 } };
    static const int64_t widths[7][2] = { { 64, 32 }, { 32, 64 }, { 48, 1 }, { 1, 48 }, { 128, 64 }, { 192, 128 },
        { 33, 7 } };
    for (int i = 0; i < 6; i++) {
        verify_case item = cases_attention(heads[i][0], 13, 100, 40, 40);
        item.shape.num_kv_heads = heads[i][1];
        item.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        item.quick = i == 2;
        cases_name(&item, "attention/heads-%" PRId64 "-kv-%" PRId64, heads[i][0], heads[i][1]);
        cases_add_with_exps(list, &item);
    }
    for (int i = 0; i < 7; i++) {
        verify_case item = cases_attention(1, 11, 67, widths[i][0], widths[i][1]);
        item.quick = i == 5;
        cases_name(&item, "attention/dim-%" PRId64 "-dim-v-%" PRId64, widths[i][0], widths[i][1]);
        cases_add_with_exps(list, &item);
    }
}

/* The same data in three storage orders: equal fingerprints. */
static void add_layouts(case_list *list)
{
    static const heed_layout layouts[3] = { HEED_LAYOUT_BHSD, HEED_LAYOUT_BSHD, HEED_LAYOUT_STRIDED };
    static const char *const names[3] = { "bhsd", "bshd", "strided" };
    for (int i = 0; i < 3; i++) {
        verify_case item = cases_attention(4, 21, 45, 20, 12);
        item.shape.batch = 2;
        item.shape.num_kv_heads = 2;
        item.shape.layout = layouts[i];
        item.quick = true;
        cases_name(&item, "attention/layout:%s", names[i]);
        cases_add_with_exps(list, &item);
    }
}

static void add_lengths(case_list *list)
{
    static const heed_causal kinds[3] = { HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT, HEED_CAUSAL_TOP_LEFT };
    static const char *const names[3] = { "all", "bottom-right", "top-left" };
    for (int i = 0; i < 3; i++) {
        verify_case item = cases_attention(2, 19, 90, 16, 16);
        item.shape.batch = 6;
        item.shape.num_kv_heads = 1;
        item.shape.causal = kinds[i];
        item.lengths = item.weights = true;
        item.quick = i == 1;
        cases_name(&item, "attention/lengths-%s", names[i]);
        cases_add_with_exps(list, &item);
    }
    verify_case cross = cases_attention(3, 20, 77, 32, 32);
    cross.shape.batch = 2;
    cross.weights = true;
    cases_name(&cross, "attention/cross");
    cases_add_with_exps(list, &cross);
    verify_case no_keys = cases_attention(2, 5, 0, 8, 8);
    cases_name(&no_keys, "attention/no-keys");
    cases_add_with_exps(list, &no_keys);
}

static void add_values(case_list *list)
{
    static const verify_fill fills[6] = { FILL_LARGE, FILL_HEAVY, FILL_ONE_HOT, FILL_CONSTANT, FILL_SUBNORMAL,
        FILL_POISON };
    static const char *const names[6] = { "large", "heavy", "one-hot", "constant", "subnormal", "poison" };
    static const float scales[3] = { 1.0f, -0.25f, 3.0f };
    for (int i = 0; i < 6; i++) {
        verify_case item = cases_attention(1, 33, 130, 64, 64);
        item.fill = fills[i];
        item.weights = true;
        item.quick = i == 0 || i == 5;
        cases_name(&item, "attention/values-%s", names[i]);
        cases_add_with_exps(list, &item);
    }
    for (int i = 0; i < 3; i++) {
        verify_case item = cases_attention(1, 9, 50, 32, 32);
        item.shape.scale = scales[i];
        cases_name(&item, "attention/scale-%g", (double)scales[i]);
        cases_add_with_exps(list, &item);
    }
}

/* Several blocks of keys, many tasks. */
static void add_long(case_list *list)
{
    static const int64_t sizes[6][4] = { /* heads, queries, keys, dim */
        { 1, 3, 4096, 64 }, { 1, 2, 4097, 33 }, { 2, 7, 2049, 16 }, { 1, 1, 30000, 8 }, { 2, 192, 192, 64 },
        { 1, 300, 300, 128 }
    };
    for (int i = 0; i < 6; i++) {
        verify_case item = cases_attention(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], sizes[i][3]);
        item.shape.causal = i % 2 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
        item.quick = i == 1;
        cases_name(&item, "attention/size-%" PRId64 "x%" PRId64, sizes[i][1], sizes[i][2]);
        cases_add_with_exps(list, &item);
    }
    verify_case decode = cases_attention(8, 1, 2500, 64, 64);
    decode.shape.batch = 2;
    decode.shape.num_kv_heads = 2;
    decode.lengths = true;
    cases_name(&decode, "attention/decode");
    cases_add_with_exps(list, &decode);
}

static void add_linear(case_list *list)
{
    static const int64_t sizes[16][3] = { /* rows, in, out */
        { 1, 1, 1 }, { 1, 64, 64 }, { 1, 384, 200 }, { 2, 3, 5 }, { 3, 17, 33 }, { 5, 100, 130 }, { 6, 64, 16 },
        { 7, 255, 17 }, { 8, 32, 31 }, { 12, 48, 48 }, { 13, 65, 97 }, { 17, 128, 15 }, { 33, 384, 384 },
        { 65, 77, 129 }, { 5, 2500, 65 }, { 130, 40, 24 }
    };
    for (int i = 0; i < 16; i++) {
        verify_case item = { .kind = VERIFY_LINEAR, .rows = sizes[i][0], .in = sizes[i][1], .out = sizes[i][2] };
        item.bias = i % 3 != 1;
        item.in_out = i % 2 == 1;
        item.quick = i % 3 == 0;
        cases_name(&item, "linear/%" PRId64 "x%" PRId64 "x%" PRId64, item.rows, item.in, item.out);
        cases_add(list, &item);
    }
    static const verify_fill fills[3] = { FILL_HEAVY, FILL_SUBNORMAL, FILL_POISON };
    static const char *const names[3] = { "heavy", "subnormal", "poison" };
    for (int i = 0; i < 3; i++) {
        verify_case item = { .kind = VERIFY_LINEAR, .rows = 9, .in = 70, .out = 41, .bias = true };
        item.fill = fills[i];
        cases_name(&item, "linear/values-%s", names[i]);
        cases_add(list, &item);
    }
}

static void add_layers(case_list *list)
{
    static const char *const names[5] = { "plain", "causal", "lengths", "in-out", "grouped" };
    for (int i = 0; i < 5; i++) {
        verify_case item = cases_attention(4, 19, 0, 12, 12);
        item.kind = VERIFY_LAYER;
        item.shape.batch = 3;
        item.in = item.out = 48;
        item.bias = i != 3;
        item.weights = true;
        item.quick = i == 4;
        item.shape.causal = i == 1 || i == 4 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
        item.lengths = i == 2 || i == 4;
        item.in_out = i == 3;
        item.shape.num_kv_heads = i == 4 ? 2 : 4;
        item.shape.head_dim_v = i == 4 ? 7 : 12;
        item.out = i == 4 ? 31 : 48;
        cases_name(&item, "layer/%s", names[i]);
        cases_add_with_exps(list, &item);
    }
    verify_case model = cases_attention(12, 24, 0, 32, 32);
    model.kind = VERIFY_LAYER;
    model.in = model.out = 384;
    model.bias = model.weights = true;
    cases_name(&model, "layer/model-384");
    cases_add_with_exps(list, &model);
}

static void add_softmax(case_list *list)
{
    static const int64_t widths[18] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 100, 130, 1000, 4097, 60000 };
    static const verify_fill fills[6] = { FILL_LARGE, FILL_HEAVY, FILL_ONE_HOT, FILL_CONSTANT, FILL_SUBNORMAL,
        FILL_POISON };
    static const char *const names[6] = { "large", "heavy", "one-hot", "constant", "subnormal", "poison" };
    for (int i = 0; i < 18; i++) {
        verify_case item = { .kind = VERIFY_SOFTMAX, .rows = 3, .in = widths[i] };
        item.quick = i % 3 == 0;
        cases_name(&item, "softmax/%" PRId64, widths[i]);
        cases_add_with_exps(list, &item);
    }
    for (int i = 0; i < 7; i++) {
        verify_case item = { .kind = VERIFY_SOFTMAX, .rows = 11, .in = 333 };
        item.fill = i < 6 ? fills[i] : FILL_PLAIN;
        item.lengths = i == 6;
        item.quick = i == 5;
        cases_name(&item, "softmax/%s%s", i < 6 ? "values-" : "lengths", i < 6 ? names[i] : "");
        cases_add_with_exps(list, &item);
    }
}

verify_case *verify_cases_create(int64_t *count)
{
    case_list list = { NULL, 0, 0, false };
    add_tails(&list);
    add_causal(&list);
    add_heads(&list);
    add_layouts(&list);
    add_lengths(&list);
    add_values(&list);
    add_long(&list);
    add_linear(&list);
    add_layers(&list);
    add_softmax(&list);
    cases_add_masks(&list);
    cases_add_rope(&list);
    cases_add_decode(&list);
    if (list.failed) {
        free(list.items);
        return NULL;
    }
    *count = list.count;
    return list.items;
}
