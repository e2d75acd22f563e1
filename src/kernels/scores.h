/* What is done to scores between the product and the softmax: softcap, ALiBi, bias, mask.
 * May know: the vector layer.  Must not know: instruction sets, strides, positions beyond a first distance.
 * Element by element, so the order of vectors does not matter; a hidden key's score becomes -inf whatever it was. */
#ifndef HEED_KERNELS_SCORES_H
#define HEED_KERNELS_SCORES_H

/* tanh: x + x^3 P(x^2) where x^2 < 0.625^2 (minimax, relative error 4.5e-9), (1 - t) / (1 + t) with t = exp(-2|x|) above. */
static const float TANH_C0 = -0x1.555532p-2f;
static const float TANH_C1 = 0x1.11070ap-3f;
static const float TANH_C2 = -0x1.b83854p-5f;
static const float TANH_C3 = 0x1.520b2cp-6f;
static const float TANH_C4 = -0x1.75623ep-8f;

/* x[i] = tanh(x[i]), several vectors step by step as in exp_builtin(). */
INLINE void tanh_builtin(const int n, vf *x)
{
    const vf one = vf_set1(1.0f), zero = vf_zero();
    vf t[EXP_CHUNK], y[EXP_CHUNK], p[EXP_CHUNK];
    UNROLL
    for (int i = 0; i < n; i++) {
        t[i] = vf_mul(vf_max(x[i], vf_sub(zero, x[i])), vf_set1(-2.0f));
        y[i] = vf_mul(x[i], x[i]);
        p[i] = vf_set1(TANH_C4);
    }
    exp_builtin(n, t);
    exp_horner(n, p, y, TANH_C3);
    exp_horner(n, p, y, TANH_C2);
    exp_horner(n, p, y, TANH_C1);
    exp_horner(n, p, y, TANH_C0);
    UNROLL
    for (int i = 0; i < n; i++) {
        const vf far = vf_div(vf_sub(one, t[i]), vf_add(one, t[i]));
        const vf near = vf_fma(vf_mul(p[i], y[i]), x[i], x[i]);
        const vf signed_far = vf_select_below(x[i], 0.0f, vf_sub(zero, far), far);
        x[i] = vf_select_below(y[i], 0.625f * 0.625f, near, signed_far);
    }
}

/* n vectors of a row from column j on; bias and visible belong to column j. */
INLINE void score_chunk(
    const int n, const heed_score *op, float *s, size_t j, const float *bias, const uint8_t *visible)
{
    const float *key_scale = op->key_scale;
    vf x[EXP_CHUNK];
    UNROLL
    for (int i = 0; i < n; i++)
        x[i] = vf_load(s + i * VEC_LANES);
    if (key_scale) {
        UNROLL
        for (int i = 0; i < n; i++)
            x[i] = vf_mul(x[i], vf_load(key_scale + j + (size_t)i * VEC_LANES));
    }
    if (op->softcap != 0.0f) {
        UNROLL
        for (int i = 0; i < n; i++)
            x[i] = vf_mul(x[i], vf_set1(op->inverse_softcap));
        tanh_builtin(n, x);
        UNROLL
        for (int i = 0; i < n; i++)
            x[i] = vf_mul(vf_set1(op->softcap), x[i]);
    }
    if (op->slope != 0.0f) {
        UNROLL
        for (int i = 0; i < n; i++) {
            const vf distance = vf_add(vf_load(op->count + j + (size_t)i * VEC_LANES), vf_set1(op->distance));
            x[i] = vf_fma(vf_set1(op->slope), distance, x[i]);
        }
    }
    UNROLL
    for (int i = 0; bias && i < n; i++) {
        const vf b = vf_load(bias + i * VEC_LANES);
        x[i] = vf_select_below(b, -0x1.fffffep127f, b, vf_add(x[i], b)); /* -inf hides even NaN */
    }
    UNROLL
    for (int i = 0; visible && i < n; i++)
        x[i] = vf_hide(x[i], visible + i * VEC_LANES);
    UNROLL
    for (int i = 0; i < n; i++)
        vf_store(s + i * VEC_LANES, x[i]);
}

/* The next block's part of a row's bias and mask is wanted after all rows of this one, the next row's part of this block at once: rows
 * far apart are no stream that the hardware would see (2048 x 2048, head_dim 64, a bias a head: 1.28 to 1.18 times the time without).
 * Past the end of a row it asks for something useless, which is no access. */
INLINE void score_prefetch(const heed_score *op, const float *bias, const uint8_t *visible)
{
    for (size_t i = 0; bias && i < EXP_CHUNK * VEC_LANES; i += CACHE_LINE / sizeof(float)) {
        __builtin_prefetch((const void *)((uintptr_t)bias + (HEED_BLOCK_KV + i) * sizeof(float)), 0, 2);
        __builtin_prefetch((const void *)((uintptr_t)(bias + i) + op->next_bias), 0, 3);
    }
    if (visible) {
        __builtin_prefetch((const void *)((uintptr_t)visible + HEED_BLOCK_KV), 0, 2);
        __builtin_prefetch((const void *)((uintptr_t)visible + op->next_visible), 0, 3);
    }
}

/* Scores [lo, hi) of one row.  bias and mask are read in [lo, hi) only, so their last lanes go through copies; the scores' row
 * is wide enough for whole vectors. */
static void HEED_FN(score_row)(float *s, size_t lo, size_t hi, const heed_score *op)
{
    size_t j = lo;
    for (; j + EXP_CHUNK * VEC_LANES <= hi; j += EXP_CHUNK * VEC_LANES) {
        const float *bias = op->bias ? op->bias + j : NULL;
        const uint8_t *visible = op->visible ? op->visible + j : NULL;
        score_prefetch(op, bias, visible);
        score_chunk(EXP_CHUNK, op, s + j, j, bias, visible);
    }
    for (; j < hi; j += VEC_LANES) {
        float bias[VEC_LANES] = { 0.0f };
        uint8_t visible[VEC_LANES] = { 0 };
        const size_t n = hi - j < VEC_LANES ? hi - j : VEC_LANES;
        if (op->bias)
            vf_store(bias, vf_load_n(op->bias + j, n));
        for (size_t i = 0; op->visible && i < n; i++)
            visible[i] = op->visible[j + i];
        score_chunk(1, op, s + j, j, op->bias ? bias : NULL, op->visible ? visible : NULL);
    }
}

/* Weights of a row times its keys' factors. */
static void HEED_FN(scale_row)(float *p, const float *factor, size_t n)
{
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        vf_store(p + j, vf_mul(vf_load(p + j), vf_load(factor + j)));
    if (j < n)
        vf_store_n(p + j, vf_mul(vf_load_n(p + j, n - j), vf_load_n(factor + j, n - j)), n - j);
}

#endif
