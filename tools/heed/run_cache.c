/* `heed run --kv-type, --page-size, --decode-step`: keys and values through a cache, as an engine has them.
 * May know: heed.h, run.h.
 * Must not know: files, queries. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

bool run_cache_wanted(const run_request *request)
{
    return request->kv_type != HEED_TYPE_F32 || request->page_size > 0 || request->decode_step > 0;
}

static const char *type_name(heed_type type)
{
    return type == HEED_TYPE_F16 ? "f16" : type == HEED_TYPE_BF16 ? "bf16" : type == HEED_TYPE_I8 ? "i8" : "f32";
}

static size_t type_size(heed_type type)
{
    return type == HEED_TYPE_F32 ? 4 : type == HEED_TYPE_I8 ? 1 : 2;
}

static void describe(const run_request *request, const run_extents *keys, int64_t dim_v, heed_kv_cache *cache)
{
    *cache = (heed_kv_cache)HEED_KV_CACHE_INIT;
    cache->batch = keys->batch;
    cache->num_kv_heads = keys->heads;
    cache->head_dim = keys->dim;
    cache->head_dim_v = dim_v;
    cache->capacity = keys->seq;
    cache->type_k = cache->type_v = request->kv_type;
    cache->layout = request->layout;
    cache->page_size = request->page_size;
    if (cache->page_size > 0) {
        cache->page_table_stride = keys->seq > 0 ? (keys->seq - 1) / cache->page_size + 1 : 0;
        cache->num_pages = keys->batch * cache->page_table_stride;
    }
}

/* Pages lie in reverse, so that a table that is not looked at shows. */
static bool allocate(run_cache *made)
{
    heed_kv_cache *cache = &made->cache;
    int64_t tokens = 0;
    bool paged = cache->page_size > 0;
    if (!checked_product(3,
            (int64_t[3]){ paged ? cache->num_pages : cache->batch, cache->num_kv_heads,
                paged ? cache->page_size : cache->capacity },
            &tokens)) {
        return false;
    }
    int64_t count_k = 0;
    int64_t count_v = 0;
    if (!checked_multiply(tokens, cache->head_dim, &count_k) ||
        !checked_multiply(tokens, cache->head_dim_v, &count_v)) {
        return false;
    }
    made->k = allocate_array(count_k, type_size(cache->type_k));
    made->v = allocate_array(count_v, type_size(cache->type_v));
    made->scales_k = allocate_array(tokens, sizeof *made->scales_k);
    made->scales_v = allocate_array(tokens, sizeof *made->scales_v);
    made->table = allocate_array(cache->num_pages, sizeof *made->table);
    for (int64_t i = 0; made->table && i < cache->num_pages; i++) {
        made->table[i] = (int32_t)(cache->num_pages - 1 - i);
    }
    cache->k = made->k;
    cache->v = made->v;
    cache->scales_k = made->scales_k;
    cache->scales_v = made->scales_v;
    cache->page_table = made->table;
    return made->k && made->v && made->scales_k && made->scales_v && made->table;
}

/* Tokens first .. first + count - 1 of every sequence. */
static bool append(const run_cache *made, const run_extents *keys, const float *k, const float *v, int32_t *positions,
    int64_t first, int64_t count, run_problem *problem)
{
    const heed_kv_cache *cache = &made->cache;
    heed_error error;
    bool heads_first = cache->layout == HEED_LAYOUT_BHSD;
    int64_t step = heads_first ? 1 : keys->heads; /* rows between tokens */
    int64_t head = heads_first ? keys->seq : 1;
    int64_t entry = keys->heads * keys->seq;
    heed_kv_tokens tokens = HEED_KV_TOKENS_INIT;
    tokens.seq_len = count;
    tokens.layout = HEED_LAYOUT_STRIDED;
    tokens.strides_k = (heed_strides){ entry * keys->dim, head * keys->dim, step * keys->dim };
    tokens.strides_v = (heed_strides){ entry * cache->head_dim_v, head * cache->head_dim_v, step * cache->head_dim_v };
    tokens.k = k + first * tokens.strides_k.seq;
    tokens.v = v + first * tokens.strides_v.seq;
    tokens.positions = positions;
    for (int64_t b = 0; b < keys->batch; b++) {
        positions[b] = (int32_t)first;
    }
    return heed_kv_append(cache, &tokens, &error) == HEED_OK || run_refuse(problem, NULL, "cache: %s", error.message);
}

/* What a step's queries come from is there already; then one token after the other, as they are decoded. */
static bool fill(const run_request *request, const run_cache *made, const run_extents *keys, const float *k,
    const float *v, run_problem *problem)
{
    int64_t steps = request->decode_step < keys->seq ? request->decode_step : keys->seq;
    int32_t *positions = allocate_array(keys->batch, sizeof *positions);
    if (!positions) {
        return run_refuse(problem, NULL, "cache: not enough memory");
    }
    bool done = append(made, keys, k, v, positions, 0, keys->seq - steps, problem);
    for (int64_t i = keys->seq - steps; done && i < keys->seq; i++) {
        done = append(made, keys, k, v, positions, i, 1, problem);
    }
    free(positions);
    return done;
}

bool run_cache_build(const run_request *request, const run_extents *keys, int64_t dim_v, const float *k, const float *v,
    run_cache *made, run_problem *problem)
{
    if (keys->seq > INT32_MAX) {
        return run_refuse(problem, request->k, "shape: a cache holds at most %ld keys", (long)INT32_MAX);
    }
    describe(request, keys, dim_v, &made->cache);
    if (!allocate(made)) {
        return run_refuse(problem, NULL, "cache: not enough memory");
    }
    return fill(request, made, keys, k, v, problem);
}

void run_cache_describe(const run_cache *made, heed_attention *attention)
{
    const heed_kv_cache *cache = &made->cache;
    attention->type_k = cache->type_k;
    attention->type_v = cache->type_v;
    attention->page_size = cache->page_size;
    attention->num_pages = cache->num_pages;
    attention->page_table_stride = cache->page_table_stride;
}

void run_cache_point(const run_cache *made, heed_tensors *tensors)
{
    const heed_kv_cache *cache = &made->cache;
    tensors->k = cache->k;
    tensors->v = cache->v;
    tensors->scales_k = cache->scales_k;
    tensors->scales_v = cache->scales_v;
    tensors->page_table = cache->page_table;
}

void run_cache_say(const run_cache *made, int64_t steps, run_result *result)
{
    const heed_kv_cache *cache = &made->cache;
    run_say(result, "cache: %s, ", type_name(cache->type_k));
    if (cache->page_size > 0) {
        run_say(result, "%lld pages of %lld tokens", (long long)cache->num_pages, (long long)cache->page_size);
    } else {
        run_say(result, "contiguous");
    }
    if (steps > 0) {
        run_say(result, "; step of %lld %s", (long long)steps, steps == 1 ? "query" : "queries");
    }
    run_say(result, "\n");
}

void run_cache_free(run_cache *made)
{
    free(made->k);
    free(made->v);
    free(made->scales_k);
    free(made->scales_v);
    free(made->table);
    *made = (run_cache){ 0 };
}
