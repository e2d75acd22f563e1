/* A problem over a cache, run from the cache and from plain f32 tensors that hold the same numbers.
 * May know: the public header, check.h, store.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_WORLD_H
#define HEED_TESTS_WORLD_H

#include "store.h"

enum { WORLD_BATCH = 4, WORLD_HEADS = 16 };

typedef struct world {
    heed_attention shape; /* of the problem over plain f32 tensors, BHSD */
    int32_t lengths[WORLD_BATCH];
    float sinks[WORLD_HEADS], slopes[WORLD_HEADS];
    bool has_sinks, has_slopes;
    float *q, *k, *v; /* k and v hold what storage makes of them */
    float *bias;
    uint8_t *mask;
} world;

typedef struct world_result {
    float *out, *lse, *weights;
} world_result;

/* Random sizes and options; k and v survive storage in those types (int8 with scales that are powers of two). */
world world_random(check_rng *rng, heed_type type_k, heed_type type_v);

/* Of fixed sizes without options. */
world world_make(int64_t batch, int64_t heads, int64_t kv_heads, int64_t seq_q, int64_t seq_kv, int64_t dim,
    int64_t dim_v, heed_type type_k, heed_type type_v, check_rng *rng);

/* A cache that holds the world's keys and values. */
store world_store(
    const world *w, heed_type type_k, heed_type type_v, int64_t page_size, heed_layout layout, check_rng *rng);

/* From the plain tensors on one thread, or from a cache; outputs packed. */
world_result world_run(const world *w, const store *cache, const heed_options *options);
bool world_same(const world *w, const world_result *got, const world_result *want);

void world_free(world *w);
void world_free_result(world_result *r);

/* Tasks in descending order on the calling thread: an executor that claims num_threads. */
heed_executor world_executor(int32_t num_threads);

#endif
