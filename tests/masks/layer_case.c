/* One self-attention layer, its parts and its oracle (see layer_case.h).
 * May know: the public header, check.h, oracle.h, mask_oracle.h.
 * Must not know: anything under src/. */
#include "layer_case.h"

#include "mask_oracle.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t rope_dim(const layer_case *c)
{
    return c->rope_dim ? c->rope_dim : c->dim;
}

layer_data layer_fill(const layer_case *c, check_rng *rng)
{
    const int64_t q = c->heads * c->dim, k = c->kv_heads * c->dim, v = c->kv_heads * c->dim_v, o = c->heads * c->dim_v,
                  table = c->rope ? c->seq * rope_dim(c) / 2 : 0;
    const int64_t sizes[LAYER_PARTS] = { c->batch * c->seq * c->model, c->model * q, c->model * k, c->model * v,
        o * c->out, q, k, v, c->out, table, table, c->bias_heads * c->seq * c->seq };
    layer_data d = { .lengths = { 0 } };
    for (size_t i = 0; i < LAYER_PARTS; i++) {
        d.size[i] = (size_t)sizes[i];
        d.part[i] = check_floats(d.size[i]);
        check_fill(rng, d.part[i], 1, d.size[i], CHECK_NORMAL);
        for (size_t j = 0; j < d.size[i] && i >= LAYER_WQ && i <= LAYER_WO; j++)
            d.part[i][j] /= sqrtf((float)(i == LAYER_WO ? o : c->model));
    }
    heed_rope_desc desc = HEED_ROPE_DESC_INIT;
    desc.dim = rope_dim(c);
    if (c->rope)
        CHECK(
            heed_rope_table(&desc, 1000, c->seq, d.part[LAYER_COSINES], d.part[LAYER_SINES], NULL) == HEED_OK, "table");
    for (size_t j = 0; j < d.size[LAYER_SCORES]; j++)
        if (check_next(rng) % 7 == 0)
            d.part[LAYER_SCORES][j] = -INFINITY;
    for (int64_t b = 0; b < c->batch; b++)
        d.lengths[b] = (int32_t)(b == 0 ? c->seq : check_between(rng, 0, c->seq));
    return d;
}

void layer_free(layer_data *d)
{
    for (size_t i = 0; i < LAYER_PARTS; i++)
        free(d->part[i]);
}

static const float *given(const layer_data *d, size_t part)
{
    return check_input(d->part[part], d->size[part], CHECK_GUARD_BEHIND);
}

static layer_result make_result(const layer_case *c)
{
    const size_t rows = (size_t)(c->batch * c->seq), lse = rows * (size_t)c->heads;
    const layer_result r = { check_floats(rows * (size_t)c->out), check_floats(lse),
        check_floats(lse * (size_t)c->seq) };
    return r;
}

void layer_free_result(layer_result *r)
{
    free(r->y);
    free(r->lse);
    free(r->weights);
}

/* ---- The layer ---- */

static heed_layer *create(const layer_case *c, const layer_data *d, const heed_options *options)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = c->model;
    desc.out_dim = c->out;
    desc.num_heads = c->heads;
    desc.num_kv_heads = c->kv_heads;
    desc.head_dim = c->dim;
    desc.head_dim_v = c->dim_v;
    desc.causal = c->causal;
    desc.weight_layout = c->in_out ? HEED_WEIGHT_IN_OUT : HEED_WEIGHT_OUT_IN;
    desc.rope = c->rope;
    desc.rope_dim = c->rope_dim;
    desc.window_left = c->window_left;
    desc.window_right = c->window_right;
    desc.softcap = c->softcap;
    const float **weights[4] = { &desc.weight_q, &desc.weight_k, &desc.weight_v, &desc.weight_o };
    const float **biases[4] = { &desc.bias_q, &desc.bias_k, &desc.bias_v, &desc.bias_o };
    for (size_t i = 0; i < 4; i++) {
        *weights[i] = given(d, LAYER_WQ + i);
        *biases[i] = given(d, LAYER_BQ + i);
    }
    heed_layer *layer = NULL;
    heed_error error = { "" };
    const heed_status status = heed_layer_create(&layer, &desc, options, &error);
    CHECK(status == HEED_OK && layer, "heed_layer_create: %d %s", (int)status, error.message);
    check_free_all();
    return layer;
}

layer_result layer_run(const layer_case *c, const layer_data *d, const heed_options *options)
{
    const size_t rows = (size_t)(c->batch * c->seq), count_lse = rows * (size_t)c->heads;
    size_t size = 0;
    layer_result r = make_result(c);
    heed_layer *layer = create(c, d, options);
    heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
    t.x = given(d, LAYER_X);
    t.y = check_output(rows * (size_t)c->out, CHECK_GUARD_BEHIND);
    t.lse = check_output(count_lse, CHECK_GUARD_BEHIND);
    t.weights = check_output(count_lse * (size_t)c->seq, CHECK_GUARD_BEHIND);
    t.lengths = c->with_lengths ? check_lengths(d->lengths, (size_t)c->batch) : NULL;
    if (c->rope) {
        t.rope_cosines = given(d, LAYER_COSINES);
        t.rope_sines = given(d, LAYER_SINES);
    }
    t.bias = c->bias_heads ? given(d, LAYER_SCORES) : NULL;
    t.bias_heads = c->bias_heads;
    heed_error error = { "" };
    heed_status status = heed_layer_workspace_size(layer, c->batch, c->seq, &size, &error);
    CHECK(status == HEED_OK, "heed_layer_workspace_size: %d %s", (int)status, error.message);
    status = heed_layer_run(layer, c->batch, c->seq, &t, check_alloc(size, CHECK_GUARD_BEHIND), size, &error);
    CHECK(status == HEED_OK, "heed_layer_run: %d %s", (int)status, error.message);
    heed_layer_destroy(layer);
    check_take(t.y, r.y, rows * (size_t)c->out);
    check_take(t.lse, r.lse, count_lse);
    check_take(t.weights, r.weights, count_lse * (size_t)c->seq);
    check_free_all();
    return r;
}

/* ---- Its parts ---- */

static float *project(const layer_case *c, const layer_data *d, const float *x, int64_t in, int64_t out, size_t part,
    const heed_options *options)
{
    const heed_linear_desc desc = { sizeof desc, in, out, d->part[part], c->in_out ? out : 1, c->in_out ? 1 : in,
        d->part[part - LAYER_WQ + LAYER_BQ] };
    heed_linear *linear = NULL;
    const int64_t rows = c->batch * c->seq;
    float *y = check_floats((size_t)(rows * out));
    CHECK(heed_linear_create(&linear, &desc, options, NULL) == HEED_OK, "heed_linear_create");
    const size_t size = heed_linear_workspace_size(linear, rows);
    void *workspace = check_malloc(size);
    CHECK(heed_linear_run(linear, rows, x, in, y, out, workspace, size, NULL) == HEED_OK, "heed_linear_run");
    free(workspace);
    heed_linear_destroy(linear);
    return y;
}

static void rotate(const layer_case *c, const layer_data *d, int64_t heads, float *x)
{
    const heed_strides strides = { c->seq * heads * c->dim, c->dim, heads * c->dim };
    if (c->rope)
        CHECK(heed_rope_apply(c->rope, rope_dim(c), c->batch, heads, c->seq, x, strides, d->part[LAYER_COSINES],
                  d->part[LAYER_SINES], 0, NULL) == HEED_OK,
            "heed_rope_apply");
}

static heed_attention attention(const layer_case *c)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = c->batch;
    a.num_heads = c->heads;
    a.num_kv_heads = c->kv_heads;
    a.seq_len_q = a.seq_len_kv = c->seq;
    a.head_dim = c->dim;
    a.head_dim_v = c->dim_v;
    a.causal = c->causal;
    a.window_left = c->window_left;
    a.window_right = c->window_right;
    a.softcap = c->softcap;
    a.layout = HEED_LAYOUT_BSHD;
    const heed_mask_strides bias = { 0, c->bias_heads > 1 ? c->seq * c->seq : 0, c->seq, 1 };
    a.strides_bias = bias;
    return a;
}

layer_result layer_run_parts(const layer_case *c, const layer_data *d, const heed_options *options)
{
    const heed_attention a = attention(c);
    const int64_t wo = c->heads * c->dim_v;
    float *q = project(c, d, d->part[LAYER_X], c->model, c->heads * c->dim, LAYER_WQ, options);
    float *k = project(c, d, d->part[LAYER_X], c->model, c->kv_heads * c->dim, LAYER_WK, options);
    float *v = project(c, d, d->part[LAYER_X], c->model, c->kv_heads * c->dim_v, LAYER_WV, options);
    float *attended = check_floats((size_t)(c->batch * c->seq * wo));
    layer_result r = make_result(c);
    heed_tensors t = HEED_TENSORS_INIT;
    heed_error error = { "" };
    rotate(c, d, c->heads, q);
    rotate(c, d, c->kv_heads, k);
    t.q = q;
    t.k = k;
    t.v = v;
    t.out = attended;
    t.lse = r.lse;
    t.weights = r.weights;
    t.lengths_q = t.lengths_kv = c->with_lengths ? d->lengths : NULL;
    t.bias = c->bias_heads ? d->part[LAYER_SCORES] : NULL;
    CHECK(heed_attend(&a, &t, options, &error) == HEED_OK, "heed_attend: %s", error.message);
    free(r.y);
    r.y = project(c, d, attended, wo, c->out, LAYER_WO, options);
    float *const done[] = { q, k, v, attended };
    for (size_t i = 0; i < 4; i++)
        free(done[i]);
    return r;
}

/* ---- The oracle ---- */

/* A projection in double, rotated in double, then rounded to float and laid out [batch][head][row][dim]. */
static float *oracle_part(
    const layer_case *c, const layer_data *d, int64_t heads, int64_t dim, size_t part, bool rotated)
{
    const int64_t width = heads * dim, half = rope_dim(c) / 2, rows = c->batch * c->seq;
    const oracle_linear linear = { c->model, width, d->part[part], c->in_out ? width : 1, c->in_out ? 1 : c->model,
        d->part[part - LAYER_WQ + LAYER_BQ] };
    double *y = check_malloc((size_t)(rows * width) * sizeof *y);
    float *to = check_floats((size_t)(rows * width));
    oracle_project(&linear, rows, d->part[LAYER_X], c->model, y);
    for (int64_t n = 0; n < rows * heads; n++) {
        const int64_t h = n % heads, row = n / heads, i = row % c->seq, b = row / c->seq;
        double *x = y + row * width + h * dim;
        for (int64_t p = 0; rotated && p < half; p++) {
            double *first = x + (c->rope == HEED_ROPE_HALVES ? p : 2 * p),
                   *second = c->rope == HEED_ROPE_HALVES ? first + half : first + 1;
            const double cosine = (double)d->part[LAYER_COSINES][i * half + p],
                         sine = (double)d->part[LAYER_SINES][i * half + p];
            const double old = *first;
            *first = old * cosine - *second * sine;
            *second = *second * cosine + old * sine;
        }
        for (int64_t e = 0; e < dim; e++)
            to[((b * heads + h) * c->seq + i) * dim + e] = (float)x[e];
    }
    free(y);
    return to;
}

/* The attended rows as [batch][row][head][dim_v]. */
static float *oracle_attended(const layer_case *c, const layer_data *d)
{
    float *q = oracle_part(c, d, c->heads, c->dim, LAYER_WQ, c->rope != HEED_ROPE_NONE),
          *k = oracle_part(c, d, c->kv_heads, c->dim, LAYER_WK, c->rope != HEED_ROPE_NONE),
          *v = oracle_part(c, d, c->kv_heads, c->dim_v, LAYER_WV, false);
    const mask_oracle p = { .batch = c->batch,
        .num_heads = c->heads,
        .num_kv_heads = c->kv_heads,
        .queries = c->seq,
        .keys = c->seq,
        .dim = c->dim,
        .dim_v = c->dim_v,
        .softcap = (double)c->softcap,
        .align = c->causal == HEED_CAUSAL_TOP_LEFT ? MASK_ORACLE_START : MASK_ORACLE_END,
        .causal = c->causal != HEED_CAUSAL_NONE,
        .window_left = c->window_left,
        .window_right = c->window_right,
        .q = q,
        .k = k,
        .v = v,
        .lengths_q = c->with_lengths ? d->lengths : NULL,
        .lengths_kv = c->with_lengths ? d->lengths : NULL,
        .bias = c->bias_heads ? d->part[LAYER_SCORES] : NULL,
        .bias_strides = { 0, c->bias_heads > 1 ? c->seq * c->seq : 0, c->seq, 1 } };
    mask_oracle_result r;
    if (!mask_oracle_run(&p, &r))
        check_fatal("no memory for the oracle");
    float *to = check_floats((size_t)(c->batch * c->seq * c->heads * c->dim_v));
    for (int64_t n = 0; n < c->batch * c->heads * c->seq * c->dim_v; n++) {
        const int64_t e = n % c->dim_v, i = n / c->dim_v % c->seq, h = n / c->dim_v / c->seq % c->heads,
                      b = n / c->dim_v / c->seq / c->heads;
        to[((b * c->seq + i) * c->heads + h) * c->dim_v + e] = (float)r.out[n];
    }
    mask_oracle_free(&r);
    free(q);
    free(k);
    free(v);
    return to;
}

/* All sizes are about 1 (weights of variance 1/inputs), so each step of n roundings adds up to about n u to values of
 * size 1; the sum over all steps, times the greatest |y|, bounds the whole.  A wrong rotation, window or bias is off
 * by 1. */
void layer_check_oracle(const layer_case *c, const layer_data *d, const layer_result *got)
{
    const int64_t wo = c->heads * c->dim_v, rows = c->batch * c->seq;
    const oracle_linear linear = { wo, c->out, d->part[LAYER_WO], c->in_out ? c->out : 1, c->in_out ? 1 : wo,
        d->part[LAYER_BO] };
    float *attended = oracle_attended(c, d);
    double *y = check_malloc((size_t)(rows * c->out) * sizeof *y), largest = 1.0;
    oracle_project(&linear, rows, attended, wo, y);
    for (int64_t i = 0; i < rows * c->out; i++)
        largest = fmax(largest, fabs(y[i]));
    const double steps = 3.0 * (double)(c->model + c->dim + 8) + (double)(c->seq + wo) + 300.0;
    check_close(got->y, y, (size_t)(rows * c->out), steps * 0x1p-24 * largest, "y against the oracle");
    free(y);
    free(attended);
}

void layer_same(const layer_case *c, const layer_result *got, const layer_result *want)
{
    const size_t rows = (size_t)(c->batch * c->seq), lse = rows * (size_t)c->heads;
    check_same(got->y, want->y, rows * (size_t)c->out, "y");
    check_same(got->lse, want->lse, lse, "lse");
    check_same(got->weights, want->weights, lse * (size_t)c->seq, "weights");
}
