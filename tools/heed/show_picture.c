/* Draws the heat maps, their labels, the colour bar and the captions into a picture.
 * May know: layout, font, colours, the request.
 * Must not know: files, PNG, arguments. */
#include "command.h"
#include "font.h"
#include "show.h"
#include "show_colour.h"
#include "show_layout.h"

#include <inttypes.h>
#include <string.h>

enum { SEPARATE_FROM = 14, VALUES_FROM = 40, VALUES_LARGE_FROM = 56 };

static const colour paper = { 255, 255, 255 }, ink = { 24, 24, 32 }, faint = { 110, 110, 120 };

/* Shortened to what fits between the margins. */
static void draw_line(image *picture, int x, int y, int scale, colour paint, const char *text)
{
    char line[TEXT_LABEL_BYTES];
    text_shorten(line, text, (picture->width - x - LAYOUT_MARGIN) / (FONT_ADVANCE * scale));
    font_draw(picture, x, y, scale, paint, line);
}

static void draw_header(image *picture, const picture_layout *layout, const show_request *request)
{
    const weights_view *view = &request->view;
    char line[CAPTION_SIZE];
    int used = snprintf(line, sizeof line, "queries: %" PRId64 ", keys: %" PRId64, view->rows, view->cols);
    if (view->has_heads && view->num_heads > 1)
        used += snprintf(line + used, sizeof line - (size_t)used, ", heads: %" PRId64, view->num_heads);
    if (view->has_batch)
        snprintf(line + used, sizeof line - (size_t)used, ", batch entry: %" PRId64, view->batch);
    draw_line(picture, LAYOUT_MARGIN, LAYOUT_MARGIN, 2, ink, request->title);
    draw_line(picture, LAYOUT_MARGIN, LAYOUT_MARGIN + FONT_LINE * 2 + 4, layout->caption_scale, faint, line);
}

static void draw_value(image *picture, const picture_layout *layout, int x, int y, float value, colour ground)
{
    char text[16];
    int scale = layout->cell_width >= VALUES_LARGE_FROM ? 2 : 1;
    snprintf(text, sizeof text, "%.2f", (double)value);
    int left = (layout->cell_width - font_width(text, scale)) / 2;
    int top = (layout->cell_height - FONT_ASCENT * scale) / 2;
    if (left > 0)
        font_draw(picture, x + left, y + top, scale, colour_of_text_on(ground), text);
}

static void draw_map(
    image *picture, const picture_layout *layout, const show_request *request, const float *cells, int x, int y)
{
    int width = layout->cell_width, height = layout->cell_height;
    int gap = width >= SEPARATE_FROM && height >= SEPARATE_FROM ? 1 : 0;
    for (int64_t r = 0; r < layout->row.cells; r++) {
        for (int64_t c = 0; c < layout->col.cells; c++) {
            float value = cells[r * layout->col.cells + c];
            colour ground = colour_of(value, request->maximum);
            int left = x + (int)c * width, top = y + (int)r * height;
            image_fill(picture, left, top, width - gap, height - gap, ground);
            if (width >= VALUES_FROM && height >= VALUES_FROM)
                draw_value(picture, layout, left, top, value, ground);
        }
    }
}

/* (x, y): the corner of the map.  A label stands at the middle of its cell, with a tick where cells are small. */
static void draw_row_labels(image *picture, const picture_layout *layout, const token_list *tokens, int x, int y)
{
    char label[TEXT_LABEL_BYTES];
    for (int64_t i = 0; i < layout->row.cells; i += layout->row.every) {
        int middle = y + (int)i * layout->cell_height + layout->cell_height / 2;
        text_label(label, tokens, i * layout->row.step, layout->row.numbered, layout->row.glyphs);
        font_draw(picture, x - 5 - font_width(label, layout->scale), middle - FONT_ASCENT * layout->scale / 2,
            layout->scale, ink, label);
        if (layout->row.every > 1)
            image_fill(picture, x - 4, middle, 3, 1, ink);
    }
}

static void draw_col_labels(image *picture, const picture_layout *layout, const token_list *tokens, int x, int y)
{
    char label[TEXT_LABEL_BYTES];
    int right = x + (int)layout->col.cells * layout->cell_width + LAYOUT_GAP / 2; /* of the room a label may take */
    for (int64_t i = 0; i < layout->col.cells; i += layout->col.every) {
        int middle = x + (int)i * layout->cell_width + layout->cell_width / 2;
        text_label(label, tokens, i * layout->col.step, layout->col.numbered, layout->col.glyphs);
        int half = font_width(label, layout->scale) / 2;
        if (layout->upright)
            font_draw_upwards(picture, middle - FONT_ASCENT * layout->scale / 2, y - 5, layout->scale, ink, label);
        else if (middle + half < right)
            font_draw(picture, middle - half, y - 5 - FONT_ASCENT * layout->scale, layout->scale, ink, label);
        if (layout->col.every > 1)
            image_fill(picture, middle, y - 4, 1, 3, ink);
    }
}

static void draw_panel(
    image *picture, const picture_layout *layout, const show_request *request, const heat_maps *maps, int64_t head)
{
    int64_t column = head % layout->grid_columns, row = head / layout->grid_columns;
    int x = LAYOUT_MARGIN + (int)column * (layout->panel_width + LAYOUT_GAP) + layout->map_x;
    int y = layout->grid_y + (int)row * (layout->panel_height + LAYOUT_GAP) + layout->map_y;
    if (request->view.has_heads) {
        char title[40];
        snprintf(title, sizeof title, "head %" PRId64, request->view.first_head + head);
        font_draw(picture, x, y - layout->map_y, layout->scale, ink, title);
    }
    draw_map(picture, layout, request, maps->cells + head * maps->rows * maps->cols, x, y);
    draw_row_labels(picture, layout, request->tokens_q, x, y);
    draw_col_labels(picture, layout, request->tokens_k, x, y);
}

static void draw_footer(
    image *picture, const picture_layout *layout, const show_request *request, const show_captions *list)
{
    int x = LAYOUT_MARGIN, y = layout->bar_y, scale = layout->caption_scale, line = (FONT_LINE + 2) * scale;
    for (int i = 0; i < LAYOUT_BAR_WIDTH; i++)
        image_fill(picture, x + i, y, 1, LAYOUT_BAR_HEIGHT,
            colour_of((float)i * request->maximum / (float)(LAYOUT_BAR_WIDTH - 1), request->maximum));
    y += LAYOUT_BAR_HEIGHT;
    for (int i = 0; i <= 2; i++) {
        char text[32];
        int middle = x + i * (LAYOUT_BAR_WIDTH - 1) / 2;
        snprintf(text, sizeof text, "%.3g", 0.5 * i * (double)request->maximum);
        image_fill(picture, middle, y, 1, 4, ink);
        font_draw(picture, middle - i * font_width(text, scale) / 2, y + 6, scale, ink, text);
    }
    font_draw(picture, x + LAYOUT_BAR_WIDTH + 12, layout->bar_y + 1, scale == 2 ? 2 : 1, ink, "weight");
    y += 6 + line;
    for (int i = 0; i < list->count; i++)
        draw_line(picture, x, y + i * line + 6, scale, faint, list->lines[i]);
}

static bool choose(picture_layout *layout, show_captions *list, const show_request *request)
{
    layout_request wanted = {
        .num_heads = request->view.num_heads,
        .rows = request->view.rows,
        .cols = request->view.cols,
        .row_token_glyphs = text_longest_token(request->tokens_q, LABEL_GLYPHS),
        .col_token_glyphs = text_longest_token(request->tokens_k, LABEL_GLYPHS),
        .max_width = request->width ? request->width : PICTURE_DEFAULT_WIDTH,
        .head_titles = request->view.has_heads,
    };
    wanted.max_height = wanted.max_width < PICTURE_LEAST_LIMIT ? PICTURE_LEAST_LIMIT : wanted.max_width;
    show_captions_write(list, request, 2, 2); /* as many lines as there can be */
    wanted.caption_lines = list->count;
    if (!layout_choose(layout, &wanted))
        return false;
    show_captions_write(list, request, layout->row.step, layout->col.step);
    if (list->count < wanted.caption_lines)
        layout->height -= (FONT_LINE + 2) * layout->caption_scale * (wanted.caption_lines - list->count);
    return true;
}

bool show_picture(image *picture, const show_request *request, char *message, size_t size)
{
    picture_layout layout;
    show_captions list;
    heat_maps maps;
    if (!choose(&layout, &list, request))
        return complain(message, size,
            "%" PRId64 " heads do not fit into this width; choose one with --head or give a larger --width",
            request->view.num_heads);
    if (!heat_maps_create(&maps, &request->view, layout.row.step, layout.col.step, request->reduce))
        return complain(message, size, "out of memory");
    show_request scaled = *request;
    scaled.maximum = request->maximum > 0.0f ? request->maximum : heat_maps_maximum(&maps);
    const char *reason = image_create(picture, layout.width, layout.height, paper);
    if (!reason) {
        draw_header(picture, &layout, request);
        for (int64_t h = 0; h < maps.num_heads; h++)
            draw_panel(picture, &layout, &scaled, &maps, h);
        draw_footer(picture, &layout, &scaled, &list);
    }
    heat_maps_destroy(&maps);
    return reason ? complain(message, size, "%s", reason) : true;
}
