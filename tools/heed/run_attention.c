/* `heed run --q --k --v`: attention on ready queries, keys and values.
 * May know: heed.h, npy.h.
 * Must not know: weights files. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

/* Which of the dimensions are the positions.  Without heads both layouts are [L, D]. */
static int seq_axis(heed_layout layout, int ndim)
{
    return layout == HEED_LAYOUT_BSHD && ndim > 2 ? ndim - 3 : ndim - 2;
}

static bool read_tensor(const run_request *request, const char *option, const char *path, npy_array *array,
    run_extents *sizes, run_problem *problem)
{
    if (!run_read_tensor(request, option, path, array, problem)) {
        return false;
    }
    int ndim = array->ndim;
    const int64_t *shape = array->shape;
    if (ndim < 2 || ndim > 4) {
        return run_refuse(problem, path, "shape: %d dimensions, not 2, 3 or 4", ndim);
    }
    sizes->batch = ndim == 4 ? shape[0] : 1;
    sizes->dim = shape[ndim - 1];
    int heads_at = request->layout == HEED_LAYOUT_BSHD ? ndim - 2 : ndim - 3;
    sizes->heads = ndim == 2 ? 1 : shape[heads_at];
    sizes->seq = shape[seq_axis(request->layout, ndim)];
    return true;
}

/* The arrays of the files and what those of the three tensors mean. */
typedef struct inputs {
    npy_array q, k, v;
    run_extents sq, sk, sv;
    run_scores scores;
    int64_t skipped; /* queries before those of a decode step */
    run_cache cache;
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
    if (run_cache_wanted(request)) {
        run_cache_describe(&in->cache, &attention);
    }
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
    result->axis = seq_axis(request->layout, ndim);
    result->skipped = in->skipped;
    return run_allocate(&result->out, ndim, out, "output", problem) &&
           (!request->lse || run_allocate(&result->lse, ndim - 1, rows + 4 - ndim, "--lse", problem)) &&
           (!request->wants_weights || run_allocate(&result->weights, ndim, rows + 4 - ndim, "--attention", problem));
}

static heed_tensors point_to(const run_request *request, const inputs *in, const run_result *result)
{
    const run_scores *scores = &in->scores;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = in->q.data;
    tensors.k = in->k.data;
    tensors.v = in->v.data;
    tensors.out = result->out.data;
    tensors.lse = result->lse.data;
    tensors.weights = result->weights.data;
    tensors.lengths_q = request->lengths_q;
    tensors.lengths_kv = request->lengths;
    if (scores->bias.data) {
        tensors.bias = scores->bias.data + in->skipped * scores->strides_bias.query;
    }
    if (scores->mask.bytes) {
        tensors.mask = scores->mask.bytes + in->skipped * scores->strides_mask.query;
    }
    tensors.alibi_slopes = scores->alibi.data;
    tensors.sinks = scores->sinks.data;
    if (run_cache_wanted(request)) {
        run_cache_point(&in->cache, &tensors);
    }
    return tensors;
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
    heed_tensors tensors = point_to(request, in, result);
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
    if (run_cache_wanted(request)) {
        run_cache_say(&in->cache, request->decode_step, result);
    }
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

/* Leaves the step's queries of all. */
static bool keep_step(const run_request *request, inputs *in, run_problem *problem)
{
    int64_t steps = request->decode_step;
    if (steps == 0) {
        return true;
    }
    if (steps > in->sq.seq) {
        return run_refuse(problem, request->q, "shape: %lld queries, fewer than the %lld of --decode-step",
            (long long)in->sq.seq, (long long)steps);
    }
    if (request->lengths && steps < in->sq.seq) {
        return run_refuse(problem, request->q,
            "shape: %lld queries: with --lengths there must be just the %lld of --decode-step, each sequence's last",
            (long long)in->sq.seq, (long long)steps);
    }
    in->skipped = in->sq.seq - steps;
    run_keep_last(&in->q, seq_axis(request->layout, in->q.ndim), steps);
    in->sq.seq = steps;
    return true;
}

static bool build_cache(const run_request *request, inputs *in, run_problem *problem)
{
    return !run_cache_wanted(request) ||
           run_cache_build(request, &in->sk, in->sv.dim, in->k.data, in->v.data, &in->cache, problem);
}

bool run_attention(const run_request *request, run_result *result, run_problem *problem)
{
    inputs in;
    memset(&in, 0, sizeof in);
    bool done = read_tensor(request, "q", request->q, &in.q, &in.sq, problem) &&
                read_tensor(request, "k", request->k, &in.k, &in.sk, problem) &&
                read_tensor(request, "v", request->v, &in.v, &in.sv, problem) && check_inputs(request, &in, problem) &&
                read_scores(request, &in, problem) && keep_step(request, &in, problem) &&
                build_cache(request, &in, problem) && compute(request, &in, result, problem);
    npy_free(&in.q);
    npy_free(&in.k);
    npy_free(&in.v);
    run_scores_free(&in.scores);
    run_cache_free(&in.cache);
    return done;
}
