/* Heat maps of characters: several heads side by side, as wide as the terminal.
 * May know: terminal.h, colours, the request.
 * Must not know: pictures, files, arguments. */
#include "command.h"
#include "show.h"
#include "show_colour.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MOST_LINES = 40, LABEL_MOST = 16, BETWEEN = 2, LEGEND_CELLS = 32, NO_COLOUR = -1 };

/* All sizes in characters. */
typedef struct grid {
    terminal screen;
    const show_request *request;
    heat_maps maps;
    float maximum;
    int label, cell;       /* width of a row label, of a cell */
    int64_t side_by_side;  /* heads in one band */
    int64_t rows_per_line; /* 2: half blocks */
    bool stacked;          /* column labels are letters below each other; false: a ruler of numbers */
    int stack_height;
} grid;

static const char shades[] = " .:-=+*#%@";

/* 0 is blank, and what is above 0 is not, however small. */
static char shade_of(float value, float maximum)
{
    int last = (int)sizeof shades - 2;
    if (isnan(value))
        return '?';
    if (!(value > 0.0f))
        return shades[0];
    if (value >= maximum)
        return shades[last];
    int index = 1 + (int)(value / maximum * (float)last);
    return shades[index > last ? last : index];
}

static int paint_of(const grid *all, float value)
{
    return colour_to_terminal(colour_of(value, all->maximum));
}

static void put_repeated(FILE *file, const char *text, int count)
{
    for (int i = 0; i < count; i++)
        fputs(text, file);
}

static void put_shades(FILE *file, const grid *all, const float *row)
{
    for (int64_t c = 0; c < all->maps.cols; c++)
        for (int i = 0; i < all->cell; i++)
            fputc(shade_of(row[c], all->maximum), file);
}

static void put_painted(FILE *file, const grid *all, const float *row)
{
    int ground = NO_COLOUR;
    for (int64_t c = 0; c < all->maps.cols; c++) {
        int paint = paint_of(all, row[c]);
        if (paint != ground)
            fprintf(file, "\033[48;5;%dm", paint);
        ground = paint;
        put_repeated(file, " ", all->cell);
    }
    fputs("\033[0m", file);
}

/* Two rows in one line: the upper half block in the colour of the upper row on a ground of the lower one's. */
static void put_half_blocks(FILE *file, const grid *all, const float *upper, const float *lower)
{
    int ground = NO_COLOUR, ink = NO_COLOUR;
    for (int64_t c = 0; c < all->maps.cols; c++) {
        int above = paint_of(all, upper[c]), below = lower ? paint_of(all, lower[c]) : NO_COLOUR;
        if (above != ink)
            fprintf(file, "\033[38;5;%dm", above);
        if (below != ground)
            fprintf(file, "\033[48;5;%dm", below);
        ink = above;
        ground = below;
        put_repeated(file, "\xE2\x96\x80", all->cell); /* U+2580 */
    }
    fputs("\033[0m", file);
}

static void put_cells(FILE *file, const grid *all, const float *upper, const float *lower)
{
    if (!all->screen.colour)
        put_shades(file, all, upper);
    else if (all->rows_per_line == 1)
        put_painted(file, all, upper);
    else
        put_half_blocks(file, all, upper, lower);
}

static void put_spaces(FILE *file, int64_t count)
{
    for (; count > 0; count--)
        fputc(' ', file);
}

static void put_titles(FILE *file, const grid *all, int64_t first, int64_t count)
{
    char title[40];
    int width = (int)all->maps.cols * all->cell;
    put_spaces(file, all->label + 1);
    for (int64_t h = first; h < first + count; h++) {
        snprintf(title, sizeof title, width < 8 ? "%" PRId64 : "head %" PRId64, all->request->view.first_head + h);
        terminal_text(file, &all->screen, title, width, ALIGN_LEFT);
        put_spaces(file, h + 1 < first + count ? BETWEEN : 0);
    }
    fputc('\n', file);
}

/* One line of the stacked labels of all columns: the letter number `level` from the bottom. */
static void put_stacked(FILE *file, const grid *all, int level)
{
    char label[TEXT_LABEL_BYTES];
    for (int64_t c = 0; c < all->maps.cols; c++) {
        int count = text_label(label, all->request->tokens_k, c, false, all->stack_height);
        const char *next = label;
        int point = ' ';
        for (int letter = count - 1 - level; letter >= 0; letter--)
            point = text_next(&next);
        terminal_glyph(file, &all->screen, point, all->cell);
    }
}

/* Numbers of the columns, each starting above its column, as many as fit. */
static void put_ruler(FILE *file, const grid *all)
{
    int64_t at = 0, width = all->maps.cols * all->cell;
    for (int64_t c = 0; c < all->maps.cols; c++) {
        char number[24];
        int size = snprintf(number, sizeof number, "%" PRId64, c * all->maps.col_step);
        if (c * all->cell < at + (at > 0 ? 1 : 0) || c * all->cell + size > width)
            continue;
        put_spaces(file, c * all->cell - at);
        fputs(number, file);
        at = c * all->cell + size;
    }
    put_spaces(file, width - at);
}

static void put_column_labels(FILE *file, const grid *all, int64_t count)
{
    for (int level = all->stacked ? all->stack_height - 1 : 0; level >= 0; level--) {
        put_spaces(file, all->label + 1);
        for (int64_t h = 0; h < count; h++) {
            if (all->stacked)
                put_stacked(file, all, level);
            else
                put_ruler(file, all);
            put_spaces(file, h + 1 < count ? BETWEEN : 0);
        }
        fputc('\n', file);
    }
}

static void put_band(FILE *file, const grid *all, int64_t first, int64_t count)
{
    const heat_maps *maps = &all->maps;
    char label[TEXT_LABEL_BYTES];
    if (all->request->view.has_heads)
        put_titles(file, all, first, count);
    put_column_labels(file, all, count);
    for (int64_t r = 0; r < maps->rows; r += all->rows_per_line) {
        text_label(
            label, all->request->tokens_q, r * maps->row_step, maps->row_step * all->rows_per_line > 1, LABEL_MOST);
        terminal_text(file, &all->screen, label, all->label, ALIGN_RIGHT);
        fputc(' ', file);
        for (int64_t h = first; h < first + count; h++) {
            const float *upper = maps->cells + (h * maps->rows + r) * maps->cols;
            bool has_lower = all->rows_per_line == 2 && r + 1 < maps->rows;
            put_cells(file, all, upper, has_lower ? upper + maps->cols : NULL);
            put_spaces(file, h + 1 < first + count ? BETWEEN : 0);
        }
        fputc('\n', file);
    }
    fputc('\n', file);
}

static void put_legend(FILE *file, const grid *all)
{
    show_captions list;
    show_captions_write(&list, all->request, all->maps.row_step, all->maps.col_step);
    fputs("0 ", file);
    if (all->screen.colour) {
        for (int i = 0; i < LEGEND_CELLS; i++)
            fprintf(file, "\033[48;5;%dm ", paint_of(all, all->maximum * (float)i / (float)(LEGEND_CELLS - 1)));
        fputs("\033[0m", file);
    } else {
        fprintf(file, "|%s|", shades);
    }
    fprintf(file, " %.3g  weight\n", (double)all->maximum);
    for (int i = 0; i < list.count; i++)
        fprintf(file, "%s\n", list.lines[i]);
}

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a - 1) / b + 1;
}

/* Steps, sizes, and how many heads stand side by side. */
static void choose(grid *all, int64_t *row_step, int64_t *col_step)
{
    const show_request *request = all->request;
    const weights_view *view = &request->view;
    int longest = text_longest_token(request->tokens_q, LABEL_MOST),
        digits = snprintf(NULL, 0, "%" PRId64, view->rows - 1);
    all->rows_per_line = all->screen.unicode && view->rows > MOST_LINES ? 2 : 1;
    *row_step = divide_up(view->rows, MOST_LINES * all->rows_per_line);
    bool numbered = *row_step * all->rows_per_line > 1;
    all->label = longest == 0 ? digits : longest + (numbered ? digits + 1 : 0);
    int most = all->screen.columns / 3 < LABEL_MOST ? all->screen.columns / 3 : LABEL_MOST;
    all->label = all->label > most ? most : all->label;
    int64_t space = all->screen.columns - all->label - 1;
    all->cell = all->rows_per_line == 1 && 2 * view->cols <= space ? 2 : 1;
    *col_step = divide_up(view->cols, space / all->cell);
    all->stacked = request->tokens_k && *col_step == 1 && all->cell == 2; /* closer letters cannot be read */
    all->stack_height = text_longest_token(request->tokens_k, LABEL_MOST);
    int64_t width = divide_up(view->cols, *col_step) * all->cell;
    all->side_by_side = (space + BETWEEN) / (width + BETWEEN);
}

bool show_terminal(FILE *file, const show_request *request, char *message, size_t size)
{
    show_request plain = *request;
    grid all = { .screen = terminal_detect(file, request->width, request->ascii), .request = &plain };
    int64_t row_step, col_step;
    plain.ascii = !all.screen.colour;
    choose(&all, &row_step, &col_step);
    if (!heat_maps_create(&all.maps, &request->view, row_step, col_step, request->reduce))
        return complain(message, size, "out of memory");
    all.maximum = request->maximum > 0.0f ? request->maximum : heat_maps_maximum(&all.maps);
    terminal_text(file, &all.screen, request->title, all.screen.columns, ALIGN_NONE);
    fputs("\n\n", file);
    for (int64_t h = 0; h < all.maps.num_heads; h += all.side_by_side) {
        int64_t left = all.maps.num_heads - h;
        put_band(file, &all, h, left < all.side_by_side ? left : all.side_by_side);
    }
    put_legend(file, &all);
    heat_maps_destroy(&all.maps);
    return true;
}
