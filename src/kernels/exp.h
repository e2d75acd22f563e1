/* exp for softmax: the built-in one for arguments <= 0, and the choice between it and SLEEF's.
 * May know: the vector layer.  Must not know: instruction sets.
 *
 * exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 in [-ln2/2, ln2/2] with ln 2 in two parts (Cody & Waite 1980), and
 * exp(r) a polynomial of degree 6 (relative error 3.1e-9, minimax with coefficients 1, 1 fixed so that exp(0) = 1).
 * Within 1 ULP over every float of [-87.33654, 0] (tests/test_exp.c runs them all).  Below that the result is exactly 0: a
 * subnormal weight would change no digit of the output, but costs a hundred cycles a product on many CPUs, and masks of -100
 * (Swin) would make them by the million. */
#ifndef HEED_KERNELS_EXP_H
#define HEED_KERNELS_EXP_H

/* Adding 1.5 * 2^23 + 127 rounds to an integer and leaves n + 127, the biased exponent, in the low bits. */
static const float EXP_MAGIC = 0x1.8p23f + 127.0f;
static const float EXP_LOG2E = 0x1.715476p0f;
static const float EXP_LN2_HI = 0x1.62e4p-1f; /* 15 bits: n * hi is exact */
static const float EXP_LN2_LO = 0x1.7f7d1cp-20f;
static const float EXP_SMALLEST = -0x1.5d589ep6f; /* the last float whose exp is a normal number */
static const float EXP_C2 = 0x1.fffffcp-2f;
static const float EXP_C3 = 0x1.55549p-3f;
static const float EXP_C4 = 0x1.5558f8p-5f;
static const float EXP_C5 = 0x1.123b02p-7f;
static const float EXP_C6 = 0x1.6a2256p-10f;

/* Vectors worked on at once, as many as the registers hold: each takes four, and the constants ten unless, as in AVX-512, the
 * instructions broadcast them from memory. */
enum { EXP_CHUNK = VEC_REGISTERS >= 32 && VEC_LANES >= 16 ? 4 : 2, EXP_MOST = 4 };

/* One step of Horner's rule. */
INLINE void exp_horner(const int n, vf *p, const vf *r, float c)
{
    UNROLL
    for (int i = 0; i < n; i++)
        p[i] = vf_fma(p[i], r[i], vf_set1(c));
}

/* p[i] = exp(x[i]) for a constant n and x[i] from EXP_SMALLEST to 0; below it p[i] is anything.  Step by step over all of them: one
 * vector's steps each wait for the one before, and a CPU's scheduler, full of waiting steps, does not see far enough to find the next
 * vector's by itself. */
INLINE void exp_normal(const int n, vf *p, const vf *x)
{
    vf t[EXP_MOST], r[EXP_MOST];
    UNROLL
    for (int i = 0; i < n; i++) {
        t[i] = vf_fma(x[i], vf_set1(EXP_LOG2E), vf_set1(EXP_MAGIC));
        p[i] = vf_set1(EXP_C6);
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        const vf whole = vf_sub(t[i], vf_set1(EXP_MAGIC));
        r[i] = vf_fma(whole, vf_set1(-EXP_LN2_LO), vf_fma(whole, vf_set1(-EXP_LN2_HI), x[i]));
    }
    exp_horner(n, p, r, EXP_C5);
    exp_horner(n, p, r, EXP_C4);
    exp_horner(n, p, r, EXP_C3);
    exp_horner(n, p, r, EXP_C2);
    exp_horner(n, p, r, 1.0f);
    exp_horner(n, p, r, 1.0f);
    UNROLL
    for (int i = 0; i < n; i++)
        p[i] = vf_mul(p[i], vf_bits_shl23(t[i]));
}

/* x[i] = exp(x[i]). */
INLINE void exp_builtin(const int n, vf *x)
{
    vf y[EXP_MOST];
    exp_normal(n, y, x);
    UNROLL
    for (int i = 0; i < n; i++)
        x[i] = vf_zero_below(x[i], EXP_SMALLEST, y[i]);
}

INLINE void exp_chunk(const int kind, const int n, vf *x)
{
#ifdef HEED_WITH_SLEEF
    if (kind == HEED_KERNEL_SLEEF) {
        UNROLL
        for (int i = 0; i < n; i++)
            x[i] = vf_exp_sleef(x[i]);
        return;
    }
#endif
    (void)kind;
    exp_builtin(n, x);
}

INLINE vf exp_kind(const int kind, vf x)
{
    exp_chunk(kind, 1, &x);
    return x;
}

INLINE void exp_row(const int kind, float *y, const float *x, size_t n)
{
    size_t j = 0;
    for (; j + VEC_LANES <= n; j += VEC_LANES)
        vf_store(y + j, exp_kind(kind, vf_load(x + j)));
    if (j < n)
        vf_store_n(y + j, exp_kind(kind, vf_load_n(x + j, n - j)), n - j);
}

static void HEED_FN(exp_row_builtin)(float *y, const float *x, size_t n)
{
    exp_row(HEED_KERNEL_BUILTIN, y, x, n);
}

static void HEED_FN(exp_row_sleef)(float *y, const float *x, size_t n)
{
    exp_row(HEED_KERNEL_SLEEF, y, x, n);
}

#endif
