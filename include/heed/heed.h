/* heed: CPU self-attention kernels in C.  This header is the whole public interface.
 *
 * In one paragraph: describe the problem in a heed_attention, make a heed_plan of it, ask the plan how much workspace
 * it needs, and call heed_run as often as you like with your tensors and your workspace.  heed_attend does all of it in
 * one call.  heed_linear is a projection with packed weights, heed_layer a whole self-attention layer, heed_softmax the
 * row softmax.  Nothing here prints, exits, aborts, sets errno, or changes floating-point or OpenMP state.
 *
 * Bits.  The result of a query row is a function of that row's inputs alone: the same bits on every backend, for every
 * number of threads, in every batch, whether queries come in one call or in chunks (docs/numerics.md).
 *
 * Threads.  Every function may be called from any number of threads at once.  Plans, projections and layers are
 * immutable once made and may be run by many threads at the same time, each call with a workspace of its own.
 *
 * Errors.  Functions that can fail return a heed_status and fill *error, if given, with one line that names the field
 * and the reason.  After an error no output has been written.
 *
 * Structs.  Start from the *_INIT macro, then set fields.  struct_size lets the library grow a struct later without
 * breaking programs compiled against an older header. */
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
    HEED_ISA_AUTO = 0, /* the best for this CPU, or the one the environment variable HEED_ISA names */
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

/* The widest vectors, in bits, that this CPU is best off with; 0 if it has no such preference.  It is 256 on some
 * CPUs that can run AVX-512.  HEED_ISA_AUTO follows it; heed_options.isa and the environment variable HEED_ISA go
 * before it. */
HEED_API int32_t heed_cpu_preferred_bits(void);

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

/* The caller's memory for what *_create and heed_attend allocate, where heed itself takes malloc's and, from 4 MiB on, asks Linux for
 * huge pages, which projections of one row are 10 to 30 % faster in.  allocate returns NULL on failure; the memory must be
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

/* The same for a bias or a mask, whose keys need not be contiguous either. */
typedef struct heed_mask_strides {
    int64_t batch, head, query, key;
} heed_mask_strides;

/* Where the strides of a tensor come from. */
typedef enum heed_layout {
    HEED_LAYOUT_BHSD = 0,   /* all of q, k, v, out packed as [batch][head][seq][head_dim] */
    HEED_LAYOUT_BSHD = 1,   /* all packed as [batch][seq][head][head_dim], as a projection writes them */
    HEED_LAYOUT_STRIDED = 2 /* strides_q, strides_k, strides_v, strides_out */
} heed_layout;

/* How the elements of a tensor are stored.  Arithmetic is f32 whatever they are: 16-bit types convert exactly on the way in
 * and are rounded once, to nearest even, on the way out. */
typedef enum heed_type {
    HEED_TYPE_F32 = 0,  /* float */
    HEED_TYPE_F16 = 1,  /* IEEE-754 binary16, as uint16_t */
    HEED_TYPE_BF16 = 2, /* the upper half of a float, as uint16_t */
    HEED_TYPE_I8 = 3    /* int8_t with one f32 scale a token and kv head (keys and values only) */
} heed_type;

/* Which keys query i of a sequence may see, and where it stands among them: its position p is the key index that the
 * alignment gives it.  Lq and Lk are that sequence's own lengths. */
typedef enum heed_causal {
    HEED_CAUSAL_NONE = 0,         /* all keys; p = i + Lk - Lq, for window and ALiBi */
    HEED_CAUSAL_BOTTOM_RIGHT = 1, /* j <= p = i + Lk - Lq: the LAST query sees every key.  What decode and chunked
                                     prefill against a cache need; differs from TOP_LEFT whenever Lq != Lk */
    HEED_CAUSAL_TOP_LEFT = 2,     /* j <= p = i: what PyTorch's is_causal means */
    HEED_CAUSAL_OFFSET = 3,       /* j <= p = i + causal_offset */
    HEED_CAUSAL_NONE_OFFSET = 4   /* all keys; p = i + causal_offset, for window and ALiBi: a chunk of the queries of a
                                     model that is not causal */
} heed_causal;

/* Scaled dot-product attention, softmax(score) V, per batch entry and head (Vaswani et al. 2017), in the blockwise form of
 * Rabe & Staats 2021 and Dao 2023: no seq_len_q x seq_len_kv matrix is ever stored unless asked for.
 *
 * The score of query i (at position p) and key j is, in this order: s = scale * (q_i . k_j); with softcap,
 * s = softcap * tanh(s / softcap); with ALiBi slopes, s + slope * (j - p); with a bias, s + bias.  Then keys are hidden: beyond
 * the sequence's length, by causal, window, mask, block mask, or a bias of exactly -inf.  A hidden key does not exist for
 * the row: whatever its K and V hold changes nothing.  All of these combine freely.
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
    int64_t causal_offset; /* only for the two OFFSET kinds; may be negative */
    heed_layout layout;
    heed_strides strides_q, strides_k, strides_v, strides_out; /* only for HEED_LAYOUT_STRIDED */
    int64_t window_left;                                       /* keys j >= p - window_left; -1: unlimited */
    int64_t window_right;                                      /* keys j <= p + window_right; -1: unlimited */
    float softcap;                                             /* 0: none; else > 0 (Gemma 2) */
    heed_mask_strides strides_bias;                            /* only with tensors.bias */
    heed_mask_strides strides_mask;                            /* only with tensors.mask */
    int64_t block_mask_q,
        block_mask_kv; /* only with tensors.block_mask: queries and keys of one of its blocks; 0: none */
    int32_t varlen;    /* 1: sequences packed without padding, at tensors.offsets_q and offsets_kv along
                                            the seq dimension; stride batch is not used, layout must not be BHSD.  Without
                                            offsets_kv only queries are packed, and keys and values are a cache with lengths_kv */
    heed_type type_q, type_k, type_v, type_out; /* of the tensors' elements */
    heed_strides strides_scales;                /* of tensors.scales_k and scales_v; only for HEED_LAYOUT_STRIDED */
    int64_t page_size; /* 0: k and v are tensors; 16, 32, 64 or 128: they are pools of pages, "KV cache" below */
    int64_t num_pages; /* only with page_size: pages in the pools */
    int64_t page_table_stride; /* only with page_size: columns of the page table; 0: ceil(seq_len_kv / page_size) */
} heed_attention;

/* clang-format off */
#define HEED_ATTENTION_INIT                                                                                            \
    { sizeof(heed_attention), 0, 0, 0, 0, 0, 0, 0, 0.0f, HEED_CAUSAL_NONE, 0, HEED_LAYOUT_BHSD,                        \
      { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, { 0, 0, 0 }, -1, -1, 0.0f, { 0, 0, 0, 0 }, { 0, 0, 0, 0 }, 0, 0, 0,       \
      HEED_TYPE_F32, HEED_TYPE_F32, HEED_TYPE_F32, HEED_TYPE_F32, { 0, 0, 0 }, 0, 0, 0 }
/* clang-format on */

/* The memory of one run.  All pointers need only the alignment of their element. */
typedef struct heed_tensors {
    size_t struct_size;
    const void *q;            /* [batch][num_heads][seq_len_q][head_dim], in the plan's layout and type */
    const void *k;            /* [batch][num_kv_heads][seq_len_kv][head_dim] */
    const void *v;            /* [batch][num_kv_heads][seq_len_kv][head_dim_v] */
    void *out;                /* [batch][num_heads][seq_len_q][head_dim_v]; every row is written, gaps are not.  May be
                                  exactly q (same pointer, strides and type, head_dim_v = head_dim); any other overlap of an
                                  output with an input or another output is the caller's error */
    float *lse;               /* NULL, or [batch][num_heads][seq_len_q] packed: natural log of the row's sum of
                                  exp(score); -inf for a row that sees no key */
    float *weights;           /* NULL, or [batch][num_heads][seq_len_q][seq_len_kv] packed: the softmax weights; 0 for
                                  hidden keys.  Costs memory and time of that size */
    const int32_t *lengths_q; /* NULL, or [batch]: queries of each sequence; rows beyond see no key: they are 0 with LSE
                                  -inf (with sinks, LSE is the sink) */
    const int32_t *lengths_kv; /* NULL, or [batch]: keys of each sequence; what lies beyond is never read */
    const float *bias;   /* NULL, or [batch][num_heads][seq_len_q][seq_len_kv] by strides_bias (0 broadcasts), added to
                                  the scores; -inf hides the key */
    const uint8_t *mask; /* NULL, or the same by strides_mask: 0 hides the key */
    const float *alibi_slopes; /* NULL, or [num_heads] (Press et al. 2022) */
    const float *sinks;        /* NULL, or [num_heads]: the score of a key without a value that every row sees */
    const uint8_t
        *block_mask; /* NULL, or [ceil(seq_len_q / block_mask_q)][ceil(seq_len_kv / block_mask_kv)] packed, the same
                                  for all batch entries and heads: 0 hides a block of keys from a block of queries */
    const int32_t
        *offsets_q; /* only with varlen: [batch + 1], sequence b is rows offsets_q[b] .. offsets_q[b + 1]; then
                                  lse is [num_heads][offsets_q[batch]] and lengths_q must be NULL */
    const int32_t *offsets_kv; /* only with varlen: [batch + 1], the same for keys and values; else lengths_kv */
    const float
        *scales_k; /* only with HEED_TYPE_I8: [batch][num_kv_heads][seq_len_kv] in the plan's layout; a key is its
                                  int8 elements times its scale */
    const float *scales_v;     /* the same for values */
    const int32_t *page_table; /* only with page_size: [batch][page_table_stride], the page that holds tokens
                                  i * page_size .. of the sequence, < num_pages.  Entries of blocks of 256 keys that no query sees by length, causal
                                  or window may be anything: such pages are not read, and an engine may have given them back */
} heed_tensors;

/* clang-format off */
#define HEED_TENSORS_INIT                                                                                              \
    { sizeof(heed_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,   \
      NULL, NULL, NULL }
/* clang-format on */

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

/* Merges partial results of the same rows over disjoint sets of keys, each with its LSE, as ring, tree and context-parallel
 * attention or a CPU beside a GPU make them (Dao et al. 2023, Flash-Decoding): out = sum_i exp(lse_i - lse) out_i with
 * lse = log sum_i exp(lse_i), parts in the given order.  part_out[i] is [rows][head_dim_v] with row stride stride_part, part_lse[i] is
 * [rows]; at most 64 parts: more are merged in groups.  lse may be NULL or one of part_lse, out may be one of the parts if the
 * strides agree.  A row no part sees is 0 with LSE -inf. */
HEED_API heed_status heed_merge(int64_t parts, int64_t rows, int64_t head_dim_v, const float *const *part_out,
    int64_t stride_part, const float *const *part_lse, float *out, int64_t stride_out, float *lse,
    const heed_options *options, heed_error *error);

/* ---- KV cache --------------------------------------------------------------------------------------------------- */

/* Where the keys and values of past tokens lie; the memory is the caller's.  One description serves one layer of a model.
 *
 * Contiguous (page_size 0): k is [batch][num_kv_heads][capacity][head_dim], v the same with head_dim_v, scales_k and scales_v
 * [batch][num_kv_heads][capacity], in the layout: what heed_run reads with the same strides and seq_len_kv = capacity.
 *
 * Paged (page_size 16, 32, 64 or 128 tokens): k is a pool [num_pages][num_kv_heads][head_dim][page_size], each page holding its keys
 * TRANSPOSED, so that token t of a page is column t; v is [num_pages][num_kv_heads][page_size][head_dim_v], the scales
 * [num_pages][num_kv_heads][page_size].  With HEED_LAYOUT_STRIDED the distance between pages is strides.batch and between heads
 * strides.head (so that keys and values of a page can lie side by side); .seq is not used.  Token t of sequence b is in
 * page page_table[b * page_table_stride + t / page_size].  Pages may be shared by sequences with a common beginning; who writes
 * behind it copies the last shared page first.  Keys of a page are read up to a multiple of 16 tokens, and what lies beyond the
 * sequence's length changes nothing.
 *
 * In huge pages (madvise MADV_HUGEPAGE under Linux) a large cache is read in 0.7 to 1 of the time, one in pages in 0.8 to 1.
 * In HEED_LAYOUT_BSHD a step over a long contiguous cache takes 1.2 to 1.6 times as long as in BHSD, and twice as long where there is
 * anything between one token and the next, because a head's tokens lie apart.
 *
 * To read a cache, give heed_attention the same types, sizes and strides and heed_tensors the same pointers, with seq_len_kv =
 * capacity and lengths_kv: one plan then serves every step of as many queries (or of fewer, by lengths_q).  With page_size,
 * BHSD and BSHD say how q and out lie. */
typedef struct heed_kv_cache {
    size_t struct_size;
    int64_t batch, num_kv_heads, head_dim;
    int64_t head_dim_v; /* 0 means head_dim */
    int64_t capacity;   /* most tokens of a sequence */
    heed_type type_k, type_v;
    heed_layout layout; /* of a contiguous cache; a paged one is packed as above, or STRIDED */
    heed_strides strides_k, strides_v, strides_scales; /* only for HEED_LAYOUT_STRIDED */
    int64_t page_size, num_pages, page_table_stride;   /* as in heed_attention */
    void *k, *v;
    float *scales_k, *scales_v; /* only with HEED_TYPE_I8 */
    const int32_t *page_table;  /* only with page_size */
} heed_kv_cache;

/* clang-format off */
#define HEED_KV_CACHE_INIT                                                                                             \
    { sizeof(heed_kv_cache), 0, 0, 0, 0, 0, HEED_TYPE_F32, HEED_TYPE_F32, HEED_LAYOUT_BHSD, { 0, 0, 0 }, { 0, 0, 0 },   \
      { 0, 0, 0 }, 0, 0, 0, NULL, NULL, NULL, NULL, NULL }
/* clang-format on */

/* New tokens for every sequence of a cache: [batch][num_kv_heads][seq_len][head_dim and head_dim_v]. */
typedef struct heed_kv_tokens {
    size_t struct_size;
    int64_t seq_len;                   /* new tokens of each sequence, or the most of any */
    heed_layout layout;                /* of k and v */
    heed_strides strides_k, strides_v; /* only for HEED_LAYOUT_STRIDED */
    const void *k, *v;
    const int32_t *positions; /* [batch]: the place of each sequence's first new token, the tokens it has; NULL: 0 */
    const int32_t *lengths;   /* NULL, or [batch]: new tokens of each sequence, <= seq_len */
    const int32_t *offsets; /* NULL, or [batch + 1]: packed without padding as in heed_attention.varlen; lengths must be
                                 NULL then */
    heed_type type_k, type_v; /* of k and v: f32, f16 or bf16 */
} heed_kv_tokens;

/* clang-format off */
#define HEED_KV_TOKENS_INIT                                                                                            \
    { sizeof(heed_kv_tokens), 0, HEED_LAYOUT_BHSD, { 0, 0, 0 }, { 0, 0, 0 }, NULL, NULL, NULL, NULL, NULL,               \
      HEED_TYPE_F32, HEED_TYPE_F32 }
/* clang-format on */

/* Writes new tokens behind those that are there, converting them (f16 and bf16 to f32 first, which is exact); what is there is
 * neither moved nor read.  int8: a token's scale in a head is its largest magnitude / 127, its elements x / scale rounded to
 * nearest even; a token that holds NaN or infinity gets scale NaN.  Runs on the calling thread; calls that write different
 * sequences may run at the same time. */
HEED_API heed_status heed_kv_append(const heed_kv_cache *cache, const heed_kv_tokens *tokens, heed_error *error);

/* ---- Rotary position embedding ---- */

/* Which elements of a head form the pairs that are rotated together. */
typedef enum heed_rope_pairs {
    HEED_ROPE_NONE = 0,
    HEED_ROPE_HALVES = 1,     /* (i, i + dim/2): Llama, GPT-NeoX, what Hugging Face's rotate_half does */
    HEED_ROPE_INTERLEAVED = 2 /* (2i, 2i + 1): GPT-J, the paper */
} heed_rope_pairs;

/* How a model stretches its positions. */
typedef enum heed_rope_scaling {
    HEED_ROPE_PLAIN = 0,
    HEED_ROPE_LINEAR = 1, /* every frequency divided by factor */
    HEED_ROPE_LLAMA3 =
        2, /* low frequencies divided by factor, high ones kept, between low_freq_factor and high_freq_factor
                             turns in original_positions blended */
    HEED_ROPE_YARN = 3 /* Peng et al. 2023: the same by beta_slow and beta_fast turns; the table is multiplied by
                             attention_factor, 0 means 0.1 ln(factor) + 1 */
} heed_rope_scaling;

typedef struct heed_rope_desc {
    size_t struct_size;
    int64_t dim; /* rotated elements of a head, even, >= 2 */
    double base; /* 0 means 10000 */
    heed_rope_scaling scaling;
    double factor;                            /* >= 1 unless plain */
    double low_freq_factor, high_freq_factor; /* llama3: 1 and 4 in the models */
    double beta_slow, beta_fast;              /* yarn; 0 means 1 and 32 */
    double attention_factor;                  /* yarn */
    int64_t original_positions;               /* llama3, yarn: the context the model was trained with, >= 1 */
} heed_rope_desc;

/* clang-format off */
#define HEED_ROPE_DESC_INIT                                                                                            \
    { sizeof(heed_rope_desc), 0, 0.0, HEED_ROPE_PLAIN, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0 }
/* clang-format on */

/* cosines[p][i], sines[p][i] of the angle (first_position + p) * frequency_i for p < positions, i < dim / 2, packed (Su et al.
 * 2021).  Computed in double by heed itself and rounded once, so the tables have the same bits on every machine; positions up to
 * 2^30, where the angle's own rounding in double (1e-7) is what an entry may be off. */
HEED_API heed_status heed_rope_table(const heed_rope_desc *desc, int64_t first_position, int64_t positions,
    float *cosines, float *sines, heed_error *error);

/* Rotates the first dim elements of each row of x in place: row (b, h, i) by table row i + table_row.  x has strides like an
 * attention tensor; the tables have rows of dim / 2 and at least table_row + seq_len of them. */
HEED_API heed_status heed_rope_apply(heed_rope_pairs pairs, int64_t dim, int64_t batch, int64_t heads, int64_t seq_len,
    float *x, heed_strides strides, const float *cosines, const float *sines, int64_t table_row, heed_error *error);

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
    heed_rope_pairs rope;                           /* of queries and keys; the tables come with each run */
    int64_t rope_dim;                               /* rotated elements of a head, even; 0 means head_dim */
    int64_t window_left, window_right;              /* as in heed_attention */
    float softcap;
    uint32_t reserved; /* 0; fills what would be padding */
} heed_layer_desc;

/* clang-format off */
#define HEED_LAYER_DESC_INIT                                                                                           \
    { sizeof(heed_layer_desc), 0, 0, 0, 0, 0, 0, 0.0f, HEED_CAUSAL_NONE, 0, HEED_WEIGHT_OUT_IN, NULL, NULL, NULL, NULL, \
      NULL, NULL, NULL, NULL, HEED_ROPE_NONE, 0, -1, -1, 0.0f, 0 }
/* clang-format on */

/* x, y: [batch][seq_len] rows of model_dim and out_dim elements, packed. */
typedef struct heed_layer_tensors {
    size_t struct_size;
    const float *x;
    float *y;               /* may not overlap x */
    float *lse;             /* NULL, or [batch][num_heads][seq_len] */
    float *weights;         /* NULL, or [batch][num_heads][seq_len][seq_len] */
    const int32_t *lengths; /* NULL, or [batch]: rows of y beyond are the output bias alone */
    const float *
        rope_cosines; /* with desc.rope: tables of rope_dim / 2 columns, from heed_rope_table or the caller; row i is */
    const float *rope_sines; /* position i of each sequence, so a chunk gives the tables of its own positions */
    const float *bias;  /* NULL, or added to the scores: [num_heads][seq_len][seq_len] for bias_heads = num_heads, */
    int64_t bias_heads; /* [seq_len][seq_len] for 1; the same for all batch entries */
} heed_layer_tensors;

/* clang-format off */
#define HEED_LAYER_TENSORS_INIT                                                                                        \
    { sizeof(heed_layer_tensors), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0 }
/* clang-format on */

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
