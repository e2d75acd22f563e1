/* What the terminal can show, and text made safe and fitting for it.
 * May know: POSIX terminals, UTF-8.
 * Must not know: attention, values. */
#ifndef HEED_TOOL_TERMINAL_H
#define HEED_TOOL_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

enum { TERMINAL_MIN_COLUMNS = 20, TERMINAL_MAX_COLUMNS = 4096, TERMINAL_DEFAULT_COLUMNS = 80 };

typedef struct terminal {
    int columns;
    bool colour;  /* 256 colours by escape sequences */
    bool unicode; /* the locale's encoding is UTF-8; only together with colour */
} terminal;

/* columns: 0 asks the terminal, else the environment's COLUMNS, else 80.  Anything but a terminal, NO_COLOR in the
 * environment, TERM=dumb, and ascii mean plain ASCII. */
terminal terminal_detect(FILE *file, int columns, bool ascii);

typedef enum terminal_align { ALIGN_LEFT, ALIGN_RIGHT, ALIGN_NONE } terminal_align;

/* Prints the text in at most so many columns, and with spaces before or after it (or not) in exactly so many.  What
 * does not fit is cut.  Characters that the terminal may not show, or not in a known width, are printed as '?'. */
void terminal_text(FILE *file, const terminal *screen, const char *text, int columns, terminal_align align);

/* Prints one character in exactly so many columns. */
void terminal_glyph(FILE *file, const terminal *screen, int point, int columns);

#endif
