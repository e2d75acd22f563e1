/* A plan: the checked problem, the backend, the cut into tasks, and the map of the workspace.
 * May know: backends as tables, tile sizes.  Must not know: instruction sets, how tasks are run. */
#ifndef HEED_PLAN_H
#define HEED_PLAN_H

#include "allocate.h"
#include "backend.h"
#include "error.h"
#include "parallel.h"

enum {
    /* Blocks of keys of which a few rows hold the scores at once: 4096 keys are read, then their values.  One at a time cost a tenth
     * of the bandwidth in f32 and a third in int8, four half of that. */
    HEED_BLOCKS_TOGETHER = 16,
    HEED_SCORE_ROWS = 4 * HEED_BLOCKS_TOGETHER
};

/* Byte offsets into one worker's scratch. */
typedef struct heed_scratch_map {
    size_t q, scores, factors, out, state, ranges, sums, used; /* for each kv head of its task */
    size_t asks, mask_row, scales;
    size_t strip_ranges, packed_k, packed_v; /* short queries: one strip's panels */
    size_t size;
} heed_scratch_map;

struct heed_plan {
    heed_attention attention; /* complete: scale, head_dim_v, strides and causal_offset resolved */
    const heed_backend *backend;
    int exp; /* HEED_KERNEL_* */
    heed_threads threads;
    heed_allocator allocator;

    /* The rows of all query heads of one kv head are stacked, heads of one position side by side: row = position * group +
     * head, so that a tile shares its keys and its causal edge is short. */
    int64_t group;      /* query heads of a kv head */
    int64_t rows;       /* group * seq_len_q */
    int64_t block_rows; /* rows of a task */
    int64_t blocks_q;   /* tasks of a kv head */
    int64_t blocks_kv;  /* blocks of HEED_BLOCK_KV keys */

    /* Kv heads of a task: 1, or all of a sequence, which are then read in the order of memory, so many tokens at a time. */
    int64_t together;
    int32_t together_keys, together_values;

    /* Kv heads are worked on in waves: keys and values of a wave are packed, then its tasks run.  A wave of one head keeps the
     * packed panels in cache; more threads take more heads so that all have work. */
    int packs_shared; /* 0: one block of rows a kv head, which packs strip by strip into its own scratch */
    int64_t kv_heads; /* batch * num_kv_heads */
    int64_t wave;
    int32_t workers;
    size_t strip;      /* keys of a strip */
    size_t width_v;    /* floats between rows of weighted values: whole panels */
    size_t score_rows; /* of a block each, that a worker has room for, for each of its kv heads */

    /* Where kv heads alone do not keep the threads busy, their blocks of keys are computed in stretches. */
    int64_t splits;       /* stretches of a kv head; 1: not split */
    int64_t split_blocks; /* blocks of keys in each */
    size_t partial;       /* floats of a block's partial result */

    size_t panels_k, panels_v;           /* floats of one kv head's packed keys, values */
    size_t packed_k, packed_v, partials; /* byte offsets into the aligned workspace */
    size_t finite; /* a char a block of keys: all values are finite, or the partial result is there */
    size_t scratch;
    heed_scratch_map map;
    size_t workspace_size;
};

/* Checks a problem and resolves its defaults (problem.c). */
heed_status heed_attention_resolve(heed_attention *to, const heed_attention *from, heed_error *error);

/* One tensor's strides: not negative, within the address space, and for an output no two rows on the same elements. */
heed_status heed_check_tensor(const char *name, const heed_strides *s, int64_t batch, int64_t heads, int64_t seq_len,
    int64_t dim, int is_output, heed_error *error);

/* The strides of q and out for that many rows.  Only final numbers of rows can show whether those of out overlap; the rows of
 * packed sequences are known when they are run. */
heed_status heed_check_strides_q(
    const heed_attention *a, int64_t batch, int64_t rows, int rows_are_final, heed_error *error);

/* Strides of a packed [batch][head][seq][dim] or [batch][seq][head][dim] tensor, if its size fits the address space. */
heed_status heed_packed_strides(heed_strides *to, const char *name, heed_layout layout, int64_t batch, int64_t heads,
    int64_t seq_len, int64_t dim, heed_error *error);

/* Keys and values of a problem as a cache without pointers, and back what heed_cache_resolve() found (kv_cache.c). */
heed_kv_cache heed_cache_of(const heed_attention *attention);
heed_status heed_cache_resolve(heed_kv_cache *cache, heed_error *error);

/* The strides of a resolved cache for batch entries of that many rows; pages have their own extent. */
heed_status heed_cache_check(const heed_kv_cache *cache, int64_t batch, int64_t rows, heed_error *error);

/* Page table entries of tokens [first, end) of a sequence: all name pages of the pool. */
heed_status heed_cache_check_pages(
    const heed_kv_cache *cache, const int32_t *table, int64_t batch, int64_t first, int64_t end, heed_error *error);

/* Bytes of an element. */
size_t heed_type_size(heed_type type);

/* Picks the backend and exp that the options ask for, or says why not. */
heed_status heed_choose(
    const heed_options *options, int exp_default, const heed_backend **backend, int *exp, heed_error *error);

/* The workspace given to a run: present and large enough. */
heed_status heed_check_workspace(const void *workspace, size_t size, size_t needed, heed_error *error);

/* lengths (NULL: all whole) lie in 0 .. most. */
heed_status heed_check_lengths(
    const char *name, const int32_t *lengths, int64_t batch, int64_t most, heed_error *error);

/* Columns that packing so many keys writes: whole panels, and whole units of transposed keys, which may be wider. */
size_t heed_packed_columns(const heed_backend *backend, size_t keys);

/* Threads worth waking for that many keys, of all kv heads together. */
int32_t heed_plan_workers(const heed_plan *plan, double keys);

/* offsets ([batch + 1]) do not fall, and no sequence has more than `most` rows. */
heed_status heed_check_offsets(
    const char *name, const int32_t *offsets, int64_t batch, int64_t most, heed_error *error);

/* Fills a plan in place; needs no destruction. */
heed_status heed_plan_init(
    heed_plan *plan, const heed_attention *attention, const heed_options *options, heed_error *error);

#endif
