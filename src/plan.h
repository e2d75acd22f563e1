/* A plan: the checked problem, the backend, the cut into tasks, and the map of the workspace.
 * May know: backends as tables, tile sizes.  Must not know: instruction sets, how tasks are run. */
#ifndef HEED_PLAN_H
#define HEED_PLAN_H

#include "backend.h"
#include "error.h"
#include "parallel.h"

/* Byte offsets into one worker's scratch. */
typedef struct heed_scratch_map {
    size_t q, scores, out, state, ranges, mask_row, packed_k, packed_v; /* packed_*: only when not shared */
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

    /* Kv heads are worked on in waves: keys and values of a wave are packed, then its tasks run.  A wave of one head keeps the
     * packed panels in cache; more threads take more heads so that all have work. */
    int packs_shared; /* 0: one task a kv head, which packs into its own scratch block by block */
    int64_t kv_heads; /* batch * num_kv_heads */
    int64_t wave;
    int32_t workers;

    size_t panels_k, panels_v;                  /* floats of one kv head's packed keys, values */
    size_t packed_k, packed_v, finite, scratch; /* byte offsets into the aligned workspace */
    heed_scratch_map map;
    size_t workspace_size;
};

/* Checks a problem and resolves its defaults (problem.c). */
heed_status heed_attention_resolve(heed_attention *to, const heed_attention *from, heed_error *error);

/* One tensor's strides: not negative, within the address space, and for an output no two rows on the same elements. */
heed_status heed_check_tensor(const char *name, const heed_strides *s, int64_t batch, int64_t heads, int64_t seq_len,
    int64_t dim, int is_output, heed_error *error);

/* The strides of all four tensors for that many rows.  Only final numbers of rows can show whether those of out overlap; the rows of
 * packed sequences are known when they are run. */
heed_status heed_check_strides(
    const heed_attention *a, int64_t batch, int64_t rows_q, int64_t rows_kv, int rows_are_final, heed_error *error);

/* Strides of a packed [batch][head][seq][dim] or [batch][seq][head][dim] tensor. */
heed_strides heed_packed_strides(heed_layout layout, int64_t heads, int64_t seq_len, int64_t dim);

/* Picks the backend and exp that the options ask for, or says why not. */
heed_status heed_choose(
    const heed_options *options, int exp_default, const heed_backend **backend, int *exp, heed_error *error);

/* The workspace given to a run: present and large enough. */
heed_status heed_check_workspace(const void *workspace, size_t size, size_t needed, heed_error *error);

/* lengths (NULL: all whole) lie in 0 .. most. */
heed_status heed_check_lengths(
    const char *name, const int32_t *lengths, int64_t batch, int64_t most, heed_error *error);

/* Fills a plan in place; needs no destruction. */
heed_status heed_plan_init(
    heed_plan *plan, const heed_attention *attention, const heed_options *options, heed_error *error);

#endif
