/* Selection and reduction of the weights.
 * May know: npy.h, command.h for messages and memory.
 * Must not know: pictures, terminals, tokens. */
#include "show_data.h"
#include "command.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool weights_select(weights_view *view, const npy_array *array, int64_t head, int64_t batch, char *message, size_t size)
{
    int ndim = array->ndim;
    if (ndim < 2 || ndim > 4)
        return complain(message, size,
            "shape: %d dimensions; expected [batch, heads, queries, keys] or the last three "
            "or two of them",
            ndim);
    int64_t batches = ndim == 4 ? array->shape[0] : 1, heads = ndim >= 3 ? array->shape[ndim - 3] : 1;
    int64_t rows = array->shape[ndim - 2], cols = array->shape[ndim - 1];
    if (batches < 1 || heads < 1 || rows < 1 || cols < 1)
        return complain(message, size, "shape: a dimension is 0, there is nothing to show");
    if (batch >= batches)
        return complain(message, size, "--batch: %" PRId64 ", but the file has %" PRId64 " (from 0)", batch, batches);
    if (head >= heads)
        return complain(message, size, "--head: %" PRId64 ", but the file has %" PRId64 " (from 0)", head, heads);
    int64_t entry = batch < 0 ? 0 : batch, first = head < 0 ? 0 : head;
    *view = (weights_view){
        .data = array->data + (entry * heads + first) * rows * cols,
        .num_heads = head < 0 ? heads : 1,
        .rows = rows,
        .cols = cols,
        .first_head = first,
        .batch = entry,
        .has_heads = ndim >= 3,
        .has_batch = ndim == 4,
    };
    return true;
}

weights_facts weights_examine(const weights_view *view)
{
    weights_facts facts = { 0.0f, 0, 0, 0 };
    int64_t count = view->num_heads * view->rows * view->cols;
    for (int64_t i = 0; i < count; i++) {
        float value = view->data[i];
        facts.num_nan += isnan(value) ? 1 : 0;
        facts.num_infinite += isinf(value) ? 1 : 0;
        facts.num_negative += value < 0.0f ? 1 : 0;
        facts.maximum = isfinite(value) && value > facts.maximum ? value : facts.maximum;
    }
    return facts;
}

const char *reduce_name(reduce_kind kind)
{
    return kind == REDUCE_MAX ? "maximum" : "mean";
}

static float reduce_block(const float *corner, int64_t stride, int64_t rows, int64_t cols, reduce_kind kind)
{
    double sum = 0.0;
    float most = -INFINITY;
    bool has_nan = false;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < cols; c++) {
            float value = corner[r * stride + c];
            has_nan = has_nan || isnan(value);
            most = value > most ? value : most;
            sum += (double)value;
        }
    }
    if (has_nan)
        return NAN;
    return kind == REDUCE_MAX ? most : (float)(sum / ((double)rows * (double)cols));
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

bool heat_maps_create(heat_maps *maps, const weights_view *view, int64_t row_step, int64_t col_step, reduce_kind kind)
{
    int64_t rows = (view->rows - 1) / row_step + 1, cols = (view->cols - 1) / col_step + 1, count;
    const int64_t dimensions[] = { view->num_heads, rows, cols };
    *maps = (heat_maps){ NULL, view->num_heads, rows, cols, row_step, col_step };
    if (!checked_product(3, dimensions, &count) || !(maps->cells = allocate_array(count, sizeof(float))))
        return false;
    float *cell = maps->cells;
    for (int64_t h = 0; h < view->num_heads; h++) {
        const float *head = view->data + h * view->rows * view->cols;
        for (int64_t r = 0; r < view->rows; r += row_step)
            for (int64_t c = 0; c < view->cols; c += col_step)
                *cell++ = reduce_block(head + r * view->cols + c, view->cols, smaller(row_step, view->rows - r),
                    smaller(col_step, view->cols - c), kind);
    }
    return true;
}

float heat_maps_maximum(const heat_maps *maps)
{
    float most = 0.0f;
    int64_t count = maps->num_heads * maps->rows * maps->cols;
    for (int64_t i = 0; i < count; i++)
        most = isfinite(maps->cells[i]) && maps->cells[i] > most ? maps->cells[i] : most;
    return most > 0.0f ? most : 1.0f;
}

void heat_maps_destroy(heat_maps *maps)
{
    free(maps->cells);
    maps->cells = NULL;
}
