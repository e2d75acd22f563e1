/* The colour scale of the heat maps: from value to RGB, and to the 256 colours of a terminal.
 * May know: show_image.h (the colour type).
 * Must not know: where the values come from, how they are drawn. */
#ifndef HEED_TOOL_SHOW_COLOUR_H
#define HEED_TOOL_SHOW_COLOUR_H

#include "show_image.h"

/* The colour of value on the scale [0, maximum]: dark 0, light maximum; values outside are clamped, NaN is red. */
colour colour_of(float value, float maximum);

/* Black or white, whichever is readable on that colour. */
colour colour_of_text_on(colour ground);

/* The nearest of the colours 16 .. 255 of xterm's palette. */
int colour_to_terminal(colour paint);

#endif
