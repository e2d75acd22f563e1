/* Writes a picture as a PNG file through libpng, or says that this build cannot.
 * May know: libpng (when HEED_HAVE_PNG is defined), show_image.h.
 * Must not know: what the picture shows, the name of the file. */
#include "show_image.h"

#ifdef HEED_HAVE_PNG

#include <png.h>
#include <setjmp.h>

int image_png_available(void)
{
    return 1;
}

/* libpng reports errors by this call, which must not return. */
static void on_error(png_structp png, png_const_charp message)
{
    const char **reason = png_get_error_ptr(png);
    *reason = message;
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message)
{
    (void)png;
    (void)message;
}

/* Separate from the creation of png and info, whose values would be indeterminate after longjmp into their function. */
static int write_rows(png_structp png, png_infop info, const image *picture, FILE *file)
{
    if (setjmp(png_jmpbuf(png)))
        return 0;
    png_init_io(png, file);
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height, 8, PNG_COLOR_TYPE_RGB,
        PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png, info);
    for (int y = 0; y < picture->height; y++)
        png_write_row(png, picture->rgb + (size_t)y * (size_t)picture->width * 3);
    png_write_end(png, info);
    return 1;
}

const char *image_write_png(const image *picture, FILE *file)
{
    const char *reason = "libpng cannot start";
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, (png_voidp)&reason, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (info && write_rows(png, info, picture, file))
        reason = NULL;
    png_destroy_write_struct(&png, &info);
    return reason;
}

#else

int image_png_available(void)
{
    return 0;
}

const char *image_write_png(const image *picture, FILE *file)
{
    (void)picture;
    (void)file;
    return "this program was built without libpng";
}

#endif
