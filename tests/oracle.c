/* The reference: plain double-precision loops in the order of the formulas (see oracle.h).
 * May know: the C library.
 * Must not know: any header or code of heed. */
#include "oracle.h"

#include <math.h>
#include <stdlib.h>

static oracle_strides packed_strides(int64_t heads, int64_t seq, int64_t dim)
{
    oracle_strides strides = { heads * seq * dim, seq * dim, dim };
    return strides;
}

void oracle_set_packed(oracle_attention *p)
{
    p->strides_q = packed_strides(p->num_heads, p->seq_len_q, p->head_dim);
    p->strides_k = packed_strides(p->num_kv_heads, p->seq_len_kv, p->head_dim);
    p->strides_v = packed_strides(p->num_kv_heads, p->seq_len_kv, p->head_dim_v);
}

double oracle_exp(float x)
{
    return exp((double)x);
}

/* Query i sees the keys 0 .. result-1. */
static int64_t visible_keys(oracle_causal causal, int64_t offset, int64_t i, int64_t queries, int64_t keys)
{
    int64_t last = keys - 1;
    if (causal == ORACLE_BOTTOM_RIGHT)
        last = i + keys - queries;
    else if (causal == ORACLE_TOP_LEFT)
        last = i;
    else if (causal == ORACLE_OFFSET)
        last = i + offset;
    if (last > keys - 1)
        last = keys - 1;
    return last < 0 ? 0 : last + 1;
}

/* Turns n scores into weights, 0 where the score is -inf, and returns their log-sum-exp; NaN where a score is NaN or +inf. */
static double softmax_row(double *scores, int64_t n)
{
    double maximum = -INFINITY, sum = 0.0;
    bool invalid = false;
    for (int64_t j = 0; j < n; j++) {
        invalid = invalid || isnan(scores[j]) || scores[j] == INFINITY;
        if (scores[j] > maximum)
            maximum = scores[j];
    }
    for (int64_t j = 0; j < n; j++) {
        scores[j] = scores[j] == -INFINITY ? 0.0 : invalid ? NAN : exp(scores[j] - maximum);
        sum += scores[j];
    }
    for (int64_t j = 0; j < n; j++)
        if (scores[j] != 0.0)
            scores[j] /= sum;
    return invalid ? NAN : sum == 0.0 ? -INFINITY : maximum + log(sum);
}

/* One query row over its n visible keys; k and v are rows of dim and dim_v.  Leaves the weights in scores[0 .. n). */
static double attend_row(const double *q, const double *k, const double *v, int64_t n, int64_t dim, int64_t dim_v,
    double scale, double *scores, double *out)
{
    for (int64_t j = 0; j < n; j++) {
        double dot = 0.0;
        for (int64_t d = 0; d < dim; d++)
            dot += q[d] * k[j * dim + d];
        scores[j] = scale * dot;
    }
    double lse = softmax_row(scores, n);
    for (int64_t d = 0; d < dim_v; d++)
        out[d] = 0.0;
    if (lse == -INFINITY)
        return lse;
    for (int64_t j = 0; j < n; j++)
        for (int64_t d = 0; d < dim_v; d++)
            out[d] += scores[j] * v[j * dim_v + d];
    return lse;
}

/* Where the rows come from: doubles with strides, so that the layer can use its own projections. */
typedef struct source {
    const float *narrow;
    const double *wide; /* used when narrow is NULL */
    oracle_strides strides;
} source;

static void gather(const source *s, int64_t b, int64_t h, int64_t row, int64_t dim, double *to)
{
    int64_t start = b * s->strides.batch + h * s->strides.head + row * s->strides.seq;
    for (int64_t d = 0; d < dim; d++)
        to[d] = s->narrow ? (double)s->narrow[start + d] : s->wide[start + d];
}

typedef struct outputs {
    double *out, *lse, *weights;
    oracle_strides strides; /* of out */
} outputs;

/* One (batch entry, head): room holds q, one row of out, scores, k and v. */
static void attend_head(
    const oracle_attention *p, const source from[3], const outputs *to, int64_t b, int64_t h, double *room)
{
    int64_t queries = p->lengths_q ? p->lengths_q[b] : p->seq_len_q, kv_head = h / (p->num_heads / p->num_kv_heads);
    int64_t keys = p->lengths_kv ? p->lengths_kv[b] : p->seq_len_kv, dim = p->head_dim, dim_v = p->head_dim_v;
    double *q = room, *row = q + dim, *scores = row + dim_v, *k = scores + p->seq_len_kv, *v = k + p->seq_len_kv * dim;
    double scale = p->scale != 0.0 ? p->scale : 1.0 / sqrt((double)dim);
    for (int64_t j = 0; j < keys; j++) {
        gather(&from[1], b, kv_head, j, dim, k + j * dim);
        gather(&from[2], b, kv_head, j, dim_v, v + j * dim_v);
    }
    for (int64_t i = 0; i < p->seq_len_q; i++) {
        int64_t n = i < queries ? visible_keys(p->causal, p->causal_offset, i, queries, keys) : 0;
        int64_t index = (b * p->num_heads + h) * p->seq_len_q + i;
        gather(&from[0], b, h, i, n ? dim : 0, q);
        double lse = attend_row(q, k, v, n, dim, dim_v, scale, scores, row);
        if (to->lse)
            to->lse[index] = lse;
        for (int64_t d = 0; d < dim_v && to->out; d++)
            to->out[b * to->strides.batch + h * to->strides.head + i * to->strides.seq + d] = row[d];
        for (int64_t j = 0; j < p->seq_len_kv && to->weights; j++)
            to->weights[index * p->seq_len_kv + j] = j < n ? scores[j] : 0.0;
    }
}

static bool attend_all(const oracle_attention *p, const source from[3], const outputs *to)
{
    int64_t count = p->head_dim + p->head_dim_v + p->seq_len_kv * (1 + p->head_dim + p->head_dim_v);
    double *room = malloc((size_t)count * sizeof *room);
    if (!room)
        return false;
    for (int64_t b = 0; b < p->batch; b++)
        for (int64_t h = 0; h < p->num_heads; h++)
            attend_head(p, from, to, b, h, room);
    free(room);
    return true;
}

bool oracle_attend(const oracle_attention *p, double *out, double *lse, double *weights)
{
    source from[3] = { { p->q, NULL, p->strides_q }, { p->k, NULL, p->strides_k }, { p->v, NULL, p->strides_v } };
    outputs to = { out, lse, weights, packed_strides(p->num_heads, p->seq_len_q, p->head_dim_v) };
    return attend_all(p, from, &to);
}

/* One row of the three passes; weights has room for n. */
static void three_pass_row(
    const oracle_attention *p, const float *q, const float *k, const float *v, int64_t n, float *weights, float *out)
{
    float scale = p->scale != 0.0 ? (float)p->scale : 1.0f / sqrtf((float)p->head_dim), maximum = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) {
        float dot = 0.0f;
        for (int64_t d = 0; d < p->head_dim; d++)
            dot += q[d] * k[j * p->strides_k.seq + d];
        weights[j] = scale * dot;
        maximum = weights[j] > maximum ? weights[j] : maximum;
    }
    for (int64_t j = 0; j < n; j++) {
        weights[j] = expf(weights[j] - maximum);
        sum += weights[j];
    }
    for (int64_t d = 0; d < p->head_dim_v; d++)
        out[d] = 0.0f;
    for (int64_t j = 0; j < n; j++)
        for (int64_t d = 0; d < p->head_dim_v; d++)
            out[d] += weights[j] / sum * v[j * p->strides_v.seq + d];
}

bool oracle_three_pass(const oracle_attention *p, float *out)
{
    float *weights = malloc(((size_t)p->seq_len_kv + 1) * sizeof *weights);
    if (!weights)
        return false;
    for (int64_t row = 0; row < p->batch * p->num_heads * p->seq_len_q; row++) {
        int64_t i = row % p->seq_len_q, h = row / p->seq_len_q % p->num_heads, b = row / p->seq_len_q / p->num_heads;
        int64_t queries = p->lengths_q ? p->lengths_q[b] : p->seq_len_q, g = h / (p->num_heads / p->num_kv_heads);
        int64_t keys = p->lengths_kv ? p->lengths_kv[b] : p->seq_len_kv;
        int64_t n = i < queries ? visible_keys(p->causal, p->causal_offset, i, queries, keys) : 0;
        three_pass_row(p, p->q + b * p->strides_q.batch + h * p->strides_q.head + i * p->strides_q.seq,
            p->k + b * p->strides_k.batch + g * p->strides_k.head,
            p->v + b * p->strides_v.batch + g * p->strides_v.head, n, weights, out + row * p->head_dim_v);
    }
    free(weights);
    return true;
}

void oracle_project(const oracle_linear *linear, int64_t rows, const float *x, int64_t stride_x, double *y)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < linear->out_features; o++) {
            double sum = linear->bias ? (double)linear->bias[o] : 0.0;
            for (int64_t i = 0; i < linear->in_features; i++)
                sum += (double)x[r * stride_x + i] *
                       (double)linear->weight[i * linear->stride_in + o * linear->stride_out];
            y[r * linear->out_features + o] = sum;
        }
}

static void layer_project(const oracle_layer *l, const float *weight, const float *bias, int64_t width, double *y)
{
    oracle_linear linear = { l->model_dim, width, weight, l->in_out ? width : 1, l->in_out ? 1 : l->model_dim, bias };
    oracle_project(&linear, l->batch * l->seq_len, l->x, l->model_dim, y);
}

static void layer_output(const oracle_layer *l, const double *attended, double *y)
{
    int64_t width = l->num_heads * l->head_dim_v;
    for (int64_t r = 0; r < l->batch * l->seq_len; r++)
        for (int64_t o = 0; o < l->out_dim; o++) {
            double sum = l->bias_o ? (double)l->bias_o[o] : 0.0;
            for (int64_t i = 0; i < width; i++)
                sum += attended[r * width + i] * (double)l->weight_o[l->in_out ? i * l->out_dim + o : o * width + i];
            y[r * l->out_dim + o] = sum;
        }
}

bool oracle_run_layer(const oracle_layer *l, double *y, double *lse, double *weights)
{
    int64_t rows = l->batch * l->seq_len, width_q = l->num_heads * l->head_dim, width_o = l->num_heads * l->head_dim_v;
    int64_t width_k = l->num_kv_heads * l->head_dim, width_v = l->num_kv_heads * l->head_dim_v, s = l->seq_len;
    double *q = malloc((size_t)(rows * (width_q + width_k + width_v + width_o) + 1) * sizeof *q);
    if (!q)
        return false;
    double *k = q + rows * width_q, *v = k + rows * width_k, *attended = v + rows * width_v;
    layer_project(l, l->weight_q, l->bias_q, width_q, q);
    layer_project(l, l->weight_k, l->bias_k, width_k, k);
    layer_project(l, l->weight_v, l->bias_v, width_v, v);
    oracle_attention p = { .batch = l->batch,
        .num_heads = l->num_heads,
        .num_kv_heads = l->num_kv_heads,
        .seq_len_q = s,
        .seq_len_kv = s,
        .head_dim = l->head_dim,
        .head_dim_v = l->head_dim_v,
        .scale = l->scale,
        .causal = l->causal,
        .causal_offset = l->causal_offset,
        .lengths_q = l->lengths,
        .lengths_kv = l->lengths };
    source from[3] = { { NULL, q, { s * width_q, l->head_dim, width_q } },
        { NULL, k, { s * width_k, l->head_dim, width_k } }, { NULL, v, { s * width_v, l->head_dim_v, width_v } } };
    outputs to = { attended, lse, weights, { s * width_o, l->head_dim_v, width_o } };
    bool ok = attend_all(&p, from, &to);
    if (ok)
        layer_output(l, attended, y);
    free(q);
    return ok;
}

void oracle_softmax(int64_t rows, int64_t cols, const float *x, int64_t stride_x, const int32_t *lengths, double *y)
{
    for (int64_t r = 0; r < rows; r++) {
        int64_t n = lengths ? lengths[r] : cols;
        for (int64_t c = 0; c < cols; c++)
            y[r * cols + c] = c < n ? (double)x[r * stride_x + c] : 0.0;
        if (isnan(softmax_row(y + r * cols, n))) /* the operator's whole row, its zeros too */
            for (int64_t c = 0; c < n; c++)
                y[r * cols + c] = NAN;
    }
}
