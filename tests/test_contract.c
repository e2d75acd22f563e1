/* The bit contract: a query row's result depends on that row's inputs alone, not on threads, batch, chunks or neighbours.
 * May know: the public header, attend.h, check.h.
 * Must not know: anything under src/. */
#include "attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A part of a problem: one batch entry, heads h0 .. h1 (whole groups), query rows r0 .. r1, the first keys. */
typedef struct part {
    int64_t b, h0, h1, r0, r1, keys;
} part;

static const float *row_of(
    const float *values, int64_t heads, int64_t seq, int64_t dim, int64_t b, int64_t h, int64_t i)
{
    return values + ((b * heads + h) * seq + i) * dim;
}

static int64_t dim_v(const attend_case *c)
{
    return c->shape.head_dim_v ? c->shape.head_dim_v : c->shape.head_dim;
}

/* Copies the part out as a problem of its own; the causal rule of the whole becomes an offset. */
static attend_data cut(const attend_case *whole, const attend_data *data, const part *p, attend_case *c)
{
    const heed_attention *s = &whole->shape;
    int64_t group = s->num_heads / s->num_kv_heads, g0 = p->h0 / group, g1 = p->h1 / group, rows = p->r1 - p->r0;
    int64_t d = s->head_dim, dv = dim_v(whole);
    *c = *whole;
    c->shape.batch = 1;
    c->shape.num_heads = p->h1 - p->h0;
    c->shape.num_kv_heads = g1 - g0;
    c->shape.seq_len_q = rows;
    c->shape.seq_len_kv = p->keys;
    c->lengths_q = c->lengths_kv = NULL;
    if (s->causal != HEED_CAUSAL_NONE) {
        int64_t offset = s->causal == HEED_CAUSAL_BOTTOM_RIGHT ? s->seq_len_kv - s->seq_len_q
                         : s->causal == HEED_CAUSAL_TOP_LEFT   ? 0
                                                               : s->causal_offset;
        c->shape.causal = HEED_CAUSAL_OFFSET;
        c->shape.causal_offset = offset + p->r0;
    }
    attend_data result = { check_floats((size_t)((p->h1 - p->h0) * rows * d)),
        check_floats((size_t)((g1 - g0) * p->keys * d)), check_floats((size_t)((g1 - g0) * p->keys * dv)) };
    for (int64_t h = p->h0; h < p->h1; h++)
        memcpy(result.q + (h - p->h0) * rows * d, row_of(data->q, s->num_heads, s->seq_len_q, d, p->b, h, p->r0),
            (size_t)(rows * d) * sizeof(float));
    for (int64_t g = g0; g < g1; g++) {
        memcpy(result.k + (g - g0) * p->keys * d, row_of(data->k, s->num_kv_heads, s->seq_len_kv, d, p->b, g, 0),
            (size_t)(p->keys * d) * sizeof(float));
        memcpy(result.v + (g - g0) * p->keys * dv, row_of(data->v, s->num_kv_heads, s->seq_len_kv, dv, p->b, g, 0),
            (size_t)(p->keys * dv) * sizeof(float));
    }
    return result;
}

/* The rows of the part within the result of the whole, against the part's own result. */
static void same_rows(const attend_case *whole, const attend_result *all, const part *p, const attend_result *own)
{
    const heed_attention *s = &whole->shape;
    int64_t rows = p->r1 - p->r0, dv = dim_v(whole);
    for (int64_t h = p->h0; h < p->h1; h++) {
        int64_t first = (h - p->h0) * rows;
        check_same(own->out + first * dv, row_of(all->out, s->num_heads, s->seq_len_q, dv, p->b, h, p->r0),
            (size_t)(rows * dv), "rows of out");
        check_same(
            own->lse + first, row_of(all->lse, s->num_heads, s->seq_len_q, 1, p->b, h, p->r0), (size_t)rows, "lse");
        for (int64_t i = 0; i < rows && own->weights; i++)
            check_same(own->weights + (first + i) * p->keys,
                row_of(all->weights, s->num_heads, s->seq_len_q, s->seq_len_kv, p->b, h, p->r0 + i), (size_t)p->keys,
                "weights");
    }
}

static void check_part(
    const attend_case *whole, const attend_data *data, const attend_result *all, const part *p, const attend_run *run)
{
    attend_case c;
    attend_data own = cut(whole, data, p, &c);
    attend_result result = attend_execute(&c, &own, run);
    same_rows(whole, all, p, &result);
    attend_free_result(&result);
    attend_free_data(&own);
}

static attend_case some_case(size_t index, int64_t batch, int64_t queries, int64_t keys)
{
    static const int64_t heads[][2] = { { 4, 2 }, { 3, 3 }, { 6, 1 }, { 2, 1 } };
    static const int64_t widths[] = { 64, 33, 17, 8, 128 };
    attend_case c = attend_make(
        batch, heads[index % 4][0], heads[index % 4][1], queries, keys, widths[index % 5], index % 3 ? 0 : 24);
    c.lse = true;
    c.weights = index % 2 == 0;
    return c;
}

typedef void body(const attend_case *c, const attend_data *data, const attend_run *run);

/* Runs the body for every usable backend and exp. */
static void each_backend(const attend_case *c, const attend_data *data, body *f)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++)
        for (int e = HEED_EXP_BUILTIN; e <= (heed_sleef_usable(list[i]) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN); e++) {
            attend_run run = attend_plain(list[i]);
            run.options.exp = (heed_exp)e;
            f(c, data, &run);
        }
}

static void threads_body(const attend_case *c, const attend_data *data, const attend_run *run)
{
    attend_result one = attend_execute(c, data, run);
    for (int32_t t = 0; t <= 16; t++) {
        attend_run other = *run;
        other.options.num_threads = t;
        attend_result result = attend_execute(c, data, &other);
        attend_same(c, &result, &one);
        attend_free_result(&result);
    }
    attend_free_result(&one);
}

static void thread_counts(void)
{
    check_rng rng = check_rng_named("thread counts");
    static const int64_t sizes[][3] = { { 1, 130, 130 }, { 3, 7, 300 }, { 1, 1, 1000 }, { 2, 70, 5 }, { 1, 300, 600 } };
    for (size_t index = 0; index < 10; index++) {
        const int64_t *s = sizes[index % 5];
        attend_case c = some_case(index, s[0], s[1], s[2]);
        c.shape.causal = index / 5 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        if (check_keep(index, 6))
            each_backend(&c, &data, threads_body);
        attend_free_data(&data);
    }
}

static void repeats_body(const attend_case *c, const attend_data *data, const attend_run *run)
{
    attend_run many = *run;
    many.options.num_threads = 4;
    attend_result first = attend_execute(c, data, &many);
    for (int n = 0; n < 20; n++) {
        attend_result result = attend_execute(c, data, &many);
        attend_same(c, &result, &first);
        attend_free_result(&result);
    }
    attend_free_result(&first);
}

static void repeats(void)
{
    check_rng rng = check_rng_named("repeats");
    attend_case c = some_case(0, 1, 130, 130);
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    each_backend(&c, &data, repeats_body);
    attend_free_data(&data);
}

/* Every sequence of a batch by itself, and every kv head with its group by itself. */
static void mates_body(const attend_case *c, const attend_data *data, const attend_run *run)
{
    attend_result all = attend_execute(c, data, run);
    int64_t group = c->shape.num_heads / c->shape.num_kv_heads;
    for (int64_t b = 0; b < c->shape.batch; b++) {
        part whole = { b, 0, c->shape.num_heads, 0, c->shape.seq_len_q, c->shape.seq_len_kv };
        check_part(c, data, &all, &whole, run);
        for (int64_t g = 0; g < c->shape.num_kv_heads; g++) {
            part one = { b, g * group, (g + 1) * group, 0, c->shape.seq_len_q, c->shape.seq_len_kv };
            check_part(c, data, &all, &one, run);
        }
    }
    attend_free_result(&all);
}

static void batch_mates(void)
{
    check_rng rng = check_rng_named("batch mates");
    for (size_t index = 0; index < 12; index++) {
        attend_case c = some_case(index, 3, 5 + 11 * (int64_t)index, 300 - 23 * (int64_t)index);
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        if (check_keep(index, 6))
            each_backend(&c, &data, mates_body);
        attend_free_data(&data);
    }
}

/* Chunks of queries against the keys they need, and against all keys; chunk 1 is a decode step. */
static void chunks_body(const attend_case *c, const attend_data *data, const attend_run *run)
{
    attend_result all = attend_execute(c, data, run);
    int64_t n = c->shape.seq_len_q, past = c->shape.seq_len_kv - n;
    static const int64_t sizes[] = { 1, 7, 32, 95, 128 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int64_t r = 0; r < n; r += sizes[s]) {
            int64_t end = r + sizes[s] < n ? r + sizes[s] : n;
            bool causal = c->shape.causal != HEED_CAUSAL_NONE;
            part needed = { 0, 0, c->shape.num_heads, r, end, causal ? past + end : n + past };
            check_part(c, data, &all, &needed, run);
            if (sizes[s] == 32 && causal) {
                part everything = { 0, 0, c->shape.num_heads, r, end, n + past };
                check_part(c, data, &all, &everything, run);
            }
        }
    attend_free_result(&all);
}

static void chunked_queries(void)
{
    check_rng rng = check_rng_named("chunked queries");
    static const int64_t sizes[][2] = { { 96, 0 }, { 97, 200 }, { 131, 256 }, { 40, 777 } };
    for (size_t index = 0; index < 8; index++) {
        if (!check_keep(index, 5))
            continue;
        attend_case c = some_case(index + 1, 1, sizes[index % 4][0], sizes[index % 4][0] + sizes[index % 4][1]);
        c.shape.causal = index < 6 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        each_backend(&c, &data, chunks_body);
        attend_free_data(&data);
    }
}

/* Sequences with lengths in a large NaN-filled cache against problems of exactly their size. */
static void tight_body(const attend_case *c, const attend_data *data, const attend_run *run)
{
    attend_result all = attend_execute(c, data, run);
    for (int64_t b = 0; b < c->shape.batch; b++) {
        int64_t queries = c->lengths_q ? c->lengths_q[b] : c->shape.seq_len_q, keys = c->lengths_kv[b];
        attend_case alike = *c; /* bottom-right looks at the sequence's own lengths */
        if (c->shape.causal == HEED_CAUSAL_BOTTOM_RIGHT) {
            alike.shape.causal = HEED_CAUSAL_OFFSET;
            alike.shape.causal_offset = keys - queries;
        }
        part p = { b, 0, c->shape.num_heads, 0, queries, keys };
        check_part(&alike, data, &all, &p, run);
    }
    attend_free_result(&all);
}

static void tight_lengths(void)
{
    check_rng rng = check_rng_named("tight lengths");
    for (size_t index = 0; index < 24; index++) {
        int32_t queries[3], keys[3];
        attend_case c = some_case(index, 3, check_between(&rng, 1, 30), check_between(&rng, 1, 600));
        for (int b = 0; b < 3; b++) {
            queries[b] = (int32_t)check_between(&rng, 1, c.shape.seq_len_q);
            keys[b] = (int32_t)check_between(&rng, 0, c.shape.seq_len_kv);
        }
        c.shape.causal = (heed_causal)(index % 3);
        c.lengths_q = index % 2 ? queries : NULL;
        c.lengths_kv = keys;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        if (check_keep(index, 8))
            each_backend(&c, &data, tight_body);
        attend_free_data(&data);
    }
}

/* Grouped heads equal separate heads with the keys and values repeated. */
static void repeated_heads(void)
{
    check_rng rng = check_rng_named("repeated heads");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t index = 0; index < 8; index++) {
        attend_case c = attend_make(1, 6, 2, 9, 40 + 71 * (int64_t)index, 40, 0), full = c;
        c.lse = full.lse = true;
        full.shape.num_kv_heads = 6;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL), wide = attend_fill(&full, &rng, CHECK_NORMAL);
        size_t head = (size_t)(c.shape.seq_len_kv * 40);
        memcpy(wide.q, data.q, 6 * 9 * 40 * sizeof(float));
        for (size_t h = 0; h < 6; h++) {
            memcpy(wide.k + h * head, data.k + h / 3 * head, head * sizeof(float));
            memcpy(wide.v + h * head, data.v + h / 3 * head, head * sizeof(float));
        }
        for (size_t i = 0; i < count; i++) {
            attend_run run = attend_plain(list[i]);
            attend_result grouped = attend_execute(&c, &data, &run), separate = attend_execute(&full, &wide, &run);
            attend_same(&c, &grouped, &separate);
            attend_free_result(&grouped);
            attend_free_result(&separate);
        }
        attend_free_data(&data);
        attend_free_data(&wide);
    }
}

/* A key of NaN or Inf changes no bit of the rows it is hidden from and makes the rows that see a NaN score NaN. */
static void hidden_body(const attend_case *c, const attend_data *data, const attend_run *run)
{
    static const float poisons[] = { NAN, INFINITY, -INFINITY, 3e38f };
    attend_result clean = attend_execute(c, data, run);
    int64_t n = c->shape.seq_len_q, d = c->shape.head_dim, dv = dim_v(c);
    for (size_t at = 0; at < 16; at++) {
        int64_t key = (int64_t)(at / 4) * (n - 1) / 3;
        float *k = data->k + key * d, *v = data->v + key * dv, old_k = k[0], old_v = v[dv - 1],
              poison = poisons[at % 4];
        for (int which = 0; which < 2; which++) {
            *(which ? v + dv - 1 : k) = poison;
            attend_result result = attend_execute(c, data, run);
            check_same(result.out, clean.out, (size_t)(key * dv), "rows above a hidden key");
            check_same(result.lse, clean.lse, (size_t)key, "lse of rows above a hidden key");
            for (int64_t i = key; i < n && isnan(poison); i++)
                CHECK(isnan(result.out[i * dv + dv - 1]) && (which || isnan(result.out[i * dv])),
                    "row %lld sees a NaN but is %g", (long long)i, (double)result.out[i * dv + dv - 1]);
            attend_free_result(&result);
            k[0] = old_k;
            v[dv - 1] = old_v;
        }
    }
    attend_free_result(&clean);
}

static void hidden_keys(void)
{
    check_rng rng = check_rng_named("hidden keys");
    static const int64_t sizes[] = { 4, 17, 70, 300 };
    for (size_t index = 0; index < 4; index++) {
        attend_case c = attend_make(1, 1, 1, sizes[index], sizes[index], 16, index % 2 ? 0 : 9);
        c.lse = true;
        c.shape.causal = HEED_CAUSAL_TOP_LEFT;
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        if (check_keep(index, 2))
            each_backend(&c, &data, hidden_body);
        attend_free_data(&data);
    }
}

/* The default exp of attention is the built-in one. */
static void default_exp(void)
{
    check_rng rng = check_rng_named("default exp");
    attend_case c = some_case(0, 1, 20, 300);
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    attend_run run = attend_plain(HEED_ISA_AUTO), builtin = run;
    builtin.options.exp = HEED_EXP_BUILTIN;
    attend_result a = attend_execute(&c, &data, &run), b = attend_execute(&c, &data, &builtin);
    attend_same(&c, &a, &b);
    attend_free_result(&a);
    attend_free_result(&b);
    attend_free_data(&data);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "thread_counts", thread_counts }, { "repeats", repeats },
        { "batch_mates", batch_mates }, { "chunked_queries", chunked_queries }, { "tight_lengths", tight_lengths },
        { "repeated_heads", repeated_heads }, { "hidden_keys", hidden_keys }, { "default_exp", default_exp } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
