/* Projections Y = X W + b: weights packed once into panels, then cache-blocked GEMM tiles.
 * May know: the backend table, options.  Must not know: instruction sets, OpenMP.
 *
 * Blocks after Goto & van de Geijn 2008: a slice of a panel of W (block_k rows, NR columns) stays in L1 while a packed block of X
 * (block_m rows) streams past it from L2.  Blocking over k stops a chain in y and continues it there. */
#include "linear.h"

#include <string.h>

enum {
    /* Panels of a task: each task packs its rows anew, which many panels share (16 panels: 74 % of the FMA peak at 512 x 4096 x
     * 4096, 64: 86 %); fewer where threads would otherwise have nothing to do. */
    MOST_PANELS_A_TASK = 64,
    LEAST_PANELS_A_TASK = 4,
    PACK_PAD = 16 /* floats between packed rows, so that they do not share L1 sets */
};

/* 16 columns: slices of 16 KiB, 192 KiB of X.  32, of AVX-512, whose slices would fill L1 as they are: longer chains, which begin and
 * end less often, from L2 (512 x 4096 x 4096: 177 to 162 ms). */
static size_t block_k(const heed_linear *l)
{
    return l->backend->nr > 16 ? 1024 : 256;
}

static int64_t block_m(const heed_linear *l)
{
    return l->backend->nr > 16 ? 96 : 192;
}

static size_t panels_of(const heed_linear *l)
{
    return (size_t)(l->out_features - 1) / (size_t)l->backend->nr + 1;
}

static size_t slice_depth(const heed_linear *l, size_t block)
{
    const size_t left = (size_t)l->in_features - block;
    return left < block_k(l) ? left : block_k(l);
}

/* Rows block .. of a panel.  The slices of all panels lie side by side, in the order a run streams them. */
static float *slice_of(const heed_linear *l, size_t block, size_t panel)
{
    const size_t nr = (size_t)l->backend->nr;
    return l->panels + block * panels_of(l) * nr + panel * nr * slice_depth(l, block);
}

/* ---- Making ---- */

static heed_status check_linear(const heed_linear_desc *d, heed_error *error)
{
    if (d->in_features < 1 || d->out_features < 1)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least 1",
            d->in_features < 1 ? "in_features" : "out_features",
            (long long)(d->in_features < 1 ? d->in_features : d->out_features));
    if (!d->weight)
        return heed_fail(error, HEED_ERROR_INVALID, "weight is NULL");
    if (d->stride_in < 0 || d->stride_out < 0)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least 0",
            d->stride_in < 0 ? "stride_in" : "stride_out",
            (long long)(d->stride_in < 0 ? d->stride_in : d->stride_out));
    const int64_t most = (int64_t)(PTRDIFF_MAX / sizeof(float)) / 2;
    if (d->stride_in > most / d->in_features || d->stride_out > most / d->out_features)
        return heed_fail(error, HEED_ERROR_OVERFLOW,
            "weight: %lld x %lld with these strides does not fit the address space", (long long)d->in_features,
            (long long)d->out_features);
    return HEED_OK;
}

/* Bytes of the panels and the padded bias behind them, with room to align. */
static int packed_size(int64_t in_features, size_t columns, size_t *size)
{
    size_t panels;
    if (!heed_multiply((size_t)in_features, columns, &panels) || !heed_add(&panels, columns) ||
        !heed_multiply(panels, sizeof(float), &panels) || panels > PTRDIFF_MAX / 2)
        return 0;
    *size = heed_round_up(sizeof(heed_linear), HEED_ALIGNMENT) + panels + HEED_ALIGNMENT;
    return 1;
}

static void pack_weights(heed_linear *l, int64_t first, const heed_linear_desc *d)
{
    const size_t nr = (size_t)l->backend->nr, k = (size_t)l->in_features;
    for (int64_t o = 0; o < d->out_features; o++) {
        const size_t column = (size_t)(first + o);
        const float *from = d->weight + o * d->stride_out;
        for (size_t i = 0; i < k; i++) {
            const size_t block = i / block_k(l) * block_k(l);
            slice_of(l, block, column / nr)[(i - block) * nr + column % nr] = from[(int64_t)i * d->stride_in];
        }
        l->bias[column] = d->bias ? d->bias[o] : 0.0f;
    }
}

heed_status heed_linear_create_fused(
    heed_linear **linear, const heed_linear_desc *parts, int count, const heed_options *options, heed_error *error)
{
    heed_options o;
    const heed_backend *backend;
    int exp;
    heed_status status = heed_copy_options(&o, options, error);
    if (status == HEED_OK)
        status = heed_choose(&o, HEED_KERNEL_BUILTIN, &backend, &exp, error);
    int64_t out_features = 0;
    for (int i = 0; i < count && status == HEED_OK; i++) {
        status = check_linear(&parts[i], error);
        out_features += parts[i].out_features < INT64_MAX / 8 ? parts[i].out_features : INT64_MAX / 8;
    }
    if (status != HEED_OK)
        return status;
    const size_t columns = heed_round_up((size_t)out_features, (size_t)backend->nr);
    const heed_allocator allocator = heed_allocator_of(&o);
    size_t size;
    if (!packed_size(parts[0].in_features, columns, &size))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "weight: its packed size does not fit the address space");
    heed_linear *l = heed_allocate(&allocator, size);
    if (!l)
        return heed_fail(error, HEED_ERROR_OUT_OF_MEMORY, "weight: no memory for %zu bytes", size);
    l->backend = backend;
    l->threads = heed_threads_of(&o);
    l->allocator = allocator;
    l->in_features = parts[0].in_features;
    l->out_features = out_features;
    l->panels = heed_align((char *)l + sizeof *l);
    l->bias = l->panels + (size_t)l->in_features * columns;
    memset(l->panels, 0, ((size_t)l->in_features + 1) * columns * sizeof(float));
    int64_t first = 0;
    for (int i = 0; i < count; first += parts[i].out_features, i++)
        pack_weights(l, first, &parts[i]);
    *linear = l;
    return heed_succeed(error);
}

heed_status heed_linear_create(
    heed_linear **linear, const heed_linear_desc *desc, const heed_options *options, heed_error *error)
{
    if (!linear)
        return heed_fail(error, HEED_ERROR_INVALID, "linear is NULL");
    *linear = NULL;
    heed_linear_desc d = HEED_LINEAR_DESC_INIT;
    if (!desc)
        return heed_fail(error, HEED_ERROR_INVALID, "desc is NULL");
    const heed_status status = heed_copy_struct(&d, sizeof d, desc, "desc", error);
    return status == HEED_OK ? heed_linear_create_fused(linear, &d, 1, options, error) : status;
}

void heed_linear_destroy(heed_linear *linear)
{
    if (!linear)
        return;
    const heed_allocator allocator = linear->allocator;
    heed_release(&allocator, linear);
}

/* ---- Running ---- */

typedef struct gemm {
    const heed_linear *l;
    const float *x;
    float *y;
    int64_t stride_x, stride_y, rows;
    int64_t task_panels, panel_groups;
    float *packs; /* one block of packed rows a worker; NULL: few rows, read where they are */
} gemm;

static size_t pack_pitch(const heed_linear *l)
{
    return slice_depth(l, 0) + PACK_PAD;
}

static int64_t pack_rows(const heed_linear *l, int64_t rows)
{
    return rows < block_m(l) ? rows : block_m(l);
}

/* A single tile of rows gains nothing from a copy. */
static int packs_rows(const heed_linear *l, int64_t rows)
{
    return rows > l->backend->mr;
}

/* m rows by a task's panels, of which the last task may have fewer. */
static void gemm_panels(const gemm *g, int64_t row, size_t m, size_t panel, float *pack)
{
    const heed_linear *l = g->l;
    const size_t nr = (size_t)l->backend->nr, first = panel * nr, left = (size_t)l->out_features - first;
    const size_t n = (size_t)g->task_panels * nr < left ? (size_t)g->task_panels * nr : left;
    for (size_t k0 = 0; k0 < (size_t)l->in_features; k0 += block_k(l)) {
        const size_t k = slice_depth(l, k0);
        const float *a = g->x + row * g->stride_x + k0;
        size_t lda = (size_t)g->stride_x;
        if (pack) {
            for (size_t i = 0; i < m; i++)
                memcpy(pack + i * pack_pitch(l), a + (int64_t)i * g->stride_x, k * sizeof(float));
            a = pack;
            lda = pack_pitch(l);
        }
        l->backend->gemm_tile(g->y + row * g->stride_y + (int64_t)first, (size_t)g->stride_y, a, lda,
            slice_of(l, k0, panel), m, n, k, k0 ? NULL : l->bias + first);
    }
}

static void gemm_task(void *argument, int64_t index, int32_t worker)
{
    const gemm *g = argument;
    const int64_t row = index / g->panel_groups * block_m(g->l), group = index % g->panel_groups;
    const int64_t m = pack_rows(g->l, g->rows - row);
    float *pack = g->packs ? g->packs + (size_t)worker * (size_t)pack_rows(g->l, g->rows) * pack_pitch(g->l) : NULL;
    gemm_panels(g, row, (size_t)m, (size_t)(group * g->task_panels), pack);
}

/* How the output is cut into tasks: block_m rows by task_panels panels. */
static int64_t gemm_tasks(const heed_linear *l, int64_t rows, int64_t *task_panels, int64_t *panel_groups)
{
    const int64_t panels = (int64_t)panels_of(l), row_blocks = (rows - 1) / block_m(l) + 1;
    const int64_t wanted = l->threads.num_threads > 1 ? 4 * (int64_t)l->threads.num_threads : 1; /* tasks in all */
    const int64_t groups = (wanted - 1) / row_blocks + 1;
    int64_t each = (panels - 1) / groups + 1;
    each = each < LEAST_PANELS_A_TASK ? LEAST_PANELS_A_TASK : each > MOST_PANELS_A_TASK ? MOST_PANELS_A_TASK : each;
    *task_panels = each;
    *panel_groups = (panels - 1) / each + 1;
    return row_blocks * *panel_groups;
}

static int32_t gemm_workers(const heed_linear *l, int64_t rows)
{
    int64_t task_panels, panel_groups;
    const int64_t tasks = gemm_tasks(l, rows, &task_panels, &panel_groups);
    return heed_threads_for(&l->threads, (double)rows * (double)l->in_features * (double)l->out_features, tasks);
}

size_t heed_linear_workspace_size(const heed_linear *l, int64_t rows)
{
    if (rows < 1 || !packs_rows(l, rows))
        return 0;
    return (size_t)gemm_workers(l, rows) * (size_t)pack_rows(l, rows) * pack_pitch(l) * sizeof(float) + HEED_ALIGNMENT -
           1;
}

static heed_status check_gemm(const gemm *g, heed_error *error)
{
    const heed_linear *l = g->l;
    if (g->rows < 0)
        return heed_fail(error, HEED_ERROR_INVALID, "rows is %lld, must be at least 0", (long long)g->rows);
    if (g->rows == 0)
        return HEED_OK;
    if (!g->x || !g->y)
        return heed_fail(error, HEED_ERROR_INVALID, "%s is NULL", g->x ? "y" : "x");
    if (g->rows > 1 && (g->stride_x < 0 || g->stride_y < l->out_features))
        return heed_fail(error, HEED_ERROR_INVALID, "%s is %lld, must be at least %lld",
            g->stride_x < 0 ? "stride_x" : "stride_y", (long long)(g->stride_x < 0 ? g->stride_x : g->stride_y),
            (long long)(g->stride_x < 0 ? 0 : l->out_features));
    const int64_t most = (int64_t)(PTRDIFF_MAX / sizeof(float)) / 2;
    const int64_t stride = g->stride_x > g->stride_y ? g->stride_x : g->stride_y;
    if (g->rows > 1 && stride > most / (g->rows - 1))
        return heed_fail(error, HEED_ERROR_OVERFLOW, "rows %lld with stride %lld: does not fit the address space",
            (long long)g->rows, (long long)stride);
    return HEED_OK;
}

heed_status heed_linear_run(const heed_linear *linear, int64_t rows, const float *x, int64_t stride_x, float *y,
    int64_t stride_y, void *workspace, size_t workspace_size, heed_error *error)
{
    if (!linear)
        return heed_fail(error, HEED_ERROR_INVALID, "linear is NULL");
    gemm g = { linear, x, y, stride_x, stride_y, rows, 0, 0, NULL };
    heed_status status = check_gemm(&g, error);
    if (status == HEED_OK)
        status = heed_check_workspace(workspace, workspace_size, heed_linear_workspace_size(linear, rows), error);
    if (status != HEED_OK)
        return status;
    if (rows == 0)
        return heed_succeed(error);
    if (packs_rows(linear, rows))
        g.packs = heed_align(workspace);
    const int64_t tasks = gemm_tasks(linear, rows, &g.task_panels, &g.panel_groups);
    heed_parallel(&linear->threads, gemm_workers(linear, rows), (heed_tasks){ 1, tasks }, gemm_task, &g);
    return heed_succeed(error);
}
