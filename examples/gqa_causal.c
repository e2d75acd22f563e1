/* Grouped-query causal attention with a plan, in one call and in chunks of queries: the bits are the same.  Also LSE.
 * May know: heed/heed.h.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, KV_HEADS = 2, LENGTH = 40, HEAD_DIM = 16, ROW = HEADS * HEAD_DIM, KV_ROW = KV_HEADS * HEAD_DIM };

static void fill(float *values, size_t count, float step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = sinf(step * (float)i);
}

/* Queries `first` .. `first + count - 1` against all keys up to the last of them.  Bottom-right causal: the last query
 * sees every key that is there, which is what a cache that has grown to the queries needs. */
static heed_status attend(
    const float *q, const float *k, const float *v, int first, int count, float *out, float *lse, heed_error *error)
{
    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = 1;
    attention.num_heads = HEADS;
    attention.num_kv_heads = KV_HEADS; /* query heads 0-3 share the first, 4-7 the second */
    attention.seq_len_q = count;
    attention.seq_len_kv = first + count;
    attention.head_dim = HEAD_DIM;
    attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    attention.layout = HEED_LAYOUT_BSHD; /* [seq][head][head_dim], as a projection writes it */

    heed_plan *plan = NULL; /* could be kept and run again, from many threads at once */
    heed_status status = heed_plan_create(&plan, &attention, NULL, error);
    if (status != HEED_OK)
        return status;
    size_t size = heed_plan_workspace_size(plan);
    void *workspace = malloc(size);
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q + first * ROW;
    tensors.k = k;
    tensors.v = v;
    tensors.out = out + first * ROW;
    tensors.lse = lse;
    status = heed_run(plan, &tensors, workspace, workspace ? size : 0, error);
    free(workspace);
    heed_plan_destroy(plan);
    return status;
}

/* log of the sum of exp(score) over the keys that query i of head h sees, in double. */
static double plain_lse(const float *q, const float *k, int h, int i)
{
    double sum = 0.0;
    for (int j = 0; j <= i; j++) {
        double score = 0.0;
        for (int d = 0; d < HEAD_DIM; d++)
            score +=
                (double)q[i * ROW + h * HEAD_DIM + d] * (double)k[j * KV_ROW + h / (HEADS / KV_HEADS) * HEAD_DIM + d];
        sum += exp(score / sqrt((double)HEAD_DIM));
    }
    return log(sum);
}

int main(void)
{
    static float q[LENGTH * ROW], k[LENGTH * KV_ROW], v[LENGTH * KV_ROW], whole[LENGTH * ROW], chunks[LENGTH * ROW];
    static float lse[HEADS * LENGTH], lse_chunk[HEADS * LENGTH]; /* [head][query] */
    fill(q, LENGTH * ROW, 0.37f);
    fill(k, LENGTH * KV_ROW, 0.73f);
    fill(v, LENGTH * KV_ROW, 1.31f);

    heed_error error = { "" };
    heed_status status = attend(q, k, v, 0, LENGTH, whole, lse, &error);
    /* A first chunk of 25 queries, one of 14, and one decode step. */
    static const int starts[] = { 0, 25, 39, LENGTH };
    for (int c = 0; c < 3 && status == HEED_OK; c++)
        status = attend(q, k, v, starts[c], starts[c + 1] - starts[c], chunks, lse_chunk, &error);
    if (status != HEED_OK) {
        fprintf(stderr, "heed: %s\n", error.message);
        return 1;
    }

    double worst = 0.0;
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < LENGTH; i++)
            worst = fmax(worst, fabs((double)lse[h * LENGTH + i] - plain_lse(q, k, h, i)));
    int same = memcmp(whole, chunks, sizeof whole) == 0;
    printf("gqa_causal: one call and three chunks give %s bits; largest error of an LSE %.2e\n",
        same ? "the same" : "DIFFERENT", worst);
    return same && worst < 1e-5 ? 0 : 1;
}
