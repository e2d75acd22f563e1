/* Keys and values in caches of any kind: made through heed_kv_append, and what they then hold, worked out independently.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_STORE_H
#define HEED_TESTS_STORE_H

#include "check.h"

/* A cache in guarded memory with its own page table, all of it NaN until something is appended. */
typedef struct store {
    heed_kv_cache cache;
    int32_t *table;               /* what cache.page_table points to */
    heed_type source_k, source_v; /* what store_fill appends: not HEED_TYPE_I8 */
} store;

typedef struct store_shape {
    int64_t batch, heads, dim, dim_v, capacity;
    heed_type type_k, type_v;
    int64_t page_size;
    heed_layout layout; /* STRIDED: gaps between tokens, heads and entries */
} store_shape;

/* Pages of a sequence are scattered over a pool that is larger than needed.  Memory comes from check_alloc. */
store store_make(const store_shape *shape, check_rng *rng);

/* Bytes of k, v and of one kind of scales, whole. */
size_t store_bytes_k(const store *s);
size_t store_bytes_v(const store *s);
size_t store_count_scales(const store *s);

/* Tokens from k and v, packed [batch][heads][tokens][dim]: lengths[b] of each sequence (all of `tokens` if NULL), in pieces of
 * random sizes, as source_k and source_v, which must hold them without rounding. */
void store_fill(store *s, const float *k, const float *v, int64_t tokens, const int32_t *lengths, check_rng *rng);

/* The same places as a problem and tensors name them. */
void store_describe(const store *s, heed_attention *a, heed_tensors *t);

/* What x becomes in storage, back as f32; of HEED_TYPE_I8 the integer without its scale. */
float store_round(heed_type type, float x);

/* n elements of one token as they are stored and read: with int8 quantised together, times the scale in double. */
void store_token(heed_type type, const float *x, int64_t n, double *values);

/* Element i of a tensor of that type: read (of HEED_TYPE_I8 without its scale), or written rounded (not HEED_TYPE_I8). */
float store_read(heed_type type, const void *base, int64_t i);
void store_write(heed_type type, void *base, int64_t i, float x);

size_t store_element(heed_type type);
const char *store_type_name(heed_type type);

#endif
