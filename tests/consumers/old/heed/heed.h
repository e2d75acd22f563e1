/* The public header as it first was, with shorter structs.  Programs compiled against it work with every later library of the
 * same SOVERSION (old_header.c), so this file stays as it is. */
#ifndef HEED_HEED_H
#define HEED_HEED_H

#include <stddef.h>
#include <stdint.h>

#define HEED_VERSION_MAJOR 0
#define HEED_VERSION_MINOR 1
#define HEED_VERSION_PATCH 0

#if defined(_WIN32) && defined(HEED_SHARED)
#ifdef HEED_BUILDING
#define HEED_API __declspec(dllexport)
#else
#define HEED_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define HEED_API __attribute__((visibility("default")))
#else
#define HEED_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------------------------- */

typedef enum heed_status {
    HEED_OK = 0,
    HEED_ERROR_INVALID = 1,      /* a field or an argument is wrong; the message names it */
    HEED_ERROR_UNSUPPORTED = 2,  /* valid, but not on this CPU or in this build */
    HEED_ERROR_OVERFLOW = 3,     /* a size or a stride does not fit the address space */
    HEED_ERROR_WORKSPACE = 4,    /* the workspace given is smaller than the plan asks for */
    HEED_ERROR_OUT_OF_MEMORY = 5 /* an allocation failed */
} heed_status;

/* One line for people, without a newline; "" after success.  Pass NULL where it is not wanted. */
typedef struct heed_error {
    char message[192];
} heed_error;

/* A short constant description of a status, never NULL. */
HEED_API const char *heed_status_string(heed_status status);

/* "MAJOR.MINOR.PATCH" of the library that runs. */
HEED_API const char *heed_version(void);

/* ---- Backends -------------------------------------------------------------------------------------------------- */

typedef enum heed_isa {
    HEED_ISA_AUTO = 0, /* the best this CPU can run, or what the environment variable HEED_ISA lowers it to */
    HEED_ISA_SCALAR = 1,
    HEED_ISA_AVX2 = 2,   /* AVX2, FMA and F16C */
    HEED_ISA_AVX512 = 3, /* AVX-512 F, DQ, BW and VL */
    HEED_ISA_NEON = 4    /* AArch64 Advanced SIMD */
} heed_isa;

/* Name of an instruction set ("scalar", "avx2", ...); "auto" for HEED_ISA_AUTO and "unknown" for any other value. */
HEED_API const char *heed_isa_name(heed_isa isa);

/* 1 if the backend was compiled into this library. */
HEED_API int heed_isa_compiled(heed_isa isa);

/* 1 if the backend was compiled in and this CPU and its operating system can run it. */
HEED_API int heed_isa_usable(heed_isa isa);

/* The backend that HEED_ISA_AUTO stands for in this process. */
HEED_API heed_isa heed_isa_default(void);

/* Writes the detected CPU features as words separated by one space ("avx avx2 fma f16c ..."), cut to fit and always
 * terminated when size > 0.  Returns the length of the whole text. */
HEED_API size_t heed_cpu_features(char *text, size_t size);

/* 1 if exp from SLEEF can be used by this backend here: built with SLEEF, and the CPU has the FMA that SLEEF's
 * reproducible functions contain. */
HEED_API int heed_sleef_usable(heed_isa isa);

/* 1 if the library was built with OpenMP. */
HEED_API int heed_has_openmp(void);

/* ---- Options shared by all operations -------------------------------------------------------------------------- */

typedef enum heed_exp {
    HEED_EXP_DEFAULT = 0, /* built-in in attention; SLEEF in heed_softmax where it is usable, else built-in */
    HEED_EXP_BUILTIN = 1, /* inlined, within 1 ULP on [-87.33, 0], exactly 0 below */
    HEED_EXP_SLEEF = 2    /* Sleef_finz_expf*_u10*, keeps subnormal results; an error where it is not usable */
} heed_exp;

/* The caller's parallel-for.  The library calls parallel_for(context, count, task, argument) with count <= num_threads;
 * it must call task(argument, i) exactly once for every i in [0, count), in any order, on any threads, and return when
 * all have returned.  A plain serial loop is a valid executor.  No task waits for another. */
typedef struct heed_executor {
    void *context;
    int32_t num_threads; /* >= 1 */
    void (*parallel_for)(void *context, int64_t count, void (*task)(void *argument, int64_t index), void *argument);
} heed_executor;

/* The caller's memory for what *_create and heed_attend allocate.  allocate returns NULL on failure; the memory must be
 * aligned like malloc's.  Both are called from the creating, respectively destroying, thread only. */
typedef struct heed_allocator {
    void *context;
    void *(*allocate)(void *context, size_t size);
    void (*release)(void *context, void *memory);
} heed_allocator;

typedef struct heed_options {
    size_t struct_size;
    heed_isa isa; /* anything but AUTO is used as it is, or refused with HEED_ERROR_UNSUPPORTED */
    heed_exp exp;
    int32_t num_threads;             /* 0: the executor's, else OpenMP's own default; 1: the calling thread only */
    const heed_executor *executor;   /* NULL: OpenMP if built in, else one thread; copied, not kept */
    const heed_allocator *allocator; /* NULL: malloc and free; copied, not kept */
} heed_options;

#define HEED_OPTIONS_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(heed_options), HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0, NULL, NULL                                           \
    }

/* ---- Attention ------------------------------------------------------------------------------------------------- */

/* Distances in elements (not bytes) between neighbours in a dimension; the last dimension (head_dim, or the keys of a
 * weights row) is contiguous.  Any value >= 0; 0 on an input repeats it (broadcast).  The stride of a dimension of size
 * 1 is ignored. */
typedef struct heed_strides {
    int64_t batch, head, seq;
} heed_strides;

/* Where the strides of a tensor come from. */
typedef enum heed_layout {
    HEED_LAYOUT_BHSD = 0,   /* all of q, k, v, out packed as [batch][head][seq][head_dim] */
    HEED_LAYOUT_BSHD = 1,   /* all packed as [batch][seq][head][head_dim], as a projection writes them */
    HEED_LAYOUT_STRIDED = 2 /* strides_q, strides_k, strides_v, strides_out */
} heed_layout;

/* Which keys query i of a sequence may see.  Lq and Lk are that sequence's own lengths. */
typedef enum heed_causal {
    HEED_CAUSAL_NONE = 0,
    HEED_CAUSAL_BOTTOM_RIGHT = 1, /* j <= i + Lk - Lq: the LAST query sees every key.  What decode and chunked prefill
                                     against a cache need; differs from TOP_LEFT whenever Lq != Lk */
    HEED_CAUSAL_TOP_LEFT = 2,     /* j <= i: what PyTorch's is_causal means */
    HEED_CAUSAL_OFFSET = 3        /* j <= i + causal_offset */
} heed_causal;

/* Scaled dot-product attention, softmax(scale * Q K^T + mask) V, per batch entry and head (Vaswani et al. 2017), in the
 * blockwise form of Rabe & Staats 2021 and Dao 2023: no seq_len_q x seq_len_kv matrix is ever stored unless asked for.
 *
 * Query head h uses key/value head h / (num_heads / num_kv_heads): equal counts are MHA, fewer kv heads GQA, one MQA.
 */
typedef struct heed_attention {
    size_t struct_size;
    int64_t batch;        /* 0: nothing to do */
    int64_t num_heads;    /* 0: nothing to do */
    int64_t num_kv_heads; /* >= 1, divides num_heads */
    int64_t seq_len_q;    /* 0: nothing to do */
    int64_t seq_len_kv;   /* 0: every row sees no key, and is 0 */
    int64_t head_dim;     /* of queries and keys, >= 1 */
    int64_t head_dim_v;   /* of values and output; 0 means head_dim */
    float scale;          /* of the scores, finite; 0 means 1/sqrt(head_dim) */
    heed_causal causal;
    int64_t causal_offset; /* only for HEED_CAUSAL_OFFSET; may be negative */
    heed_layout layout;
    heed_strides strides_q, strides_k, strides_v, strides_out; /* only for HEED_LAYOUT_STRIDED */
} heed_attention;

#define HEED_ATTENTION_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(heed_attention), 0, 0, 0, 0, 0, 0, 0, 0.0f, HEED_CAUSAL_NONE, 0, HEED_LAYOUT_BHSD, { 0, 0, 0 },         \
            { 0, 0, 0 }, { 0, 0, 0 },                                                                                  \
        {                                                                                                              \
            0, 0, 0                                                                                                    \
        }                                                                                                              \
    }

/* The memory of one run.  All pointers need only the alignment of their element. */
typedef struct heed_tensors {
    size_t struct_size;
    const float *q;            /* [batch][num_heads][seq_len_q][head_dim], in the plan's layout */
    const float *k;            /* [batch][num_kv_heads][seq_len_kv][head_dim] */
    const float *v;            /* [batch][num_kv_heads][seq_len_kv][head_dim_v] */
    float *out;                /* [batch][num_heads][seq_len_q][head_dim_v]; every row is written, gaps are not.  May be
                                  exactly q (same pointer, same strides, head_dim_v = head_dim); any other overlap of an
                                  output with an input or another output is the caller's error */
    float *lse;                /* NULL, or [batch][num_heads][seq_len_q] packed: natural log of the row's sum of
                                  exp(score); -inf for a row that sees no key */
    float *weights;            /* NULL, or [batch][num_heads][seq_len_q][seq_len_kv] packed: the softmax weights; 0 for
                                  hidden keys.  Costs memory and time of that size */
    const int32_t *lengths_q;  /* NULL, or [batch]: queries of each sequence; rows beyond are 0 with LSE -inf */
    const int32_t *lengths_kv; /* NULL, or [batch]: keys of each sequence; what lies beyond is never read */
} heed_tensors;

#define HEED_TENSORS_INIT                                                                                              \
    {                                                                                                                  \
        sizeof(heed_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL                                           \
    }

typedef struct heed_plan heed_plan;

/* Checks the problem and decides how to compute it.  *plan is NULL after an error; options and error may be NULL. */
HEED_API heed_status heed_plan_create(
    heed_plan **plan, const heed_attention *attention, const heed_options *options, heed_error *error);

/* NULL is allowed. */
HEED_API void heed_plan_destroy(heed_plan *plan);

/* Exact bytes of workspace heed_run needs, at any address; linear in the sequence lengths.  Enough for every run of the
 * plan, however many threads it is granted. */
HEED_API size_t heed_plan_workspace_size(const heed_plan *plan);

/* The backend the plan runs on. */
HEED_API heed_isa heed_plan_isa(const heed_plan *plan);

/* Writes what was decided and why, as lines "name: value": backend, tile, blocks, tasks, threads, exp, workspace.  Cut
 * to fit and always terminated when size > 0.  Returns the length of the whole text. */
HEED_API size_t heed_plan_describe(const heed_plan *plan, char *text, size_t size);

/* Runs the plan.  Allocates nothing, takes no lock, touches no memory but the tensors and workspace[0 .. size). */
HEED_API heed_status heed_run(
    const heed_plan *plan, const heed_tensors *tensors, void *workspace, size_t workspace_size, heed_error *error);

/* Plan, allocate, run and free in one call. */
HEED_API heed_status heed_attend(
    const heed_attention *attention, const heed_tensors *tensors, const heed_options *options, heed_error *error);

/* ---- Projections ----------------------------------------------------------------------------------------------- */

/* Y = X W + b.  W[i][o] is weight[i * stride_in + o * stride_out]: strides (out_features, 1) for a matrix stored
 * [in][out], (1, in_features) for one stored [out][in] as PyTorch and safetensors have it. */
typedef struct heed_linear_desc {
    size_t struct_size;
    int64_t in_features;  /* K >= 1 */
    int64_t out_features; /* N >= 1 */
    const float *weight;
    int64_t stride_in, stride_out; /* >= 0 */
    const float *bias;             /* NULL, or [out_features] */
} heed_linear_desc;

#define HEED_LINEAR_DESC_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(heed_linear_desc), 0, 0, NULL, 0, 0, NULL                                                               \
    }

typedef struct heed_linear heed_linear;

/* Packs the weights once, for the backend that will run; the caller's weights are not kept.  Each output element is one
 * chain of fused multiply-adds over in_features, ascending, started from the bias (or +0). */
HEED_API heed_status heed_linear_create(
    heed_linear **linear, const heed_linear_desc *desc, const heed_options *options, heed_error *error);
HEED_API void heed_linear_destroy(heed_linear *linear);

/* Exact bytes of workspace for a run of that many rows; 0 rows need 0 bytes. */
HEED_API size_t heed_linear_workspace_size(const heed_linear *linear, int64_t rows);

/* y[r][o] for r < rows; row strides in elements, stride_x >= 0, stride_y >= out_features.  x and y must not overlap. */
HEED_API heed_status heed_linear_run(const heed_linear *linear, int64_t rows, const float *x, int64_t stride_x,
    float *y, int64_t stride_y, void *workspace, size_t workspace_size, heed_error *error);

/* ---- The self-attention layer ---------------------------------------------------------------------------------- */

typedef enum heed_weight_layout {
    HEED_WEIGHT_OUT_IN = 0, /* [out][in]: PyTorch, safetensors */
    HEED_WEIGHT_IN_OUT = 1  /* [in][out]: x W as written in the papers */
} heed_weight_layout;

/* X -> Q, K, V = X W^Q + b^Q, X W^K + b^K, X W^V + b^V (one fused packed matrix) -> attention -> output projection. */
typedef struct heed_layer_desc {
    size_t struct_size;
    int64_t model_dim; /* width of x, >= 1 */
    int64_t out_dim;   /* width of y; 0 means model_dim */
    int64_t num_heads, num_kv_heads, head_dim;
    int64_t head_dim_v; /* 0 means head_dim */
    float scale;        /* as in heed_attention */
    heed_causal causal;
    int64_t causal_offset;
    heed_weight_layout weight_layout;
    const float *weight_q;                          /* model_dim -> num_heads * head_dim */
    const float *weight_k;                          /* model_dim -> num_kv_heads * head_dim */
    const float *weight_v;                          /* model_dim -> num_kv_heads * head_dim_v */
    const float *weight_o;                          /* num_heads * head_dim_v -> out_dim */
    const float *bias_q, *bias_k, *bias_v, *bias_o; /* each NULL or as wide as its projection's output */
} heed_layer_desc;

#define HEED_LAYER_DESC_INIT                                                                                           \
    {                                                                                                                  \
        sizeof(heed_layer_desc), 0, 0, 0, 0, 0, 0, 0.0f, HEED_CAUSAL_NONE, 0, HEED_WEIGHT_OUT_IN, NULL, NULL, NULL,    \
            NULL, NULL, NULL, NULL, NULL                                                                               \
    }

/* x, y: [batch][seq_len] rows of model_dim and out_dim elements, packed. */
typedef struct heed_layer_tensors {
    size_t struct_size;
    const float *x;
    float *y;               /* may not overlap x */
    float *lse;             /* NULL, or [batch][num_heads][seq_len] */
    float *weights;         /* NULL, or [batch][num_heads][seq_len][seq_len] */
    const int32_t *lengths; /* NULL, or [batch]: rows of y beyond are the output bias alone */
} heed_layer_tensors;

#define HEED_LAYER_TENSORS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(heed_layer_tensors), NULL, NULL, NULL, NULL, NULL                                                       \
    }

typedef struct heed_layer heed_layer;

HEED_API heed_status heed_layer_create(
    heed_layer **layer, const heed_layer_desc *desc, const heed_options *options, heed_error *error);
HEED_API void heed_layer_destroy(heed_layer *layer);

/* *size: exact bytes of workspace for a run of this size. */
HEED_API heed_status heed_layer_workspace_size(
    const heed_layer *layer, int64_t batch, int64_t seq_len, size_t *size, heed_error *error);
HEED_API heed_status heed_layer_run(const heed_layer *layer, int64_t batch, int64_t seq_len,
    const heed_layer_tensors *tensors, void *workspace, size_t workspace_size, heed_error *error);

/* ---- Row softmax ----------------------------------------------------------------------------------------------- */

/* y[r][c] = exp(x[r][c] - max_r) / sum_r for r < rows, c < cols; row strides in elements, >= cols for y, >= 0 for x; y
 * may be exactly x.  With lengths ([rows], each in [0, cols]) only the first lengths[r] columns take part and the rest
 * of the row is written as 0.  A row of length 0, or whose values are all -inf, is all 0; a row that holds a NaN or
 * +inf is NaN (0 beyond its length).  options and lengths may be NULL. */
HEED_API heed_status heed_softmax(int64_t rows, int64_t cols, const float *x, int64_t stride_x, float *y,
    int64_t stride_y, const int32_t *lengths, const heed_options *options, heed_error *error);

#ifdef __cplusplus
}
#endif

#endif /* HEED_HEED_H */
