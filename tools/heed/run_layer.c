/* `heed run --x --weights`: one self-attention layer of a model.
 * May know: heed.h, npy.h, safetensors.h, names.h.
 * Must not know: the JSON and dictionaries inside files. */
#include "run.h"

#include "names.h"

#include <stdlib.h>
#include <string.h>

/* The layer's numbers as read from the file, and the sizes their shapes imply. */
typedef struct layer_weights {
    layer_names names;
    float *weight[PROJECTIONS], *bias[PROJECTIONS];
    int64_t kv_heads, head_dim, head_dim_v, out_dim;
    run_rope rope; /* as chosen for them */
} layer_weights;

static void free_weights(layer_weights *layer)
{
    for (int p = 0; p < PROJECTIONS; p++) {
        free(layer->weight[p]);
        free(layer->bias[p]);
    }
}

/* PyTorch's [out][in] matrices, a bias as long as out. */
static bool check_projection(
    const layer_names *names, projection which, int64_t width, const char *file, run_problem *problem)
{
    const tensor_info *weight = names->weight[which];
    const tensor_info *bias = names->bias[which];
    if (weight->ndim != 2 || weight->shape[0] == 0) {
        return run_refuse(problem, file, "%.160s: shape: not a matrix [out][in]", weight->name);
    }
    if (weight->shape[1] != width) {
        return run_refuse(problem, file, "%.160s: shape: %lld columns, but its input is %lld wide", weight->name,
            (long long)weight->shape[1], (long long)width);
    }
    if (bias && (bias->ndim != 1 || bias->shape[0] != weight->shape[0])) {
        return run_refuse(problem, file, "%.160s: shape: not one number for each of %lld rows of the weight",
            bias->name, (long long)weight->shape[0]);
    }
    return true;
}

static bool check_rows(
    const layer_names *names, projection which, int64_t parts, const char *what, const char *file, run_problem *problem)
{
    const tensor_info *weight = names->weight[which];
    if (weight->shape[0] % parts != 0) {
        return run_refuse(problem, file, "%.160s: shape: %lld rows are no multiple of %s (%lld)", weight->name,
            (long long)weight->shape[0], what, (long long)parts);
    }
    return true;
}

/* head_dim and the kv heads follow from the heads and the shapes of the matrices. */
static bool derive_sizes(const run_request *request, int64_t width, layer_weights *layer, run_problem *problem)
{
    const char *file = request->weights;
    const layer_names *names = &layer->names;
    for (int p = PROJECTION_Q; p <= PROJECTION_V; p++) {
        if (!check_projection(names, (projection)p, width, file, problem)) {
            return false;
        }
    }
    if (!check_rows(names, PROJECTION_Q, request->heads, "--heads", file, problem)) {
        return false;
    }
    layer->head_dim = names->weight[PROJECTION_Q]->shape[0] / request->heads;
    if (!check_rows(names, PROJECTION_K, layer->head_dim, "head_dim", file, problem)) {
        return false;
    }
    layer->kv_heads = names->weight[PROJECTION_K]->shape[0] / layer->head_dim;
    if (request->kv_heads != 0 && request->kv_heads != layer->kv_heads) {
        return run_refuse(problem, NULL, "--kv-heads: %lld, but the weights have %lld", (long long)request->kv_heads,
            (long long)layer->kv_heads);
    }
    if (request->heads % layer->kv_heads != 0) {
        return run_refuse(problem, NULL, "--heads: %lld is no multiple of the %lld kv heads of the weights",
            (long long)request->heads, (long long)layer->kv_heads);
    }
    if (!check_rows(names, PROJECTION_V, layer->kv_heads, "the kv heads", file, problem)) {
        return false;
    }
    layer->head_dim_v = names->weight[PROJECTION_V]->shape[0] / layer->kv_heads;
    layer->out_dim = names->weight[PROJECTION_O]->shape[0];
    int64_t joined = 0;
    if (!checked_multiply(request->heads, layer->head_dim_v, &joined)) {
        return run_refuse(problem, file, "shape: --heads times head_dim_v overflows");
    }
    return check_projection(names, PROJECTION_O, joined, file, problem);
}

static bool read_tensors(const safetensors *file, const char *path, layer_weights *layer, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    for (int p = 0; p < PROJECTIONS; p++) {
        progress_show("reading weights", p, PROJECTIONS);
        layer->weight[p] = safetensors_read(file, layer->names.weight[p], message, sizeof message);
        if (layer->weight[p] && layer->names.bias[p]) {
            layer->bias[p] = safetensors_read(file, layer->names.bias[p], message, sizeof message);
        }
        if (!layer->weight[p] || (layer->names.bias[p] && !layer->bias[p])) {
            return run_refuse(problem, path, "%s", message);
        }
    }
    return true;
}

static bool load_weights(const run_request *request, int64_t width, layer_weights *layer, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    safetensors file;
    const char *path = request->weights;
    if (!safetensors_open(path, &file, message, sizeof message)) {
        return run_refuse(problem, path, "%s", message);
    }
    bool loaded = false;
    if (!names_find(&file, request->layer, request->names, &layer->names, message, sizeof message)) {
        run_refuse(problem, path, "%s", message);
    } else {
        loaded = derive_sizes(request, width, layer, problem) && read_tensors(&file, path, layer, problem);
    }
    safetensors_close(&file);
    /* The infos went with the file. */
    for (int p = 0; p < PROJECTIONS; p++) {
        layer->names.weight[p] = layer->names.bias[p] = NULL;
    }
    return loaded;
}

static void warn_about_model(const layer_names *names, const run_rope *asked)
{
    if (names->rotary && !asked->given && asked->desc.base == 0.0 && asked->desc.scaling == HEED_ROPE_PLAIN) {
        note("run",
            "%s weights: RoPE with base 10000 and no scaling, unless --rope-base and --rope-scaling say what "
            "rope_theta "
            "and rope_scaling are in the model's config.json",
            names->family);
    }
    if (names->normed) {
        note("run", "%s weights: queries and keys are NOT normalised (q_norm, k_norm); the model would", names->family);
    }
}

static heed_layer_desc describe_layer(const run_request *request, int64_t width, const layer_weights *weights)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = width;
    desc.out_dim = weights->out_dim;
    desc.num_heads = request->heads;
    desc.num_kv_heads = weights->kv_heads;
    desc.head_dim = weights->head_dim;
    desc.head_dim_v = weights->head_dim_v;
    desc.scale = request->scale;
    desc.causal = request->causal;
    desc.causal_offset = request->causal_offset;
    desc.window_left = request->window_left;
    desc.window_right = request->window_right;
    desc.softcap = request->softcap;
    desc.rope = weights->rope.pairs;
    desc.rope_dim = weights->rope.desc.dim;
    desc.weight_layout = HEED_WEIGHT_OUT_IN;
    desc.weight_q = weights->weight[PROJECTION_Q];
    desc.weight_k = weights->weight[PROJECTION_K];
    desc.weight_v = weights->weight[PROJECTION_V];
    desc.weight_o = weights->weight[PROJECTION_O];
    desc.bias_q = weights->bias[PROJECTION_Q];
    desc.bias_k = weights->bias[PROJECTION_K];
    desc.bias_v = weights->bias[PROJECTION_V];
    desc.bias_o = weights->bias[PROJECTION_O];
    return desc;
}

static bool allocate_outputs(const run_request *request, const npy_array *x, const layer_weights *weights,
    run_result *result, run_problem *problem)
{
    int ndim = x->ndim;
    int64_t batch = ndim == 3 ? x->shape[0] : 1;
    int64_t seq_len = x->shape[ndim - 2];
    int64_t out[3] = { batch, seq_len, weights->out_dim };
    int64_t rows[4] = { batch, request->heads, seq_len, seq_len };
    return run_allocate(&result->out, ndim, out + 3 - ndim, "output", problem) &&
           (!request->lse || run_allocate(&result->lse, ndim, rows + 3 - ndim, "--lse", problem)) &&
           (!request->wants_weights ||
               run_allocate(&result->weights, ndim + 1, rows + 3 - ndim, "--attention", problem));
}

static bool run_once(const run_request *request, const heed_layer *layer, const npy_array *x,
    const run_rope_tables *rope, run_result *result, double *seconds, run_problem *problem)
{
    heed_error error;
    size_t size = 0;
    int64_t batch = x->ndim == 3 ? x->shape[0] : 1;
    int64_t seq_len = x->shape[x->ndim - 2];
    if (heed_layer_workspace_size(layer, batch, seq_len, &size, &error) != HEED_OK) {
        return run_refuse(problem, NULL, "%s", error.message);
    }
    void *workspace = malloc(size ? size : 1);
    if (!workspace) {
        return run_refuse(problem, NULL, "workspace: not enough memory for %llu bytes", (unsigned long long)size);
    }
    heed_layer_tensors tensors = HEED_LAYER_TENSORS_INIT;
    tensors.x = x->data;
    tensors.y = result->out.data;
    tensors.lse = result->lse.data;
    tensors.weights = result->weights.data;
    tensors.lengths = request->lengths;
    tensors.rope_cosines = rope->cosines;
    tensors.rope_sines = rope->sines;
    progress_show("computing", 0, 0);
    double start = seconds_now();
    heed_status status = heed_layer_run(layer, batch, seq_len, &tensors, workspace, size, &error);
    *seconds = seconds_now() - start;
    free(workspace);
    return status == HEED_OK || run_refuse(problem, NULL, "%s", error.message);
}

/* Packing and running, in seconds. */
typedef struct timing {
    double packing, running;
} timing;

static void describe_run(const run_request *request, const npy_array *x, const heed_layer_desc *desc,
    const layer_weights *weights, const timing *time, run_result *result)
{
    heed_isa isa = request->options.isa == HEED_ISA_AUTO ? heed_isa_default() : request->options.isa;
    run_say(result, "layer: %s names, batch %lld, positions %lld, width %lld to %lld, heads %lld over %lld, ",
        weights->names.family, (long long)(x->ndim == 3 ? x->shape[0] : 1), (long long)x->shape[x->ndim - 2],
        (long long)desc->model_dim, (long long)desc->out_dim, (long long)desc->num_heads,
        (long long)desc->num_kv_heads);
    run_say(result, "head_dim %lld and %lld\n", (long long)desc->head_dim, (long long)desc->head_dim_v);
    if (weights->names.rotary || weights->rope.pairs != HEED_ROPE_NONE) {
        run_rope_say(&weights->rope, desc->head_dim, result);
    }
    run_say(result, "backend: %s\ntime: %.3f ms, and %.3f ms once for packing the weights\n", heed_isa_name(isa),
        1e3 * time->running, 1e3 * time->packing);
}

static bool compute(const run_request *request, const npy_array *x, const layer_weights *weights,
    const run_rope_tables *rope, run_result *result, run_problem *problem)
{
    heed_error error;
    heed_layer *layer = NULL;
    heed_layer_desc desc = describe_layer(request, x->shape[x->ndim - 1], weights);
    timing time = { 0, 0 };
    progress_show("packing weights", 0, 0);
    double start = seconds_now();
    if (heed_layer_create(&layer, &desc, &request->options, &error) != HEED_OK) {
        return run_refuse(problem, request->weights, "%s", error.message);
    }
    time.packing = seconds_now() - start;
    bool done = allocate_outputs(request, x, weights, result, problem) &&
                run_once(request, layer, x, rope, result, &time.running, problem);
    heed_layer_destroy(layer);
    if (done) {
        describe_run(request, x, &desc, weights, &time, result);
    }
    return done;
}

static bool compute_rotated(
    const run_request *request, const npy_array *x, layer_weights *weights, run_result *result, run_problem *problem)
{
    run_rope_tables tables;
    if (!run_rope_choose(&request->rope, weights->names.rotary, weights->head_dim, &weights->rope, problem)) {
        return false;
    }
    warn_about_model(&weights->names, &request->rope);
    bool done = run_rope_compute(&weights->rope, x->shape[x->ndim - 2], &tables, problem) &&
                compute(request, x, weights, &tables, result, problem);
    run_rope_free(&tables);
    return done;
}

bool run_layer(const run_request *request, run_result *result, run_problem *problem)
{
    char message[MESSAGE_SIZE];
    npy_array x;
    layer_weights weights;
    memset(&weights, 0, sizeof weights);
    if (!npy_read(request->x, &x, message, sizeof message)) {
        return run_refuse(problem, request->x, "%s", message);
    }
    bool done = false;
    if ((x.ndim != 2 && x.ndim != 3) || x.shape[x.ndim - 1] == 0) {
        run_refuse(problem, request->x, "shape: not [positions, width] or [batch, positions, width]");
    } else {
        done = run_check_lengths("--lengths", request->lengths, request->num_lengths, x.ndim == 3 ? x.shape[0] : 1,
                   x.shape[x.ndim - 2], problem) &&
               load_weights(request, x.shape[x.ndim - 1], &weights, problem) &&
               compute_rotated(request, &x, &weights, result, problem);
    }
    free_weights(&weights);
    npy_free(&x);
    return done;
}
