/* `heed run --q --k --v`: attention on ready queries, keys and values.
 * May know: heed.h, npy.h.
 * Must not know: weights files. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* What a tensor of 2, 3 or 4 dimensions means; the left-out ones are 1. */
typedef struct extents {
    int64_t batch, heads, seq, dim;
} extents;

static bool read_tensor(const char *path, heed_layout layout, npy_array *array, extents *sizes, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    progress_show("reading", 0, 0);
    if (!npy_read(path, array, message, sizeof message)) {
        return run_refuse(problem, path, "%s", message);
    }
    int ndim = array->ndim;
    const int64_t *shape = array->shape;
    if (ndim < 2 || ndim > 4) {
        return run_refuse(problem, path, "shape: %d dimensions, not 2, 3 or 4", ndim);
    }
    sizes->batch = ndim == 4 ? shape[0] : 1;
    sizes->dim = shape[ndim - 1];
    int heads_at = layout == HEED_LAYOUT_BSHD ? ndim - 2 : ndim - 3;
    int seq_at = layout == HEED_LAYOUT_BSHD ? ndim - 3 : ndim - 2;
    /* Without heads both layouts are [L, D]. */
    sizes->heads = ndim == 2 ? 1 : shape[heads_at];
    sizes->seq = ndim == 2 ? shape[0] : shape[seq_at];
    return true;
}

/* The arrays of the files and what those of the three tensors mean. */
typedef struct inputs {
    npy_array q, k, v;
    extents sq, sk, sv;
    run_scores scores;
} inputs;

static bool check_alike(
    const char *path, const char *field, int64_t has, int64_t wanted, const char *other, run_problem *problem)
{
    if (has == wanted) {
        return true;
    }
    return run_refuse(
        problem, path, "shape: %s is %lld, but that of %s is %lld", field, (long long)has, other, (long long)wanted);
}

static bool check_inputs(const run_request *request, const inputs *in, run_problem *problem)
{
    const char *k = request->k;
    const char *v = request->v;
    if (!check_alike(k, "the number of dimensions", in->k.ndim, in->q.ndim, "--q", problem) ||
        !check_alike(v, "the number of dimensions", in->v.ndim, in->q.ndim, "--q", problem) ||
        !check_alike(k, "batch", in->sk.batch, in->sq.batch, "--q", problem) ||
        !check_alike(v, "batch", in->sv.batch, in->sq.batch, "--q", problem) ||
        !check_alike(k, "head_dim", in->sk.dim, in->sq.dim, "--q", problem) ||
        !check_alike(v, "num_kv_heads", in->sv.heads, in->sk.heads, "--k", problem) ||
        !check_alike(v, "seq_len_kv", in->sv.seq, in->sk.seq, "--k", problem)) {
        return false;
    }
    if (in->sq.dim == 0) {
        return run_refuse(problem, request->q, "shape: head_dim is 0");
    }
    if (in->sv.dim == 0) {
        return run_refuse(problem, v, "shape: head_dim_v is 0");
    }
    if (in->sk.heads == 0 || in->sq.heads % in->sk.heads != 0) {
        return run_refuse(problem, k, "shape: %lld kv heads do not divide the %lld heads of --q",
            (long long)in->sk.heads, (long long)in->sq.heads);
    }
    return run_check_lengths("--lengths", request->lengths, request->num_lengths, in->sq.batch, in->sk.seq, problem) &&
           run_check_lengths(
               "--lengths-q", request->lengths_q, request->num_lengths_q, in->sq.batch, in->sq.seq, problem);
}

static heed_attention describe_problem(const run_request *request, const inputs *in)
{
    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = in->sq.batch;
    attention.num_heads = in->sq.heads;
    attention.num_kv_heads = in->sk.heads;
    attention.seq_len_q = in->sq.seq;
    attention.seq_len_kv = in->sk.seq;
    attention.head_dim = in->sq.dim;
    attention.head_dim_v = in->sv.dim;
    attention.scale = request->scale;
    attention.causal = request->causal;
    attention.causal_offset = request->causal_offset;
    attention.layout = request->layout;
    attention.window_left = request->window_left;
    attention.window_right = request->window_right;
    attention.softcap = request->softcap;
    attention.strides_bias = in->scores.strides_bias;
    attention.strides_mask = in->scores.strides_mask;
    return attention;
}

/* The outputs have as many dimensions before [L, D] as the inputs; lse and weights have heads before positions in
 * either layout. */
static bool allocate_outputs(const run_request *request, const inputs *in, run_result *result, run_problem *problem)
{
    int ndim = in->q.ndim;
    int64_t out[NPY_MAX_DIMS];
    int64_t rows[4] = { in->sq.batch, in->sq.heads, in->sq.seq, in->sk.seq };
    memcpy(out, in->q.shape, sizeof out);
    out[ndim - 1] = in->sv.dim;
    return run_allocate(&result->out, ndim, out, "output", problem) &&
           (!request->lse || run_allocate(&result->lse, ndim - 1, rows + 4 - ndim, "--lse", problem)) &&
           (!request->wants_weights || run_allocate(&result->weights, ndim, rows + 4 - ndim, "--attention", problem));
}

static bool run_plan(
    const run_request *request, const heed_plan *plan, const inputs *in, run_result *result, run_problem *problem)
{
    heed_error error;
    size_t size = heed_plan_workspace_size(plan);
    void *workspace = malloc(size ? size : 1);
    if (!workspace) {
        return run_refuse(problem, NULL, "workspace: not enough memory for %llu bytes", (unsigned long long)size);
    }
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = in->q.data;
    tensors.k = in->k.data;
    tensors.v = in->v.data;
    tensors.out = result->out.data;
    tensors.lse = result->lse.data;
    tensors.weights = result->weights.data;
    tensors.lengths_q = request->lengths_q;
    tensors.lengths_kv = request->lengths;
    tensors.bias = in->scores.bias.data;
    tensors.mask = in->scores.mask.bytes;
    tensors.alibi_slopes = in->scores.alibi.data;
    tensors.sinks = in->scores.sinks.data;
    progress_show("computing", 0, 0);
    double start = seconds_now();
    heed_status status = heed_run(plan, &tensors, workspace, size, &error);
    double seconds = seconds_now() - start;
    free(workspace);
    if (status != HEED_OK) {
        return run_refuse(problem, NULL, "%s", error.message);
    }
    char description[2048];
    heed_plan_describe(plan, description, sizeof description);
    run_say(result, "attention: batch %lld, heads %lld over %lld, queries %lld, keys %lld, head_dim %lld and %lld\n",
        (long long)in->sq.batch, (long long)in->sq.heads, (long long)in->sk.heads, (long long)in->sq.seq,
        (long long)in->sk.seq, (long long)in->sq.dim, (long long)in->sv.dim);
    size_t length = strlen(description);
    run_say(result, "%s%s", description, length > 0 && description[length - 1] != '\n' ? "\n" : "");
    run_say(result, "time: %.3f ms\n", 1e3 * seconds);
    return true;
}

static bool compute(const run_request *request, const inputs *in, run_result *result, run_problem *problem)
{
    heed_attention attention = describe_problem(request, in);
    heed_error error;
    heed_plan *plan = NULL;
    if (heed_plan_create(&plan, &attention, &request->options, &error) != HEED_OK) {
        return run_refuse(problem, NULL, "%s", error.message);
    }
    bool done = allocate_outputs(request, in, result, problem) && run_plan(request, plan, in, result, problem);
    heed_plan_destroy(plan);
    return done;
}

static bool read_scores(const run_request *request, inputs *in, run_problem *problem)
{
    const int64_t sizes[4] = { in->sq.batch, in->sq.heads, in->sq.seq, in->sk.seq };
    return run_scores_read(request, sizes, &in->scores, problem);
}

bool run_attention(const run_request *request, run_result *result, run_problem *problem)
{
    inputs in;
    memset(&in, 0, sizeof in);
    bool done = read_tensor(request->q, request->layout, &in.q, &in.sq, problem) &&
                read_tensor(request->k, request->layout, &in.k, &in.sk, problem) &&
                read_tensor(request->v, request->layout, &in.v, &in.sv, problem) &&
                check_inputs(request, &in, problem) && read_scores(request, &in, problem) &&
                compute(request, &in, result, problem);
    npy_free(&in.q);
    npy_free(&in.k);
    npy_free(&in.v);
    run_scores_free(&in.scores);
    return done;
}
