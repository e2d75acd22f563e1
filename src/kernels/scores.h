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

/* Vectors at once: its chain of steps is so long that what the registers hold (EXP_CHUNK) leaves AVX2 waiting, and constants and halves
 * of the work wait on the stack instead (softcap at head_dim 64: 1.26 to 1.21 of the time without). */
enum { TANH_CHUNK = VEC_LANES == 1 ? 1 : EXP_MOST };

/* x[i] = tanh(x[i]), several vectors step by step as in exp_normal(). */
INLINE void tanh_builtin(const int n, vf *x)
{
    const vf one = vf_set1(1.0f);
    vf t[TANH_CHUNK], e[TANH_CHUNK], y[TANH_CHUNK], p[TANH_CHUNK];
    UNROLL
    for (int i = 0; i < n; i++) {
        t[i] = vf_max(vf_set1(EXP_SMALLEST), vf_mul(vf_abs(x[i]), vf_set1(-2.0f))); /* NaN stays; 1 + exp there is 1 */
        y[i] = vf_mul(x[i], x[i]);
        p[i] = vf_set1(TANH_C4);
    }
    exp_normal(n, e, t);
    exp_horner(n, p, y, TANH_C3);
    exp_horner(n, p, y, TANH_C2);
    exp_horner(n, p, y, TANH_C1);
    exp_horner(n, p, y, TANH_C0);
    UNROLL
    for (int i = 0; i < n; i++) {
        const vf far = vf_div(vf_sub(one, e[i]), vf_add(one, e[i]));
        const vf near = vf_fma(vf_mul(p[i], y[i]), x[i], x[i]);
        x[i] = vf_select_below(y[i], 0.625f * 0.625f, near, vf_signed(far, x[i]));
    }
}

/* Vectors at once without a softcap: what a row lacks is asked once for all of them. */
enum { SCORE_CHUNK = VEC_LANES == 1 ? 1 : 64 / VEC_LANES < 8 ? 64 / VEC_LANES : 8 };

_Static_assert((int)SCORE_CHUNK >= (int)TANH_CHUNK, "score_chunk() holds SCORE_CHUNK vectors");

/* n vectors of a row from column j on; bias and visible belong to column j. */
INLINE void score_chunk(const int capped, const int n, const heed_score *op, float *s, size_t j, const float *bias,
    const uint8_t *visible, vf max[2])
{
    const float *key_scale = op->key_scale;
    vf x[SCORE_CHUNK];
    UNROLL
    for (int i = 0; i < n; i++)
        x[i] = vf_load(s + i * VEC_LANES);
    if (key_scale) {
        UNROLL
        for (int i = 0; i < n; i++)
            x[i] = vf_mul(x[i], vf_load(key_scale + j + (size_t)i * VEC_LANES));
    }
    if (capped) {
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
    for (int i = 0; i < n; i++) {
        vf_store(s + i * VEC_LANES, x[i]);
        max[i % 2] = vf_max(x[i], max[i % 2]);
    }
}

/* The next row's part: rows far apart are no stream that the hardware would see.  Of a mask also the row's part of the next block; of a
 * bias that is asked for during the product (heed_ask).  Past the end it asks for something useless, which is no access. */
INLINE void score_prefetch(const heed_score *op, const float *bias, const uint8_t *visible, const int columns)
{
    for (int i = 0; bias && i < columns; i += CACHE_LINE / (int)sizeof(float))
        __builtin_prefetch((const void *)((uintptr_t)(bias + i) + op->next_bias), 0, 3);
    if (visible) {
        __builtin_prefetch((const void *)((uintptr_t)visible + HEED_BLOCK_KV), 0, 2);
        __builtin_prefetch((const void *)((uintptr_t)visible + op->next_visible), 0, 3);
    }
}

/* What is left of a row, a vector at a time.  bias and mask are read before hi only, so they go through copies; the scores' row is wide
 * enough for whole vectors, and behind hi they are hidden. */
INLINE void score_rest(const int capped, float *s, size_t j, size_t hi, const heed_score *op, vf max[2])
{
    for (; j < hi; j += VEC_LANES) {
        float bias[VEC_LANES] = { 0.0f };
        uint8_t visible[VEC_LANES] = { 0 };
        const size_t n = hi - j < VEC_LANES ? hi - j : VEC_LANES;
        if (op->bias)
            vf_store(bias, vf_load_n(op->bias + j, n));
        for (size_t i = 0; i < n; i++)
            visible[i] = op->visible ? op->visible[j + i] : 1;
        score_chunk(capped, 1, op, s + j, j, op->bias ? bias : NULL, visible, max);
    }
}

/* Scores [lo, hi) of one row, and their maximum while they are in registers. */
INLINE float score_columns(const int capped, float *s, size_t lo, size_t hi, const heed_score *op)
{
    const int n = capped ? TANH_CHUNK : SCORE_CHUNK;
    vf max[2] = { vf_set1(-INFINITY), vf_set1(-INFINITY) };
    size_t j = lo;
    for (; j + (size_t)n * VEC_LANES <= hi; j += (size_t)n * VEC_LANES) {
        const float *bias = op->bias ? op->bias + j : NULL;
        const uint8_t *visible = op->visible ? op->visible + j : NULL;
        score_prefetch(op, bias, visible, n * VEC_LANES);
        score_chunk(capped, n, op, s + j, j, bias, visible, max);
    }
    if (n * VEC_LANES > 1)
        score_rest(capped, s, j, hi, op, max);
    return vf_reduce_max(vf_max(max[0], max[1]));
}

NOINLINE float HEED_FN(score_capped)(float *s, size_t lo, size_t hi, const heed_score *op)
{
    return score_columns(1, s, lo, hi, op);
}

static float HEED_FN(score_row)(float *s, size_t lo, size_t hi, const heed_score *op)
{
    const heed_range visible = { (int32_t)lo, (int32_t)hi };
    const float max = op->softcap != 0.0f ? HEED_FN(score_capped)(s, lo, hi, op) : score_columns(0, s, lo, hi, op);
    softmax_hide_ends(s, visible);
    return max;
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
