/* The functions of docs/from-pytorch.md, included as the document has them, on problems whose answer is known without computing
 * attention: with queries of 0 a row is the mean of the values it sees, and value j is j.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "from-pytorch.c"

#include "check.h"

#include <math.h>
#include <stdlib.h>

enum { N = 2, HQ = 4, H = 2, L = 2, S = 5, E = 3 };

static const float zero[N * HQ * S * E];
static float values[N * H * S * E], out[N * HQ * L * E];
static heed_error error;

/* values [rows of S][E] in which key j of batch entry or head r is j + 100 r. */
static void set_values(void)
{
    for (int i = 0; i < N * H * S * E; i++)
        values[i] = (float)(i / E % S + 100 * (i / E / S));
}

/* Head h of batch entry n uses kv head h / 2; both rows of it must be 100 (2 n + h / 2) plus these. */
static void check_rows(heed_status status, const double rows[L])
{
    CHECK(status == HEED_OK, "%s", error.message);
    for (int i = 0; i < N * HQ * L * E; i++) {
        int row = i / E % L, head = i / E / L % HQ, entry = i / E / L / HQ;
        double want = 100 * (H * entry + head / 2) + rows[row];
        CHECK(fabs((double)out[i] - want) < 1e-4, "out[%d] is %g, not %g", i, (double)out[i], want);
    }
}

static void causal_from_the_top_left(void)
{
    const double rows[] = { 0, 0.5 };
    check_rows(sdpa(N, HQ, H, L, S, E, zero, zero, values, out, &error), rows);
}

static void cache_from_the_bottom_right(void)
{
    const int32_t used[] = { S, S };
    const double rows[] = { 1.5, 2 };
    check_rows(attend_to_cache(N, HQ, H, L, S, E, zero, zero, values, used, out, &error), rows);
}

static heed_attention plain(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = N, a.num_heads = HQ, a.num_kv_heads = H;
    a.seq_len_q = L, a.seq_len_kv = S, a.head_dim = E;
    return a;
}

static heed_tensors tensors(void)
{
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = t.k = zero, t.v = values, t.out = out;
    return t;
}

static void strides_of_a_tensor(void)
{
    const heed_strides q = { 0, 0, E }, kv = { H * S * E, S * E, E }, o = { HQ * L * E, L * E, E };
    const heed_tensors t = tensors();
    const double rows[] = { 2, 2 };
    check_rows(sdpa_strided(plain(), q, kv, kv, o, &t, &error), rows);
}

static void key_mask(void)
{
    const uint8_t mask[N * S] = { 0, 1, 0, 0, 1, 0, 1, 0, 0, 1 };
    const double rows[] = { 2.5, 2.5 };
    check_rows(sdpa_key_mask(plain(), tensors(), mask, &error), rows);
}

/* Two sequences of one head: 2 queries on 3 keys, 1 on 2; a window of the key itself and the one before. */
static void packed_sequences(void)
{
    const int32_t cu_q[] = { 0, 2, 3 }, cu_k[] = { 0, 3, 5 };
    const double want[] = { 0.5, 1.5, 3.5 };
    float got[3], lse[3], keys[5] = { 0, 1, 2, 3, 4 };
    heed_status status = varlen(2, 1, 1, 1, 2, 3, 1, zero, zero, keys, cu_q, cu_k, got, lse, &error);
    CHECK(status == HEED_OK, "%s", error.message);
    for (int i = 0; i < 3; i++) {
        CHECK(fabs((double)got[i] - want[i]) < 1e-6, "out[%d] is %g", i, (double)got[i]);
        CHECK(fabs((double)lse[i] - log(2.0)) < 1e-6, "lse[%d] is %g", i, (double)lse[i]);
    }
}

/* Weights of queries and keys 0: every row of y is w_o (mean of the values) + b_o. */
static void module(void)
{
    enum { WIDTH = 4, LENGTH = 3 };
    float in_weight[3 * WIDTH * WIDTH] = { 0 }, in_bias[3 * WIDTH] = { 0 }, out_weight[WIDTH * WIDTH] = { 0 };
    const float out_bias[WIDTH] = { 1, 2, 3, 4 }, x[LENGTH * WIDTH] = { 3, 0, 0, 0, 6, 1, 0, 0, 0, 2, 0, 0 };
    float y[LENGTH * WIDTH];
    for (int i = 0; i < WIDTH; i++) {
        in_weight[(2 * WIDTH + i) * WIDTH + i] = 1.0f; /* the values are x plus their bias */
        in_bias[2 * WIDTH + i] = (float)i;
        out_weight[i * WIDTH + WIDTH - 1 - i] = 10.0f; /* y takes them backwards, times 10 */
    }
    const double want[WIDTH] = { 31, 22, 23, 34 };
    heed_layer *layer;
    size_t size = 0;
    heed_status status = multihead(&layer, WIDTH, 2, in_weight, in_bias, out_weight, out_bias, &error);
    if (!CHECK(status == HEED_OK, "%s", error.message))
        return;
    CHECK(heed_layer_workspace_size(layer, 1, LENGTH, &size, &error) == HEED_OK, "%s", error.message);
    void *workspace = check_malloc(size);
    status = multihead_forward(layer, 1, LENGTH, x, y, workspace, size, &error);
    CHECK(status == HEED_OK, "%s", error.message);
    for (int i = 0; i < LENGTH * WIDTH; i++)
        CHECK(fabs((double)y[i] - want[i % WIDTH]) < 1e-5, "y[%d] is %g", i, (double)y[i]);
    free(workspace);
    heed_layer_destroy(layer);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "causal_top_left", causal_from_the_top_left },
        { "cache_bottom_right", cache_from_the_bottom_right }, { "strides", strides_of_a_tensor },
        { "key_mask", key_mask }, { "varlen", packed_sequences }, { "module", module } };
    set_values();
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
