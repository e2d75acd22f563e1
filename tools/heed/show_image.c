/* The picture in memory; every drawing operation is clipped here, so callers need no bounds checks of their own.
 * May know: show_image.h.
 * Must not know: libpng, text, attention. */
#include "show_image.h"

#include <stdlib.h>

const char *image_create(image *picture, int64_t width, int64_t height, colour background)
{
    picture->width = picture->height = 0;
    picture->rgb = NULL;
    if (width < 1 || height < 1 || width > IMAGE_MAX_SIDE || height > IMAGE_MAX_SIDE)
        return "a side of the picture is out of range";
    if (width * height > IMAGE_MAX_PIXELS)
        return "the picture has too many pixels";
    picture->rgb = malloc((size_t)(width * height) * 3);
    if (!picture->rgb)
        return "out of memory";
    picture->width = (int)width;
    picture->height = (int)height;
    image_fill(picture, 0, 0, picture->width, picture->height, background);
    return NULL;
}

void image_destroy(image *picture)
{
    free(picture->rgb);
    picture->rgb = NULL;
}

static int64_t clip(int64_t value, int limit)
{
    return value < 0 ? 0 : value > limit ? limit : value;
}

void image_fill(image *picture, int x, int y, int width, int height, colour paint)
{
    int64_t left = clip(x, picture->width), right = clip((int64_t)x + width, picture->width);
    int64_t top = clip(y, picture->height), bottom = clip((int64_t)y + height, picture->height);
    for (int64_t row = top; row < bottom; row++) {
        uint8_t *pixel = picture->rgb + (row * picture->width + left) * 3;
        for (int64_t column = left; column < right; column++, pixel += 3) {
            pixel[0] = paint.red;
            pixel[1] = paint.green;
            pixel[2] = paint.blue;
        }
    }
}
