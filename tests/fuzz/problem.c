/* Options, contents and judgement of an attention problem of a fuzzer (see problem.h).
 * May know: masked.h, check.h, mask_oracle.h.
 * Must not know: where keys and values are kept, anything under src/. */
#include "problem.h"

#include <float.h>
#include <math.h>

static int64_t next_window(source *s)
{
    const int64_t b = next_byte(s);
    return b < 128 ? -1 : b - 128;
}

void next_options(source *s, check_rng *rng, masked *m)
{
    heed_attention *a = &m->shape;
    const unsigned steps = next_byte(s);
    a->scale = (float)((int)next_byte(s) - 128) / 64.0f; /* 0: the default */
    a->causal = (heed_causal)next_below(s, 5);
    a->causal_offset = (int)next_byte(s) - 128;
    a->window_left = next_window(s);
    a->window_right = next_window(s);
    a->softcap = (float)(next_byte(s) & 0x7f) / 8.0f;
    if (steps & 1 && a->seq_len_kv)
        masked_add_bias(m, rng, next_byte(s) & 15u);
    if (steps & 2 && a->seq_len_kv)
        masked_add_mask(m, rng, next_byte(s) & 15u);
    if (steps & 4) {
        const int64_t q = 1 + next_below(s, 20), kv = 1 + next_byte(s);
        masked_add_blocks(m, rng, q, kv);
    }
    if (steps & 8)
        masked_add_slopes(m, rng);
    if (steps & 16)
        masked_add_sinks(m, rng);
    if (steps & 96)
        masked_add_lengths(m, rng, (steps & 32) != 0, (steps & 64) != 0);
    m->weights = (steps & 128) != 0;
}

/* ---- Contents ---- */

/* What f32 and f64 see alike: products and sums of these neither overflow nor hide one another. */
static float plain_value(uint8_t b)
{
    static const float special[] = { 0.0f, -0.0f, 1.0f, FLT_MIN, 0x1p-149f, -0x1p-140f, 16.0f, -16.0f };
    return b < 8 ? special[b] : (float)((int)b - 128) / 16.0f;
}

static float wild_value(uint8_t b)
{
    static const float special[] = { FLT_MAX, -FLT_MAX, 1e30f, 65520.0f, 1e-30f, 0x1p63f, 65504.0f, -1e9f };
    return special[b % 8];
}

static float not_finite(uint8_t b)
{
    return b % 3 == 0 ? NAN : b % 3 == 1 ? INFINITY : -INFINITY;
}

float next_value(source *s, unsigned kind)
{
    const uint8_t b = next_byte(s);
    return kind == 3 ? not_finite(b) : kind == 2 ? wild_value(b) : plain_value(b);
}

check_rng next_rng(source *s)
{
    char seed[] = "fuzz 0";
    seed[5] = (char)(1 + next_byte(s) % 127);
    return check_rng_named(seed);
}

/* Each change is four bytes: tensor and kind, place, value. */
contents next_contents(source *s, masked *m)
{
    const heed_attention *a = &m->shape;
    const size_t rows_kv = (size_t)(a->batch * a->num_kv_heads * a->seq_len_kv);
    const struct {
        float *values;
        size_t count;
        bool special; /* may hold NaN and infinities */
    } tensors[] = { { m->q, (size_t)(masked_rows(m) * a->head_dim), true },
        { m->k, rows_kv * (size_t)a->head_dim, true }, { m->v, rows_kv * (size_t)a->head_dim_v, true },
        { m->bias, m->bias ? m->bias_count : 0, true }, { m->slopes, m->slopes ? (size_t)a->num_heads : 0, false },
        { m->sinks, m->sinks ? (size_t)a->num_heads : 0, false } };
    contents in = { false, false };
    while (s->at < s->end) {
        const uint8_t b = next_byte(s);
        const size_t which = b % 6u, place = (size_t)next_byte(s) * 256u + next_byte(s);
        const bool special = tensors[which].special;
        const unsigned kind = b / 6u % 4u == 3 && !special ? 0 : b / 6u % 4u;
        const float value = next_value(s, kind);
        if (tensors[which].count == 0)
            continue;
        tensors[which].values[place % tensors[which].count] = value;
        in.wild = in.wild || kind == 2;
        in.infinite = in.infinite || (kind == 3 && which == 2);
    }
    return in;
}

/* A value that is not finite times a weight that only f64 can hold: no measure either. */
static bool values_are_finite(const masked *m, int64_t batch, int64_t head, int64_t query)
{
    const heed_attention *a = &m->shape;
    const int64_t kv_head = head / (a->num_heads / a->num_kv_heads), dim = a->head_dim_v;
    for (int64_t j = 0; j < a->seq_len_kv; j++) {
        const float *v = m->v + ((batch * a->num_kv_heads + kv_head) * a->seq_len_kv + j) * dim;
        if (!masked_sees(m, batch, head, query, j))
            continue;
        for (int64_t d = 0; d < dim; d++)
            if (!isfinite(v[d]))
                return false;
    }
    return true;
}

static bool values_within(const float *got, const double *want, const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double g = (double)got[i];
        if (!(isnan(want[i]) ? isnan(g) : isinf(want[i]) ? g == want[i] : fabs(g - want[i]) <= bound[i]))
            return false;
    }
    return true;
}

void require_oracle(const masked *m, const masked_result *got, contents in, double score_error)
{
    if (in.wild)
        return;
    const heed_attention *a = &m->shape;
    const int64_t dim = a->head_dim_v, keys = a->seq_len_kv;
    mask_oracle p = masked_oracle(m);
    p.score_error = score_error;
    mask_oracle_result want;
    require(mask_oracle_run(&p, &want));
    for (int64_t row = 0; row < masked_rows(m); row++) {
        const int64_t query = row % a->seq_len_q, head = row / a->seq_len_q % a->num_heads;
        const int64_t batch = row / a->seq_len_q / a->num_heads;
        if (!in.infinite || values_are_finite(m, batch, head, query))
            require(values_within(got->out + row * dim, want.out + row * dim, want.out_bound + row * dim, dim));
        require(values_within(got->lse + row, want.lse + row, want.lse_bound + row, 1));
        if (got->weights)
            require(values_within(
                got->weights + row * keys, want.weights + row * keys, want.weights_bound + row * keys, keys));
    }
    mask_oracle_free(&want);
}
