/* How far a result in binary32 may be from the reference: the standard error analysis of the formulas, with norms of
 * the actual inputs.  It is generous; it is there to catch results that are wrong on all backends alike.
 * May know: verify.h.
 * Must not know: the library's functions. */
#include "verify.h"

#include <float.h>
#include <math.h>

/* e below is the unit roundoff 2^-24.  A chain of d fused multiply-adds over x and y is off by at most
 * (d + 1) e |x| |y|, with the Euclidean norms (Cauchy and Schwarz). */
static const double e = (double)FLT_EPSILON / 2.0;
/* exp may flush to 0 below this; and a sum of n terms may lose half a subnormal each time. */
static const double flushed = (double)FLT_MIN, smallest = 0x1p-149;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Largest finite norm of a row, element (r, i) at r * row_stride + i * stride; rows with NaN or Inf are left out. */
static double largest_norm(const float *values, int64_t rows, int64_t width, int64_t row_stride, int64_t stride)
{
    double most = 0.0;
    for (int64_t r = 0; values && r < rows; r++) {
        double sum = 0.0;
        for (int64_t i = 0; i < width; i++) {
            double value = (double)values[r * row_stride + i * stride];
            sum += value * value;
        }
        if (isfinite(sum))
            most = larger(most, sqrt(sum));
    }
    return most;
}

static double largest_value(const float *values, int64_t count)
{
    return largest_norm(values, count, 1, 1, 1);
}

/* What the softmax of a row of n scores does to an error: score_error is absolute, spread the largest |score|.  The
 * weights are exp(s - m) / sum: numerator and sum each have the error of the scores, the rounding of s - m (twice, for
 * the merging of blocks), 2 e for each exp, and n e of summation. */
static double weight_error(double score_error, double spread, double n)
{
    return 2.0 * (score_error + 4.0 * e * spread + 8.0 * e + 2.0 * n * e);
}

static void bound_attention(const verify_case *item, double score_error, double spread, double value,
    double value_error, double n, double bounds[VERIFY_PARTS])
{
    double weights = weight_error(score_error, spread, n);
    int part = 0;
    bounds[part++] = weights * value + value_error + n * flushed * value + (n + 16.0) * smallest;
    if (item->lse) /* log of the sum, added to the maximum */
        bounds[part++] = weights + 2.0 * e * (spread + log(n + 1.0));
    if (item->weights)
        bounds[part++] = weights + n * flushed;
}

static void bound_plain_attention(const verify_case *item, const verify_data *data, double bounds[VERIFY_PARTS])
{
    const heed_attention *s = &item->shape;
    int64_t d = s->head_dim, keys = s->batch * s->num_kv_heads * s->seq_len_kv;
    double scale = s->scale != 0.0f ? fabs((double)s->scale) : 1.0 / sqrt((double)d);
    double q = largest_norm(data->inputs[0], s->batch * s->num_heads * s->seq_len_q, d, d, 1);
    double k = largest_norm(data->inputs[1], keys, d, d, 1);
    double v = largest_value(data->inputs[2], keys * s->head_dim_v);
    double spread = scale * q * k;
    bound_attention(item, ((double)d + 3.0) * e * spread, spread, v, 0.0, (double)s->seq_len_kv, bounds);
}

/* A projection of x by weights [out][in] or [in][out]: the largest |x| |w| + |b| of an element. */
static double projection_size(const verify_case *item, double x, const float *weight, int64_t out, const float *bias)
{
    double w = largest_norm(weight, out, item->in, item->in_out ? 1 : item->in, item->in_out ? out : 1);
    return x * w + largest_value(bias, bias ? out : 0);
}

static double linear_bound(double in, double size)
{
    return (in + 2.0) * (e * size + smallest);
}

static void bound_layer(const verify_case *item, const verify_data *data, double bounds[VERIFY_PARTS])
{
    const heed_attention *s = &item->shape;
    const float *const *in = (const float *const *)data->inputs;
    double k_in = (double)item->in, d = (double)s->head_dim;
    double x = largest_norm(in[0], s->batch * s->seq_len_q, item->in, item->in, 1);
    double q = projection_size(item, x, in[1], s->num_heads * s->head_dim, in[5]);
    double k = projection_size(item, x, in[2], s->num_kv_heads * s->head_dim, in[6]);
    double v = projection_size(item, x, in[3], s->num_kv_heads * s->head_dim_v, in[7]);
    double scale = s->scale != 0.0f ? fabs((double)s->scale) : 1.0 / sqrt(d);
    double spread = scale * d * q * k; /* norms of q and k are at most sqrt(d) times their elements */
    double score_error = (d + 3.0 + 2.0 * (k_in + 2.0)) * e * spread;
    bound_attention(item, score_error, spread, v, linear_bound(k_in, v), (double)s->seq_len_q, bounds);
    /* The output projection: the error of its input times the sum of its weights, and its own rounding. */
    int64_t width = s->num_heads * s->head_dim_v;
    double w = largest_norm(in[4], item->out, width, item->in_out ? 1 : width, item->in_out ? item->out : 1);
    double root = sqrt((double)width), b = largest_value(in[8], in[8] ? item->out : 0);
    bounds[0] = root * w * bounds[0] + linear_bound((double)width, root * v * w + b);
}

void verify_bounds(const verify_case *item, const verify_data *data, double bounds[VERIFY_PARTS])
{
    if (item->kind == VERIFY_ATTENTION) {
        bound_plain_attention(item, data, bounds);
    } else if (item->kind == VERIFY_LAYER) {
        bound_layer(item, data, bounds);
    } else if (item->kind == VERIFY_SOFTMAX) {
        /* The scores are the inputs.  A weight that is not flushed has |s - m| below 88, one that is kept below 104. */
        bounds[0] = weight_error(0.0, 104.0, (double)item->in) + (double)item->in * flushed;
    } else {
        double x = largest_norm(data->inputs[0], item->rows, item->in, item->in, 1);
        bounds[0] =
            linear_bound((double)item->in, projection_size(item, x, data->inputs[1], item->out, data->inputs[2]));
    }
}
