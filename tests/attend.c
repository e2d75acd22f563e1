/* One attention problem run through the public API in guarded memory (see attend.h).
 * May know: the public header, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "attend.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

attend_case attend_make(int64_t batch, int64_t num_heads, int64_t num_kv_heads, int64_t seq_len_q, int64_t seq_len_kv,
    int64_t head_dim, int64_t head_dim_v)
{
    attend_case c = { .shape = HEED_ATTENTION_INIT };
    c.shape.batch = batch;
    c.shape.num_heads = num_heads;
    c.shape.num_kv_heads = num_kv_heads;
    c.shape.seq_len_q = seq_len_q;
    c.shape.seq_len_kv = seq_len_kv;
    c.shape.head_dim = head_dim;
    c.shape.head_dim_v = head_dim_v;
    return c;
}

heed_tensors attend_tensors(const float *q, const float *k, const float *v, float *out)
{
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = q;
    t.k = k;
    t.v = v;
    t.out = out;
    return t;
}

static int64_t dim_v(const attend_case *c)
{
    return c->shape.head_dim_v ? c->shape.head_dim_v : c->shape.head_dim;
}

size_t attend_size_lse(const attend_case *c)
{
    return (size_t)(c->shape.batch * c->shape.num_heads * c->shape.seq_len_q);
}

size_t attend_size_out(const attend_case *c)
{
    return attend_size_lse(c) * (size_t)dim_v(c);
}

size_t attend_size_weights(const attend_case *c)
{
    return attend_size_lse(c) * (size_t)c->shape.seq_len_kv;
}

attend_run attend_plain(heed_isa isa)
{
    attend_run run = { check_options(isa, HEED_EXP_DEFAULT, 1), ATTEND_BHSD, CHECK_GUARD_BEHIND, false };
    return run;
}

void attend_describe(const attend_case *c, const attend_run *run)
{
    const heed_attention *s = &c->shape;
    check_case("batch %lld heads %lld/%lld queries %lld keys %lld dim %lld/%lld scale %g causal %d%+lld lengths %d%d "
               "lse %d weights %d in-place %d storage %d %s exp %d threads %d side %d odd %d",
        (long long)s->batch, (long long)s->num_heads, (long long)s->num_kv_heads, (long long)s->seq_len_q,
        (long long)s->seq_len_kv, (long long)s->head_dim, (long long)s->head_dim_v, (double)s->scale, (int)s->causal,
        (long long)s->causal_offset, c->lengths_q != NULL, c->lengths_kv != NULL, c->lse, c->weights, c->in_place,
        (int)run->storage, heed_isa_name(run->options.isa), (int)run->options.exp, (int)run->options.num_threads,
        (int)run->side, run->odd_workspace);
}

/* ---- Values ---- */

static void poison_beyond(float *values, const int32_t *lengths, int64_t batch, int64_t heads, int64_t seq, int64_t dim)
{
    for (int64_t row = 0; lengths && row < batch * heads * seq; row++)
        if (row % seq >= lengths[row / seq / heads])
            for (int64_t d = 0; d < dim; d++)
                values[row * dim + d] = d % 3 == 1 ? INFINITY : NAN;
}

static void repeat_first(float *values, int64_t times, size_t count)
{
    for (int64_t i = 1; i < times; i++)
        memcpy(values + (size_t)i * count, values, count * sizeof *values);
}

attend_data attend_fill(const attend_case *c, check_rng *rng, check_values kind)
{
    const heed_attention *s = &c->shape;
    size_t rows_q = attend_size_lse(c), rows_kv = (size_t)(s->batch * s->num_kv_heads * s->seq_len_kv);
    size_t dim = (size_t)s->head_dim, dimv = (size_t)dim_v(c), seq = (size_t)s->seq_len_kv;
    attend_data data = { check_floats(rows_q * dim), check_floats(rows_kv * dim), check_floats(rows_kv * dimv) };
    check_fill(rng, data.q, rows_q, dim, kind);
    check_fill(rng, data.k, rows_kv, dim, kind);
    check_fill(rng, data.v, rows_kv, dimv, kind);
    if (c->equal_kv) {
        repeat_first(data.k, s->batch * s->num_kv_heads, seq * dim);
        repeat_first(data.v, s->batch * s->num_kv_heads, seq * dimv);
    }
    poison_beyond(data.q, c->lengths_q, s->batch, s->num_heads, s->seq_len_q, s->head_dim);
    poison_beyond(data.k, c->lengths_kv, s->batch, s->num_kv_heads, s->seq_len_kv, s->head_dim);
    poison_beyond(data.v, c->lengths_kv, s->batch, s->num_kv_heads, s->seq_len_kv, dim_v(c));
    return data;
}

void attend_free_data(attend_data *data)
{
    free(data->q);
    free(data->k);
    free(data->v);
}

/* ---- Storage ---- */

typedef struct tensor {
    int64_t batch, heads, seq, dim;
    heed_strides strides;
} tensor;

/* Dimensions from the outermost in; each stride is what lies inside it plus a gap. */
static void set_strides(tensor *t, const char order[3], int64_t gap)
{
    int64_t inside = t->dim + gap;
    for (int at = 2; at >= 0; at--) {
        int64_t *stride = order[at] == 'b' ? &t->strides.batch : order[at] == 'h' ? &t->strides.head : &t->strides.seq;
        int64_t size = order[at] == 'b' ? t->batch : order[at] == 'h' ? t->heads : t->seq;
        *stride = inside;
        inside = inside * size + gap;
    }
}

/* Strides of a dimension of size 1 must be ignored, so they hold nonsense. */
static heed_strides given_strides(const tensor *t)
{
    heed_strides strides = t->strides;
    strides.batch = t->batch == 1 ? INT64_MAX / 3 : strides.batch;
    strides.head = t->heads == 1 ? 0 : strides.head;
    strides.seq = t->seq == 1 ? INT64_MAX / 5 : strides.seq;
    return strides;
}

/* which: 0 q, 1 k, 2 v, 3 out. */
static tensor make_tensor(const attend_case *c, attend_storage storage, int which)
{
    static const char *const scrambled[] = { "sbh", "hsb", "shb", "hbs" };
    const heed_attention *s = &c->shape;
    bool kv = which == 1 || which == 2;
    tensor t = { s->batch, kv ? s->num_kv_heads : s->num_heads, kv ? s->seq_len_kv : s->seq_len_q,
        which < 2 ? s->head_dim : dim_v(c), { 0, 0, 0 } };
    if (storage == ATTEND_SCRAMBLED)
        set_strides(&t, scrambled[c->in_place && which == 3 ? 0 : which], 3);
    else
        set_strides(&t, storage == ATTEND_BSHD ? "bsh" : "bhs", storage == ATTEND_GAPS ? 5 : 0);
    if (storage == ATTEND_BROADCAST && kv)
        t.strides.batch = t.strides.head = 0;
    return t;
}

static size_t span(const tensor *t)
{
    if (!t->batch || !t->heads || !t->seq)
        return 0;
    return (size_t)((t->batch - 1) * t->strides.batch + (t->heads - 1) * t->strides.head +
                    (t->seq - 1) * t->strides.seq + t->dim);
}

static int64_t row_start(const tensor *t, int64_t row)
{
    int64_t i = row % t->seq, h = row / t->seq % t->heads, b = row / t->seq / t->heads;
    return b * t->strides.batch + h * t->strides.head + i * t->strides.seq;
}

static void scatter(const tensor *t, const float *packed, float *stored)
{
    for (int64_t row = 0; row < t->batch * t->heads * t->seq; row++)
        memcpy(stored + row_start(t, row), packed + row * t->dim, (size_t)t->dim * sizeof *packed);
}

static const float *store(const tensor *t, const float *packed, check_side side)
{
    float *stored = check_floats(span(t));
    memset(stored, 0xff, span(t) * sizeof *stored);
    scatter(t, packed, stored);
    const float *input = check_input(stored, span(t), side);
    free(stored);
    return input;
}

static void take(const tensor *t, float *stored, float *packed)
{
    for (int64_t row = 0; row < t->batch * t->heads * t->seq; row++)
        check_take(stored + row_start(t, row), packed + row * t->dim, (size_t)t->dim);
    check_untouched(stored, span(t), "gaps of out");
}

/* ---- Running ---- */

static void run_plan(const heed_plan *plan, const heed_tensors *tensors, bool odd)
{
    size_t size = heed_plan_workspace_size(plan);
    unsigned char *workspace = check_alloc(size + odd, CHECK_GUARD_BEHIND);
    heed_error error = { "" };
    heed_status status = heed_run(plan, tensors, workspace, size, &error);
    CHECK(status == HEED_OK, "heed_run: %d %s", (int)status, error.message);
    if (odd)
        check_untouched_bytes(workspace + size, 1, "the byte behind the workspace");
}

/* Elements from the first to one past the last of a bias or mask. */
static size_t mask_span(const attend_case *c, const heed_mask_strides *s)
{
    const heed_attention *a = &c->shape;
    return (size_t)((a->batch - 1) * s->batch + (a->num_heads - 1) * s->head + (a->seq_len_q - 1) * s->query +
                    (a->seq_len_kv - 1) * s->key + 1);
}

/* Sets the strides and pointers of one run, and the tensor of out. */
static heed_tensors place(
    const attend_case *c, const attend_data *data, const attend_run *run, heed_attention *shape, tensor *out)
{
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensor q = make_tensor(c, run->storage, 0), k = make_tensor(c, run->storage, 1),
           v = make_tensor(c, run->storage, 2);
    *out = make_tensor(c, run->storage, 3);
    shape->layout = run->storage == ATTEND_BHSD   ? HEED_LAYOUT_BHSD
                    : run->storage == ATTEND_BSHD ? HEED_LAYOUT_BSHD
                                                  : HEED_LAYOUT_STRIDED;
    if (shape->layout == HEED_LAYOUT_STRIDED) {
        shape->strides_q = given_strides(&q);
        shape->strides_k = given_strides(&k);
        shape->strides_v = given_strides(&v);
        shape->strides_out = given_strides(out);
    }
    tensors.out = check_output(span(out), run->side);
    tensors.q = c->in_place ? tensors.out : store(&q, data->q, run->side);
    if (c->in_place)
        scatter(&q, data->q, tensors.out);
    tensors.k = store(&k, data->k, run->side);
    tensors.v = store(&v, data->v, run->side);
    tensors.lse = c->lse ? check_output(attend_size_lse(c), run->side) : NULL;
    tensors.weights = c->weights ? check_output(attend_size_weights(c), run->side) : NULL;
    tensors.lengths_q = check_lengths(c->lengths_q, (size_t)c->shape.batch);
    tensors.lengths_kv = check_lengths(c->lengths_kv, (size_t)c->shape.batch);
    if (c->bias)
        tensors.bias = check_input(c->bias, mask_span(c, &c->shape.strides_bias), run->side);
    if (c->mask)
        tensors.mask = check_copy(c->mask, mask_span(c, &c->shape.strides_mask), run->side);
    return tensors;
}

attend_result attend_execute(const attend_case *c, const attend_data *data, const attend_run *run)
{
    attend_describe(c, run);
    attend_result result = { check_floats(attend_size_out(c)), NULL, NULL };
    heed_attention shape = c->shape;
    tensor out;
    heed_tensors tensors = place(c, data, run, &shape, &out);
    heed_error error = { "" };
    heed_plan *plan = NULL;
    heed_status status = heed_plan_create(&plan, &shape, &run->options, &error);
    if (CHECK(status == HEED_OK && plan, "heed_plan_create: %d %s", (int)status, error.message))
        run_plan(plan, &tensors, run->odd_workspace);
    heed_plan_destroy(plan);
    take(&out, tensors.out, result.out);
    if (c->lse) {
        result.lse = check_floats(attend_size_lse(c));
        check_take(tensors.lse, result.lse, attend_size_lse(c));
    }
    if (c->weights) {
        result.weights = check_floats(attend_size_weights(c));
        check_take(tensors.weights, result.weights, attend_size_weights(c));
    }
    check_free_all();
    return result;
}

void attend_free_result(attend_result *result)
{
    free(result->out);
    free(result->lse);
    free(result->weights);
}

bool attend_same(const attend_case *c, const attend_result *got, const attend_result *want)
{
    bool same = check_same(got->out, want->out, attend_size_out(c), "out");
    if (got->lse && want->lse)
        same = check_same(got->lse, want->lse, attend_size_lse(c), "lse") && same;
    if (got->weights && want->weights)
        same = check_same(got->weights, want->weights, attend_size_weights(c), "weights") && same;
    return same;
}

/* ---- Accuracy ---- */

oracle_attention attend_oracle(const attend_case *c, const attend_data *data)
{
    const heed_attention *s = &c->shape;
    oracle_attention p = { .batch = s->batch,
        .num_heads = s->num_heads,
        .num_kv_heads = s->num_kv_heads,
        .seq_len_q = s->seq_len_q,
        .seq_len_kv = s->seq_len_kv,
        .head_dim = s->head_dim,
        .head_dim_v = dim_v(c),
        .scale = (double)s->scale,
        .causal_offset = s->causal_offset,
        .q = data->q,
        .k = data->k,
        .v = data->v,
        .lengths_q = c->lengths_q,
        .lengths_kv = c->lengths_kv };
    p.causal = s->causal == HEED_CAUSAL_BOTTOM_RIGHT ? ORACLE_BOTTOM_RIGHT
               : s->causal == HEED_CAUSAL_TOP_LEFT   ? ORACLE_TOP_LEFT
               : s->causal == HEED_CAUSAL_OFFSET     ? ORACLE_OFFSET
                                                     : ORACLE_SEE_ALL;
    oracle_set_packed(&p);
    return p;
}

/* The largest finite norm of a row; rows beyond the lengths are NaN and do not count. */
static double largest_norm(const float *values, size_t rows, size_t dim)
{
    double largest = 0.0;
    for (size_t r = 0; r < rows; r++) {
        double square = 0.0;
        for (size_t d = 0; d < dim; d++)
            square += (double)values[r * dim + d] * (double)values[r * dim + d];
        if (isfinite(square))
            largest = fmax(largest, square);
    }
    return sqrt(largest);
}

/* Error bounds.  With u = 2^-24, a dot product of d terms errs by at most d u sum|q k| <= d u |q| |k|, and scale, its
 * rounding and the product with it by 3 u more: a score errs by e = (d + 4) u |scale| |q| |k|.  A softmax weight is then
 * off by a factor within exp(+-2e); exp, the subtraction of the maximum and the n additions of the sum and of the
 * weighted values add less than (2 n + 32) u.  Weights below 2^-126 may become 0 or subnormal. */
void attend_check_oracle(const attend_case *c, const attend_data *data, const attend_result *got)
{
    const double u = 0x1p-24;
    oracle_attention p = attend_oracle(c, data);
    size_t rows_kv = (size_t)(p.batch * p.num_kv_heads * p.seq_len_kv), dim = (size_t)p.head_dim;
    double norm_q = largest_norm(data->q, attend_size_lse(c), dim), norm_k = largest_norm(data->k, rows_kv, dim);
    double largest_v = largest_norm(data->v, rows_kv * (size_t)p.head_dim_v, 1);
    double scale = p.scale != 0.0 ? fabs(p.scale) : 1.0 / sqrt((double)dim), n = (double)p.seq_len_kv;
    double score = ((double)dim + 4.0) * (u * scale * norm_q * norm_k + 0x1p-149 * fmax(scale, 1.0));
    double weight = expm1(2.0 * score) + (2.0 * n + 32.0) * u + n * 0x1p-126;
    double largest_lse = scale * norm_q * norm_k + log(n + 1.0);
    double *out = check_malloc(attend_size_out(c) * sizeof *out), *lse = check_malloc(attend_size_lse(c) * sizeof *lse);
    double *weights = check_malloc((c->weights ? attend_size_weights(c) : 1) * sizeof *weights);
    if (!oracle_attend(&p, out, lse, c->weights ? weights : NULL))
        check_fatal("no memory for the oracle");
    check_close(got->out, out, attend_size_out(c), weight * largest_v + n * 0x1p-149, "out against the oracle");
    if (c->lse)
        check_close(got->lse, lse, attend_size_lse(c), score + (n + 8.0) * u + 4.0 * u * largest_lse, "lse");
    if (c->weights)
        check_close(got->weights, weights, attend_size_weights(c), weight, "weights against the oracle");
    free(out);
    free(lse);
    free(weights);
}

void attend_verify(const attend_case *c, const attend_data *data, const attend_run *run)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    attend_run plain = attend_plain(HEED_ISA_SCALAR);
    plain.options.exp = run->options.exp;
    attend_result scalar = attend_execute(c, data, &plain);
    attend_check_oracle(c, data, &scalar);
    for (size_t i = 0; i < count; i++) {
        attend_run other = *run;
        other.options.isa = list[i];
        if (i == 0 && run->storage == ATTEND_BHSD)
            continue; /* what was just run */
        attend_result result = attend_execute(c, data, &other);
        attend_same(c, &result, &scalar);
        attend_free_result(&result);
    }
    attend_free_result(&scalar);
}
