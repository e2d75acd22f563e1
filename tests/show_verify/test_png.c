/* The pictures of heed show, decoded again by libpng: sizes, limits, and whether they show the weights.
 * May know: libpng, the colours at both ends of the scale.
 * Must not know: how a picture is laid out. */
#include "check.h"
#include "program.h"
#include "weights.h"

#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct picture {
    int64_t width, height;
    uint8_t *rgb;
} picture;

enum { DARK = 0x140129, LIGHT = 0xFCF6A0, RED = 0xD62839, WHITE = 0xFFFFFF };

static picture load(const char *path)
{
    picture decoded = { 0, 0, NULL };
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (!CHECK(png_image_begin_read_from_file(&image, path), "%s: %s", path, image.message))
        return decoded;
    image.format = PNG_FORMAT_RGB;
    decoded = (picture){ image.width, image.height, check_malloc(PNG_IMAGE_SIZE(image)) };
    CHECK(png_image_finish_read(&image, NULL, decoded.rgb, 0, NULL), "%s: %s", path, image.message);
    return decoded;
}

static int64_t count_colour(const picture *decoded, int rgb)
{
    int64_t count = 0;
    for (int64_t i = 0; i < decoded->width * decoded->height; i++) {
        const uint8_t *pixel = decoded->rgb + 3 * i;
        count += pixel[0] << 16 == (rgb & 0xFF0000) && pixel[1] << 8 == (rgb & 0xFF00) && pixel[2] == (rgb & 0xFF);
    }
    return count;
}

static int64_t count_colours(const picture *decoded)
{
    uint8_t *seen = check_malloc(1 << 21);
    int64_t count = 0;
    memset(seen, 0, 1 << 21);
    for (int64_t i = 0; i < decoded->width * decoded->height; i++) {
        const uint8_t *pixel = decoded->rgb + 3 * i;
        uint32_t colour = (uint32_t)pixel[0] << 16 | (uint32_t)pixel[1] << 8 | pixel[2];
        count += !(seen[colour >> 3] >> (colour & 7) & 1);
        seen[colour >> 3] |= (uint8_t)(1 << (colour & 7));
    }
    free(seen);
    return count;
}

/* Runs heed show, checks the size it states, and returns the picture. */
static picture show(const char *const *words, const char *path)
{
    long long width = 0, height = 0;
    program_result result = program_run(words, NULL);
    picture decoded = { 0, 0, NULL };
    const char *colon = strrchr(result.out, ':');
    CHECK(result.code == 0 && result.err[0] == 0, "exit code %d: %s", result.code, result.err);
    CHECK(colon && sscanf(colon, ": %lld x %lld pixels", &width, &height) == 2, "it says: %s", result.out);
    if (result.code == 0)
        decoded = load(path);
    CHECK(decoded.width == width && decoded.height == height, "decoded %lld x %lld", (long long)decoded.width,
        (long long)decoded.height);
    program_free(&result);
    return decoded;
}

static void test_small(void)
{
    char folder[32];
    folder_enter(folder);
    weights_cats();
    picture plain = show((const char *[]){ "show", "cats.npy", "-o", "plain.png", NULL }, "plain.png");
    picture named =
        show((const char *[]){ "show", "cats.npy", "--tokens", "cats.txt", "-o", "named.png", NULL }, "named.png");
    /* One of nine cells has the largest weight; its number covers little of it. */
    int64_t light = count_colour(&named, LIGHT);
    CHECK(light > 2000 && light < 4200, "%lld pixels of the lightest colour", (long long)light);
    CHECK(count_colours(&named) > 100, "%lld colours", (long long)count_colours(&named));
    CHECK(count_colour(&named, WHITE) > named.width * named.height / 4, "little white");
    CHECK(plain.width != named.width || plain.height != named.height ||
              memcmp(plain.rgb, named.rgb, (size_t)(3 * plain.width * plain.height)) != 0,
        "tokens change nothing");
    free(plain.rgb);
    free(named.rgb);
    folder_leave(folder);
}

/* A picture of identity matrices: as many light cells as heads times rows, all of one size, the others dark. */
static void test_grid(void)
{
    char folder[32];
    folder_enter(folder);
    weights_identity("grid.npy", 12, 10);
    picture grid = show((const char *[]){ "show", "grid.npy", "-o", "grid.png", NULL }, "grid.png");
    int64_t light = count_colour(&grid, LIGHT), dark = count_colour(&grid, DARK);
    CHECK(light > 12 * 10 * 100, "%lld light pixels", (long long)light);
    CHECK(
        dark > light * 8 && dark < light * 10, "%lld dark pixels, %lld light ones", (long long)dark, (long long)light);
    free(grid.rgb);
    picture one = show((const char *[]){ "show", "grid.npy", "--head", "3", "-o", "one.png", NULL }, "one.png");
    CHECK(count_colour(&one, LIGHT) > 10 * 300, "the cells of a single head are small");
    free(one.rgb);
    folder_leave(folder);
}

/* A single large weight must survive the reduction by maximum, and its limit of the scale changes with the mean. */
static void test_reduction(void)
{
    char folder[32];
    folder_enter(folder);
    weights_spike("large.npy", 900, 900, 123, 456, 1.0f);
    const char *const most[] = { "show", "large.npy", "--width", "500", "-o", "max.png", NULL };
    const char *const mean[] = { "show", "large.npy", "--width", "500", "--reduce", "mean", "--max", "1", "-o",
        "mean.png", NULL };
    picture by_max = show(most, "max.png"), by_mean = show(mean, "mean.png");
    /* The colour bar ends in one column of this colour. */
    int64_t bar = count_colour(&by_mean, LIGHT), light = count_colour(&by_max, LIGHT);
    CHECK(bar > 0 && light > bar, "light pixels: %lld by maximum, %lld by mean", (long long)light, (long long)bar);
    CHECK(by_max.width <= 500 && by_mean.width <= 500, "wider than asked for");
    free(by_max.rgb);
    free(by_mean.rgb);
    folder_leave(folder);
}

static void test_limits(void)
{
    char folder[32];
    folder_enter(folder);
    static const int64_t shapes[][3] = { { 1, 1, 1 }, { 32, 8, 8 }, { 3, 1, 5000 }, { 2, 4000, 3 }, { 64, 40, 60 },
        { 1, 130, 257 } };
    static const char *const widths[] = { "400", "640", "1000", "3000" };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        float *values = check_floats((size_t)(shapes[s][0] * shapes[s][1] * shapes[s][2]));
        values[0] = 1.0f;
        weights_save("w.npy", values, 3, shapes[s]);
        free(values);
        for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
            check_case("%lld heads of %lld x %lld, width %s", (long long)shapes[s][0], (long long)shapes[s][1],
                (long long)shapes[s][2], widths[w]);
            picture limited =
                show((const char *[]){ "show", "w.npy", "--width", widths[w], "-o", "w.png", NULL }, "w.png");
            CHECK(limited.width <= atoi(widths[w]), "%lld pixels wide", (long long)limited.width);
            CHECK(count_colour(&limited, LIGHT) > 0, "the only weight is not to be seen");
            free(limited.rgb);
        }
    }
    check_case("%s", "");
    folder_leave(folder);
}

static void test_odd_values(void)
{
    char folder[32];
    folder_enter(folder);
    const float values[6] = { check_float(0x7FC00000), 0.5f, -0.25f, check_float(0x7F800000), 1e-40f, 0.25f };
    const int64_t shape[2] = { 2, 3 };
    weights_save("odd.npy", values, 2, shape);
    picture odd = show((const char *[]){ "show", "odd.npy", "-o", "odd.png", NULL }, "odd.png");
    CHECK(count_colour(&odd, RED) > 1000, "NaN is not red");
    CHECK(count_colour(&odd, LIGHT) > 1000, "infinity is not light");
    free(odd.rgb);
    const float zeros[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    const int64_t square[2] = { 2, 2 };
    weights_save("zero.npy", zeros, 2, square);
    picture zero = show((const char *[]){ "show", "zero.npy", "-o", "zero.png", NULL }, "zero.png");
    CHECK(count_colour(&zero, DARK) > 1000, "zeros are not dark");
    free(zero.rgb);
    folder_leave(folder);
}

static void test_refused(void)
{
    char folder[32];
    folder_enter(folder);
    weights_cats();
    float *values = check_floats(30000);
    const int64_t many[3] = { 30000, 1, 1 };
    weights_save("many.npy", values, 3, many);
    free(values);
    expect_refused((const char *[]){ "show", "many.npy", "-o", "m.png", NULL }, "many.npy", "--head");
    expect_refused((const char *[]){ "show", "cats.npy", "-o", "none/c.png", NULL }, "none/c.png", "");
    expect_refused((const char *[]){ "show", "cats.npy", "-o", ".", NULL }, ".", "");
    expect_refused((const char *[]){ "show", "cats.npy", "-o", "c.png", "--width", "399", NULL }, "width", "400");
    expect_refused((const char *[]){ "show", "cats.npy", "-o", "c.png", "--width", "16385", NULL }, "width", "16384");
    expect_refused((const char *[]){ "show", "cats.npy", "-o", "c.png", "--row", "3", NULL }, "cats.npy", "--row");
    folder_leave(folder);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "small", test_small },
        { "grid", test_grid },
        { "reduction", test_reduction },
        { "limits", test_limits },
        { "odd_values", test_odd_values },
        { "refused", test_refused },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
