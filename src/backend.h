/* The table of kernels that every backend fills: the contract between the drivers and src/<isa>/.
 * May know: shapes of packed data and what each kernel computes.  Must not know: instruction sets, problems, threads.
 *
 * All kernels accept any m, n, k, d > 0, read nothing outside what their formula names and write nothing else.  Rows are
 * contiguous; every other stride is a leading dimension in elements.  Every output element is computed by the same IEEE-754
 * binary32 operations in the same order on every backend (docs/numerics.md); no entry is ever NULL. */
#ifndef HEED_BACKEND_H
#define HEED_BACKEND_H

#include "heed/heed.h"

#include <stddef.h>
#include <stdint.h>

enum {
    /* Keys of one block: part of the bit contract, the same on every backend.  Partial results are merged block by block. */
    HEED_BLOCK_KV = 256,
    /* Row sums run in 16 virtual lanes: lane j adds elements j, j + 16, ... */
    HEED_LANES = 16,
    /* Row pitch of a score tile: not a power of two, so that the rows of a tile do not share L1 sets. */
    HEED_LD_SCORES = HEED_BLOCK_KV + 16,
    /* Keys that a few rows take at once, straight from where they are stored: their panels fit L1. */
    HEED_STRIP_KV = 64,
    HEED_EXP_KINDS = 2
};

/* Index into the exp-dependent entries. */
enum { HEED_KERNEL_BUILTIN = 0, HEED_KERNEL_SLEEF = 1 };

/* Keys lo <= j < hi of a block are visible to a row; lo >= hi: none. */
typedef struct heed_range {
    int32_t lo, hi;
} heed_range;

/* The running state of the rows of a task: arrays with one float per row, padded to a multiple of HEED_LANES. */
typedef struct heed_rows {
    float *max;       /* greatest visible score so far, -inf before the first */
    float *sum;       /* sum of exp(score - max) */
    float *keep;      /* out: factor for the output gathered so far */
    float *add;       /* out: factor for this block's output */
    float *block_max; /* scratch */
    float *block_sum; /* scratch */
} heed_rows;

/* What is done to the scores of one row of a block; 0 and NULL leave a step out. */
typedef struct heed_score {
    const float *key_scale; /* int8 keys: factor of each, indexed by column, readable to a whole vector */
    float softcap, inverse_softcap;
    float slope, distance;             /* ALiBi; distance is that of column 0 from the query */
    const float *count;                /* 0, 1, 2, ... */
    const float *bias;                 /* contiguous, indexed by column */
    const uint8_t *visible;            /* contiguous, indexed by column: 0 hides */
    uintptr_t next_bias, next_visible; /* bytes to those of the next row, to be prefetched */
} heed_score;

/* The bias that is wanted after a product, asked for while it is at work. */
typedef struct heed_ask {
    const uintptr_t *rows; /* one address a row, never read from */
    size_t blocks;         /* of keys, from there on */
} heed_ask;

/* A product of one to HEED_FEW rows with keys or values where they are stored; more are faster from packed strips. */
enum { HEED_FEW = 16, HEED_FEW_UNITS = 64 / HEED_LANES };
typedef struct heed_few {
    float *to; /* qk: scores; pv: sums, continued */
    size_t ld_to;
    const float *rows; /* qk: queries, m x d; pv: weights, m x n */
    size_t ld_rows;
    size_t m, n, d;   /* n keys or values of d elements */
    const void *from; /* n rows */
    ptrdiff_t ld;     /* elements between rows; transposed keys: between dimensions */
    uintptr_t ahead;  /* prefetched so many bytes behind each row, 0: nothing */
    void *room;       /* narrow keys stored as rows: twice heed_deal_bytes */
    float scale;      /* qk */
    /* Transposed keys, 16 at a time: readable as 16 even where the last has fewer. */
    const void *units[HEED_FEW_UNITS];
    uintptr_t units_ahead[HEED_FEW_UNITS];
    /* Asked for meanwhile.  Keys as rows: n * d elements from next on, 0: what follows rows that are in order.  Transposed keys: next + p *
     * next_step with each dimension p, or with every second of 16 bits, 0: nothing.  Values: next + j * next_step with row j. */
    uintptr_t next;
    size_t next_step;
} heed_few;

/* Room for 16 keys of 16 bits, or 32 of 8, transposed in pieces of 16 bytes. */
static inline size_t heed_deal_bytes(size_t d, size_t size)
{
    return (d * size + 15) / 16 * (512 / size);
}

typedef struct heed_backend {
    heed_isa isa;
    uint32_t requires_cpu;       /* HEED_CPU_* bits without which nothing here may run */
    uint32_t sleef_requires_cpu; /* bits for the HEED_KERNEL_SLEEF entries */
    int32_t has_sleef;           /* 0: those entries are the built-in ones */
    int32_t lanes;               /* floats in a vector */
    int32_t mr, nr;              /* register tile: rows, columns; nr divides HEED_BLOCK_KV */

    /* panels[j/nr][p][j%nr] = k[j][p], zero for n <= j < n rounded up to nr.  k holds elements of that type, of which ldk lie
     * between keys; int8 is taken as it is, its scales come in later (score_row, scale_row).  What lies `ahead` bytes behind each
     * row is prefetched, 0: nothing. */
    void (*pack_k)(heed_type type, float *panels, const void *k, ptrdiff_t ldk, size_t n, size_t d, uintptr_t ahead);
    /* The same for keys stored transposed, k[p][j] with ldk between dimensions: n of them become columns j .. of the panels, the rest
     * of width columns zero.  j and width are multiples of HEED_LANES. */
    void (*pack_kt)(heed_type type, float *panels, size_t j, size_t width, const void *k, size_t ldk, size_t n,
        size_t d, uintptr_t ahead);
    /* panels[c/nr][j][c%nr] = v[j][c], zero for d <= c < d rounded up to nr; ld keys lie between panels.  Returns 1 if all of v is
     * finite. */
    int (*pack_v)(
        heed_type type, float *panels, size_t ld, const void *v, ptrdiff_t ldv, size_t n, size_t d, uintptr_t ahead);

    /* to[j] = from[j], n elements of f32, f16 or bf16. */
    void (*widen_row)(heed_type type, float *to, const void *from, size_t n);
    /* The same to f16 or bf16, each element rounded to nearest even. */
    void (*narrow_row)(heed_type type, uint16_t *to, const float *from, size_t n);

    /* s[i][j] = scale * (q[i] . k[j]) for the panels that any row of a register tile sees; the dot product is one fma chain
     * from +0, ascending.  Columns outside rows[i] hold anything.  ask may be NULL. */
    void (*qk_tile)(float *s, size_t lds, const float *q, size_t ldq, const float *panels, const heed_range *rows,
        size_t m, size_t d, float scale, const heed_ask *ask);
    /* The steps between product and softmax for columns [lo, hi), lo < hi; hidden scores become -inf, also those around them in the groups
     * of HEED_LANES columns that lo and hi - 1 lie in.  Returns the maximum, which drops NaN. */
    float (*score_row)(float *s, size_t lo, size_t hi, const heed_score *op);
    /* s[i][j] becomes exp(s - block maximum) where visible and -0 where hidden (over the columns that pv_tile reads, by tiles of mr
     * rows from the first on); the maxima and sums of the rows.  known: block_max holds the maxima of score_row already. */
    void (*softmax_tile[HEED_EXP_KINDS])(
        float *block_max, float *block_sum, float *s, size_t lds, const heed_range *rows, size_t m, int known);
    /* block_max and block_sum merged into max and sum, keep and add set, for m rows. */
    void (*merge_rows[HEED_EXP_KINDS])(const heed_rows *state, size_t m);
    /* p[j] *= factor[j] for j < n. */
    void (*scale_row)(float *p, const float *factor, size_t n);
    /* o[i][c] = (p[i] . v[:, c]) * add[i] + o[i][c] * keep[i], or, with keep and add NULL, the chain continued from o[i][c].  ld keys
     * lie between the panels of v.  A weight of -0 is a hidden key: with finite v its product changes nothing, otherwise it is
     * left out.  ldo >= d rounded up to nr. */
    void (*pv_tile)(float *o, size_t ldo, const float *p, size_t ldp, const float *panels, size_t ld,
        const heed_range *rows, size_t m, size_t d, int v_is_finite, const float *keep, const float *add);
    /* o[c] = x[c] * add + o[c] * keep for c < n, a multiple of nr. */
    void (*blend_row)(float *o, const float *x, float keep, float add, size_t n);
    /* to[i][j] = scale * (rows[i] . key j), up to n rounded up to HEED_LANES; of keys stored as rows, or stored transposed. */
    void (*qk_few)(heed_type type, const heed_few *t);
    void (*qk_few_t)(heed_type type, const heed_few *t);
    /* to[i][c] += rows[i] . v[:, c], each a chain that continues in ascending order; to is read and written up to whole vectors. */
    void (*pv_few)(heed_type type, const heed_few *t);
    /* out[c] = o[c] * keep / sum for c < d; a sum of 0 divides by 1.  Never writes -0.  o is a row of pv_tile's, readable
     * to d rounded up to nr. */
    void (*finish_row)(float *out, const float *o, float keep, float sum, size_t d);
    /* w[j] (a score) becomes exp(w - max) / sum for j < n; exactly 0 where the score is -inf. */
    void (*weights_row[HEED_EXP_KINDS])(float *w, size_t n, float max, float sum);

    /* c[i][j] = bias[j] (or c[i][j] if bias is NULL) + a[i] . b[:, j], one fma chain ascending, for the n columns of panels of k rows
     * that follow one another.  bias holds n floats, rounded up to nr. */
    void (*gemm_tile)(float *c, size_t ldc, const float *a, size_t lda, const float *panels, size_t m, size_t n,
        size_t k, const float *bias);

    /* y = softmax(x) over n elements; y may be x. */
    void (*softmax_row[HEED_EXP_KINDS])(float *y, const float *x, size_t n);
    /* y[i] = exp(x[i]), for x <= 0 or NaN (HEED_KERNEL_BUILTIN) or any x (HEED_KERNEL_SLEEF). */
    void (*exp[HEED_EXP_KINDS])(float *y, const float *x, size_t n);
} heed_backend;

/* The backends of this build, best first, ending with NULL; whether this machine can run them is another question. */
extern const heed_backend *const heed_backends[];

/* 1 if the CPU bits allow the backend, respectively SLEEF in it. */
int heed_backend_usable(const heed_backend *backend, uint32_t cpu);
int heed_backend_sleef_usable(const heed_backend *backend, uint32_t cpu);

/* What HEED_ISA_AUTO means on a machine with these bits and HEED_CPU_PREFERS_* bits when the environment variable
 * has this value (NULL: unset). */
const heed_backend *heed_backend_choose(uint32_t cpu, uint32_t preferences, const char *env);

/* The compiled backend of an instruction set, AUTO included; NULL if it was not compiled. */
const heed_backend *heed_backend_find(heed_isa isa);

/* The features of this machine, detected once. */
uint32_t heed_cpu(void);

#endif
