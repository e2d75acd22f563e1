/* The outputs of a case in double, by the independent reference of the tests.
 * May know: tests/oracle.h, verify.h.
 * Must not know: the library's functions. */
#include "../../tests/oracle.h"
#include "verify.h"

static oracle_causal causal_of(heed_causal kind)
{
    switch (kind) {
    case HEED_CAUSAL_BOTTOM_RIGHT: return ORACLE_BOTTOM_RIGHT;
    case HEED_CAUSAL_TOP_LEFT: return ORACLE_TOP_LEFT;
    case HEED_CAUSAL_OFFSET: return ORACLE_OFFSET;
    default: return ORACLE_SEE_ALL;
    }
}

static bool refer_attention(
    const verify_case *item, const verify_data *data, double *want, double *lse, double *weights)
{
    const heed_attention *s = &item->shape;
    oracle_attention problem = {
        .batch = s->batch,
        .num_heads = s->num_heads,
        .num_kv_heads = s->num_kv_heads,
        .seq_len_q = s->seq_len_q,
        .seq_len_kv = s->seq_len_kv,
        .head_dim = s->head_dim,
        .head_dim_v = s->head_dim_v,
        .scale = (double)s->scale,
        .causal = causal_of(s->causal),
        .causal_offset = s->causal_offset,
        .q = data->inputs[0],
        .k = data->inputs[1],
        .v = data->inputs[2],
        .lengths_q = data->lengths_q,
        .lengths_kv = data->lengths_kv,
    };
    oracle_set_packed(&problem);
    return oracle_attend(&problem, want, lse, weights);
}

static bool refer_layer(const verify_case *item, const verify_data *data, double *want, double *lse, double *weights)
{
    const heed_attention *s = &item->shape;
    oracle_layer layer = {
        .batch = s->batch,
        .seq_len = s->seq_len_q,
        .model_dim = item->in,
        .out_dim = item->out,
        .num_heads = s->num_heads,
        .num_kv_heads = s->num_kv_heads,
        .head_dim = s->head_dim,
        .head_dim_v = s->head_dim_v,
        .scale = (double)s->scale,
        .causal = causal_of(s->causal),
        .causal_offset = s->causal_offset,
        .in_out = item->in_out,
        .x = data->inputs[0],
        .weight_q = data->inputs[1],
        .weight_k = data->inputs[2],
        .weight_v = data->inputs[3],
        .weight_o = data->inputs[4],
        .bias_q = data->inputs[5],
        .bias_k = data->inputs[6],
        .bias_v = data->inputs[7],
        .bias_o = data->inputs[8],
        .lengths = data->lengths_kv,
    };
    return oracle_run_layer(&layer, want, lse, weights);
}

static void refer_linear(const verify_case *item, const verify_data *data, double *want)
{
    oracle_linear linear = {
        .in_features = item->in,
        .out_features = item->out,
        .weight = data->inputs[1],
        .stride_in = item->in_out ? item->out : 1,
        .stride_out = item->in_out ? 1 : item->in,
        .bias = data->inputs[2],
    };
    oracle_project(&linear, item->rows, data->inputs[0], item->in, want);
}

/* One bound for all elements of an output. */
static void spread_bounds(const verify_case *item, const verify_data *data, double *bounds)
{
    verify_part parts[VERIFY_PARTS];
    double of_part[VERIFY_PARTS];
    verify_bounds(item, data, of_part);
    for (int part = 0, count = verify_parts(item, parts); part < count; bounds += parts[part++].count)
        for (int64_t i = 0; i < parts[part].count; i++)
            bounds[i] = of_part[part];
}

bool verify_reference(const verify_case *item, const verify_data *data, double *want, double *bounds)
{
    if (item->pieces)
        return verify_decode_reference(item, data, want, bounds);
    if (verify_is_masked(item))
        return verify_masks_reference(item, data, want, bounds);
    if (item->kind == VERIFY_ROPE) {
        verify_rope_reference(item, data, want, bounds);
        return true;
    }
    verify_part parts[VERIFY_PARTS];
    verify_parts(item, parts);
    double *lse = item->lse ? want + parts[0].count : NULL;
    double *weights = item->weights ? want + parts[0].count + (item->lse ? parts[1].count : 0) : NULL;
    spread_bounds(item, data, bounds);
    if (item->kind == VERIFY_ATTENTION)
        return refer_attention(item, data, want, lse, weights);
    if (item->kind == VERIFY_LAYER)
        return refer_layer(item, data, want, lse, weights);
    if (item->kind == VERIFY_SOFTMAX)
        oracle_softmax(item->rows, item->in, data->inputs[0], item->in, data->lengths_kv, want);
    else
        refer_linear(item, data, want);
    return true;
}
