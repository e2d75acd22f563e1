/* Runs a case by the public API, in its storage order, into packed outputs.
 * May know: the public header, verify.h, command.h for memory.
 * Must not know: what the results should be. */
#include "command.h"
#include "verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int verify_parts(const verify_case *item, verify_part parts[VERIFY_PARTS])
{
    const heed_attention *s = &item->shape;
    int64_t rows = s->batch * s->num_heads * s->seq_len_q;
    int64_t keys = item->kind == VERIFY_LAYER ? s->seq_len_q : s->seq_len_kv;
    int count = 1;
    if (item->kind == VERIFY_ROPE) {
        parts[0] = (verify_part){ "x", rows * s->head_dim };
        parts[1] = (verify_part){ "cosines", s->seq_len_q * item->rope.dim / 2 };
        parts[2] = (verify_part){ "sines", parts[1].count };
        return 3;
    }
    if (item->kind == VERIFY_LINEAR)
        parts[0] = (verify_part){ "y", item->rows * item->out };
    else if (item->kind == VERIFY_SOFTMAX)
        parts[0] = (verify_part){ "y", item->rows * item->in };
    else if (item->kind == VERIFY_LAYER)
        parts[0] = (verify_part){ "y", s->batch * s->seq_len_q * item->out };
    else
        parts[0] = (verify_part){ "out", rows * s->head_dim_v };
    if (item->lse)
        parts[count++] = (verify_part){ "lse", rows };
    if (item->weights)
        parts[count++] = (verify_part){ "weights", rows * keys };
    return count;
}

int64_t verify_output_count(const verify_case *item)
{
    verify_part parts[VERIFY_PARTS];
    int64_t sum = 0;
    for (int i = verify_parts(item, parts) - 1; i >= 0; i--)
        sum += parts[i].count;
    return sum;
}

/* One tensor of an attention in the storage order of its case. */
typedef struct stored {
    float *data; /* NULL: packed as it is, nothing to copy */
    heed_strides strides;
    int64_t batch, heads, seq, dim;
    const int32_t *offsets; /* with varlen: where the rows of each batch entry begin */
} stored;

/* For HEED_LAYOUT_STRIDED: sequence outermost, with gaps between rows. */
static heed_strides strides_of(heed_layout layout, int64_t batch, int64_t heads, int64_t seq, int64_t dim)
{
    if (layout == HEED_LAYOUT_BSHD)
        return (heed_strides){ seq * heads * dim, dim, heads * dim };
    if (layout == HEED_LAYOUT_STRIDED)
        return (heed_strides){ heads * (dim + 3), dim + 3, batch * heads * (dim + 3) + 5 };
    return (heed_strides){ heads * seq * dim, seq * dim, dim };
}

static int64_t stored_size(const stored *tensor)
{
    if (tensor->offsets)
        return tensor->offsets[tensor->batch] * tensor->strides.seq;
    return (tensor->batch - 1) * tensor->strides.batch + (tensor->heads - 1) * tensor->strides.head +
           (tensor->seq - 1) * tensor->strides.seq + tensor->dim;
}

/* Between packed and stored, either way.  Rows that varlen does not store are 0 when unpacked. */
static void copy_rows(const stored *tensor, float *packed, bool to_packed)
{
    const size_t bytes = (size_t)tensor->dim * sizeof(float);
    for (int64_t row = 0; row < tensor->batch * tensor->heads * tensor->seq; row++) {
        int64_t s = row % tensor->seq, h = row / tensor->seq % tensor->heads, b = row / tensor->seq / tensor->heads;
        const int32_t *offsets = tensor->offsets;
        int64_t start = offsets ? offsets[b] * tensor->strides.seq : b * tensor->strides.batch;
        float *place = tensor->data + start + h * tensor->strides.head + s * tensor->strides.seq;
        float *other = packed + row * tensor->dim;
        if (!offsets || s < offsets[b + 1] - offsets[b])
            memcpy(to_packed ? other : place, to_packed ? place : other, bytes);
        else if (to_packed)
            memset(other, 0, bytes);
    }
}

/* Storage for a tensor, filled from packed unless that is NULL.  False when memory runs out. */
static bool store(stored *tensor, heed_layout layout, float *packed)
{
    tensor->strides = strides_of(layout, tensor->batch, tensor->heads, tensor->seq, tensor->dim);
    if (layout == HEED_LAYOUT_BHSD)
        return true;
    int64_t count = stored_size(tensor);
    tensor->data = allocate_array(count, sizeof(float));
    for (int64_t i = 0; tensor->data && i < count; i++)
        tensor->data[i] = NAN;
    if (tensor->data && packed)
        copy_rows(tensor, packed, false);
    return tensor->data != NULL;
}

enum { Q, K, V, OUT, TENSORS };

static bool store_all(const verify_case *item, const verify_data *data, heed_attention *shape, stored tensors[TENSORS])
{
    const int64_t batch = shape->batch, heads = shape->num_heads, kv_heads = shape->num_kv_heads;
    const int32_t *from_q = data->offsets_q, *from_kv = data->offsets_kv;
    tensors[Q] = (stored){ NULL, { 0, 0, 0 }, batch, heads, shape->seq_len_q, shape->head_dim, from_q };
    tensors[K] = (stored){ NULL, { 0, 0, 0 }, batch, kv_heads, shape->seq_len_kv, shape->head_dim, from_kv };
    tensors[V] = (stored){ NULL, { 0, 0, 0 }, batch, kv_heads, shape->seq_len_kv, shape->head_dim_v, from_kv };
    tensors[OUT] = (stored){ NULL, { 0, 0, 0 }, batch, heads, shape->seq_len_q, shape->head_dim_v, from_q };
    bool all = true;
    for (int i = 0; i < TENSORS; i++)
        all &= store(&tensors[i], item->shape.layout, i == OUT ? NULL : data->inputs[i]);
    shape->strides_q = tensors[Q].strides;
    shape->strides_k = tensors[K].strides;
    shape->strides_v = tensors[V].strides;
    shape->strides_out = tensors[OUT].strides;
    return all;
}

/* From [heads][rows of all sequences] to [batch][heads][rows], where a row that is not there sees at most a sink. */
static void unpack_lse(const verify_case *item, const verify_data *data, const float *packed, float *lse)
{
    const heed_attention *s = &item->shape;
    const float *sinks = data->inputs[INPUT_SINKS];
    const int32_t *from = data->offsets_q;
    if (!from || !lse) /* neither packed nor wanted */
        return;
    for (int64_t row = 0; row < s->batch * s->num_heads * s->seq_len_q; row++) {
        int64_t i = row % s->seq_len_q, h = row / s->seq_len_q % s->num_heads, b = row / s->seq_len_q / s->num_heads;
        bool there = i < from[b + 1] - from[b];
        lse[row] = there ? packed[h * from[s->batch] + from[b] + i] : sinks ? sinks[h] : -INFINITY;
    }
}

/* Where the sequences' own lse goes: as it is, or to be unpacked. */
static float *lse_storage(const verify_data *data, const heed_attention *shape, float *lse)
{
    return lse && data->offsets_q ? allocate_array(shape->num_heads * data->offsets_q[shape->batch], sizeof *lse) : lse;
}

static heed_status call_attention(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error)
{
    heed_attention shape = item->shape;
    stored places[TENSORS];
    bool ready = store_all(item, data, &shape, places);
    verify_part parts[VERIFY_PARTS];
    verify_parts(item, parts);
    float *lse = item->lse ? results + parts[0].count : NULL;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = places[Q].data ? places[Q].data : data->inputs[Q];
    tensors.k = places[K].data ? places[K].data : data->inputs[K];
    tensors.v = places[V].data ? places[V].data : data->inputs[V];
    tensors.out = places[OUT].data ? places[OUT].data : results;
    tensors.lse = lse_storage(data, &shape, lse);
    tensors.weights = item->weights ? results + parts[0].count + (item->lse ? parts[1].count : 0) : NULL;
    tensors.lengths_q = data->offsets_q ? NULL : data->lengths_q;
    tensors.lengths_kv = data->offsets_kv ? NULL : data->lengths_kv;
    verify_masks_attach(item, data, &shape, &tensors);
    ready = ready && (tensors.lse || !lse);
    heed_status status = ready ? heed_attend(&shape, &tensors, options, error) : HEED_ERROR_OUT_OF_MEMORY;
    if (status == HEED_OK && places[OUT].data)
        copy_rows(&places[OUT], results, true);
    if (status == HEED_OK && tensors.lse != lse)
        unpack_lse(item, data, tensors.lse, lse);
    if (tensors.lse != lse)
        free(tensors.lse);
    for (int i = 0; i < TENSORS; i++)
        free(places[i].data);
    return status;
}

static heed_status call_linear(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error)
{
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    heed_linear *linear;
    desc.in_features = item->in;
    desc.out_features = item->out;
    desc.weight = data->inputs[1];
    desc.stride_in = item->in_out ? item->out : 1;
    desc.stride_out = item->in_out ? 1 : item->in;
    desc.bias = data->inputs[2];
    heed_status status = heed_linear_create(&linear, &desc, options, error);
    if (status != HEED_OK)
        return status;
    size_t size = heed_linear_workspace_size(linear, item->rows);
    void *workspace = malloc(size ? size : 1);
    status = workspace ? heed_linear_run(
                             linear, item->rows, data->inputs[0], item->in, results, item->out, workspace, size, error)
                       : HEED_ERROR_OUT_OF_MEMORY;
    free(workspace);
    heed_linear_destroy(linear);
    return status;
}

static void describe_layer(heed_layer_desc *desc, const verify_case *item, const verify_data *data)
{
    const heed_attention *s = &item->shape;
    desc->model_dim = item->in;
    desc->out_dim = item->out;
    desc->num_heads = s->num_heads;
    desc->num_kv_heads = s->num_kv_heads;
    desc->head_dim = s->head_dim;
    desc->head_dim_v = s->head_dim_v;
    desc->scale = s->scale;
    desc->causal = s->causal;
    desc->causal_offset = s->causal_offset;
    desc->weight_layout = item->in_out ? HEED_WEIGHT_IN_OUT : HEED_WEIGHT_OUT_IN;
    desc->weight_q = data->inputs[1];
    desc->weight_k = data->inputs[2];
    desc->weight_v = data->inputs[3];
    desc->weight_o = data->inputs[4];
    desc->bias_q = data->inputs[5];
    desc->bias_k = data->inputs[6];
    desc->bias_v = data->inputs[7];
    desc->bias_o = data->inputs[8];
}

static heed_status call_layer(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error)
{
    const heed_attention *s = &item->shape;
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    heed_layer *layer;
    describe_layer(&desc, item, data);
    heed_status status = heed_layer_create(&layer, &desc, options, error);
    if (status != HEED_OK)
        return status;
    size_t size = 0;
    status = heed_layer_workspace_size(layer, s->batch, s->seq_len_q, &size, error);
    void *workspace = status == HEED_OK ? malloc(size ? size : 1) : NULL;
    if (status == HEED_OK && !workspace)
        status = HEED_ERROR_OUT_OF_MEMORY;
    if (status == HEED_OK) {
        verify_part parts[VERIFY_PARTS];
        verify_parts(item, parts);
        heed_layer_tensors tensors = HEED_LAYER_TENSORS_INIT;
        tensors.x = data->inputs[0];
        tensors.y = results;
        tensors.lse = item->lse ? results + parts[0].count : NULL;
        tensors.weights = item->weights ? results + parts[0].count + (item->lse ? parts[1].count : 0) : NULL;
        tensors.lengths = data->lengths_kv;
        status = heed_layer_run(layer, s->batch, s->seq_len_q, &tensors, workspace, size, error);
    }
    free(workspace);
    heed_layer_destroy(layer);
    return status;
}

heed_status verify_call(
    const verify_case *item, const verify_data *data, const heed_options *options, float *results, heed_error *error)
{
    switch (item->kind) {
    case VERIFY_ATTENTION:
        return item->pieces ? verify_call_decode(item, data, options, results, error)
                            : call_attention(item, data, options, results, error);
    case VERIFY_LINEAR: return call_linear(item, data, options, results, error);
    case VERIFY_LAYER: return call_layer(item, data, options, results, error);
    case VERIFY_ROPE: return verify_call_rope(item, data, results, error);
    default:
        return heed_softmax(
            item->rows, item->in, data->inputs[0], item->in, results, item->in, data->lengths_kv, options, error);
    }
}
