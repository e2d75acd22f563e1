/* A picture in memory: 8-bit RGB, filled rectangles, and writing it as a PNG file.
 * May know: the C library; png.c alone knows libpng.
 * Must not know: attention, text, layout, files' names. */
#ifndef HEED_TOOL_SHOW_IMAGE_H
#define HEED_TOOL_SHOW_IMAGE_H

#include <stdint.h>
#include <stdio.h>

enum {
    IMAGE_MAX_SIDE = 16384,
    IMAGE_MAX_PIXELS = 1 << 26 /* 200 MB of RGB */
};

typedef struct colour {
    uint8_t red, green, blue;
} colour;

typedef struct image {
    int width, height;
    uint8_t *rgb; /* height rows of width * 3 bytes */
} image;

/* NULL after success, else why there is no picture: a side out of [1, IMAGE_MAX_SIDE], too many pixels, no memory. */
const char *image_create(image *picture, int64_t width, int64_t height, colour background);
void image_destroy(image *picture);

/* Fills the part of the rectangle that lies inside the picture. */
void image_fill(image *picture, int x, int y, int width, int height, colour paint);

/* 1 if this program can write PNG files at all. */
int image_png_available(void);

/* Writes the picture to an open file.  NULL after success, else the reason. */
const char *image_write_png(const image *picture, FILE *file);

#endif
