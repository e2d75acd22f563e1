/* Greedy decoding with a paged cache: a prompt in one call, then token by token, pages taken from a free list when needed.
 * The model is a single attention layer of random weights.  At the end all is computed again without a cache: same bits.
 * May know: heed/heed.h.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <stdio.h>
#include <string.h>

enum { VOCABULARY = 26, WIDTH = 32, HEADS = 4, KV_HEADS = 2, DIM = 16, ROW = HEADS * DIM, KV_ROW = KV_HEADS * DIM };
enum { PAGE = 16, COLUMNS = 4, CAPACITY = PAGE * COLUMNS, PAGES = 8, PROMPT = 11, LENGTH = 60 };
enum { W_Q, W_K, W_V, W_O, W_LOGITS, MATRICES };
static const int sizes[MATRICES][2] = { { WIDTH, ROW }, { WIDTH, KV_ROW }, { WIDTH, KV_ROW }, { ROW, WIDTH },
    { WIDTH, VOCABULARY } }; /* in, out */

typedef struct engine {
    float embedding[VOCABULARY * WIDTH], cosines[CAPACITY * DIM / 2], sines[CAPACITY * DIM / 2];
    heed_linear *matrices[MATRICES];
    float pool_k[PAGES * KV_HEADS * DIM * PAGE], pool_v[PAGES * KV_HEADS * PAGE * DIM];
    int32_t table[COLUMNS], used, free[PAGES], num_free; /* the sequence's pages, and those that nobody has */
    float x[LENGTH * WIDTH], q[LENGTH * ROW], k[LENGTH * KV_ROW], v[LENGTH * KV_ROW], out[LENGTH * ROW];
    float logits[LENGTH * VOCABULARY];
    char workspace[1 << 20]; /* plenty here; *_workspace_size say how much is needed */
    heed_options options;
    heed_error error; /* why a function has returned 0 */
} engine;

static void fill(float *values, int count, float largest)
{
    static uint32_t random = 20170612;
    for (int i = 0; i < count; i++, random = random * 1664525 + 1013904223)
        values[i] = ((float)(random >> 8) / 8388608.0f - 1.0f) * largest;
}

static int start(engine *e)
{
    static float weights[ROW * WIDTH];
    e->options = (heed_options)HEED_OPTIONS_INIT;
    e->options.num_threads = 1; /* more would wait for each other longer than this work takes */
    fill(e->embedding, VOCABULARY * WIDTH, 1.0f);
    for (int w = 0; w < MATRICES; w++) {
        fill(weights, ROW * WIDTH, 0.5f);
        heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
        desc.in_features = desc.stride_out = sizes[w][0]; /* [out][in] */
        desc.out_features = sizes[w][1], desc.stride_in = 1;
        desc.weight = w == W_LOGITS ? e->embedding : weights; /* packed, not kept */
        if (heed_linear_create(&e->matrices[w], &desc, &e->options, &e->error) != HEED_OK)
            return 0;
    }
    for (; e->num_free < PAGES; e->num_free++)
        e->free[e->num_free] = e->num_free * 5 % PAGES; /* in any order */
    heed_rope_desc rope = HEED_ROPE_DESC_INIT;
    rope.dim = DIM;
    return heed_rope_table(&rope, 0, CAPACITY, e->cosines, e->sines, &e->error) == HEED_OK;
}

static int project(engine *e, int w, int64_t rows, const float *x, float *y)
{
    return heed_linear_run(e->matrices[w], rows, x, sizes[w][0], y, sizes[w][1], e->workspace, sizeof e->workspace,
               &e->error) == HEED_OK;
}

static int rotate(engine *e, int64_t heads, int64_t rows, float *x, int64_t first)
{
    const heed_strides strides = { 0, DIM, heads * DIM }; /* [row][head][DIM] */
    return heed_rope_apply(HEED_ROPE_HALVES, DIM, 1, heads, rows, x, strides, e->cosines, e->sines, first, &e->error) ==
           HEED_OK;
}

/* k and v of new tokens behind the `first` that the cache has. */
static int append(engine *e, int32_t first, int64_t count)
{
    for (; e->used * PAGE < first + count; e->used++) {
        if (e->num_free == 0 || e->used == COLUMNS)
            return snprintf(e->error.message, sizeof e->error.message, "token %d: no page is free", (int)first) < 0;
        e->table[e->used] = e->free[--e->num_free];
    }
    heed_kv_cache cache = HEED_KV_CACHE_INIT;
    cache.batch = 1, cache.num_kv_heads = KV_HEADS, cache.head_dim = DIM, cache.capacity = CAPACITY;
    cache.page_size = PAGE, cache.num_pages = PAGES, cache.page_table = e->table;
    cache.k = e->pool_k, cache.v = e->pool_v;
    heed_kv_tokens tokens = HEED_KV_TOKENS_INIT;
    tokens.seq_len = count, tokens.layout = HEED_LAYOUT_BSHD;
    tokens.k = e->k, tokens.v = e->v, tokens.positions = &first;
    return heed_kv_append(&cache, &tokens, &e->error) == HEED_OK;
}

/* The last `count` of `length` tokens look at all before them: in the cache, or without one in k and v. */
static int attend(engine *e, int cached, int64_t count, int32_t length)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = 1, a.num_heads = HEADS, a.num_kv_heads = KV_HEADS, a.head_dim = DIM;
    a.seq_len_q = count, a.seq_len_kv = CAPACITY;
    a.causal = HEED_CAUSAL_BOTTOM_RIGHT, a.layout = HEED_LAYOUT_BSHD;
    a.page_size = cached ? PAGE : 0, a.num_pages = PAGES;
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = e->q, t.k = cached ? e->pool_k : e->k, t.v = cached ? e->pool_v : e->v, t.out = e->out;
    t.lengths_kv = &length, t.page_table = cached ? e->table : NULL;
    heed_plan *plan; /* could be kept: one serves all steps, however many tokens there are */
    heed_status status = heed_plan_create(&plan, &a, &e->options, &e->error);
    if (status == HEED_OK)
        status = heed_run(plan, &t, e->workspace, sizeof e->workspace, &e->error);
    heed_plan_destroy(plan);
    return status == HEED_OK;
}

/* The layer for `count` tokens, the first at place `first`: a row of y for each, and the likeliest token to follow it. */
static int forward(engine *e, int cached, const int *tokens, int32_t first, int32_t count, float *y, int *next)
{
    for (int i = 0; i < count; i++)
        memcpy(e->x + i * WIDTH, e->embedding + tokens[i] * WIDTH, WIDTH * sizeof *e->x);
    int done = project(e, W_Q, count, e->x, e->q) && project(e, W_K, count, e->x, e->k) &&
               project(e, W_V, count, e->x, e->v) && rotate(e, HEADS, count, e->q, first) &&
               rotate(e, KV_HEADS, count, e->k, first) && (!cached || append(e, first, count)) &&
               attend(e, cached, count, first + count) && project(e, W_O, count, e->out, y) &&
               project(e, W_LOGITS, count, y, e->logits);
    for (int i = 0; done && i < count; i++)
        for (int w = next[i] = 0; w < VOCABULARY; w++)
            next[i] = e->logits[i * VOCABULARY + w] > e->logits[i * VOCABULARY + next[i]] ? w : next[i];
    return done;
}

int main(void)
{
    static engine e;
    static float y[LENGTH * WIDTH], again[LENGTH * WIDTH];
    int tokens[LENGTH + 1] = { 't', 'h', 'e', 'c', 'a', 't', 's', 'a', 't', 'u', 'p' }, next[LENGTH], same = 0;
    for (int i = 0; i < PROMPT; i++)
        tokens[i] -= 'a';
    int done = start(&e);
    for (int first = 0, count = PROMPT; done && first < LENGTH; first += count, count = 1) {
        done = forward(&e, 1, tokens + first, first, count, y + first * WIDTH, next);
        tokens[first + count] = next[count - 1];
    }
    done = done && forward(&e, 0, tokens, 0, LENGTH, again, next); /* all in one causal prefill without a cache */
    if (done) {
        same = memcmp(y, again, sizeof y) == 0 &&
               memcmp(next + PROMPT - 1, tokens + PROMPT, (LENGTH - PROMPT + 1) * sizeof *next) == 0;
        for (int i = 0; i <= LENGTH; i++)
            printf("%s%c", i == PROMPT ? " -> " : "", 'a' + tokens[i]);
        printf("\ndecode: a cache of %d pages gives %s bits\n", (int)e.used, same ? "the same" : "DIFFERENT");
    } else {
        fprintf(stderr, "decode: %s\n", e.error.message);
    }
    for (int w = 0; w < MATRICES; w++)
        heed_linear_destroy(e.matrices[w]);
    return done && same ? 0 : 1;
}
