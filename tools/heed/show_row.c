/* One row of weights as a list: which keys a query looks at.
 * May know: the request, terminal.h.
 * Must not know: pictures, files, arguments. */
#include "command.h"
#include "show.h"
#include "terminal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum { ROW_TOKEN_COLUMNS = 24, ROW_BAR_COLUMNS = 40 };

typedef struct entry {
    float weight;
    int64_t key;
} entry;

/* Largest first, NaN last, equal ones by key. */
static int by_weight(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    int nan_a = isnan(a->weight) ? 1 : 0, nan_b = isnan(b->weight) ? 1 : 0;
    if (nan_a != nan_b)
        return nan_a - nan_b;
    if (a->weight != b->weight && !nan_a)
        return a->weight > b->weight ? -1 : 1;
    return a->key < b->key ? -1 : a->key > b->key ? 1 : 0;
}

static void put_bar(FILE *file, const terminal *screen, float part)
{
    int length = part > 0.0f ? (int)((part < 1.0f ? part : 1.0f) * (float)ROW_BAR_COLUMNS + 0.5f) : 0;
    for (int i = 0; i < length; i++)
        fputs(screen->unicode ? "\xE2\x96\x88" : "#", file); /* U+2588, full block */
    fputc('\n', file);
}

/* What all lines of a list have in common. */
typedef struct list_style {
    terminal screen;
    const token_list *tokens;
    float maximum;             /* a full bar */
    int digits, token_columns; /* widths of the key's number and token */
} list_style;

static void put_entry(FILE *file, const list_style *style, const entry *item)
{
    fprintf(file, "  %*" PRId64 "  %9.6f  ", style->digits, item->key, (double)item->weight);
    if (style->tokens) {
        terminal_text(file, &style->screen, style->tokens->tokens[item->key], style->token_columns, ALIGN_LEFT);
        fputs("  ", file);
    }
    put_bar(file, &style->screen, item->weight / style->maximum);
}

static void put_list(FILE *file, list_style style, const entry *list, int64_t keys, int64_t count)
{
    float maximum = 0.0f;
    double sum = 0.0, rest = 0.0;
    for (int64_t i = 0; i < keys; i++) {
        float weight = list[i].weight;
        maximum = isfinite(weight) && weight > maximum ? weight : maximum;
        sum += (double)weight;
        rest += i < count ? 0.0 : (double)weight;
    }
    if (!(style.maximum > 0.0f))
        style.maximum = maximum > 0.0f ? maximum : 1.0f;
    for (int64_t i = 0; i < count; i++)
        put_entry(file, &style, &list[i]);
    if (count < keys)
        fprintf(file, "  and %" PRId64 " more, together %.6f\n", keys - count, rest);
    fprintf(file, "  sum %.6f\n\n", sum);
}

bool show_row(
    FILE *file, const show_request *request, int64_t row, bool sorted, int64_t top, char *message, size_t size)
{
    const weights_view *view = &request->view;
    if (row >= view->rows)
        return complain(
            message, size, "--row: %" PRId64 ", but there are %" PRId64 " queries (from 0)", row, view->rows);
    list_style style = {
        .screen = terminal_detect(file, request->width, request->ascii),
        .tokens = request->tokens_k,
        .maximum = request->maximum,
        .digits = snprintf(NULL, 0, "%" PRId64, view->cols - 1),
        .token_columns = text_longest_token(request->tokens_k, ROW_TOKEN_COLUMNS),
    };
    entry *list = allocate_array(view->cols, sizeof *list);
    if (!list)
        return complain(message, size, "out of memory");
    for (int64_t h = 0; h < view->num_heads; h++) {
        const float *weights = view->data + (h * view->rows + row) * view->cols;
        for (int64_t c = 0; c < view->cols; c++)
            list[c] = (entry){ weights[c], c };
        if (sorted)
            qsort(list, (size_t)view->cols, sizeof *list, by_weight);
        if (view->has_heads)
            fprintf(file, "head %" PRId64 ", ", view->first_head + h);
        fprintf(file, "query %" PRId64, row);
        if (request->tokens_q) {
            fputs(": ", file);
            terminal_text(file, &style.screen, request->tokens_q->tokens[row], ROW_TOKEN_COLUMNS, ALIGN_NONE);
        }
        fputc('\n', file);
        put_list(file, style, list, view->cols, top > 0 && top < view->cols ? top : view->cols);
    }
    free(list);
    return true;
}
