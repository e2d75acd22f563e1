/* The outputs of an attention with steps in double, each with its own bound, by the independent reference of the tests.
 * May know: tests/masks/mask_oracle.h, verify.h.
 * Must not know: the library's functions. */
#include "../../tests/masks/mask_oracle.h"
#include "verify.h"

#include <string.h>

static mask_oracle_align align_of(heed_causal kind)
{
    return kind == HEED_CAUSAL_TOP_LEFT ? MASK_ORACLE_START
           : kind == HEED_CAUSAL_OFFSET ? MASK_ORACLE_OFFSET
                                        : MASK_ORACLE_END;
}

static mask_oracle problem_of(const verify_case *item, const verify_data *data)
{
    const heed_attention *s = &item->shape;
    const int64_t matrix = s->seq_len_q * s->seq_len_kv;
    return (mask_oracle){
        .batch = s->batch,
        .num_heads = s->num_heads,
        .num_kv_heads = s->num_kv_heads,
        .queries = s->seq_len_q,
        .keys = s->seq_len_kv,
        .dim = s->head_dim,
        .dim_v = s->head_dim_v,
        .scale = (double)s->scale,
        .softcap = (double)s->softcap,
        .align = align_of(s->causal),
        .offset = s->causal_offset,
        .causal = s->causal != HEED_CAUSAL_NONE,
        .window_left = s->window_left,
        .window_right = s->window_right,
        .q = data->inputs[0],
        .k = data->inputs[1],
        .v = data->inputs[2],
        .lengths_q = data->lengths_q,
        .lengths_kv = data->lengths_kv,
        .bias = data->inputs[INPUT_BIAS],
        .bias_strides = { 0, matrix, s->seq_len_kv, 1 },
        .mask = data->mask,
        .mask_strides = { matrix, 0, s->seq_len_kv, 1 },
        .slopes = data->inputs[INPUT_SLOPES],
        .sinks = data->inputs[INPUT_SINKS],
        .blocks = data->blocks,
        .block_q = s->block_mask_q,
        .block_kv = s->block_mask_kv,
    };
}

bool verify_masks_reference(const verify_case *item, const verify_data *data, double *want, double *bounds)
{
    mask_oracle problem = problem_of(item, data);
    mask_oracle_result r;
    verify_part parts[VERIFY_PARTS];
    const int count = verify_parts(item, parts);
    const bool done = mask_oracle_run(&problem, &r);
    for (int i = 0; done && i < count; i++) {
        const double *value = i == 0 ? r.out : i == 1 && item->lse ? r.lse : r.weights;
        const double *bound = i == 0 ? r.out_bound : i == 1 && item->lse ? r.lse_bound : r.weights_bound;
        memcpy(want, value, (size_t)parts[i].count * sizeof *want);
        memcpy(bounds, bound, (size_t)parts[i].count * sizeof *bounds);
        want += parts[i].count;
        bounds += parts[i].count;
    }
    mask_oracle_free(&r);
    return done;
}
