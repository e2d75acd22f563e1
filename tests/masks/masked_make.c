/* Making attention problems with any of the steps and masks (see masked.h).
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool chance(check_rng *rng, int64_t one_in)
{
    return check_between(rng, 1, one_in) == 1;
}

int64_t masked_rows(const masked *m)
{
    return m->shape.batch * m->shape.num_heads * m->shape.seq_len_q;
}

int64_t masked_at(const heed_mask_strides *s, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    return batch * s->batch + head * s->head + query * s->query + key * s->key;
}

static float *normals(check_rng *rng, int64_t rows, int64_t width)
{
    float *values = check_floats((size_t)(rows * width));
    check_fill(rng, values, (size_t)rows, (size_t)width, CHECK_NORMAL);
    return values;
}

masked masked_make(check_rng *rng, int64_t batch, int64_t num_heads, int64_t num_kv_heads, int64_t queries,
    int64_t keys, int64_t dim, int64_t dim_v)
{
    static const heed_attention defaults = HEED_ATTENTION_INIT;
    masked m = { .shape = defaults };
    m.shape.batch = batch;
    m.shape.num_heads = num_heads;
    m.shape.num_kv_heads = num_kv_heads;
    m.shape.seq_len_q = queries;
    m.shape.seq_len_kv = keys;
    m.shape.head_dim = dim;
    m.shape.head_dim_v = dim_v;
    m.q = normals(rng, masked_rows(&m), dim);
    m.k = normals(rng, batch * num_kv_heads * keys, dim);
    m.v = normals(rng, batch * num_kv_heads * keys, dim_v);
    return m;
}

/* ---- Bias and mask ---- */

/* Strides of the dimensions that are not broadcast, in random order from the inside out. */
static heed_mask_strides random_strides(const masked *m, check_rng *rng, unsigned broadcast, size_t *count)
{
    heed_mask_strides s = { 0, 0, 0, 0 };
    int64_t *const strides[4] = { &s.key, &s.query, &s.head, &s.batch };
    const int64_t sizes[4] = { m->shape.seq_len_kv, m->shape.seq_len_q, m->shape.num_heads, m->shape.batch };
    size_t order[4] = { 0, 1, 2, 3 };
    for (size_t i = 3; i > 0 && chance(rng, 2); i--) { /* half of them keep their keys contiguous */
        const size_t other = (size_t)check_between(rng, 0, (int64_t)i), swap = order[i];
        order[i] = order[other];
        order[other] = swap;
    }
    int64_t inside = chance(rng, 4) ? 2 : 1, last = 0;
    for (size_t i = 0; i < 4; i++) {
        const size_t d = order[i];
        if (broadcast >> d & 1)
            continue;
        *strides[d] = inside;
        last += (sizes[d] - 1) * inside;
        inside = inside * sizes[d] + (chance(rng, 3) ? 3 : 0);
    }
    *count = (size_t)(last + 1);
    return s;
}

/* Hidden keys come one by one and in runs, because whole groups of hidden keys are passed over together. */
static bool hidden_next(check_rng *rng, int64_t *run)
{
    if (*run == 0 && chance(rng, 12))
        *run = check_between(rng, 1, chance(rng, 4) ? 300 : 30);
    *run -= *run > 0;
    return *run > 0 || chance(rng, 8);
}

void masked_add_bias(masked *m, check_rng *rng, unsigned broadcast)
{
    m->shape.strides_bias = random_strides(m, rng, broadcast, &m->bias_count);
    free(m->bias);
    m->bias = check_floats(m->bias_count);
    const bool finite = chance(rng, 3);
    int64_t run = 0;
    for (size_t i = 0; i < m->bias_count; i++)
        m->bias[i] = !finite && hidden_next(rng, &run) ? -INFINITY : 2.0f * check_normal(rng);
}

void masked_add_mask(masked *m, check_rng *rng, unsigned broadcast)
{
    m->shape.strides_mask = random_strides(m, rng, broadcast, &m->mask_count);
    free(m->mask);
    m->mask = check_malloc(m->mask_count);
    int64_t run = 0;
    for (size_t i = 0; i < m->mask_count; i++)
        m->mask[i] = hidden_next(rng, &run) ? 0 : (uint8_t)check_between(rng, 1, 255);
}

static heed_mask_strides packed(const masked *m)
{
    const heed_attention *a = &m->shape;
    const heed_mask_strides s = { a->num_heads * a->seq_len_q * a->seq_len_kv, a->seq_len_q * a->seq_len_kv,
        a->seq_len_kv, 1 };
    return s;
}

int64_t masked_place(const masked *m, int64_t batch, int64_t head, int64_t query, int64_t key)
{
    const heed_mask_strides s = packed(m);
    return masked_at(&s, batch, head, query, key);
}

void masked_full_bias(masked *m)
{
    free(m->bias);
    m->shape.strides_bias = packed(m);
    m->bias_count = (size_t)(masked_rows(m) * m->shape.seq_len_kv);
    m->bias = check_floats(m->bias_count);
}

void masked_full_mask(masked *m)
{
    free(m->mask);
    m->shape.strides_mask = packed(m);
    m->mask_count = (size_t)(masked_rows(m) * m->shape.seq_len_kv);
    m->mask = memset(check_malloc(m->mask_count), 0, m->mask_count);
}

/* ---- The other steps ---- */

static size_t block_count(const masked *m)
{
    const heed_attention *a = &m->shape;
    return (size_t)((a->seq_len_q + a->block_mask_q - 1) / a->block_mask_q *
                    ((a->seq_len_kv + a->block_mask_kv - 1) / a->block_mask_kv));
}

void masked_add_blocks(masked *m, check_rng *rng, int64_t block_q, int64_t block_kv)
{
    m->shape.block_mask_q = block_q;
    m->shape.block_mask_kv = block_kv;
    free(m->blocks);
    m->blocks = check_malloc(block_count(m));
    for (size_t i = 0; i < block_count(m); i++)
        m->blocks[i] = chance(rng, 3) ? 0 : (uint8_t)check_between(rng, 1, 255);
}

void masked_add_slopes(masked *m, check_rng *rng)
{
    free(m->slopes);
    m->slopes = check_floats((size_t)m->shape.num_heads);
    for (int64_t h = 0; h < m->shape.num_heads; h++)
        m->slopes[h] = (float)((chance(rng, 4) ? 1.0 : -1.0) * check_uniform(rng));
}

void masked_add_sinks(masked *m, check_rng *rng)
{
    free(m->sinks);
    m->sinks = normals(rng, m->shape.num_heads, 1);
}

static int32_t *random_lengths(check_rng *rng, int64_t batch, int64_t most)
{
    int32_t *lengths = check_malloc((size_t)batch * sizeof *lengths);
    for (int64_t b = 0; b < batch; b++)
        lengths[b] = (int32_t)(chance(rng, 6) ? 0 : check_between(rng, 0, most));
    return lengths;
}

void masked_add_lengths(masked *m, check_rng *rng, bool queries, bool keys)
{
    free(m->lengths_q);
    free(m->lengths_kv);
    m->lengths_q = queries ? random_lengths(rng, m->shape.batch, m->shape.seq_len_q) : NULL;
    m->lengths_kv = keys ? random_lengths(rng, m->shape.batch, m->shape.seq_len_kv) : NULL;
}

/* ---- All together ---- */

static int64_t random_size(check_rng *rng, const int64_t *edges, int64_t count, int64_t most)
{
    return chance(rng, 2) ? edges[check_between(rng, 0, count - 1)] : check_between(rng, 1, most);
}

static masked random_sizes(check_rng *rng, bool large)
{
    static const int64_t queries[] = { 1, 2, 6, 13, 33 }, keys[] = { 1, 15, 16, 17, 33, 255, 256, 257 },
                         dims[] = { 1, 8, 16, 17, 32, 40 };
    int64_t kv_heads = check_between(rng, 1, 2), group = check_between(rng, 1, 3);
    if (large) /* more than 96 rows, two or three blocks of keys, work for three threads */
        return masked_make(rng, 2, 2 * kv_heads, kv_heads, check_between(rng, 100, 140), check_between(rng, 260, 600),
            check_between(rng, 24, 40), check_between(rng, 24, 40));
    int64_t dim = random_size(rng, dims, 6, 24);
    return masked_make(rng, check_between(rng, 1, 3), kv_heads * group, kv_heads, random_size(rng, queries, 5, 40),
        random_size(rng, keys, 8, chance(rng, 3) ? 560 : 60), dim,
        chance(rng, 3) ? dim : random_size(rng, dims, 6, 24));
}

static void random_options(masked *m, check_rng *rng)
{
    heed_attention *a = &m->shape;
    a->scale = chance(rng, 4) ? 0.25f * check_normal(rng) : 0.0f;
    a->causal = (heed_causal)check_between(rng, 0, 4);
    a->causal_offset = check_between(rng, -20, 20) + (chance(rng, 2) ? a->seq_len_kv - a->seq_len_q : 0);
    a->window_left = chance(rng, 2) ? check_between(rng, 0, chance(rng, 2) ? 10 : 300) : -1;
    a->window_right = chance(rng, 2) ? check_between(rng, 0, chance(rng, 2) ? 10 : 300) : -1;
    a->softcap = chance(rng, 3) ? (float)(0.25 + 8.0 * check_uniform(rng)) : 0.0f;
}

masked masked_random(check_rng *rng, bool large)
{
    masked m = random_sizes(rng, large);
    random_options(&m, rng);
    if (chance(rng, 2))
        masked_add_bias(&m, rng, (unsigned)check_between(rng, 0, 15));
    if (chance(rng, 2))
        masked_add_mask(&m, rng, (unsigned)check_between(rng, 0, 15));
    if (chance(rng, 3))
        masked_add_blocks(&m, rng, check_between(rng, 1, 40), check_between(rng, 1, chance(rng, 2) ? 20 : 300));
    if (chance(rng, 3))
        masked_add_slopes(&m, rng);
    if (chance(rng, 3))
        masked_add_sinks(&m, rng);
    if (chance(rng, 2))
        masked_add_lengths(&m, rng, chance(rng, 2), !chance(rng, 4));
    m.weights = chance(rng, 2);
    return m;
}

static void *copied(const void *from, size_t bytes)
{
    return from ? memcpy(check_malloc(bytes), from, bytes) : NULL;
}

masked masked_copy(const masked *m)
{
    const heed_attention *a = &m->shape;
    const size_t rows_kv = (size_t)(a->batch * a->num_kv_heads * a->seq_len_kv), size = sizeof(float);
    masked c = *m;
    c.q = copied(m->q, (size_t)(masked_rows(m) * a->head_dim) * size);
    c.k = copied(m->k, rows_kv * (size_t)a->head_dim * size);
    c.v = copied(m->v, rows_kv * (size_t)a->head_dim_v * size);
    c.bias = copied(m->bias, m->bias_count * size);
    c.mask = copied(m->mask, m->mask_count);
    c.blocks = m->blocks ? copied(m->blocks, block_count(m)) : NULL;
    c.slopes = copied(m->slopes, (size_t)a->num_heads * size);
    c.sinks = copied(m->sinks, (size_t)a->num_heads * size);
    c.lengths_q = copied(m->lengths_q, (size_t)a->batch * sizeof(int32_t));
    c.lengths_kv = copied(m->lengths_kv, (size_t)a->batch * sizeof(int32_t));
    return c;
}

void masked_free(masked *m)
{
    void *const all[] = { m->q, m->k, m->v, m->bias, m->mask, m->blocks, m->slopes, m->sinks, m->lengths_q,
        m->lengths_kv };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}
