/* Comparing results of attention problems with the oracle and with each other (see masked.h).
 * May know: the public header, check.h, mask_oracle.h.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <stdlib.h>

void masked_describe(const masked *m, const masked_run *run)
{
    const heed_attention *a = &m->shape;
    const heed_mask_strides *b = &a->strides_bias, *s = &a->strides_mask;
    check_case(
        "batch %lld heads %lld/%lld queries %lld keys %lld dim %lld/%lld scale %g causal %d%+lld window %lld %lld "
        "cap %g bias %d %lld,%lld,%lld,%lld mask %d %lld,%lld,%lld,%lld blocks %d %lldx%lld slopes %d sinks %d "
        "lengths %d%d weights %d; %s exp %d threads %d storage %d side %d odd %d in-place %d executor %d",
        (long long)a->batch, (long long)a->num_heads, (long long)a->num_kv_heads, (long long)a->seq_len_q,
        (long long)a->seq_len_kv, (long long)a->head_dim, (long long)a->head_dim_v, (double)a->scale, (int)a->causal,
        (long long)a->causal_offset, (long long)a->window_left, (long long)a->window_right, (double)a->softcap,
        m->bias != NULL, (long long)b->batch, (long long)b->head, (long long)b->query, (long long)b->key,
        m->mask != NULL, (long long)s->batch, (long long)s->head, (long long)s->query, (long long)s->key,
        m->blocks != NULL, (long long)a->block_mask_q, (long long)a->block_mask_kv, m->slopes != NULL, m->sinks != NULL,
        m->lengths_q != NULL, m->lengths_kv != NULL, m->weights, heed_isa_name(run->isa), (int)run->exp,
        (int)run->threads, (int)run->storage, (int)run->side, run->odd_workspace, run->in_place, run->executor);
}

static mask_oracle_strides strides_of(const heed_mask_strides *s)
{
    const mask_oracle_strides strides = { s->batch, s->head, s->query, s->key };
    return strides;
}

mask_oracle masked_oracle(const masked *m)
{
    const heed_attention *a = &m->shape;
    const mask_oracle p = { .batch = a->batch,
        .num_heads = a->num_heads,
        .num_kv_heads = a->num_kv_heads,
        .queries = a->seq_len_q,
        .keys = a->seq_len_kv,
        .dim = a->head_dim,
        .dim_v = a->head_dim_v,
        .scale = (double)a->scale,
        .softcap = (double)a->softcap,
        .align = a->causal == HEED_CAUSAL_TOP_LEFT                                         ? MASK_ORACLE_START
                 : a->causal == HEED_CAUSAL_OFFSET || a->causal == HEED_CAUSAL_NONE_OFFSET ? MASK_ORACLE_OFFSET
                                                                                           : MASK_ORACLE_END,
        .offset = a->causal_offset,
        .causal = a->causal != HEED_CAUSAL_NONE && a->causal != HEED_CAUSAL_NONE_OFFSET,
        .window_left = a->window_left,
        .window_right = a->window_right,
        .q = m->q,
        .k = m->k,
        .v = m->v,
        .lengths_q = m->lengths_q,
        .lengths_kv = m->lengths_kv,
        .bias = m->bias,
        .bias_strides = strides_of(&a->strides_bias),
        .mask = m->mask,
        .mask_strides = strides_of(&a->strides_mask),
        .slopes = m->slopes,
        .sinks = m->sinks,
        .blocks = m->blocks,
        .block_q = a->block_mask_q,
        .block_kv = a->block_mask_kv };
    return p;
}

bool masked_sees(const masked *m, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const mask_oracle p = masked_oracle(m);
    return mask_oracle_sees(&p, batch, head, query, key);
}

/* count values, each within its bound.  NaN and infinities must agree. */
static bool within(
    const float *got, const double *want, const double *bound, int64_t count, const char *what, double *worst)
{
    for (int64_t i = 0; i < count; i++) {
        const double g = (double)got[i], difference = fabs(g - want[i]);
        const bool alike = isnan(want[i]) ? isnan(g) : isinf(want[i]) ? g == want[i] : difference <= bound[i];
        if (!alike)
            return CHECK(false, "%s %lld of %lld: %.9g, want %.9g within %.3g", what, (long long)i, (long long)count, g,
                want[i], bound[i]);
        if (isfinite(want[i]) && difference > 0.0 && worst)
            *worst = fmax(*worst, difference / bound[i]);
    }
    return CHECK(true, "%s", what);
}

static bool against(const masked *m, const masked_result *got, double score_error, double *worst)
{
    const int64_t rows = masked_rows(m);
    mask_oracle p = masked_oracle(m);
    mask_oracle_result want;
    p.score_error = score_error;
    if (!mask_oracle_run(&p, &want))
        check_fatal("no memory for the oracle");
    bool ok = within(got->out, want.out, want.out_bound, rows * p.dim_v, "out", worst);
    ok = within(got->lse, want.lse, want.lse_bound, rows, "lse", worst) && ok;
    if (got->weights)
        ok = within(got->weights, want.weights, want.weights_bound, rows * p.keys, "weight", worst) && ok;
    mask_oracle_free(&want);
    return ok;
}

bool masked_check_oracle(const masked *m, const masked_result *got, double *worst)
{
    return against(m, got, 0.0, worst);
}

bool masked_check_near(const masked *m, const masked_result *got, double score_error)
{
    return against(m, got, score_error, NULL);
}

bool masked_same(const masked *m, const masked_result *got, const masked_result *want)
{
    const size_t rows = (size_t)masked_rows(m);
    bool same = check_same(got->out, want->out, rows * (size_t)m->shape.head_dim_v, "out");
    same = check_same(got->lse, want->lse, rows, "lse") && same;
    if (got->weights && want->weights)
        same = check_same(got->weights, want->weights, rows * (size_t)m->shape.seq_len_kv, "weights") && same;
    return same;
}

bool masked_same_row(const masked *m, const masked_result *got, const masked_result *want, int64_t row)
{
    const size_t dim = (size_t)m->shape.head_dim_v, keys = (size_t)m->shape.seq_len_kv, at = (size_t)row;
    bool same = check_same(got->out + at * dim, want->out + at * dim, dim, "row of out");
    same = check_same(got->lse + at, want->lse + at, 1, "row of lse") && same;
    if (got->weights && want->weights)
        same = check_same(got->weights + at * keys, want->weights + at * keys, keys, "row of weights") && same;
    return same;
}

bool masked_same_part(const masked *whole, const masked_result *all, const masked *part, const masked_result *got,
    const masked_range *range)
{
    const int64_t queries = range->end_q - range->first_q, dim = part->shape.head_dim_v, keys = part->shape.seq_len_kv;
    bool same = true;
    for (int64_t h = 0; h < part->shape.num_heads; h++) {
        const int64_t to = h * queries,
                      from = (range->batch * part->shape.num_heads + h) * whole->shape.seq_len_q + range->first_q;
        same =
            check_same(got->out + to * dim, all->out + from * dim, (size_t)(queries * dim), "out of the part") && same;
        same = check_same(got->lse + to, all->lse + from, (size_t)queries, "lse of the part") && same;
        for (int64_t i = 0; i < queries && got->weights && all->weights && range->first_kv == 0; i++)
            same = check_same(got->weights + (to + i) * keys, all->weights + (from + i) * whole->shape.seq_len_kv,
                       (size_t)keys, "weights of the part") &&
                   same;
    }
    return same;
}

void masked_both(const masked *a, const masked *b)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++) {
        const masked_run run = masked_plain(list[i]);
        masked_result want = masked_execute(b, &run), got = masked_execute(a, &run);
        masked_same(a, &got, &want);
        masked_free_result(&got);
        masked_free_result(&want);
    }
}
