/* Running attention problems in any storage in guarded memory (see masked.h).
 * May know: the public header, check.h, POSIX threads.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Storage ---- */

/* A tensor in memory: row (b, h, i) of dim elements begins at b * batch + h * head + (first[b] + i) * seq. */
typedef struct tensor {
    int64_t batch, heads, seq, dim; /* seq: rows along it; batch is 1 with varlen */
    heed_strides strides;
} tensor;

/* The cut of a run into sequences. */
typedef struct sequences {
    bool varlen;
    int32_t *offsets_q, *offsets_kv; /* with varlen: [batch + 1] */
} sequences;

enum { TENSOR_Q, TENSOR_K, TENSOR_V, TENSOR_OUT };

static bool is_keys(int which)
{
    return which == TENSOR_K || which == TENSOR_V;
}

/* Rows of sequence b that exist. */
static int64_t own_rows(const masked *m, bool keys, int64_t b)
{
    const int32_t *lengths = keys ? m->lengths_kv : m->lengths_q;
    return lengths ? lengths[b] : keys ? m->shape.seq_len_kv : m->shape.seq_len_q;
}

/* The first sequence need not begin at row 0. */
static int32_t *offsets_of(const masked *m, bool keys)
{
    int32_t *offsets = check_malloc((size_t)(m->shape.batch + 1) * sizeof *offsets);
    offsets[0] = keys ? 3 : 2;
    for (int64_t b = 0; b < m->shape.batch; b++)
        offsets[b + 1] = offsets[b] + (int32_t)own_rows(m, keys, b);
    return offsets;
}

static sequences cut(const masked *m, masked_storage storage)
{
    sequences s = { storage == MASKED_VARLEN || storage == MASKED_VARLEN_SCRAMBLED, NULL, NULL };
    if (s.varlen) {
        s.offsets_q = offsets_of(m, false);
        s.offsets_kv = offsets_of(m, true);
    }
    return s;
}

/* Dimensions from the outermost in; each stride is what lies inside it plus a gap. */
static void set_strides(tensor *t, const char order[3], int64_t gap)
{
    int64_t inside = t->dim + gap;
    for (int at = 2; at >= 0; at--) {
        int64_t *stride = order[at] == 'b' ? &t->strides.batch : order[at] == 'h' ? &t->strides.head : &t->strides.seq;
        const int64_t size = order[at] == 'b' ? t->batch : order[at] == 'h' ? t->heads : t->seq;
        *stride = inside;
        inside = inside * size + gap;
    }
}

/* Room for one sequence of the greatest length, whatever the lengths are. */
static int64_t varlen_rows(int64_t total, int64_t longest)
{
    return total > longest ? total : longest;
}

static tensor make_tensor(const masked *m, const masked_run *run, const sequences *s, int which)
{
    static const char *const scrambled[] = { "sbh", "hsb", "shb", "hbs" };
    const heed_attention *a = &m->shape;
    tensor t = { s->varlen ? 1 : a->batch, is_keys(which) ? a->num_kv_heads : a->num_heads,
        is_keys(which) ? a->seq_len_kv : a->seq_len_q, which < TENSOR_V ? a->head_dim : a->head_dim_v, { 0, 0, 0 } };
    if (s->varlen)
        t.seq = varlen_rows(is_keys(which) ? s->offsets_kv[a->batch] : s->offsets_q[a->batch], t.seq);
    if (run->storage == MASKED_SCRAMBLED || run->storage == MASKED_VARLEN_SCRAMBLED)
        set_strides(&t, scrambled[run->in_place && which == TENSOR_OUT ? TENSOR_Q : which], 3);
    else
        set_strides(&t, run->storage == MASKED_BHSD ? "bhs" : "bsh", 0);
    return t;
}

/* Strides of a dimension of size 1 must be ignored, and with varlen that of the batch, so they hold nonsense.  Rows
 * along seq are those of the longest sequence for the library, which may be 1 where more follow one another. */
static heed_strides given_strides(const masked *m, const tensor *t, bool varlen)
{
    heed_strides strides = t->strides;
    strides.batch = t->batch == 1 ? INT64_MAX / 3 : strides.batch;
    strides.head = t->heads == 1 ? 0 : strides.head;
    strides.seq = t->seq == 1 && !(varlen && m->shape.batch > 1) ? INT64_MAX / 5 : strides.seq;
    return strides;
}

static size_t span(const tensor *t)
{
    if (!t->batch || !t->heads || !t->seq)
        return 0;
    return (size_t)((t->batch - 1) * t->strides.batch + (t->heads - 1) * t->strides.head +
                    (t->seq - 1) * t->strides.seq + t->dim);
}

/* Calls copy for each row that exists in storage; packed rows are [batch][head][row]. */
static void each_row(const masked *m, const tensor *t, const sequences *s, bool keys, float *stored, float *packed,
    void (*copy)(float *stored, float *packed, size_t count))
{
    const int64_t rows = keys ? m->shape.seq_len_kv : m->shape.seq_len_q;
    for (int64_t n = 0; n < m->shape.batch * t->heads * rows; n++) {
        const int64_t i = n % rows, h = n / rows % t->heads, b = n / rows / t->heads;
        const int64_t first = s->varlen ? (keys ? s->offsets_kv : s->offsets_q)[b] : 0;
        if (s->varlen && i >= own_rows(m, keys, b))
            continue;
        copy(stored + (s->varlen ? 0 : b * t->strides.batch) + h * t->strides.head + (first + i) * t->strides.seq,
            packed + n * t->dim, (size_t)t->dim);
    }
}

static void put(float *stored, float *packed, size_t count)
{
    memcpy(stored, packed, count * sizeof *stored);
}

static const float *store(
    const masked *m, const tensor *t, const sequences *s, bool keys, float *packed, check_side side)
{
    float *stored = check_floats(span(t));
    memset(stored, 0xff, span(t) * sizeof *stored);
    each_row(m, t, s, keys, stored, packed, put);
    const float *input = check_input(stored, span(t), side);
    free(stored);
    return input;
}

/* ---- Tensors of a run ---- */

static heed_mask_strides given_mask_strides(const masked *m, const heed_mask_strides *s)
{
    heed_mask_strides strides = *s;
    strides.batch = m->shape.batch == 1 ? INT64_MAX / 7 : strides.batch;
    strides.head = m->shape.num_heads == 1 ? INT64_MAX / 9 : strides.head;
    strides.query = m->shape.seq_len_q == 1 ? INT64_MAX / 11 : strides.query;
    return strides;
}

void masked_place_masks(const masked *m, check_side side, heed_attention *shape, heed_tensors *t)
{
    const size_t heads = (size_t)m->shape.num_heads;
    if (m->bias) {
        shape->strides_bias = given_mask_strides(m, &m->shape.strides_bias);
        t->bias = check_input(m->bias, m->bias_count, side);
    }
    if (m->mask) {
        shape->strides_mask = given_mask_strides(m, &m->shape.strides_mask);
        t->mask = check_copy(m->mask, m->mask_count, side);
    }
    if (m->blocks) {
        const int64_t q = (shape->seq_len_q + shape->block_mask_q - 1) / shape->block_mask_q,
                      kv = (shape->seq_len_kv + shape->block_mask_kv - 1) / shape->block_mask_kv;
        t->block_mask = check_copy(m->blocks, (size_t)(q * kv), side);
    }
    if (m->slopes)
        t->alibi_slopes = check_input(m->slopes, heads, side);
    if (m->sinks)
        t->sinks = check_input(m->sinks, heads, side);
}

static size_t lse_count(const masked *m, const sequences *s)
{
    return (size_t)(s->varlen ? m->shape.num_heads * s->offsets_q[m->shape.batch] : masked_rows(m));
}

/* Sets strides and pointers; out is the tensor of the output. */
static heed_tensors place(
    const masked *m, const masked_run *run, const sequences *s, heed_attention *shape, tensor *out)
{
    heed_tensors t = HEED_TENSORS_INIT;
    const tensor q = make_tensor(m, run, s, TENSOR_Q), k = make_tensor(m, run, s, TENSOR_K),
                 v = make_tensor(m, run, s, TENSOR_V);
    const size_t batch = (size_t)m->shape.batch;
    *out = make_tensor(m, run, s, TENSOR_OUT);
    shape->varlen = s->varlen;
    shape->layout = run->storage == MASKED_BHSD                                    ? HEED_LAYOUT_BHSD
                    : run->storage == MASKED_BSHD || run->storage == MASKED_VARLEN ? HEED_LAYOUT_BSHD
                                                                                   : HEED_LAYOUT_STRIDED;
    if (shape->layout == HEED_LAYOUT_STRIDED) {
        shape->strides_q = given_strides(m, &q, s->varlen);
        shape->strides_k = given_strides(m, &k, s->varlen);
        shape->strides_v = given_strides(m, &v, s->varlen);
        shape->strides_out = given_strides(m, out, s->varlen);
    }
    t.out = check_output(span(out), run->side);
    t.q = run->in_place ? t.out : store(m, &q, s, false, m->q, run->side);
    if (run->in_place)
        each_row(m, &q, s, false, t.out, m->q, put);
    t.k = store(m, &k, s, true, m->k, run->side);
    t.v = store(m, &v, s, true, m->v, run->side);
    t.lse = check_output(lse_count(m, s), run->side);
    t.weights = m->weights ? check_output((size_t)(masked_rows(m) * m->shape.seq_len_kv), run->side) : NULL;
    t.lengths_q = s->varlen ? NULL : check_lengths(m->lengths_q, batch);
    t.lengths_kv = s->varlen ? NULL : check_lengths(m->lengths_kv, batch);
    t.offsets_q = check_lengths(s->offsets_q, batch + 1);
    t.offsets_kv = check_lengths(s->offsets_kv, batch + 1);
    masked_place_masks(m, run->side, shape, &t);
    return t;
}

/* ---- An executor of threads of its own ---- */

typedef struct job {
    void (*task)(void *argument, int64_t index);
    void *argument;
    int64_t index;
} job;

static void *run_job(void *argument)
{
    const job *j = argument;
    j->task(j->argument, j->index);
    return NULL;
}

static void parallel_for(void *context, int64_t count, void (*task)(void *argument, int64_t index), void *argument)
{
    enum { MOST = 16 };
    pthread_t threads[MOST];
    job jobs[MOST];
    (void)context;
    if (count > MOST)
        check_fatal("more tasks than threads");
    for (int64_t i = 0; i < count; i++) {
        const job j = { task, argument, i };
        jobs[i] = j;
        if (pthread_create(&threads[i], NULL, run_job, &jobs[i]))
            check_fatal("no thread");
    }
    for (int64_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
}

/* ---- Running ---- */

masked_run masked_plain(heed_isa isa)
{
    const masked_run run = { isa, HEED_EXP_BUILTIN, 1, MASKED_BHSD, CHECK_GUARD_BEHIND, false, false, false };
    return run;
}

masked_run masked_random_run(check_rng *rng, const masked *m, heed_isa isa, heed_exp exp, int32_t threads)
{
    masked_run run = { isa, exp, threads, (masked_storage)check_between(rng, 0, MASKED_STORAGE_COUNT - 1),
        check_between(rng, 0, 1) ? CHECK_GUARD_BEHIND : CHECK_GUARD_BEFORE, check_between(rng, 0, 1) == 1,
        check_between(rng, 0, 3) == 0 && m->shape.head_dim == m->shape.head_dim_v,
        check_between(rng, 0, 1) == 1 || !heed_has_openmp() };
    return run;
}

static heed_plan *plan_of(const heed_attention *shape, const masked_run *run)
{
    const heed_executor executor = { NULL, run->threads, parallel_for };
    heed_options options = check_options(run->isa, run->exp, run->threads);
    options.executor = run->executor ? &executor : NULL;
    heed_error error = { "" };
    heed_plan *plan = NULL;
    const heed_status status = heed_plan_create(&plan, shape, &options, &error);
    CHECK(status == HEED_OK && plan, "heed_plan_create: %d %s", (int)status, error.message);
    return plan;
}

int masked_workers(const masked *m, const masked_run *run)
{
    char text[1024];
    heed_plan *plan = plan_of(&m->shape, run);
    int workers = 0;
    heed_plan_describe(plan, text, sizeof text);
    heed_plan_destroy(plan);
    const char *line = strstr(text, "threads: ");
    if (!line || sscanf(line, "threads: %d", &workers) != 1)
        check_fatal("the plan's description has no line of threads");
    return workers;
}

static void run_plan(const heed_plan *plan, const heed_tensors *tensors, bool odd)
{
    const size_t size = heed_plan_workspace_size(plan);
    unsigned char *workspace = check_alloc(size + odd, CHECK_GUARD_BEHIND);
    heed_error error = { "" };
    const heed_status status = heed_run(plan, tensors, workspace, size, &error);
    CHECK(status == HEED_OK, "heed_run: %d %s", (int)status, error.message);
    if (odd)
        check_untouched_bytes(workspace + size, 1, "the byte behind the workspace");
}

void masked_fill_missing(const masked *m, masked_result *r)
{
    const heed_attention *a = &m->shape;
    for (int64_t n = 0; n < masked_rows(m); n++) {
        const int64_t h = n / a->seq_len_q % a->num_heads;
        r->lse[n] = m->sinks ? m->sinks[h] : -INFINITY;
    }
}

static void take_lse(const masked *m, const sequences *s, float *lse, masked_result *r)
{
    const int64_t rows = m->shape.seq_len_q, heads = m->shape.num_heads;
    if (!s->varlen) {
        check_take(lse, r->lse, (size_t)masked_rows(m));
        return;
    }
    masked_fill_missing(m, r);
    for (int64_t n = 0; n < m->shape.batch * heads; n++)
        check_take(lse + n % heads * s->offsets_q[m->shape.batch] + s->offsets_q[n / heads], r->lse + n * rows,
            (size_t)own_rows(m, false, n / heads));
    check_untouched(lse, lse_count(m, s), "lse of no sequence");
}

masked_result masked_execute(const masked *m, const masked_run *run)
{
    masked_describe(m, run);
    const size_t rows = (size_t)masked_rows(m), weights = rows * (size_t)m->shape.seq_len_kv;
    masked_result r = { check_floats(rows * (size_t)m->shape.head_dim_v), check_floats(rows), NULL };
    sequences s = cut(m, run->storage);
    heed_attention shape = m->shape;
    tensor out;
    const heed_tensors t = place(m, run, &s, &shape, &out);
    heed_plan *plan = plan_of(&shape, run);
    if (plan)
        run_plan(plan, &t, run->odd_workspace);
    heed_plan_destroy(plan);
    each_row(m, &out, &s, false, t.out, r.out, check_take);
    check_untouched(t.out, span(&out), "gaps of out");
    take_lse(m, &s, t.lse, &r);
    if (m->weights) {
        r.weights = check_floats(weights);
        check_take(t.weights, r.weights, weights);
    }
    free(s.offsets_q);
    free(s.offsets_kv);
    check_free_all();
    return r;
}

void masked_free_result(masked_result *result)
{
    free(result->out);
    free(result->lse);
    free(result->weights);
}
