/* The colour scale.
 * May know: show_colour.h.
 * Must not know: where the values come from, how they are drawn. */
#include "show_colour.h"

enum { STOPS = 13 };

/* Equal steps of OKLab lightness from 0.16 to 0.96 while the hue turns from violet over blue and green to yellow,
 * chroma cut to what sRGB has.  Between the stops linear, so the picture has the same bytes on every machine. */
static const colour stops[STOPS] = {
    { 20, 1, 41 },
    { 26, 13, 74 },
    { 17, 33, 107 },
    { 1, 62, 113 },
    { 2, 86, 121 },
    { 1, 109, 131 },
    { 10, 132, 140 },
    { 2, 157, 146 },
    { 14, 183, 143 },
    { 101, 202, 137 },
    { 163, 216, 144 },
    { 209, 231, 150 },
    { 252, 246, 160 },
};

static uint8_t mix(uint8_t from, uint8_t to, float part)
{
    return (uint8_t)((float)from + ((float)to - (float)from) * part + 0.5f);
}

colour colour_of(float value, float maximum)
{
    if (value != value)
        return (colour){ 214, 40, 57 };
    float position = maximum > 0.0f && value > 0.0f ? (value >= maximum ? 1.0f : value / maximum) : 0.0f;
    position *= (float)(STOPS - 1);
    int low = (int)position < STOPS - 2 ? (int)position : STOPS - 2;
    float part = position - (float)low;
    const colour *a = &stops[low], *b = &stops[low + 1];
    return (colour){ mix(a->red, b->red, part), mix(a->green, b->green, part), mix(a->blue, b->blue, part) };
}

colour colour_of_text_on(colour ground)
{
    int luma = 299 * ground.red + 587 * ground.green + 114 * ground.blue;
    return luma < 125 * 1000 ? (colour){ 255, 255, 255 } : (colour){ 0, 0, 0 };
}

static int distance(colour a, colour b)
{
    int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
    return 2 * red * red + 4 * green * green + 3 * blue * blue;
}

int colour_to_terminal(colour paint)
{
    static const uint8_t level[6] = { 0, 95, 135, 175, 215, 255 };
    int best = 16, best_distance = distance(paint, (colour){ 0, 0, 0 });
    for (int i = 16; i < 256; i++) {
        int cube = i - 16, grey = 8 + 10 * (i - 232);
        colour entry = i < 232 ? (colour){ level[cube / 36], level[cube / 6 % 6], level[cube % 6] }
                               : (colour){ (uint8_t)grey, (uint8_t)grey, (uint8_t)grey };
        if (distance(paint, entry) < best_distance) {
            best = i;
            best_distance = distance(paint, entry);
        }
    }
    return best;
}
