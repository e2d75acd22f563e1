/* Keys and values of a sequence where they are stored, on their way into f32 panels.
 * May know: plans, the pack kernels.  Must not know: rows, tasks, masks.
 * Threads, rows and the way of packing differ, but every key comes from here. */
#include "keys.h"

#include <string.h>

enum {
    /* What is asked for while reading rows or pages that lie apart: 64 keys ahead of f32, more of narrower types (half and twice as
     * many give the same within noise; none costs a third of the read bandwidth). */
    BYTES_AHEAD = 256,
};

static int64_t keys_ahead(size_t size)
{
    return BYTES_AHEAD / (int64_t)size;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t heed_block_keys(const heed_sequence *s, int64_t block)
{
    const int64_t left = s->len_kv - block * HEED_BLOCK_KV;
    return left < HEED_BLOCK_KV ? (size_t)left : HEED_BLOCK_KV;
}

/* Elements between rows; the stride of a single row may be anything and must not be computed with. */
static ptrdiff_t row_distance(const heed_strides *strides, size_t n)
{
    return n > 1 ? (ptrdiff_t)strides->seq : 0;
}

/* From a row to the one to be asked for, in bytes; heads that are taken together ask for a share (below) instead. */
static uintptr_t row_ahead(const heed_run_state *r, const heed_strides *strides, size_t size)
{
    if (r->plan->together > 1)
        return 0;
    return (uintptr_t)strides->seq * size * (uintptr_t)keys_ahead(size);
}

static int64_t page_of(const heed_run_state *r, const heed_sequence *s, int64_t key)
{
    const heed_attention *a = &r->plan->attention;
    return r->tensors->page_table[s->batch * a->page_table_stride + key / a->page_size];
}

/* A key's row in k, v or their scales, respectively the part of its page that is its head's. */
static const char *tensor_row(
    const heed_sequence *s, const void *base, const heed_strides *strides, size_t size, int64_t kv_head, int64_t key)
{
    const int64_t offset = s->entry_kv * strides->batch + kv_head * strides->head + (s->first_kv + key) * strides->seq;
    return (const char *)base + offset * (int64_t)size;
}

static const char *page_part(const heed_run_state *r, const heed_sequence *s, const void *base,
    const heed_strides *strides, size_t size, int64_t kv_head, int64_t key)
{
    const int64_t offset = page_of(r, s, key) * strides->batch + kv_head * strides->head;
    return (const char *)base + offset * (int64_t)size;
}

/* Distance from one page's part to that of the key to be asked for, 0 where the sequence ends before. */
static uintptr_t page_ahead(const heed_run_state *r, const heed_sequence *s, const heed_strides *strides, size_t size,
    int64_t key, size_t bytes_a_token)
{
    const int64_t page_size = r->plan->attention.page_size, later = key + keys_ahead(size);
    if (later >= s->len_kv)
        return 0;
    /* Unsigned: that page may lie beyond what any query sees, and its entry be anything. */
    const uintptr_t pages = (uintptr_t)(page_of(r, s, later) - page_of(r, s, key)) * (uintptr_t)strides->batch;
    const int64_t within = later % page_size - key % page_size;
    return pages * size + (uintptr_t)within * bytes_a_token;
}

/* Heads that are taken together ask for the next n tokens of all heads, each for its share in the order of memory. */
static uintptr_t next_share(const heed_run_state *r, const heed_sequence *s, const void *base,
    const heed_strides *strides, size_t size, int64_t kv_head, int64_t key, size_t n)
{
    if (r->plan->together == 1 || key + (int64_t)n >= s->len_kv)
        return 0;
    const uintptr_t all = n * (size_t)strides->seq * size, share = n * (size_t)strides->head * size;
    return (uintptr_t)tensor_row(s, base, strides, size, 0, key) + all + (uintptr_t)kv_head * share;
}

void heed_pack_keys(
    const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n, float *panels)
{
    const heed_attention *a = &r->plan->attention;
    const heed_backend *b = r->plan->backend;
    const heed_strides *strides = &a->strides_k;
    const size_t d = (size_t)a->head_dim, size = heed_type_size(a->type_k), page = (size_t)a->page_size;
    if (!page) {
        b->pack_k(a->type_k, panels, tensor_row(s, r->tensors->k, strides, size, kv_head, first),
            row_distance(strides, n), n, d, row_ahead(r, strides, size));
        return;
    }
    for (size_t j = 0; j < n;) {
        const int64_t key = first + (int64_t)j;
        const size_t within = (size_t)(key % a->page_size), count = smaller(page - within, n - j);
        const size_t width = j + count < n ? count : heed_packed_columns(b, n) - j;
        b->pack_kt(a->type_k, panels, j, width,
            page_part(r, s, r->tensors->k, strides, size, kv_head, key) + within * size, page, count, d,
            page_ahead(r, s, strides, size, key, size));
        j += count;
    }
}

/* Values from a key on as far as their rows lie evenly: all of a tensor's, or the rest of a page. */
typedef struct piece {
    const char *from;
    ptrdiff_t ld;
    size_t n;
    uintptr_t ahead;
} piece;

static piece values_at(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t key, size_t n)
{
    const heed_attention *a = &r->plan->attention;
    const heed_strides *strides = &a->strides_v;
    const size_t size = heed_type_size(a->type_v), dv = (size_t)a->head_dim_v;
    if (!a->page_size)
        return (piece){ tensor_row(s, r->tensors->v, strides, size, kv_head, key), row_distance(strides, n), n,
            strides->seq == a->head_dim_v ? 0 : row_ahead(r, strides, size) };
    const size_t within = (size_t)(key % a->page_size);
    return (piece){ page_part(r, s, r->tensors->v, strides, size, kv_head, key) + within * dv * size, (ptrdiff_t)dv,
        smaller((size_t)a->page_size - within, n), page_ahead(r, s, strides, size, key, dv * size) };
}

int heed_pack_values(
    const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n, size_t ld, float *panels)
{
    const heed_attention *a = &r->plan->attention;
    const heed_backend *b = r->plan->backend;
    int finite = 1;
    for (size_t j = 0; j < n;) {
        const piece v = values_at(r, s, kv_head, first + (int64_t)j, n - j);
        finite &=
            b->pack_v(a->type_v, panels + j * (size_t)b->nr, ld, v.from, v.ld, v.n, (size_t)a->head_dim_v, v.ahead);
        j += v.n;
    }
    return finite;
}

/* Keys in pages, 16 at a time: a page has whole units of them. */
static void place_units(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, heed_few *t)
{
    const heed_attention *a = &r->plan->attention;
    const heed_strides *strides = &a->strides_k;
    const size_t size = heed_type_size(a->type_k);
    t->ld = (ptrdiff_t)a->page_size;
    for (size_t j = 0; j < t->n; j += HEED_LANES) {
        const int64_t key = first + (int64_t)j, within = key % a->page_size;
        t->units[j / HEED_LANES] = page_part(r, s, r->tensors->k, strides, size, kv_head, key) + (size_t)within * size;
        t->units_ahead[j / HEED_LANES] =
            (size_t)within * size % 64 ? 0 : page_ahead(r, s, strides, size, key, size); /* once a line */
    }
}

void heed_few_scores(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n,
    const float *q, size_t m, float *scores, float *room)
{
    const heed_attention *a = &r->plan->attention;
    const heed_strides *strides = &a->strides_k;
    const size_t size = heed_type_size(a->type_k);
    heed_few t = { .to = scores,
        .ld_to = HEED_LD_SCORES,
        .rows = q,
        .ld_rows = (size_t)a->head_dim,
        .m = m,
        .n = n,
        .d = (size_t)a->head_dim,
        .scale = a->scale };
    if (!a->page_size) {
        t.from = tensor_row(s, r->tensors->k, strides, size, kv_head, first);
        t.ld = row_distance(strides, n);
        t.next = next_share(r, s, r->tensors->k, strides, size, kv_head, first, n);
        t.ahead = row_ahead(r, strides, size);
        t.room = room;
        r->plan->backend->qk_few(a->type_k, &t);
        return;
    }
    for (size_t j = 0; j < n; j += t.n, t.to += t.n) {
        t.n = smaller(n - j, (size_t)HEED_FEW_UNITS * HEED_LANES);
        place_units(r, s, kv_head, first + (int64_t)j, &t);
        r->plan->backend->qk_few_t(a->type_k, &t);
    }
}

void heed_few_values(const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t first, size_t n,
    const float *weights, size_t m, float *sums, size_t ld_sums)
{
    const heed_attention *a = &r->plan->attention;
    const size_t size = heed_type_size(a->type_v);
    const uintptr_t share = next_share(r, s, r->tensors->v, &a->strides_v, size, kv_head, first, n);
    heed_few t = { .to = sums, .ld_to = ld_sums, .ld_rows = HEED_LD_SCORES, .m = m, .d = (size_t)a->head_dim_v };
    for (size_t j = 0; j < n; j += t.n) {
        const piece v = values_at(r, s, kv_head, first + (int64_t)j, n - j);
        t.rows = weights + j;
        t.from = v.from;
        t.ld = v.ld;
        t.n = v.n;
        t.ahead = v.ahead;
        t.next = share ? share : (uintptr_t)v.from + v.ahead;
        t.next_step = (size_t)(share ? (ptrdiff_t)t.d : v.ld) * size;
        r->plan->backend->pv_few(a->type_v, &t);
    }
}

static void gather_rows(float *to, const void *rows, ptrdiff_t step, size_t n)
{
    const float *from = rows;
    if (step == 1)
        memcpy(to, from, n * sizeof *to);
    for (size_t j = 0; step != 1 && j < n; j++)
        to[j] = from[(ptrdiff_t)j * step];
}

static void gather(const heed_run_state *r, const heed_sequence *s, const float *scales, int64_t kv_head, int64_t first,
    size_t n, float *to)
{
    const heed_attention *a = &r->plan->attention;
    const heed_strides *strides = &a->strides_scales;
    const size_t page = (size_t)a->page_size;
    if (page)
        for (size_t j = 0; j < n; j += page)
            memcpy(to + j, page_part(r, s, scales, strides, sizeof(float), kv_head, first + (int64_t)j),
                smaller(page, n - j) * sizeof(float));
    else
        gather_rows(to, tensor_row(s, scales, strides, sizeof(float), kv_head, first), row_distance(strides, n), n);
    for (size_t j = n; j < heed_round_up(n, HEED_LANES); j++)
        to[j] = 0.0f;
}

void heed_gather_scales(
    const heed_run_state *r, const heed_sequence *s, int64_t kv_head, int64_t block, float *scales_k, float *scales_v)
{
    const size_t n = heed_block_keys(s, block);
    if (r->plan->attention.type_k == HEED_TYPE_I8)
        gather(r, s, r->tensors->scales_k, kv_head, block * HEED_BLOCK_KV, n, scales_k);
    if (r->plan->attention.type_v == HEED_TYPE_I8)
        gather(r, s, r->tensors->scales_v, kv_head, block * HEED_BLOCK_KV, n, scales_v);
}
