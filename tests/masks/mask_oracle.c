/* A double-precision reference of attention with every step from product to weight (see mask_oracle.h).
 * May know: the C library.
 * Must not know: any header or code of heed. */
#include "mask_oracle.h"

#include <math.h>
#include <stdlib.h>

/* Error bounds.  With u = 2^-24 and e_j the error of score j (score_of), the weight w_j is off by a factor of up to
 * exp(e_j) before it is divided by the sum, and the sum by one between 1/F and F, F = sum of w_j exp(e_j).  On top of
 * that, D_j being the distance of the score from the row's maximum:
 *   exp            the rounding of its argument (u D_j in all, over the block and the merges) and 2 u of its own
 *   sum of weights 16 additions a lane and 4 of the tree, two roundings and an exp a merge, and u times the mean of D_j
 *   out            a chain of up to 256, the same merges, the division
 * Weights below 2^-126 may be 0. */
static const double U = 0x1p-24, SMALLEST = 0x1p-126;

typedef struct key_score {
    double score, error;     /* score -inf: weighs nothing */
    double weight, relative; /* and by what part of itself f32 may miss it */
    bool visible;
} key_score;

static int64_t own(const int32_t *lengths, int64_t batch, int64_t all)
{
    return lengths ? lengths[batch] : all;
}

static int64_t position(const mask_oracle *p, int64_t batch, int64_t query)
{
    if (p->align == MASK_ORACLE_START)
        return query;
    if (p->align == MASK_ORACLE_OFFSET)
        return query + p->offset;
    return query + own(p->lengths_kv, batch, p->keys) - own(p->lengths_q, batch, p->queries);
}

static int64_t element(const mask_oracle_strides *s, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    return batch * s->batch + head * s->head + query * s->query + key * s->key;
}

bool mask_oracle_sees(const mask_oracle *p, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const int64_t distance = key - position(p, batch, query);
    if (query >= own(p->lengths_q, batch, p->queries) || key >= own(p->lengths_kv, batch, p->keys))
        return false;
    if (p->causal && distance > 0)
        return false;
    if ((p->window_left >= 0 && -distance > p->window_left) || (p->window_right >= 0 && distance > p->window_right))
        return false;
    if (p->mask && !p->mask[element(&p->mask_strides, batch, head, query, key)])
        return false;
    if (p->blocks && !p->blocks[query / p->block_q * ((p->keys + p->block_kv - 1) / p->block_kv) + key / p->block_kv])
        return false;
    return !p->bias || p->bias[element(&p->bias_strides, batch, head, query, key)] != -INFINITY;
}

/* cap tanh(s / cap): the reciprocal of cap, the product with it and the error of s move the argument; tanh itself errs
 * by at most 6 u (exp, a difference that at most doubles its error, a quotient, the product with cap). */
static double soft_cap(double cap, double s, double *error)
{
    const double capped = cap * tanh(s / cap);
    const double off = *error + 2.0 * U * fabs(s) + cap * 0x1p-149 * (1.0 + fabs(s));
    *error = fmax(fabs(cap * tanh((s + off) / cap) - capped), fabs(cap * tanh((s - off) / cap) - capped)) +
             6.0 * U * fabs(capped) + 0x1p-148;
    return capped;
}

/* The score of a visible key, and how far off f32 may be: a dot product of d terms errs by d u sum |q k|, the scale,
 * its own rounding and the product by 2 u more, and each later step rounds its result once. */
static key_score score_of(const mask_oracle *p, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const int64_t kv_head = head / (p->num_heads / p->num_kv_heads);
    const float *q = p->q + ((batch * p->num_heads + head) * p->queries + query) * p->dim;
    const float *k = p->k + ((batch * p->num_kv_heads + kv_head) * p->keys + key) * p->dim;
    const double scale = p->scale != 0.0 ? p->scale : 1.0 / sqrt((double)p->dim);
    double dot = 0.0, size = 0.0;
    for (int64_t d = 0; d < p->dim; d++) {
        dot += (double)q[d] * (double)k[d];
        size += fabs((double)q[d] * (double)k[d]);
    }
    key_score s = { scale * dot, fabs(scale) * ((double)(p->dim + 3) * (U * size + 0x1p-149)) + 0x1p-149, 0.0, 0.0,
        true };
    if (p->softcap != 0.0)
        s.score = soft_cap(p->softcap, s.score, &s.error);
    if (p->slopes) {
        s.score += (double)p->slopes[head] * (double)(key - position(p, batch, query));
        s.error += U * fabs(s.score);
    }
    if (p->bias) {
        s.score += (double)p->bias[element(&p->bias_strides, batch, head, query, key)];
        s.error += U * fabs(s.score);
    }
    s.error = s.score == -INFINITY ? 0.0 : s.error + p->score_error;
    return s;
}

/* One row: the scores of its keys, and what they add up to. */
typedef struct row {
    key_score *keys, sink;
    int64_t count, visible;
    double maximum, sum, spread, distance; /* spread is F, distance the mean of D_j */
    bool invalid;                          /* a score of NaN or +inf */
} row;

static void see(row *r, key_score s)
{
    r->invalid = r->invalid || isnan(s.score) || s.score == INFINITY;
    if (s.score > r->maximum)
        r->maximum = s.score;
    r->visible++;
}

static void weigh(row *r, key_score *s)
{
    s->weight = s->visible && s->score > -INFINITY ? exp(s->score - r->maximum) : 0.0;
    r->sum += s->weight;
}

static void divide(row *r, key_score *s)
{
    s->weight = s->weight > 0.0 ? s->weight / r->sum : 0.0;
    if (s->weight > 0.0) {
        r->spread += s->weight * exp(s->error);
        r->distance += s->weight * (r->maximum - s->score);
    }
}

/* Roundings of the sum of weights, in units of U. */
static double sum_roundings(const row *r)
{
    return r->distance + 2.0 + 20.0 + 8.0 * ceil((double)r->count / 256.0 + 1.0) + 4.0;
}

static double relative_error(const row *r, const key_score *s)
{
    return exp(s->error) * r->spread - 1.0 + 1.01 * U * (r->maximum - s->score + 2.0 + sum_roundings(r));
}

static void score_row(const mask_oracle *p, row *r, int64_t batch, int64_t head, int64_t query)
{
    const key_score hidden = { -INFINITY, 0.0, 0.0, 0.0, false };
    r->count = p->keys;
    r->visible = 0;
    r->sum = r->spread = r->distance = 0.0;
    r->maximum = -INFINITY;
    r->invalid = false;
    r->sink = hidden;
    if (p->sinks) {
        r->sink.score = (double)p->sinks[head];
        r->sink.visible = true;
        see(r, r->sink);
    }
    for (int64_t j = 0; j < r->count; j++) {
        r->keys[j] = hidden;
        if (mask_oracle_sees(p, batch, head, query, j)) {
            r->keys[j] = score_of(p, batch, head, query, j);
            see(r, r->keys[j]);
        }
    }
    if (r->invalid)
        return;
    weigh(r, &r->sink);
    for (int64_t j = 0; j < r->count; j++)
        weigh(r, &r->keys[j]);
    divide(r, &r->sink);
    for (int64_t j = 0; j < r->count; j++)
        divide(r, &r->keys[j]);
    for (int64_t j = 0; j < r->count; j++)
        if (r->keys[j].weight > 0.0)
            r->keys[j].relative = relative_error(r, &r->keys[j]);
}

/* out and its bound, which grows key by key. */
static void add_value(const key_score *s, int64_t dim_v, double chain, const float *v, double *out, double *bound)
{
    for (int64_t d = 0; d < dim_v; d++) {
        const double x = (double)v[d];
        out[d] += s->weight * x;
        bound[d] += s->weight * (s->relative + chain) * fabs(x) + 2.0 * (SMALLEST * fabs(x) + 0x1p-149);
    }
}

static void write_values(const mask_oracle *p, const row *r, const float *v, double *out, double *bound)
{
    const double chain = 1.01 * U * (260.0 + 8.0 * (double)r->count / 256.0);
    for (int64_t d = 0; d < p->dim_v; d++)
        out[d] = bound[d] = r->invalid ? NAN : 0.0;
    for (int64_t j = 0; j < r->count && !r->invalid; j++)
        if (r->keys[j].visible && r->sum != 0.0)
            add_value(&r->keys[j], p->dim_v, chain, v + j * p->dim_v, out, bound);
}

static void write_row(const mask_oracle *p, const row *r, mask_oracle_result *to, int64_t index, const float *v)
{
    write_values(p, r, v, to->out + index * p->dim_v, to->out_bound + index * p->dim_v);
    to->lse[index] = r->invalid ? NAN : r->sum == 0.0 ? -INFINITY : r->maximum + log(r->sum);
    to->lse_bound[index] = log(r->spread) + 1.01 * U * (sum_roundings(r) + fabs(to->lse[index])) + 0x1p-149;
    for (int64_t j = 0; j < r->count; j++) {
        const key_score *s = &r->keys[j];
        const bool nothing = !s->visible || s->score == -INFINITY;
        to->weights[index * p->keys + j] = nothing ? 0.0 : r->invalid ? NAN : s->weight;
        to->weights_bound[index * p->keys + j] = nothing ? 0.0 : s->weight * s->relative + SMALLEST;
    }
}

static double *doubles(int64_t count)
{
    return malloc((count ? (size_t)count : 1) * sizeof(double));
}

static bool allocate(const mask_oracle *p, mask_oracle_result *r)
{
    const int64_t rows = p->batch * p->num_heads * p->queries;
    r->out = doubles(rows * p->dim_v);
    r->out_bound = doubles(rows * p->dim_v);
    r->lse = doubles(rows);
    r->lse_bound = doubles(rows);
    r->weights = doubles(rows * p->keys);
    r->weights_bound = doubles(rows * p->keys);
    return r->out && r->out_bound && r->lse && r->lse_bound && r->weights && r->weights_bound;
}

void mask_oracle_free(mask_oracle_result *r)
{
    double *const all[] = { r->out, r->lse, r->weights, r->out_bound, r->lse_bound, r->weights_bound };
    for (int i = 0; i < 6; i++)
        free(all[i]);
}

bool mask_oracle_run(const mask_oracle *p, mask_oracle_result *result)
{
    row r = { .keys = malloc((size_t)(p->keys + 1) * sizeof(key_score)) };
    if (!allocate(p, result) || !r.keys) {
        mask_oracle_free(result);
        free(r.keys);
        return false;
    }
    for (int64_t index = 0; index < p->batch * p->num_heads * p->queries; index++) {
        const int64_t query = index % p->queries, head = index / p->queries % p->num_heads;
        const int64_t batch = index / p->queries / p->num_heads;
        const int64_t kv_head = head / (p->num_heads / p->num_kv_heads);
        score_row(p, &r, batch, head, query);
        write_row(p, &r, result, index, p->v + (batch * p->num_kv_heads + kv_head) * p->keys * p->dim_v);
    }
    free(r.keys);
    return true;
}
