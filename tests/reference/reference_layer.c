/* The layer cases of cases.bin: torch.nn.MultiheadAttention and the layers of Llama, Qwen2, Mistral, Gemma 2, Cohere, GPT-J
 * and T5 as transformers computes them in f64.
 * May know: the public header, reference_test.h.
 * Must not know: anything under src/.
 *
 * Bound: u * magnitude, the largest sum of absolute products on the way to one output, taking every weight for 1. */
#include "reference_rope.h"
#include "reference_test.h"

#include <math.h>

static double worst_layer;

static heed_layer_desc layer_of(const reference_case *c)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = reference_size(c, "width");
    desc.num_heads = reference_size(c, "heads");
    desc.num_kv_heads = reference_size(c, "kv_heads");
    desc.head_dim = reference_size(c, "head_dim");
    desc.scale = (float)reference_get(c, "scale");
    desc.causal = (heed_causal)reference_size(c, "causal");
    desc.window_left = reference_size(c, "window_left");
    desc.softcap = (float)reference_get(c, "softcap");
    desc.weight_q = input(c, "wq");
    desc.weight_k = input(c, "wk");
    desc.weight_v = input(c, "wv");
    desc.weight_o = input(c, "wo");
    desc.bias_q = input_or_null(c, "bq");
    desc.bias_k = input_or_null(c, "bk");
    desc.bias_v = input_or_null(c, "bv");
    desc.bias_o = input_or_null(c, "bo");
    desc.rope = (heed_rope_pairs)reference_size(c, "pairs");
    desc.rope_dim = desc.rope == HEED_ROPE_NONE ? 0 : reference_size(c, "dim");
    return desc;
}

static heed_layer_tensors layer_tensors(const reference_case *c, const heed_layer_desc *desc)
{
    heed_layer_tensors tensors = HEED_LAYER_TENSORS_INIT;
    tensors.x = input(c, "x");
    tensors.y = output(c, "y");
    tensors.weights = output(c, "weights");
    tensors.lengths = input_lengths(c, "lengths");
    tensors.bias = input_or_null(c, "bias");
    tensors.bias_heads = tensors.bias ? desc->num_heads : 0;
    if (desc->rope != HEED_ROPE_NONE) {
        int64_t length = reference_size(c, "length");
        size_t count = (size_t)(length * desc->rope_dim / 2);
        float *cosines = check_output(count, CHECK_GUARD_BEHIND), *sines = check_output(count, CHECK_GUARD_BEHIND);
        reference_rope_table(c, length, cosines, sines);
        tensors.rope_cosines = cosines;
        tensors.rope_sines = sines;
    }
    return tensors;
}

static void run_layer(const reference_case *c, const heed_layer *layer, const heed_layer_desc *desc)
{
    int64_t batch = reference_size(c, "batch"), length = reference_size(c, "length");
    heed_error error = { "" };
    size_t size = 0;
    heed_status status = heed_layer_workspace_size(layer, batch, length, &size, &error);
    if (!CHECK(status == HEED_OK, "workspace: status %d: %s", (int)status, error.message))
        return;
    heed_layer_tensors tensors = layer_tensors(c, desc);
    void *workspace = check_alloc(size, CHECK_GUARD_BEHIND);
    status = heed_layer_run(layer, batch, length, &tensors, workspace, size, &error);
    if (!CHECK(status == HEED_OK, "run: status %d: %s", (int)status, error.message))
        return;
    double bound = unit * reference_get(c, "magnitude");
    worst_layer = fmax(worst_layer, compare(c, "y", tensors.y, bound));
    compare(c, "weights", tensors.weights, bound);
}

static void visit_layer(const reference_case *c, const heed_options *options)
{
    heed_layer_desc desc = layer_of(c);
    heed_layer *layer = NULL;
    heed_error error = { "" };
    heed_status status = heed_layer_create(&layer, &desc, options, &error);
    if (CHECK(status == HEED_OK, "create: status %d: %s", (int)status, error.message))
        run_layer(c, layer, &desc);
    heed_layer_destroy(layer);
}

void test_layer(void)
{
    each_run("layer", visit_layer);
    check_note("worst error %.0f %% of the bound", 100 * worst_layer);
}
