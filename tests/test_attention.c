/* heed_attention on every backend: bits against the scalar one, accuracy against the oracle, over shapes, masks and storage.
 * May know: the public header, attend.h, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "attend.h"

#include <math.h>
#include <stdlib.h>

static const int64_t dims[] = { 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 37, 40, 46, 63, 64, 65, 72, 80, 96, 112,
    127, 128, 129, 160, 255, 256, 257 };
static const int64_t groups[][3] = { { 1, 2, 2 }, { 2, 2, 1 }, { 1, 4, 2 }, { 1, 3, 1 }, { 1, 1, 1 }, { 3, 1, 1 } };
static const heed_causal causals[] = { HEED_CAUSAL_NONE, HEED_CAUSAL_BOTTOM_RIGHT, HEED_CAUSAL_TOP_LEFT,
    HEED_CAUSAL_OFFSET };

enum { DIMS = sizeof dims / sizeof dims[0], GROUPS = sizeof groups / sizeof groups[0], CAUSALS = 4 };

/* Varies what the table at hand does not: storage, guard side, address of the workspace, threads. */
static attend_run varied_run(size_t index)
{
    attend_run run = attend_plain(HEED_ISA_SCALAR);
    run.storage = (attend_storage)(index % ATTEND_STORAGE_COUNT);
    run.side = index / 4 % 2 ? CHECK_GUARD_BEFORE : CHECK_GUARD_BEHIND;
    run.odd_workspace = index / 8 % 2 != 0;
    run.options.num_threads = 1 + (int32_t)(index / 16 % 3);
    return run;
}

static void verify(const attend_case *c, size_t index, check_rng *rng, check_values kind)
{
    attend_run run = varied_run(index);
    attend_data data = attend_fill(c, rng, kind);
    attend_verify(c, &data, &run);
    attend_free_data(&data);
}

/* Every number of keys around every head size: all tails of all tiles. */
static void tails(void)
{
    static const int64_t more[] = { 255, 256, 257, 511, 512, 513 };
    static const int64_t queries[] = { 1, 2, 3, 5, 7, 1, 13 };
    check_rng rng = check_rng_named("tails");
    size_t index = 0;
    for (int64_t n = 1; n <= 136; n++)
        for (size_t d = 0; d < DIMS; d++, index++) {
            if (!check_keep(index, 43))
                continue;
            const int64_t *g = groups[index % GROUPS];
            int64_t keys = n <= 130 ? n : more[n - 131];
            attend_case c = attend_make(g[0], g[1], g[2], queries[index % 7], keys, dims[d], 0);
            c.shape.causal = index % 5 == 4 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
            c.lse = index % 3 != 0;
            c.weights = index % 4 == 1;
            verify(&c, index, &rng, CHECK_NORMAL);
        }
}

/* Every number of query rows: tails of the rows of a tile and of a block of queries. */
static void query_rows(void)
{
    check_rng rng = check_rng_named("query rows");
    for (size_t index = 0; index < 280; index++) {
        if (!check_keep(index, 13))
            continue;
        const int64_t *g = groups[index % GROUPS];
        attend_case c = attend_make(g[0], g[1], g[2], 1 + (int64_t)index / 2, index % 2 ? 37 : 300, 24, 0);
        c.shape.causal = causals[index % CAUSALS];
        c.shape.causal_offset = 20 - (int64_t)index / 2;
        c.lse = true;
        verify(&c, index, &rng, CHECK_NORMAL);
    }
}

static void heads(void)
{
    static const int64_t sets[][2] = { { 1, 1 }, { 2, 1 }, { 4, 4 }, { 4, 2 }, { 4, 1 }, { 6, 2 }, { 6, 3 }, { 9, 3 },
        { 13, 13 }, { 13, 1 }, { 16, 2 }, { 32, 8 }, { 48, 8 } };
    check_rng rng = check_rng_named("heads");
    size_t index = 0;
    for (size_t s = 0; s < sizeof sets / sizeof sets[0]; s++)
        for (int64_t batch = 1; batch <= 3; batch++, index++) {
            if (!check_keep(index, 7))
                continue;
            attend_case c = attend_make(batch, sets[s][0], sets[s][1], 1 + (int64_t)s, 33, 20, 0);
            c.lse = c.weights = true;
            verify(&c, index, &rng, CHECK_NORMAL);
        }
}

/* A value width of its own, and head sizes beyond the usual. */
static void value_dims(void)
{
    static const int64_t pairs[][2] = { { 32, 24 }, { 128, 64 }, { 64, 128 }, { 1, 257 }, { 257, 1 }, { 192, 128 },
        { 576, 512 }, { 16, 17 }, { 17, 16 }, { 3, 40 }, { 40, 3 }, { 8, 7 }, { 24, 31 }, { 512, 512 }, { 1024, 5 } };
    check_rng rng = check_rng_named("value dims");
    size_t index = 0;
    for (size_t p = 0; p < sizeof pairs / sizeof pairs[0]; p++)
        for (int64_t keys = 5; keys < 300; keys += 53, index++) {
            if (!check_keep(index, 11))
                continue;
            attend_case c = attend_make(1, 4, 2, 9, keys, pairs[p][0], pairs[p][1]);
            c.shape.causal = causals[index % CAUSALS];
            c.lse = true;
            verify(&c, index, &rng, CHECK_NORMAL);
        }
}

static void causal_kinds(void)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 1, 9 }, { 9, 1 }, { 5, 5 }, { 7, 12 }, { 12, 7 }, { 33, 33 },
        { 40, 300 }, { 300, 40 }, { 130, 260 }, { 260, 257 }, { 64, 520 }, { 520, 64 } };
    static const int64_t offsets[] = { INT64_MIN / 2, -300, -257, -13, -7, -1, 0, 1, 3, 8, 250, 256, 511,
        INT64_MAX / 2 };
    check_rng rng = check_rng_named("causal kinds");
    size_t index = 0;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t o = 0; o < sizeof offsets / sizeof offsets[0] + 2; o++, index++) {
            if (!check_keep(index, 17))
                continue;
            attend_case c = attend_make(1, 2, 1, sizes[s][0], sizes[s][1], 16, 8);
            c.shape.causal = o == 0 ? HEED_CAUSAL_BOTTOM_RIGHT : o == 1 ? HEED_CAUSAL_TOP_LEFT : HEED_CAUSAL_OFFSET;
            c.shape.causal_offset = o < 2 ? 0 : offsets[o - 2];
            c.lse = c.weights = true;
            verify(&c, index, &rng, CHECK_NORMAL);
        }
}

/* Lengths of each sequence, 0 and full included; everything beyond them is NaN and Inf. */
static void lengths(void)
{
    enum { BATCH = 4 };
    check_rng rng = check_rng_named("lengths");
    for (size_t index = 0; index < 240; index++) {
        int64_t lq = check_between(&rng, 1, index % 3 ? 20 : 70), lk = check_between(&rng, 1, index % 2 ? 40 : 600);
        int32_t queries[BATCH], keys[BATCH];
        for (int b = 0; b < BATCH; b++) {
            queries[b] = (int32_t)(b == 0 ? lq : check_between(&rng, 0, lq));
            keys[b] = (int32_t)(b == 1 ? 0 : b == 2 ? lk : check_between(&rng, 0, lk));
        }
        attend_case c = attend_make(BATCH, 4, index % 2 ? 2 : 1, lq, lk, 1 + (int64_t)index % 24, 0);
        c.shape.causal = causals[index % CAUSALS];
        c.shape.causal_offset = check_between(&rng, -lq, lk);
        c.lengths_q = index % 8 < 6 ? queries : NULL;
        c.lengths_kv = index % 8 > 1 ? keys : NULL;
        c.lse = true;
        c.weights = index % 2 != 0;
        if (check_keep(index, 11))
            verify(&c, index, &rng, CHECK_NORMAL);
    }
}

/* The same numbers in every storage give the same bits, on each backend by itself. */
static void storage(void)
{
    check_rng rng = check_rng_named("storage");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t index = 0; index < 60; index++) {
        attend_case c =
            attend_make(2, 4, 2, 1 + (int64_t)index % 7, 3 + 29 * (int64_t)(index % 11), dims[index % 21], 0);
        c.equal_kv = true;
        c.in_place = index % 2 != 0;
        c.lse = c.weights = true;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        for (size_t i = 0; i < count && check_keep(index, 9); i++) {
            attend_run run = attend_plain(list[i]);
            attend_result packed = attend_execute(&c, &data, &run);
            for (int s = ATTEND_BSHD; s <= ATTEND_BROADCAST; s++) {
                run.storage = (attend_storage)s;
                attend_result result = attend_execute(&c, &data, &run);
                attend_same(&c, &result, &packed);
                attend_free_result(&result);
            }
            attend_free_result(&packed);
        }
        attend_free_data(&data);
    }
}

static void scales(void)
{
    static const float values[] = { 0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0.125f, -0.3f, 3.0f, 1e-30f, -1e-42f };
    check_rng rng = check_rng_named("scales");
    for (size_t index = 0; index < sizeof values / sizeof values[0] * 6; index++) {
        if (!check_keep(index, 5))
            continue;
        attend_case c = attend_make(1, 2, 1, 7, 5 + 41 * (int64_t)(index % 7), dims[5 + index % 14], 0);
        c.shape.scale = values[index / 6];
        c.shape.causal = causals[index % CAUSALS];
        c.lse = c.weights = true;
        verify(&c, index, &rng, CHECK_NORMAL);
    }
}

/* Large logits, heavy tails, one-hot and constant rows, subnormal numbers; both kinds of exp. */
static void values(void)
{
    check_rng rng = check_rng_named("values");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list), index = 0;
    bool sleef = true;
    for (size_t i = 0; i < count; i++)
        sleef = sleef && heed_sleef_usable(list[i]);
    for (int e = HEED_EXP_BUILTIN; e <= (sleef ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN); e++)
        for (int kind = 0; kind < CHECK_VALUES_COUNT; kind++)
            for (int n = 0; n < 8; n++, index++) {
                if (!check_keep(index, 3))
                    continue;
                attend_case c = attend_make(1, 2, 1, 11, 3 + 67 * n, dims[index % 24], 0);
                c.lse = c.weights = true;
                attend_run run = varied_run(index);
                run.options.exp = (heed_exp)e;
                attend_data data = attend_fill(&c, &rng, (check_values)kind);
                attend_verify(&c, &data, &run);
                attend_free_data(&data);
            }
    check_note("exp: built-in%s", sleef ? " and SLEEF" : "; SLEEF not usable on every backend here, not run");
}

/* Asking for lse and weights, or writing over q, changes no bit of out. */
static void optional_outputs(void)
{
    check_rng rng = check_rng_named("optional outputs");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t index = 0; index < 40; index++) {
        attend_case c = attend_make(2, 4, 2, 1 + (int64_t)index, 1 + 13 * (int64_t)index, dims[index % 23], 0);
        c.shape.causal = causals[index % CAUSALS];
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        for (size_t i = 0; i < count && check_keep(index, 9); i++) {
            attend_run run = attend_plain(list[i]);
            attend_result plain = attend_execute(&c, &data, &run);
            for (unsigned bits = 1; bits < 8; bits++) {
                attend_case other = c;
                other.lse = bits & 1;
                other.weights = (bits & 2) != 0;
                other.in_place = (bits & 4) != 0;
                attend_result result = attend_execute(&other, &data, &run);
                attend_same(&other, &result, &plain);
                attend_free_result(&result);
            }
            attend_free_result(&plain);
        }
        attend_free_data(&data);
    }
}

/* Everything at random at once. */
static void combinations(void)
{
    check_rng rng = check_rng_named("combinations");
    for (size_t index = 0; index < 1500; index++) {
        int64_t kv_heads = check_between(&rng, 1, 3), batch = check_between(&rng, 1, 3);
        attend_case c = attend_make(batch, kv_heads * check_between(&rng, 1, 4), kv_heads, check_between(&rng, 1, 40),
            check_between(&rng, 0, index % 4 ? 80 : 700), dims[check_between(&rng, 0, 20)],
            index % 3 ? 0 : dims[check_between(&rng, 0, 20)]);
        int32_t queries[3], keys[3];
        for (int b = 0; b < 3; b++) {
            queries[b] = (int32_t)check_between(&rng, 0, c.shape.seq_len_q);
            keys[b] = (int32_t)check_between(&rng, 0, c.shape.seq_len_kv);
        }
        c.lengths_q = check_next(&rng) % 3 ? NULL : queries;
        c.lengths_kv = check_next(&rng) % 3 ? NULL : keys;
        c.shape.causal = causals[check_next(&rng) % CAUSALS];
        c.shape.causal_offset = check_between(&rng, -50, 100);
        c.shape.scale = check_next(&rng) % 2 ? 0.0f : check_normal(&rng);
        c.lse = check_next(&rng) % 2;
        c.weights = check_next(&rng) % 4 == 0;
        c.in_place = check_next(&rng) % 2 && (!c.shape.head_dim_v || c.shape.head_dim_v == c.shape.head_dim);
        if (check_keep(index, 40))
            verify(&c, index * 7 + index / 5, &rng, (check_values)(check_next(&rng) % CHECK_DENORMAL));
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "tails", tails }, { "query_rows", query_rows }, { "heads", heads },
        { "value_dims", value_dims }, { "causal_kinds", causal_kinds }, { "lengths", lengths }, { "storage", storage },
        { "scales", scales }, { "values", values }, { "optional_outputs", optional_outputs },
        { "combinations", combinations } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
