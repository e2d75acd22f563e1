/* What the parts of the command show share: the request, and the ways to answer it.
 * May know: show_data.h, show_text.h.
 * Must not know: libpng, how a picture is laid out. */
#ifndef HEED_TOOL_SHOW_H
#define HEED_TOOL_SHOW_H

#include "show_data.h"
#include "show_image.h"
#include "show_text.h"

#include <stdio.h>

typedef struct show_request {
    weights_view view;
    weights_facts facts;
    const token_list *tokens_q, *tokens_k; /* NULL: labels are numbers */
    const char *title;
    float maximum; /* of the colour scale; 0: the largest cell */
    reduce_kind reduce;
    int width;  /* at most: pixels of the picture, columns of the terminal; 0: not given */
    bool ascii; /* no colours, no characters outside ASCII */
} show_request;

enum { CAPTION_LINES = 6, CAPTION_SIZE = 160 };

typedef struct show_captions {
    char lines[CAPTION_LINES][CAPTION_SIZE];
    int count;
} show_captions;

/* show_captions.c: what a reader must know about the choices made. */
void show_captions_write(show_captions *list, const show_request *request, int64_t row_step, int64_t col_step);

/* show_picture.c: draws the picture, which the caller destroys.  On failure returns false and nothing is to destroy. */
bool show_picture(image *picture, const show_request *request, char *message, size_t size);

/* terminal.c: heat maps of characters. */
bool show_terminal(FILE *file, const show_request *request, char *message, size_t size);

/* show_row.c: one row of each head as a list.  top: how many entries, 0 for all; sorted: largest first. */
bool show_row(
    FILE *file, const show_request *request, int64_t row, bool sorted, int64_t top, char *message, size_t size);

#endif
