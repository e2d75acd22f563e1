/* The whole self-attention layer: X -> Q, K, V -> attention -> output projection.
 * May know: projections and plans.  Must not know: kernels, instruction sets, OpenMP. */
#include "linear.h"

#include <string.h>

struct heed_layer {
    heed_layer_desc desc; /* resolved; its weight pointers are not used after creation */
    heed_linear *qkv, *output;
    heed_allocator allocator;
    heed_executor executor; /* the copy options points at */
    heed_options options;
};

/* Columns of the fused projection: all queries, all keys, all values. */
typedef struct layer_widths {
    int64_t q, k, v, all;
} layer_widths;

static layer_widths widths_of(const heed_layer_desc *d)
{
    layer_widths w = { d->num_heads * d->head_dim, d->num_kv_heads * d->head_dim, d->num_kv_heads * d->head_dim_v, 0 };
    w.all = w.q + w.k + w.v;
    return w;
}

/* ---- Making ---- */

static heed_status check_dimension(const char *name, int64_t value, heed_error *error)
{
    const int64_t most = INT32_MAX; /* of a model's width: products of two then fit */
    if (value >= 1 && value <= most)
        return HEED_OK;
    return heed_fail(
        error, HEED_ERROR_INVALID, "%s is %lld, must be in 1 .. %lld", name, (long long)value, (long long)most);
}

/* Sums of four widths must fit. */
static heed_status check_width(const char *heads, int64_t count, const char *dim, int64_t size, heed_error *error)
{
    if (count <= (int64_t)(PTRDIFF_MAX / sizeof(float)) / 4 / size)
        return HEED_OK;
    return heed_fail(error, HEED_ERROR_OVERFLOW, "%s %lld x %s %lld does not fit the address space", heads,
        (long long)count, dim, (long long)size);
}

static heed_status check_widths(const heed_layer_desc *d, heed_error *error)
{
    heed_status status = check_width("num_heads", d->num_heads, "head_dim", d->head_dim, error);
    if (status == HEED_OK)
        status = check_width("num_heads", d->num_heads, "head_dim_v", d->head_dim_v, error);
    if (status == HEED_OK)
        status = check_width("num_kv_heads", d->num_kv_heads, "head_dim", d->head_dim, error);
    return status == HEED_OK ? check_width("num_kv_heads", d->num_kv_heads, "head_dim_v", d->head_dim_v, error)
                             : status;
}

static heed_status resolve_layer(heed_layer_desc *to, const heed_layer_desc *from, heed_error *error)
{
    static const heed_layer_desc defaults = HEED_LAYER_DESC_INIT;
    *to = defaults;
    heed_status status = heed_copy_struct(to, sizeof *to, from, "desc", error);
    if (status != HEED_OK)
        return status;
    to->out_dim = to->out_dim ? to->out_dim : to->model_dim;
    to->head_dim_v = to->head_dim_v ? to->head_dim_v : to->head_dim;
    const struct {
        const char *name;
        int64_t value;
    } sizes[] = { { "model_dim", to->model_dim }, { "out_dim", to->out_dim }, { "num_heads", to->num_heads },
        { "num_kv_heads", to->num_kv_heads }, { "head_dim", to->head_dim }, { "head_dim_v", to->head_dim_v } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status == HEED_OK; i++)
        status = check_dimension(sizes[i].name, sizes[i].value, error);
    if (status == HEED_OK)
        status = check_widths(to, error);
    if (status != HEED_OK)
        return status;
    if (to->reserved != 0)
        return heed_fail(error, HEED_ERROR_INVALID, "reserved is %u, must be 0", (unsigned)to->reserved);
    if (to->weight_layout != HEED_WEIGHT_OUT_IN && to->weight_layout != HEED_WEIGHT_IN_OUT)
        return heed_fail(error, HEED_ERROR_INVALID, "weight_layout is %d, not a value of heed_weight_layout",
            (int)to->weight_layout);
    to->rope_dim = to->rope_dim ? to->rope_dim : to->head_dim;
    if ((int)to->rope < HEED_ROPE_NONE || (int)to->rope > HEED_ROPE_INTERLEAVED)
        return heed_fail(error, HEED_ERROR_INVALID, "rope is %d, not a value of heed_rope_pairs", (int)to->rope);
    if (to->rope != HEED_ROPE_NONE && (to->rope_dim < 2 || to->rope_dim % 2 || to->rope_dim > to->head_dim))
        return heed_fail(error, HEED_ERROR_INVALID, "rope_dim is %lld, must be even and in 2 .. head_dim %lld",
            (long long)to->rope_dim, (long long)to->head_dim);
    const struct {
        const char *name;
        const float *weight;
    } weights[] = { { "weight_q", to->weight_q }, { "weight_k", to->weight_k }, { "weight_v", to->weight_v },
        { "weight_o", to->weight_o } };
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        if (!weights[i].weight)
            return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", weights[i].name);
    return HEED_OK;
}

static heed_linear_desc projection(
    const heed_layer_desc *d, int64_t in, int64_t out, const float *weight, const float *bias)
{
    const int out_in = d->weight_layout == HEED_WEIGHT_OUT_IN;
    const heed_linear_desc desc = { sizeof desc, in, out, weight, out_in ? 1 : out, out_in ? in : 1, bias };
    return desc;
}

/* The problem of a run; batch and seq_len 0 when only the fields are to be checked. */
static heed_attention layer_attention(const heed_layer *l, int64_t batch, int64_t seq_len)
{
    const heed_layer_desc *d = &l->desc;
    const layer_widths w = widths_of(d);
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = batch;
    a.num_heads = d->num_heads;
    a.num_kv_heads = d->num_kv_heads;
    a.seq_len_q = a.seq_len_kv = seq_len;
    a.head_dim = d->head_dim;
    a.head_dim_v = d->head_dim_v;
    a.scale = d->scale;
    a.causal = d->causal;
    a.causal_offset = d->causal_offset;
    a.window_left = d->window_left;
    a.window_right = d->window_right;
    a.softcap = d->softcap;
    a.layout = HEED_LAYOUT_STRIDED;
    const heed_strides qk = { seq_len * w.all, d->head_dim, w.all }, v = { seq_len * w.all, d->head_dim_v, w.all };
    const heed_strides out = { seq_len * d->num_heads * d->head_dim_v, d->head_dim_v, d->num_heads * d->head_dim_v };
    a.strides_q = a.strides_k = qk;
    a.strides_v = v;
    a.strides_out = out;
    return a;
}

static heed_status create_projections(heed_layer *l, heed_error *error)
{
    const heed_layer_desc *d = &l->desc;
    const layer_widths w = widths_of(d);
    const heed_linear_desc qkv[3] = { projection(d, d->model_dim, w.q, d->weight_q, d->bias_q),
        projection(d, d->model_dim, w.k, d->weight_k, d->bias_k),
        projection(d, d->model_dim, w.v, d->weight_v, d->bias_v) };
    const heed_linear_desc output = projection(d, d->num_heads * d->head_dim_v, d->out_dim, d->weight_o, d->bias_o);
    const heed_status status = heed_linear_create_fused(&l->qkv, qkv, 3, &l->options, error);
    return status == HEED_OK ? heed_linear_create_fused(&l->output, &output, 1, &l->options, error) : status;
}

heed_status heed_layer_create(
    heed_layer **layer, const heed_layer_desc *desc, const heed_options *options, heed_error *error)
{
    if (!layer || !desc)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", layer ? "desc" : "layer");
    *layer = NULL;
    heed_layer made;
    memset(&made, 0, sizeof made);
    heed_status status = heed_copy_options(&made.options, options, error);
    if (status == HEED_OK)
        status = resolve_layer(&made.desc, desc, error);
    if (status != HEED_OK)
        return status;
    made.options.num_threads =
        heed_threads_of(&made.options).num_threads; /* sizes asked for now must hold at every run */
    const heed_attention empty = layer_attention(&made, 0, 0);
    heed_plan plan;
    status = heed_plan_init(&plan, &empty, &made.options, error);
    if (status == HEED_OK)
        status = create_projections(&made, error);
    made.allocator = heed_allocator_of(&made.options);
    heed_layer *l = status == HEED_OK ? heed_allocate(&made.allocator, sizeof *l) : NULL;
    if (!l) {
        heed_linear_destroy(made.qkv);
        heed_linear_destroy(made.output);
        return status != HEED_OK
                   ? status
                   : heed_fail(error, HEED_ERROR_OUT_OF_MEMORY, "layer: no memory for %zu bytes", sizeof *l);
    }
    *l = made;
    if (l->options.executor) {
        l->executor = *l->options.executor;
        l->options.executor = &l->executor;
    }
    l->options.allocator = NULL; /* a run allocates nothing */
    *layer = l;
    return heed_succeed(error);
}

void heed_layer_destroy(heed_layer *layer)
{
    if (!layer)
        return;
    const heed_allocator allocator = layer->allocator;
    heed_linear_destroy(layer->qkv);
    heed_linear_destroy(layer->output);
    heed_release(&allocator, layer);
}

/* ---- Running ---- */

/* Byte offsets into the aligned workspace; work is shared by the three steps, which run one after another. */
typedef struct layer_map {
    size_t qkv, context, work, size;
    size_t linear_qkv, attention, linear_output; /* what each step needs of work */
    heed_plan plan;
} layer_map;

static int place_rows(size_t *size, size_t *offset, int64_t rows, int64_t width)
{
    size_t count;
    return heed_multiply((size_t)rows, (size_t)width, &count) && heed_place(size, offset, count, sizeof(float));
}

static heed_status map_layer(const heed_layer *l, int64_t batch, int64_t seq_len, layer_map *map, heed_error *error)
{
    const heed_layer_desc *d = &l->desc;
    size_t rows;
    memset(map, 0, sizeof *map);
    if (batch < 0 || seq_len < 0)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least 0", batch < 0 ? "batch" : "seq_len",
            (long long)(batch < 0 ? batch : seq_len));
    if (batch == 0 || seq_len == 0)
        return HEED_OK;
    const int64_t wide = widths_of(d).all > d->model_dim ? widths_of(d).all : d->model_dim;
    if (!heed_multiply((size_t)batch, (size_t)seq_len, &rows) || rows > PTRDIFF_MAX / sizeof(float) / (size_t)wide ||
        rows > PTRDIFF_MAX / sizeof(float) / (size_t)d->out_dim ||
        !place_rows(&map->size, &map->qkv, (int64_t)rows, widths_of(d).all) ||
        !place_rows(&map->size, &map->context, (int64_t)rows, d->num_heads * d->head_dim_v))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "batch %lld x seq_len %lld: does not fit the address space",
            (long long)batch, (long long)seq_len);
    const heed_attention a = layer_attention(l, batch, seq_len);
    const heed_status status = heed_plan_init(&map->plan, &a, &l->options, error);
    if (status != HEED_OK)
        return status;
    map->linear_qkv = heed_linear_workspace_size(l->qkv, (int64_t)rows);
    map->linear_output = heed_linear_workspace_size(l->output, (int64_t)rows);
    map->attention = map->plan.workspace_size;
    size_t most = map->linear_qkv > map->linear_output ? map->linear_qkv : map->linear_output;
    most = map->attention > most ? map->attention : most;
    map->work = map->size;
    if (!heed_add(&map->size, most) || !heed_add(&map->size, HEED_ALIGNMENT - 1))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "workspace: its size does not fit the address space");
    return HEED_OK;
}

heed_status heed_layer_workspace_size(
    const heed_layer *layer, int64_t batch, int64_t seq_len, size_t *size, heed_error *error)
{
    if (!layer || !size)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", layer ? "size" : "layer");
    layer_map map;
    const heed_status status = map_layer(layer, batch, seq_len, &map, error);
    *size = status == HEED_OK ? map.size : 0;
    return status == HEED_OK ? heed_succeed(error) : status;
}

/* Queries and keys lie side by side in a row of the fused projection: one call rotates the heads of both. */
static heed_status rotate(
    const heed_layer *l, int64_t batch, int64_t seq_len, const heed_layer_tensors *x, float *qkv, heed_error *error)
{
    const heed_layer_desc *d = &l->desc;
    const layer_widths w = widths_of(d);
    const heed_strides strides = { seq_len * w.all, d->head_dim, w.all };
    if (d->rope == HEED_ROPE_NONE)
        return HEED_OK;
    return heed_rope_apply(d->rope, d->rope_dim, batch, d->num_heads + d->num_kv_heads, seq_len, qkv, strides,
        x->rope_cosines, x->rope_sines, 0, error);
}

static heed_status check_layer_tensors(
    const heed_layer *l, int64_t batch, int64_t seq_len, const heed_layer_tensors *x, heed_error *error)
{
    if (!x->x || !x->y)
        return heed_fail(error, HEED_ERROR_INVALID, "tensors.%s is NULL", x->x ? "y" : "x");
    if (l->desc.rope != HEED_ROPE_NONE && (!x->rope_cosines || !x->rope_sines))
        return heed_fail(error, HEED_ERROR_INVALID, "tensors.%s is NULL, rope needs it",
            x->rope_cosines ? "rope_sines" : "rope_cosines");
    if (x->bias && x->bias_heads != 1 && x->bias_heads != l->desc.num_heads)
        return heed_fail(error, HEED_ERROR_INVALID, "tensors.bias_heads is %lld, must be 1 or num_heads %lld",
            (long long)x->bias_heads, (long long)l->desc.num_heads);
    return heed_check_lengths("tensors.lengths", x->lengths, batch, seq_len, error);
}

static heed_status run_steps(const heed_layer *l, int64_t batch, int64_t seq_len, const layer_map *map,
    const heed_layer_tensors *x, char *workspace, heed_error *error)
{
    const layer_widths w = widths_of(&l->desc);
    float *qkv = (float *)(workspace + map->qkv), *context = (float *)(workspace + map->context);
    void *work = workspace + map->work;
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = qkv;
    t.k = qkv + w.q;
    t.v = qkv + w.q + w.k;
    t.out = context;
    t.lse = x->lse;
    t.weights = x->weights;
    t.lengths_q = t.lengths_kv = x->lengths;
    t.bias = x->bias;
    const int64_t rows = batch * seq_len;
    heed_status status =
        heed_linear_run(l->qkv, rows, x->x, l->desc.model_dim, qkv, w.all, work, map->linear_qkv, error);
    if (status == HEED_OK)
        status = rotate(l, batch, seq_len, x, qkv, error);
    if (status == HEED_OK)
        status = heed_run(&map->plan, &t, work, map->attention, error);
    if (status == HEED_OK)
        status = heed_linear_run(l->output, rows, context, l->desc.num_heads * l->desc.head_dim_v, x->y,
            l->desc.out_dim, work, map->linear_output, error);
    return status;
}

heed_status heed_layer_run(const heed_layer *layer, int64_t batch, int64_t seq_len, const heed_layer_tensors *tensors,
    void *workspace, size_t workspace_size, heed_error *error)
{
    if (!layer || !tensors)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", layer ? "tensors" : "layer");
    heed_layer_tensors x = HEED_LAYER_TENSORS_INIT;
    layer_map map;
    heed_status status = heed_copy_struct(&x, sizeof x, tensors, "tensors", error);
    if (status == HEED_OK)
        status = map_layer(layer, batch, seq_len, &map, error);
    if (status != HEED_OK)
        return status;
    if (batch == 0 || seq_len == 0)
        return heed_succeed(error);
    status = check_layer_tensors(layer, batch, seq_len, &x, error);
    if (x.bias) { /* known only now; strides change neither tasks nor workspace */
        const heed_mask_strides strides = { 0, x.bias_heads == 1 ? 0 : seq_len * seq_len, seq_len, 1 };
        map.plan.attention.strides_bias = strides;
    }
    if (status == HEED_OK)
        status = heed_check_workspace(workspace, workspace_size, map.size, error);
    return status == HEED_OK ? run_steps(layer, batch, seq_len, &map, &x, heed_align(workspace), error) : status;
}
