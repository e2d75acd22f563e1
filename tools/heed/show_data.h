/* Which weights are shown: one batch entry, some heads; and their reduction to the cells of heat maps.
 * May know: npy.h (arrays).
 * Must not know: pictures, terminals, tokens. */
#ifndef HEED_TOOL_SHOW_DATA_H
#define HEED_TOOL_SHOW_DATA_H

#include "npy.h"

/* Into the caller's array: [num_heads][rows][cols], heads numbered from first_head. */
typedef struct weights_view {
    const float *data;
    int64_t num_heads, rows, cols; /* >= 1 each */
    int64_t first_head, batch;
    bool has_heads, has_batch; /* whether the array has these dimensions at all */
} weights_view;

/* head and batch: -1 is not given, which means all heads and batch entry 0. */
bool weights_select(
    weights_view *view, const npy_array *array, int64_t head, int64_t batch, char *message, size_t size);

typedef struct weights_facts {
    float maximum; /* the largest finite number; 0 if there is none above 0 */
    int64_t num_nan, num_infinite, num_negative;
} weights_facts;

weights_facts weights_examine(const weights_view *view);

typedef enum reduce_kind { REDUCE_MAX, REDUCE_MEAN } reduce_kind;

const char *reduce_name(reduce_kind kind);

/* Heat maps of rows x cols cells; a cell stands for up to row_step x col_step weights. */
typedef struct heat_maps {
    float *cells; /* [num_heads][rows][cols] */
    int64_t num_heads, rows, cols, row_step, col_step;
} heat_maps;

/* A cell with a NaN in it is NaN.  False: out of memory. */
bool heat_maps_create(heat_maps *maps, const weights_view *view, int64_t row_step, int64_t col_step, reduce_kind kind);
/* The largest finite cell, or 1 when none is above 0: what a colour scale ends at. */
float heat_maps_maximum(const heat_maps *maps);

void heat_maps_destroy(heat_maps *maps);

#endif
