/* Where everything in the picture goes: pure geometry, found by trying cell sizes from large to small.
 * May know: the sizes of the font.
 * Must not know: values, colours, files, tokens' text. */
#ifndef HEED_TOOL_SHOW_LAYOUT_H
#define HEED_TOOL_SHOW_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PICTURE_MIN_WIDTH = 400, /* the colour bar and a caption of 60 letters fit */
    PICTURE_DEFAULT_WIDTH = 1760,
    PICTURE_LEAST_LIMIT = 700, /* a picture may be as high as wide, and always this high */
    LABEL_GLYPHS = 16          /* longer labels are shortened */
};

/* What is to be placed.  token_glyphs: of the longest token, 0 when the labels are plain numbers. */
typedef struct layout_request {
    int64_t num_heads, rows, cols;
    int row_token_glyphs, col_token_glyphs;
    int max_width, max_height;
    int caption_lines;
    bool head_titles;
} layout_request;

/* The labels along one side of a map. */
typedef struct layout_labels {
    int64_t step;  /* weights a cell stands for */
    int64_t cells; /* of the map along this side */
    int64_t every; /* cells from one label to the next */
    int glyphs;    /* of the longest label */
    bool numbered; /* the position stands before the token, because not every token has its label */
} layout_labels;

/* All in pixels, except where named otherwise. */
typedef struct picture_layout {
    int width, height;
    int cell_width, cell_height;
    int scale;              /* of the text round the maps */
    int caption_scale;      /* of the title and the captions */
    bool upright;           /* column labels are turned; false: they fit horizontally */
    layout_labels row, col; /* row: along the rows' side, col: along the columns' */
    int64_t grid_columns, grid_rows;
    int panel_width, panel_height; /* one map with its labels and title */
    int map_x, map_y;              /* of the map within its panel */
    int grid_y;                    /* of the first panel */
    int bar_y;                     /* of the colour bar */
} picture_layout;

enum { LAYOUT_MARGIN = 20, LAYOUT_GAP = 24, LAYOUT_BAR_WIDTH = 320, LAYOUT_BAR_HEIGHT = 16 };

/* False: even single pixels do not fit, there are too many heads for the size. */
bool layout_choose(picture_layout *layout, const layout_request *request);

#endif
