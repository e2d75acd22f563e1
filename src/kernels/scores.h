/* What is done to scores between the product and the softmax: softcap, ALiBi, bias, mask.
 * May know: the vector layer.  Must not know: instruction sets, strides, positions beyond a first distance.
 * Element by element, so the order of vectors does not matter; a hidden key's score becomes -inf whatever it was. */
#ifndef HEED_KERNELS_SCORES_H
#define HEED_KERNELS_SCORES_H

/* tanh: x + x^3 P(x^2) below 0.625 (minimax, relative error 4.5e-9), (1 - t) / (1 + t) with t = exp(-2|x|) above. */
static const float TANH_C0 = -0x1.555532p-2f;
static const float TANH_C1 = 0x1.11070ap-3f;
static const float TANH_C2 = -0x1.b83854p-5f;
static const float TANH_C3 = 0x1.520b2cp-6f;
static const float TANH_C4 = -0x1.75623ep-8f;

INLINE vf tanh_builtin(vf x)
{
    const vf one = vf_set1(1.0f), size = vf_max(x, vf_sub(vf_zero(), x)), y = vf_mul(x, x);
    const vf t = exp_kind(HEED_KERNEL_BUILTIN, vf_mul(size, vf_set1(-2.0f)));
    const vf far = vf_div(vf_sub(one, t), vf_add(one, t));
    vf p = vf_fma(vf_set1(TANH_C4), y, vf_set1(TANH_C3));
    p = vf_fma(p, y, vf_set1(TANH_C2));
    p = vf_fma(p, y, vf_set1(TANH_C1));
    p = vf_fma(p, y, vf_set1(TANH_C0));
    const vf near = vf_fma(vf_mul(p, y), x, x);
    const vf signed_far = vf_select_below(x, 0.0f, vf_sub(vf_zero(), far), far);
    return vf_select_below(size, 0.625f, near, signed_far);
}

INLINE vf score_vector(const heed_score *op, vf s, size_t j, vf bias, const uint8_t *visible)
{
    if (op->softcap != 0.0f)
        s = vf_mul(vf_set1(op->softcap), tanh_builtin(vf_mul(s, vf_set1(op->inverse_softcap))));
    if (op->slope != 0.0f)
        s = vf_fma(vf_set1(op->slope), vf_add(vf_load(op->count + j), vf_set1(op->distance)), s);
    if (op->bias)
        s = vf_select_below(bias, -0x1.fffffep127f, bias, vf_add(s, bias)); /* -inf hides even NaN */
    return visible ? vf_hide(s, visible) : s;
}

/* Scores [lo, hi) of one row.  bias and mask are read in [lo, hi) only; the scores' row is wide enough for whole vectors. */
static void HEED_FN(score_row)(float *s, size_t lo, size_t hi, const heed_score *op)
{
    size_t j = lo;
    for (; j + VEC_LANES <= hi; j += VEC_LANES) {
        const vf bias = op->bias ? vf_load(op->bias + j) : vf_zero();
        vf_store(s + j, score_vector(op, vf_load(s + j), j, bias, op->visible ? op->visible + j : NULL));
    }
    if (j == hi)
        return;
    uint8_t visible[VEC_LANES] = { 0 };
    for (size_t i = j; op->visible && i < hi; i++)
        visible[i - j] = op->visible[i];
    const vf bias = op->bias ? vf_load_n(op->bias + j, hi - j) : vf_zero();
    vf_store(s + j, score_vector(op, vf_load(s + j), j, bias, op->visible ? visible : NULL));
}

#endif
