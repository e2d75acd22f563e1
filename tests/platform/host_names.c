/* A program whose own functions bear the names that libraries like to use inside: it must link, run, and be left alone.
 * May know: the public header.
 * Must not know: anything under src/. */
#include <heed/heed.h>

#include <stdio.h>

static int calls;

/* What the host calls so, with whatever it does: the library must never arrive here. */
/* clang-format off */
int softmax(void); int softmax(void) { return ++calls; }
int gemm(void); int gemm(void) { return ++calls; }
int dispatch(void); int dispatch(void) { return ++calls; }
int cpuid(void); int cpuid(void) { return ++calls; }
int init(void); int init(void) { return ++calls; }
int min(void); int min(void) { return ++calls; }
int max(void); int max(void) { return ++calls; }
int dot(void); int dot(void) { return ++calls; }
int exp_ps(void); int exp_ps(void) { return ++calls; }
int tile(void); int tile(void) { return ++calls; }
int parallel(void); int parallel(void) { return ++calls; }
int attention(void); int attention(void) { return ++calls; }
int run(void); int run(void) { return ++calls; }
int task(void); int task(void) { return ++calls; }
int pack(void); int pack(void) { return ++calls; }
int pack_k(void); int pack_k(void) { return ++calls; }
int pack_v(void); int pack_v(void) { return ++calls; }
int qk_tile(void); int qk_tile(void) { return ++calls; }
int pv_tile(void); int pv_tile(void) { return ++calls; }
int gemm_tile(void); int gemm_tile(void) { return ++calls; }
int softmax_row(void); int softmax_row(void) { return ++calls; }
int softmax_tile(void); int softmax_tile(void) { return ++calls; }
int exp_row(void); int exp_row(void) { return ++calls; }
int query_task(void); int query_task(void) { return ++calls; }
int run_worker(void); int run_worker(void) { return ++calls; }
int default_backend(void); int default_backend(void) { return ++calls; }
int read_xcr0(void); int read_xcr0(void) { return ++calls; }
int cpu_features(void); int cpu_features(void) { return ++calls; }
int error(void); int error(void) { return ++calls; }
int hash(void); int hash(void) { return ++calls; }
int version(void); int version(void) { return ++calls; }
/* clang-format on */

static int run_library(void)
{
    enum { DIM = 24, KEYS = 300, QUERIES = 3 };
    static float q[QUERIES * DIM], k[KEYS * DIM], v[KEYS * DIM], out[QUERIES * DIM], weights[KEYS];
    static float matrix[DIM * DIM], y[QUERIES * DIM], space[1 << 16];
    for (int i = 0; i < KEYS * DIM; i++)
        v[i] = (float)(i / DIM); /* q = 0: the output is the mean key */
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = a.num_heads = a.num_kv_heads = 1;
    a.seq_len_q = QUERIES;
    a.seq_len_kv = KEYS;
    a.head_dim = DIM;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k;
    tensors.v = v;
    tensors.out = out;
    heed_error reason = { "" };
    int bad = heed_attend(&a, &tensors, NULL, &reason) != HEED_OK || out[0] != (KEYS - 1) / 2.0f;
    bad |= heed_softmax(1, KEYS, v, KEYS, weights, KEYS, NULL, NULL, &reason) != HEED_OK || !(weights[KEYS - 1] > 0.0f);
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    desc.in_features = desc.out_features = desc.stride_in = DIM;
    desc.stride_out = 1;
    desc.weight = matrix;
    heed_linear *linear;
    bad |= heed_linear_create(&linear, &desc, NULL, &reason) != HEED_OK;
    if (!bad) {
        bad = heed_linear_run(linear, QUERIES, out, DIM, y, DIM, space, sizeof space, &reason) != HEED_OK;
        heed_linear_destroy(linear);
    }
    if (bad)
        fprintf(stderr, "FAIL: wrong result, or an error: %s\n", reason.message);
    return bad;
}

int main(void)
{
    if (run_library())
        return 1;
    if (calls) {
        fprintf(stderr, "FAIL: the library called %d functions of the program\n", calls);
        return 1;
    }
    /* The functions are really there, under these names. */
    const int there = softmax() + gemm() + dispatch() + max() + tile() == 15 && calls == 5;
    printf(
        "%s on %s: no function of the program was called\n", there ? "ok" : "FAIL", heed_isa_name(heed_isa_default()));
    return !there;
}
