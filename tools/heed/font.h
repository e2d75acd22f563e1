/* A small fixed-width bitmap font for labels: printable ASCII, anything else a box.
 * May know: show_image.h (what it draws on), show_text.h (UTF-8).
 * Must not know: what the text says, where it goes. */
#ifndef HEED_TOOL_FONT_H
#define HEED_TOOL_FONT_H

#include "show_image.h"

enum {
    FONT_ADVANCE = 6, /* from one glyph to the next: 5 columns and a gap */
    FONT_ASCENT = 7,  /* rows above the baseline */
    FONT_HEIGHT = 9,  /* with the two rows of descenders */
    FONT_LINE = 11    /* from one line to the next */
};

/* Pixels from the first to the last column of the text at a scale. */
int font_width(const char *text, int scale);

/* Draws with the top left corner of the first glyph at (x, y). */
void font_draw(image *picture, int x, int y, int scale, colour ink, const char *text);

/* Draws turned by 90 degrees, read upwards: the first glyph starts at the bottom, at y; the tops of the glyphs are at
 * x. */
void font_draw_upwards(image *picture, int x, int y, int scale, colour ink, const char *text);

#endif
