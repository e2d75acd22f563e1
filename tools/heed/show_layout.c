/* The geometry of the picture.
 * May know: show_layout.h, font.h for the sizes of text.
 * Must not know: values, colours, files, tokens' text. */
#include "show_layout.h"
#include "font.h"

#include <math.h>

typedef struct cell_size {
    int cell, scale;
} cell_size;

/* From large to small.  From 20 pixels a label of the doubled font fits beside every cell, from 10 one of the plain
 * font; below, only some cells have a label. */
static const cell_size sizes[] = { { 64, 2 }, { 56, 2 }, { 48, 2 }, { 40, 2 }, { 36, 2 }, { 32, 2 }, { 28, 2 },
    { 26, 2 }, { 24, 2 }, { 22, 2 }, { 20, 2 }, { 16, 1 }, { 14, 1 }, { 12, 1 }, { 11, 1 }, { 8, 1 }, { 6, 1 },
    { 5, 1 }, { 4, 1 }, { 3, 1 }, { 2, 1 }, { 1, 1 } };

enum { SIZES = sizeof sizes / sizeof sizes[0], TICK = 4, BIG_MAP = 320, THIN_MAP = 160, LABELLED_CELL = 20 };

static int digits_of(int64_t number)
{
    int digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

/* 1, 2, 5, 10, 20, 50, ...: the first that is not smaller. */
static int64_t round_up_nicely(int64_t least)
{
    static const int64_t factor[3] = { 1, 2, 5 };
    for (int64_t power = 1;; power *= 10)
        for (int i = 0; i < 3; i++)
            if (factor[i] * power >= least)
                return factor[i] * power;
}

/* most: glyphs of a label.  room: pixels it takes along the side, 0 if that is the width of the label itself. */
static layout_labels place_labels(
    int64_t count, int64_t step, int token_glyphs, int most, int cell, int scale, int room)
{
    layout_labels labels = { .step = step, .cells = (count - 1) / step + 1, .every = 1 };
    int digits = digits_of(count - 1);
    if (room == 0)
        room = (digits * FONT_ADVANCE + 3) * scale;
    if (room > cell)
        labels.every = round_up_nicely((room * 3 / 2 + cell - 1) / cell); /* not as dense as possible */
    labels.numbered = token_glyphs > 0 && (step > 1 || labels.every > 1);
    labels.glyphs = token_glyphs == 0 ? digits : token_glyphs + (labels.numbered ? digits + 1 : 0);
    if (token_glyphs > 0 && labels.glyphs > most)
        labels.glyphs = most;
    return labels;
}

/* What is tried: one size of the cells, one reduction, one limit for the labels. */
typedef struct attempt {
    cell_size size;
    int64_t row_step, col_step;
    int label_glyphs;
} attempt;

/* Cells are squares, but a map of few rows (or columns) of small cells would be a line: its cells grow that way. */
static int stretch(int cell, int64_t cells, int64_t step)
{
    int wanted = step > 1 || cells > THIN_MAP ? 1 : THIN_MAP / (int)cells;
    wanted = wanted < LABELLED_CELL ? wanted : LABELLED_CELL;
    return wanted > cell ? wanted : cell;
}

/* Everything that does not depend on the grid. */
static void measure_panel(picture_layout *layout, const layout_request *request, const attempt *try)
{
    int64_t rows = (request->rows - 1) / try->row_step + 1, cols = (request->cols - 1) / try->col_step + 1;
    layout->cell_height = stretch(try->size.cell, rows, try->row_step);
    layout->cell_width = stretch(try->size.cell, cols, try->col_step);
    int64_t map_height = rows * layout->cell_height, map_width = cols * layout->cell_width;
    int scale = try->size.scale;
    if (map_height >= BIG_MAP && map_width >= BIG_MAP)
        scale = 2; /* there is space for fewer but larger labels */
    layout->scale = scale;
    layout->upright = request->col_token_glyphs > 0;
    layout->row = place_labels(request->rows, try->row_step, request->row_token_glyphs, try->label_glyphs,
        layout->cell_height, scale, 10 * scale);
    layout->col = place_labels(request->cols, try->col_step, request->col_token_glyphs, try->label_glyphs,
        layout->cell_width, scale, layout->upright ? 10 * scale : 0);
    int title = request->head_titles ? FONT_LINE * scale + 4 : 0;
    int label_width = layout->row.glyphs * FONT_ADVANCE * scale;
    int label_height = layout->upright ? layout->col.glyphs * FONT_ADVANCE * scale : FONT_LINE * scale;
    layout->map_x = label_width + TICK;
    layout->map_y = title + label_height + TICK;
    int64_t width = layout->map_x + map_width, height = layout->map_y + map_height;
    layout->panel_width = width > IMAGE_MAX_SIDE ? IMAGE_MAX_SIDE + 1 : (int)width;
    layout->panel_height = height > IMAGE_MAX_SIDE ? IMAGE_MAX_SIDE + 1 : (int)height;
}

/* The size of the whole picture for a number of panels side by side; false if it does not fit. */
static bool measure_picture(picture_layout *layout, const layout_request *request, int64_t grid_columns)
{
    int64_t grid_rows = (request->num_heads - 1) / grid_columns + 1;
    int64_t width = grid_columns * (layout->panel_width + LAYOUT_GAP) - LAYOUT_GAP + 2 * LAYOUT_MARGIN;
    width = width < PICTURE_MIN_WIDTH ? PICTURE_MIN_WIDTH : width;
    layout->caption_scale = width >= 2 * PICTURE_MIN_WIDTH ? 2 : 1;
    int line = (FONT_LINE + 2) * layout->caption_scale;
    int64_t grid_y = LAYOUT_MARGIN + FONT_LINE * 2 + line + LAYOUT_GAP;
    int64_t bar_y = grid_y + grid_rows * (layout->panel_height + LAYOUT_GAP);
    int64_t height = bar_y + LAYOUT_BAR_HEIGHT + 6 + line + (request->caption_lines * line) + 6 + LAYOUT_MARGIN;
    layout->grid_columns = grid_columns;
    layout->grid_rows = grid_rows;
    if (width > request->max_width || height > request->max_height)
        return false;
    layout->width = (int)width;
    layout->height = (int)height;
    layout->grid_y = (int)grid_y;
    layout->bar_y = (int)bar_y;
    return true;
}

/* Among the grids that fit: near 1.4 times as wide as high, few empty places. */
static bool choose_grid(picture_layout *layout, const layout_request *request)
{
    picture_layout best = *layout;
    double best_cost = INFINITY;
    int64_t most = request->max_width / (layout->panel_width + LAYOUT_GAP) + 1;
    for (int64_t columns = 1; columns <= request->num_heads && columns <= most; columns++) {
        picture_layout candidate = *layout;
        if (!measure_picture(&candidate, request, columns))
            continue;
        double empty = (double)(candidate.grid_columns * candidate.grid_rows - request->num_heads);
        double cost = fabs(log((double)candidate.width / (double)candidate.height / 1.4));
        cost += empty / (double)request->num_heads;
        if (cost < best_cost) {
            best = candidate;
            best_cost = cost;
        }
    }
    *layout = best;
    return best_cost < INFINITY;
}

static int64_t next_step(int64_t step)
{
    return step + 1 + step / 16;
}

/* The largest cells that fit, reducing a map to no fewer than `least` cells along its longer side. */
static bool choose_reduction(picture_layout *layout, const layout_request *request, int label_glyphs, int64_t least)
{
    attempt try = { .row_step = 1, .col_step = 1, .label_glyphs = label_glyphs };
    for (;;) {
        for (int i = 0; i < SIZES; i++) {
            try.size = sizes[i];
            measure_panel(layout, request, &try);
            if (choose_grid(layout, request))
                return true;
        }
        int64_t rows = (request->rows - 1) / try.row_step + 1, cols = (request->cols - 1) / try.col_step + 1;
        if (rows <= least && cols <= least)
            return false;
        bool both = request->rows == request->cols;
        if (both || rows >= cols)
            try.row_step = next_step(try.row_step);
        if (both || cols > rows)
            try.col_step = next_step(try.col_step);
    }
}

bool layout_choose(picture_layout *layout, const layout_request *request)
{
    /* Before a map is reduced beyond recognition, its labels are shortened. */
    return choose_reduction(layout, request, LABEL_GLYPHS, 64) || choose_reduction(layout, request, 8, 32) ||
           choose_reduction(layout, request, 4, 1);
}
