/* What is known of a shape without measuring it.
 * May know: names of kinds.  Must not know: how the work is done or measured. */
#include "shape.h"

const char *shape_kind_name(shape_kind kind)
{
    static const char *const names[SHAPE_KINDS] = { "attention", "linear", "layer", "softmax", "exp", "pack_k",
        "pack_v", "qk_tile", "softmax_tile", "pv_tile", "gemm_tile" };
    return names[kind];
}

int64_t shape_page_size(const bench_shape *shape)
{
    return shape->field[SHAPE_PAGE] ? INT64_C(8) << shape->field[SHAPE_PAGE] : 0;
}

int64_t shape_keys(const bench_shape *shape, int64_t entry)
{
    const int64_t batch = shape->field[SHAPE_BATCH], kv = shape->field[SHAPE_SEQ_KV];
    return shape->field[SHAPE_RAGGED] ? (kv * (entry + 1) + batch - 1) / batch : kv;
}

/* One query sees all keys of its sequence. */
static double ragged_visible(const bench_shape *shape)
{
    double pairs = 0.0;
    for (int64_t entry = 0; entry < shape->field[SHAPE_BATCH]; entry++)
        pairs += (double)shape_keys(shape, entry);
    return pairs / (double)shape->field[SHAPE_BATCH];
}

double shape_visible(const bench_shape *shape)
{
    const int64_t q = shape->field[SHAPE_SEQ_Q], kv = shape->field[SHAPE_SEQ_KV];
    if (shape->field[SHAPE_RAGGED])
        return ragged_visible(shape);
    if (!shape->field[SHAPE_CAUSAL])
        return (double)q * (double)kv;
    /* Query i sees min(kv, i + kv - q + 1) keys; with more queries than keys the first q - kv see none. */
    const double most = (double)kv, least = q > kv ? 1.0 : (double)(kv - q + 1), rows = most - least + 1.0;
    const double window = (double)shape->field[SHAPE_WINDOW];
    if (window == 0.0 || window >= most)
        return 0.5 * rows * (least + most);
    const double full = window > least ? window : least; /* from so many on, queries see the window */
    return 0.5 * (full - least) * (least + full - 1.0) + (most - full + 1.0) * window;
}
