/* Calls of operations with arguments of any value (see anything.h).  What needs more memory than there is here gets null pointers,
 * or an allocator that refuses, and so must fail.
 * May know: the public header, source.h.
 * Must not know: anything under src/. */
#include "anything.h"

#include <heed/heed.h>
#include <string.h>

enum { ROOM = 1 << 14 }; /* elements of each array */

static float input[ROOM], output[ROOM];

/* Small, or at an end of what a size can be. */
static int64_t next_any(source *s)
{
    const uint8_t b = next_byte(s);
    if (b < 0xc0)
        return b % 24 - 1;
    const int64_t most = b % 2 ? INT64_MAX : INT32_MAX;
    return (b % 4 < 2 ? most : -most) >> (b / 4 % 16 * 4);
}

/* Elements from the first row to the end of the last; 0 if there is not room for them. */
static int64_t span(int64_t rows, int64_t stride, int64_t cols)
{
    if (rows < 1 || cols < 1 || rows > ROOM || cols > ROOM || stride < 0 || stride > ROOM)
        return 0;
    const int64_t all = (rows - 1) * stride + cols;
    return all <= ROOM ? all : 0;
}

static void said(heed_status status, const heed_error *error)
{
    require((status == HEED_OK) == (error->message[0] == '\0'));
}

static size_t granted; /* the largest block allocate gives out */

static void *allocate(void *context, size_t size)
{
    (void)context;
    return size <= granted ? malloc(size) : NULL;
}

static void release(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static const heed_allocator allocator = { NULL, allocate, release };

static heed_options next_any_options(source *s)
{
    heed_options o = HEED_OPTIONS_INIT;
    const uint8_t b = next_byte(s);
    o.allocator = &allocator;
    if (b >= 0xf0) /* without the allocator, or with more than there is: refused */
        o.struct_size = b % 2 ? b % 8u : sizeof o + b;
    else if (b >= 0xc0)
        o.isa = (heed_isa)(b % 8), o.exp = (heed_exp)(b / 8 % 4);
    else if (b >= 0xa0)
        o.num_threads = (int32_t)next_any(s);
    return o;
}

/* ---- The calls ---- */

void linear_of_anything(source *s)
{
    const heed_options o = next_any_options(s);
    heed_linear_desc d = HEED_LINEAR_DESC_INIT;
    d.in_features = next_any(s);
    d.out_features = next_any(s);
    d.stride_in = next_any(s);
    d.stride_out = next_any(s);
    d.struct_size -= next_byte(s) % 16 == 15 ? 8 : 0;
    const int64_t in = span(d.in_features, d.stride_in, 1), out = span(d.out_features, d.stride_out, 1);
    granted = in && out && in + out <= ROOM ? ROOM * sizeof(float) * 8 : 0;
    d.weight = next_byte(s) % 8 ? input : NULL;
    d.bias = out && d.out_features <= ROOM && next_byte(s) % 2 ? input : NULL;
    heed_error error = { "" };
    heed_linear *linear = NULL;
    heed_status status = heed_linear_create(&linear, &d, &o, &error);
    said(status, &error);
    require((status == HEED_OK) == (linear != NULL));
    if (!linear)
        return;
    const int64_t rows = next_any(s), stride_x = next_any(s), stride_y = next_any(s);
    const size_t size = heed_linear_workspace_size(linear, rows);
    void *workspace = size <= ROOM * sizeof(float) * 8 ? malloc(size + 1) : NULL;
    status = heed_linear_run(linear, rows, span(rows, stride_x, d.in_features) ? input : NULL, stride_x,
        span(rows, stride_y, d.out_features) ? output : NULL, stride_y, workspace, workspace ? size : 0, &error);
    said(status, &error);
    free(workspace);
    heed_linear_destroy(linear);
}

void softmax_of_anything(source *s)
{
    const heed_options o = next_any_options(s);
    const int64_t rows = next_any(s), cols = next_any(s), stride_x = next_any(s), stride_y = next_any(s);
    int32_t lengths[24];
    for (int i = 0; i < 24; i++)
        lengths[i] = (int32_t)(cols < ROOM ? cols : 0);
    lengths[next_byte(s) % 24] = (int32_t)next_any(s);
    const bool in = span(rows, stride_x, cols) != 0, out = span(rows, stride_y, cols) != 0;
    heed_error error = { "" };
    const heed_status status = heed_softmax(rows, cols, in ? input : NULL, stride_x, out ? output : NULL, stride_y,
        next_byte(s) % 2 && rows <= 24 ? lengths : NULL, &o, &error);
    said(status, &error);
}

void merge_of_anything(source *s)
{
    const heed_options o = next_any_options(s);
    const int64_t parts = next_any(s), rows = next_any(s), dim = next_any(s), stride = next_any(s), to = next_any(s);
    const float *outs[64], *lses[64];
    const bool in = span(rows, stride, dim) != 0, out = span(rows, to, dim) != 0;
    for (int i = 0; i < 64; i++) {
        outs[i] = in ? input + i : NULL;
        lses[i] = in ? input : NULL;
    }
    const uint8_t missing = next_byte(s);
    outs[missing % 64] = missing < 128 ? outs[missing % 64] : NULL;
    heed_error error = { "" };
    const bool room = in && span(rows, stride, dim) + 64 <= ROOM;
    const heed_status status = heed_merge(parts, rows, dim, room ? outs : NULL, stride, room ? lses : NULL,
        out ? output : NULL, to, next_byte(s) % 2 && rows <= ROOM ? output : NULL, &o, &error);
    said(status, &error);
}

static void rotate_anything(source *s)
{
    const heed_rope_pairs pairs = (heed_rope_pairs)(next_byte(s) % 4);
    const int64_t dim = next_any(s), batch = next_any(s), heads = next_any(s), seq = next_any(s), row = next_any(s);
    const heed_strides strides = { next_any(s), next_any(s), next_any(s) };
    const int64_t b = span(batch, strides.batch, 1), h = span(heads, strides.head, 1), i = span(seq, strides.seq, dim);
    const bool x = b && h && i && b + h + i <= ROOM;
    const bool table = row >= 0 && row < ROOM && span(row + (seq > 0 && seq < ROOM ? seq : ROOM), dim, dim);
    heed_error error = { "" };
    const heed_status status = heed_rope_apply(pairs, dim, batch, heads, seq, x ? output : NULL, strides,
        table ? input : NULL, table ? input : NULL, row, &error);
    said(status, &error);
}

void rope_of_anything(source *s)
{
    heed_rope_desc d = HEED_ROPE_DESC_INIT;
    if (next_byte(s) % 2) {
        rotate_anything(s);
        return;
    }
    const int64_t first = next_any(s), positions = next_any(s), dim = next_any(s);
    const uint8_t size = next_byte(s);
    const size_t given = (size_t)(s->end - s->at), most = sizeof d - sizeof d.struct_size;
    memcpy((char *)&d + sizeof d.struct_size, s->at, given < most ? given : most);
    if (size < 0xe0)
        d.dim = dim;
    if (size % 16 == 15)
        d.struct_size -= size / 16 * 8u;
    const bool room = span(positions, d.dim, d.dim) != 0;
    heed_error error = { "" };
    const heed_status status =
        heed_rope_table(&d, first, positions, room ? output : NULL, room ? output : NULL, &error);
    said(status, &error);
}

static void run_layer(source *s, const heed_layer *layer, const heed_layer_desc *d)
{
    const int64_t batch = next_any(s), seq = next_any(s);
    const int64_t rows = span(batch, seq, seq);
    const int64_t wide = d->model_dim + d->out_dim + d->num_heads * (d->head_dim + (rows ? seq : 0));
    heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
    int32_t lengths[24];
    for (int i = 0; i < 24; i++)
        lengths[i] = (int32_t)next_any(s);
    if (rows && rows <= ROOM / wide) {
        t.x = t.rope_cosines = t.rope_sines = t.bias = input;
        t.y = output;
        t.bias = next_byte(s) % 2 ? input : NULL;
        t.bias_heads = next_any(s);
        t.lengths = next_byte(s) % 2 && batch <= 24 ? lengths : NULL;
    }
    size_t size = 0;
    heed_error error = { "" };
    said(heed_layer_workspace_size(layer, batch, seq, &size, &error), &error);
    void *workspace = size <= ROOM * sizeof(float) * 8 ? malloc(size + 1) : NULL;
    said(heed_layer_run(layer, batch, seq, &t, workspace, workspace ? size : 0, &error), &error);
    free(workspace);
}

void layer_of_anything(source *s)
{
    const heed_options o = next_any_options(s);
    heed_layer_desc d = HEED_LAYER_DESC_INIT;
    int64_t *const sizes[] = { &d.model_dim, &d.out_dim, &d.num_heads, &d.num_kv_heads, &d.head_dim, &d.head_dim_v,
        &d.causal_offset, &d.rope_dim, &d.window_left, &d.window_right };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        *sizes[i] = next_any(s);
    d.causal = (heed_causal)(next_byte(s) % 6);
    d.weight_layout = (heed_weight_layout)(next_byte(s) % 3);
    d.rope = (heed_rope_pairs)(next_byte(s) % 4);
    d.weight_q = d.weight_k = d.weight_v = d.weight_o = input;
    granted = ROOM * sizeof(float); /* packed weights are no smaller than the caller's */
    heed_error error = { "" };
    heed_layer *layer = NULL;
    const heed_status status = heed_layer_create(&layer, &d, &o, &error);
    said(status, &error);
    require((status == HEED_OK) == (layer != NULL));
    if (layer)
        run_layer(s, layer, &d);
    heed_layer_destroy(layer);
}
