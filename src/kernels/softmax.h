/* Row softmax that subtracts the maximum first, for score tiles (with the merge of block results) and for whole rows.
 * May know: the vector layer, row ranges.  Must not know: instruction sets, causal or other rules behind the ranges.
 *
 * Sums run in HEED_LANES virtual lanes, then one halving tree: the same order for every vector width.  The maximum is exact in
 * any order and drops NaN; a NaN score makes its weight and so the row's sum and output NaN.  The merge of block results is
 * the online softmax of Milakov & Gimelshein 2018. */
#ifndef HEED_KERNELS_SOFTMAX_H
#define HEED_KERNELS_SOFTMAX_H

enum { VECS = HEED_LANES / VEC_LANES };

/* -inf (nothing visible, or only scores of -inf) must not be subtracted from -inf. */
INLINE float softmax_shift1(float max)
{
    return max < -0x1.fffffep127f ? 0.0f : max;
}

INLINE vf softmax_shift(vf max)
{
    return vf_zero_below(max, -0x1.fffffep127f, max);
}

INLINE float softmax_reduce_add(vf sums[VECS])
{
    UNROLL
    for (int w = VECS / 2; w > 0; w /= 2) {
        UNROLL
        for (int i = 0; i < w; i++)
            sums[i] = vf_add(sums[i], sums[i + w]);
    }
    return vf_reduce_add(sums[0]);
}

/* Maximum of n elements, n a multiple of HEED_LANES.  At least four chains, because one waits for each comparison before the
 * next. */
INLINE float softmax_max(const float *x, size_t n)
{
    enum { CHAINS = (int)VECS > 4 ? (int)VECS : 4 };
    vf max[CHAINS];
    UNROLL
    for (int w = 0; w < CHAINS; w++)
        max[w] = vf_set1(-INFINITY);
    size_t j = 0;
    for (; j + CHAINS * VEC_LANES <= n; j += CHAINS * VEC_LANES) {
        UNROLL
        for (int w = 0; w < CHAINS; w++)
            max[w] = vf_max(vf_load(x + j + w * VEC_LANES), max[w]);
    }
    for (; (int)CHAINS > (int)VECS && j < n; j += VEC_LANES)
        max[0] = vf_max(vf_load(x + j), max[0]);
    UNROLL
    for (int w = CHAINS / 2; w > 0; w /= 2) {
        UNROLL
        for (int i = 0; i < w; i++)
            max[i] = vf_max(max[i], max[i + w]);
    }
    return vf_reduce_max(max[0]);
}

/* n vectors from `first` on: y = exp(x - shift), added to their lanes. */
INLINE void softmax_exp_chunk(
    const int kind, const int first, const int n, float *y, const float *x, vf shift, vf sums[VECS])
{
    vf p[EXP_CHUNK];
    UNROLL
    for (int i = 0; i < n; i++)
        p[i] = vf_sub(vf_load(x + (first + i) * VEC_LANES), shift);
    exp_chunk(kind, n, p);
    UNROLL
    for (int i = 0; i < n; i++) {
        const int lane = (first + i) % VECS;
        sums[lane] = vf_add(sums[lane], p[i]);
        vf_store(y + (first + i) * VEC_LANES, p[i]);
    }
}

/* vecs vectors, in the order of columns; the sixteen of one lane each are no sums in registers and would be a 20th of the library
 * unrolled. */
INLINE void softmax_exp_vectors(const int kind, const int vecs, float *y, const float *x, vf shift, vf sums[VECS])
{
    if (VEC_LANES == 1) {
        for (int first = 0; first < vecs; first += EXP_CHUNK)
            softmax_exp_chunk(kind, first, EXP_CHUNK, y, x, shift, sums);
        return;
    }
    UNROLL
    for (int first = 0; first < vecs; first += EXP_CHUNK)
        softmax_exp_chunk(kind, first, vecs - first < EXP_CHUNK ? vecs - first : EXP_CHUNK, y, x, shift, sums);
}

/* y = exp(x - shift), n a multiple of HEED_LANES; tail, if there is one, is one more group of lanes, in place.  Returns the sum. */
INLINE float softmax_exp(const int kind, float *y, const float *x, size_t n, float shift_by, float *tail)
{
    const vf shift = vf_set1(shift_by);
    vf sums[VECS];
    UNROLL
    for (int w = 0; w < VECS; w++)
        sums[w] = vf_zero();
    enum { WIDE = (int)VECS > (int)EXP_CHUNK ? (int)VECS : (int)EXP_CHUNK };
    size_t j = 0;
    for (; j + WIDE * VEC_LANES <= n; j += WIDE * VEC_LANES)
        softmax_exp_vectors(kind, WIDE, y + j, x + j, shift, sums);
    for (; (int)WIDE > (int)VECS && j < n; j += HEED_LANES)
        softmax_exp_vectors(kind, VECS, y + j, x + j, shift, sums);
    if (tail)
        softmax_exp_vectors(kind, VECS, tail, tail, shift, sums);
    return softmax_reduce_add(sums);
}

/* Functions of their own, because the loop needs all registers of AVX2. */
NOINLINE float HEED_FN(softmax_exp_builtin)(float *y, const float *x, size_t n, float shift, float *tail)
{
    return softmax_exp(HEED_KERNEL_BUILTIN, y, x, n, shift, tail);
}

NOINLINE float HEED_FN(softmax_exp_sleef)(float *y, const float *x, size_t n, float shift, float *tail)
{
    return softmax_exp(HEED_KERNEL_SLEEF, y, x, n, shift, tail);
}

INLINE float softmax_exp_kind(int kind, float *y, const float *x, size_t n, float shift, float *tail)
{
    if (kind == HEED_KERNEL_SLEEF)
        return HEED_FN(softmax_exp_sleef)(y, x, n, shift, tail);
    return HEED_FN(softmax_exp_builtin)(y, x, n, shift, tail);
}

INLINE void softmax_fill(float *x, size_t lo, size_t hi, float value)
{
    for (size_t j = lo; j < hi; j++)
        x[j] = value;
}

/* The groups of lanes that hold a row's visible keys. */
INLINE heed_range softmax_groups(heed_range visible)
{
    const heed_range groups = { visible.lo / HEED_LANES * HEED_LANES,
        (visible.hi + HEED_LANES - 1) / HEED_LANES * HEED_LANES };
    return groups;
}

/* Hidden scores in a row's groups become -inf. */
INLINE void softmax_hide_ends(float *s, heed_range visible)
{
    const heed_range groups = softmax_groups(visible);
    softmax_fill(s, (size_t)groups.lo, (size_t)visible.lo, -INFINITY);
    softmax_fill(s, (size_t)visible.hi, (size_t)groups.hi, -INFINITY);
}

/* The maximum of one row of a block. */
INLINE float softmax_block_max(float *s, heed_range visible)
{
    if (visible.lo >= visible.hi)
        return -INFINITY;
    softmax_hide_ends(s, visible);
    const heed_range groups = softmax_groups(visible);
    return softmax_max(s + groups.lo, (size_t)(groups.hi - groups.lo));
}

/* One row of a block: weights in place, -0 for hidden keys in the columns that pv_tile reads; returns the row's sum. */
INLINE float softmax_block_exp(int kind, float *s, heed_range visible, heed_range read, float max)
{
    if (visible.lo >= visible.hi) {
        softmax_fill(s, (size_t)read.lo, (size_t)read.hi, -0.0f);
        return 0.0f;
    }
    const heed_range groups = softmax_groups(visible);
    const float sum = softmax_exp_kind(
        kind, s + groups.lo, s + groups.lo, (size_t)(groups.hi - groups.lo), softmax_shift1(max), NULL);
    softmax_fill(s, (size_t)read.lo, (size_t)visible.lo, -0.0f);
    softmax_fill(s, (size_t)visible.hi, (size_t)read.hi, -0.0f);
    return sum;
}

/* max' = max(max, block_max); sum' = sum * exp(max - max') + block_sum * exp(block_max - max'). */
INLINE void softmax_merge(const int kind, const heed_rows *state, size_t m)
{
    for (size_t i = 0; i < m; i += VEC_LANES) {
        const vf old = vf_load(state->max + i), block = vf_load(state->block_max + i);
        const vf max = vf_max(old, block);
        const vf shift = softmax_shift(max);
        const vf keep = exp_kind(kind, vf_sub(old, shift)), add = exp_kind(kind, vf_sub(block, shift));
        vf_store(state->max + i, max);
        vf_store(state->sum + i, vf_fma(vf_load(state->block_sum + i), add, vf_mul(vf_load(state->sum + i), keep)));
        vf_store(state->keep + i, keep);
        vf_store(state->add + i, add);
    }
}

/* All maxima of a tile's rows before its exponentials: the rows do not wait for one another.  One function for both kinds of exp, which
 * are calls. */
NOINLINE void HEED_FN(softmax_tile)(
    int kind, float *block_max, float *block_sum, float *s, size_t lds, const heed_range *rows, size_t m, int known)
{
    for (size_t i = 0; i < m; i += TILE_M) {
        const size_t last = i + tile_height(m, i);
        const heed_range read = tile_union(rows + i, last - i);
        for (size_t r = i; !known && r < last; r++)
            block_max[r] = softmax_block_max(s + r * lds, rows[r]);
        for (size_t r = i; r < last; r++)
            block_sum[r] = softmax_block_exp(kind, s + r * lds, rows[r], read, block_max[r]);
    }
}

static void HEED_FN(merge_rows_builtin)(const heed_rows *state, size_t m)
{
    softmax_merge(HEED_KERNEL_BUILTIN, state, m);
}

static void HEED_FN(merge_rows_sleef)(const heed_rows *state, size_t m)
{
    softmax_merge(HEED_KERNEL_SLEEF, state, m);
}

static void HEED_FN(softmax_tile_builtin)(
    float *block_max, float *block_sum, float *s, size_t lds, const heed_range *rows, size_t m, int known)
{
    HEED_FN(softmax_tile)(HEED_KERNEL_BUILTIN, block_max, block_sum, s, lds, rows, m, known);
}

static void HEED_FN(softmax_tile_sleef)(
    float *block_max, float *block_sum, float *s, size_t lds, const heed_range *rows, size_t m, int known)
{
    HEED_FN(softmax_tile)(HEED_KERNEL_SLEEF, block_max, block_sum, s, lds, rows, m, known);
}

/* Divides, so that equal weights give the correctly rounded mean; adding +0 leaves no -0. */
static void HEED_FN(finish_row)(float *out, const float *o, float keep, float sum, size_t d)
{
    const vf divisor = vf_set1(sum == 0.0f ? 1.0f : sum), factor = vf_set1(keep);
    size_t c = 0;
    for (; c + VEC_LANES <= d; c += VEC_LANES)
        vf_store(out + c, vf_add(vf_div(vf_mul(vf_load(o + c), factor), divisor), vf_zero()));
    if (c < d)
        vf_store_n(out + c, vf_add(vf_div(vf_mul(vf_load(o + c), factor), divisor), vf_zero()), d - c);
}

INLINE void softmax_divide(float *y, size_t n, float sum)
{
    const vf divisor = vf_set1(sum == 0.0f ? 1.0f : sum);
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        vf_store(y + j, vf_div(vf_load(y + j), divisor));
    if (j < n)
        vf_store_n(y + j, vf_div(vf_load_n(y + j, n - j), divisor), n - j);
}

INLINE vf weights_vector(const int kind, vf score, vf shift, vf divisor)
{
    const vf w = vf_div(exp_kind(kind, vf_sub(score, shift)), divisor);
    return vf_zero_below(score, -0x1.fffffep127f, w); /* hidden keys weigh nothing even in a row that is NaN */
}

INLINE void weights_row(const int kind, float *w, size_t n, float max, float sum)
{
    const vf shift = softmax_shift(vf_set1(max)), divisor = vf_set1(sum == 0.0f ? 1.0f : sum);
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        vf_store(w + j, weights_vector(kind, vf_load(w + j), shift, divisor));
    if (j < n)
        vf_store_n(w + j, weights_vector(kind, vf_load_n(w + j, n - j), shift, divisor), n - j);
}

static void HEED_FN(weights_row_builtin)(float *w, size_t n, float max, float sum)
{
    weights_row(HEED_KERNEL_BUILTIN, w, n, max, sum);
}

static void HEED_FN(weights_row_sleef)(float *w, size_t n, float max, float sum)
{
    weights_row(HEED_KERNEL_SLEEF, w, n, max, sum);
}

/* n elements as a group of lanes, padded with -inf.  Unrolled it would be larger than all that it is for. */
INLINE void softmax_pad(float *to, const float *x, size_t n)
{
    ROLLED
    for (size_t j = 0; j < HEED_LANES; j++)
        to[j] = j < n ? x[j] : -INFINITY;
}

/* A row of one group of lanes at most: nothing waits for memory. */
INLINE void softmax_short_row(const int kind, float *y, const float *x, size_t n)
{
    float copy[HEED_LANES];
    vf p[VECS], sums[VECS];
    if (n < HEED_LANES)
        softmax_pad(copy, x, n);
    const float *from = n < HEED_LANES ? copy : x;
    const vf shift = vf_set1(softmax_shift1(softmax_max(from, HEED_LANES)));
    UNROLL
    for (int w = 0; w < VECS; w++)
        p[w] = vf_sub(vf_load(from + w * VEC_LANES), shift);
    UNROLL
    for (int w = 0; w < VECS; w += EXP_CHUNK)
        exp_chunk(kind, VECS - w < EXP_CHUNK ? VECS - w : EXP_CHUNK, p + w);
    UNROLL
    for (int w = 0; w < VECS; w++)
        sums[w] = p[w];
    const float sum = softmax_reduce_add(sums);
    const vf divisor = vf_set1(sum == 0.0f ? 1.0f : sum);
    UNROLL
    for (int w = 0; w < VECS; w++)
        vf_store((n < HEED_LANES ? copy : y) + w * VEC_LANES, vf_div(p[w], divisor));
    for (size_t j = 0; n < HEED_LANES && j < n; j++)
        y[j] = copy[j];
}

/* Whole groups of lanes straight from the row, the last one, if it is cut short, from a copy padded with -inf.  SLEEF's loop, which leaves
 * nothing in registers across its calls, need not be a function of its own (AVX-512, 32 to 256 columns: 0.93 of the time). */
INLINE void softmax_groups_row(const int kind, float *y, const float *x, size_t n)
{
    const size_t whole = n / HEED_LANES * HEED_LANES;
    float tail[HEED_LANES], max = softmax_max(x, whole);
    if (whole < n) {
        softmax_pad(tail, x + whole, n - whole);
        const float tail_max = softmax_max(tail, HEED_LANES);
        max = tail_max > max ? tail_max : max;
    }
    float *rest = whole < n ? tail : NULL;
    const float shift = softmax_shift1(max);
    const float sum = kind == HEED_KERNEL_SLEEF ? softmax_exp(kind, y, x, whole, shift, rest)
                                                : softmax_exp_kind(kind, y, x, whole, shift, rest);
    ROLLED
    for (size_t j = whole; j < n; j++)
        y[j] = tail[j - whole];
    softmax_divide(y, n, sum);
}

NOINLINE void HEED_FN(softmax_long_row_builtin)(float *y, const float *x, size_t n)
{
    softmax_groups_row(HEED_KERNEL_BUILTIN, y, x, n);
}

NOINLINE void HEED_FN(softmax_long_row_sleef)(float *y, const float *x, size_t n)
{
    softmax_groups_row(HEED_KERNEL_SLEEF, y, x, n);
}

INLINE void softmax_row(const int kind, float *y, const float *x, size_t n)
{
    if (VEC_LANES > 1 && n <= HEED_LANES)
        softmax_short_row(kind, y, x, n);
    else if (kind == HEED_KERNEL_SLEEF)
        HEED_FN(softmax_long_row_sleef)(y, x, n);
    else
        HEED_FN(softmax_long_row_builtin)(y, x, n);
}

static void HEED_FN(softmax_row_builtin)(float *y, const float *x, size_t n)
{
    softmax_row(HEED_KERNEL_BUILTIN, y, x, n);
}

static void HEED_FN(softmax_row_sleef)(float *y, const float *x, size_t n)
{
    softmax_row(HEED_KERNEL_SLEEF, y, x, n);
}

#endif
