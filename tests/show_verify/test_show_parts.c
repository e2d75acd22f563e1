/* The parts of heed show that are pure functions: layout, labels, UTF-8, font, colours, clipping.
 * May know: their headers.
 * Must not know: how they do it. */
#include "check.h"
#include "font.h"
#include "show_colour.h"
#include "show_layout.h"
#include "show_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Every promise a drawing relies on, for one request. */
static void check_layout(const layout_request *request)
{
    picture_layout layout;
    if (!layout_choose(&layout, request)) {
        CHECK(request->num_heads > 20, "%lld heads do not fit", (long long)request->num_heads);
        return;
    }
    int64_t right = LAYOUT_MARGIN + layout.grid_columns * (layout.panel_width + LAYOUT_GAP) - LAYOUT_GAP;
    int64_t bottom = layout.grid_y + layout.grid_rows * (layout.panel_height + LAYOUT_GAP);
    CHECK(layout.width <= request->max_width && layout.height <= request->max_height, "%d x %d", layout.width,
        layout.height);
    CHECK(right + LAYOUT_MARGIN <= layout.width && bottom <= layout.bar_y, "the maps leave the picture");
    CHECK(layout.bar_y + LAYOUT_BAR_HEIGHT < layout.height, "the colour bar leaves the picture");
    CHECK(layout.grid_columns * layout.grid_rows >= request->num_heads, "too few places");
    CHECK(layout.row.cells * layout.row.step >= request->rows && layout.col.cells * layout.col.step >= request->cols,
        "weights are left out");
    CHECK(layout.map_x + layout.col.cells * layout.cell_width <= layout.panel_width, "a map is wider than its panel");
    CHECK(layout.map_y + layout.row.cells * layout.cell_height <= layout.panel_height, "a map is too high");
    CHECK(layout.row.every * layout.cell_height >= FONT_HEIGHT * layout.scale || layout.row.cells <= layout.row.every,
        "labels of rows overlap");
    int64_t room = layout.col.every * layout.cell_width;
    int least = layout.upright ? FONT_HEIGHT * layout.scale : layout.col.glyphs * FONT_ADVANCE * layout.scale;
    CHECK(room >= least || layout.col.cells <= layout.col.every, "labels of columns overlap");
    CHECK(layout.row.glyphs <= LABEL_GLYPHS && layout.col.glyphs <= LABEL_GLYPHS, "labels are too long");
}

static void test_layout(void)
{
    check_rng rng = check_rng_named("layout");
    for (int i = 0; i < 4000; i++) {
        int64_t most = i % 3 == 0 ? 20 : i % 3 == 1 ? 500 : 200000;
        layout_request request = {
            .num_heads = check_between(&rng, 1, i % 2 ? 4 : 70),
            .rows = check_between(&rng, 1, most),
            .cols = check_between(&rng, 1, most),
            .row_token_glyphs = (int)check_between(&rng, 0, LABEL_GLYPHS),
            .col_token_glyphs = (int)check_between(&rng, 0, LABEL_GLYPHS),
            .max_width = (int)check_between(&rng, PICTURE_MIN_WIDTH, 3000),
            .caption_lines = (int)check_between(&rng, 1, 6),
            .head_titles = i % 5 != 0,
        };
        request.max_height = request.max_width < PICTURE_LEAST_LIMIT ? PICTURE_LEAST_LIMIT : request.max_width;
        check_case("%lld heads of %lld x %lld, width %d", (long long)request.num_heads, (long long)request.rows,
            (long long)request.cols, request.max_width);
        check_layout(&request);
    }
    /* Absurd sizes end, too. */
    layout_request huge = {
        .num_heads = INT64_C(1) << 40, .rows = INT64_C(1) << 40, .cols = 1, .max_width = 1760, .max_height = 1760
    };
    picture_layout layout;
    CHECK(!layout_choose(&layout, &huge), "a tera of heads fits");
    huge.num_heads = 1;
    check_layout(&huge);
    check_case("%s", "");
}

/* Encodes any number below 2^21 in the length asked for, valid or not. */
static void encode(uint32_t point, int length, char text[5])
{
    static const unsigned char lead[5] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    memset(text, 0, 5);
    for (int i = length - 1; i > 0; i--, point >>= 6)
        text[i] = (char)(0x80 | (point & 0x3F));
    text[0] = (char)(length == 1 ? point : lead[length] | point);
}

static void test_utf8(void)
{
    for (uint32_t point = 1; point < 0x200000; point += point < 0x3000 ? 1 : 97) {
        int right = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
        bool valid = point <= 0x10FFFF && !(point >= 0xD800 && point <= 0xDFFF);
        for (int length = right; length <= 4; length++) {
            char text[5];
            const char *next = text;
            encode(point, length, text);
            int32_t got = text_next(&next);
            bool want = valid && length == right;
            if (got != (want ? (int32_t)point : TEXT_INVALID) || next != text + (want ? length : 1))
                CHECK(false, "U+%06X in %d bytes: %d", (unsigned)point, length, (int)got);
        }
    }
    static const char *const broken[] = { "\x80", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xFF", "\xC3(", "\xE2(\xA1" };
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const char *next = broken[i];
        CHECK(text_next(&next) == TEXT_INVALID && next == broken[i] + 1, "broken sequence %zu", i);
    }
    const char *end = "";
    CHECK(text_next(&end) == 0 && *end == 0, "the end is passed");
}

static void expect_short(const char *text, int glyphs, const char *want)
{
    char label[TEXT_LABEL_BYTES + 1];
    label[TEXT_LABEL_BYTES] = 'x';
    int count = text_shorten(label, text, glyphs);
    CHECK(strcmp(label, want) == 0 && count <= glyphs, "'%s' to %d: '%s'", text, glyphs, label);
    CHECK(label[TEXT_LABEL_BYTES] == 'x', "wrote beyond the label");
}

static void test_labels(void)
{
    expect_short("abcdef", 6, "abcdef");
    expect_short("abcdef", 5, "abc..");
    expect_short("abcdef", 2, "..");
    expect_short("abcdef", 1, ".");
    expect_short("", 5, "");
    expect_short("\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F", 3, "\xC3\xA4..");
    expect_short("a\033b\tc", 9,
        "a\xEF\xBF\xBD"
        "b\xEF\xBF\xBD"
        "c");
    char text[2000], label[TEXT_LABEL_BYTES];
    for (size_t i = 0; i + 4 < sizeof text; i += 4)
        memcpy(text + i, "\xF0\x9F\x98\x80", 5);
    CHECK(text_shorten(label, text, 1000) == 63 && strlen(label) == 61 * 4 + 2, "%zu bytes", strlen(label));
    const char *tokens[2] = { "cat", "catastrophe" };
    token_list list = { NULL, tokens, 2 };
    CHECK(text_longest_token(&list, 16) == 11 && text_longest_token(&list, 5) == 5, "longest token");
    CHECK(text_longest_token(NULL, 16) == 0, "longest of no tokens");
    text_label(label, &list, 1, true, 8);
    CHECK(strcmp(label, "1 cata..") == 0, "'%s'", label);
    text_label(label, NULL, 1234567, false, 16);
    CHECK(strcmp(label, "1234567") == 0, "'%s'", label);
}

static int64_t ink_of(const image *picture)
{
    int64_t count = 0;
    for (int64_t i = 0; i < (int64_t)picture->width * picture->height; i++)
        count += picture->rgb[3 * i] == 0;
    return count;
}

static void test_font(void)
{
    const colour white = { 255, 255, 255 }, black = { 0, 0, 0 };
    enum { SIZE = 12, BYTES = SIZE * SIZE * 3 };
    static uint8_t seen[96][BYTES];
    for (int c = 0x20; c <= 0x7F; c++) {
        image picture;
        const char text[3] = { c == 0x7F ? '\xC3' : (char)c, c == 0x7F ? '\xA4' : 0, 0 }; /* last: the box */
        if (!CHECK(!image_create(&picture, SIZE, SIZE, white), "no picture"))
            return;
        font_draw(&picture, 1, 1, 1, black, text);
        memcpy(seen[c - 0x20], picture.rgb, BYTES);
        CHECK((ink_of(&picture) == 0) == (c == ' '), "ink of character %d: %lld", c, (long long)ink_of(&picture));
        int64_t upright = ink_of(&picture);
        image_fill(&picture, 0, 0, SIZE, SIZE, white);
        font_draw_upwards(&picture, 1, SIZE - 1, 1, black, text);
        CHECK(ink_of(&picture) == upright, "turning character %d changes its ink", c);
        for (int other = 0; other < c - 0x20; other++)
            CHECK(memcmp(seen[other], seen[c - 0x20], BYTES) != 0, "characters %d and %d look alike", other + 0x20, c);
        image_destroy(&picture);
    }
    CHECK(font_width("", 2) == 0 && font_width("ab", 1) == 11 && font_width("\xC3\xA4", 2) == 10, "widths");
}

static void test_image(void)
{
    image picture;
    const colour white = { 255, 255, 255 }, black = { 0, 0, 0 };
    CHECK(image_create(&picture, 0, 5, white) && !picture.rgb, "width 0");
    CHECK(image_create(&picture, 5, IMAGE_MAX_SIDE + 1, white) && !picture.rgb, "too high");
    CHECK(image_create(&picture, IMAGE_MAX_SIDE, IMAGE_MAX_SIDE, white) && !picture.rgb, "too many pixels");
    CHECK(image_create(&picture, INT64_MAX, INT64_MAX, white) && !picture.rgb, "absurd");
    if (!CHECK(!image_create(&picture, 10, 7, white), "no picture"))
        return;
    image_fill(&picture, -5, -5, 6, 6, black);
    CHECK(ink_of(&picture) == 1, "a corner");
    image_fill(&picture, 8, 2, INT32_MAX, 1, black);
    CHECK(ink_of(&picture) == 3, "beyond the right side");
    image_fill(&picture, INT32_MIN, INT32_MIN, 5, 5, black);
    image_fill(&picture, 3, 3, -2, 4, black);
    CHECK(ink_of(&picture) == 3, "outside");
    image_destroy(&picture);
}

static double luma(colour paint)
{
    return 0.2126 * pow(paint.red / 255.0, 2.2) + 0.7152 * pow(paint.green / 255.0, 2.2) +
           0.0722 * pow(paint.blue / 255.0, 2.2);
}

/* Larger values are lighter, over the whole scale and on the terminal's palette nearly so. */
static void test_colours(void)
{
    double before = -1.0;
    for (int i = 0; i <= 1000; i++) {
        colour paint = colour_of((float)i / 1000.0f, 1.0f);
        CHECK(luma(paint) >= before, "value %d is darker than the one before", i);
        before = luma(paint) - 0.002; /* bytes are rounded */
        int index = colour_to_terminal(paint);
        CHECK(index >= 16 && index <= 255, "palette index %d", index);
    }
    colour zero = colour_of(0.0f, 1.0f), one = colour_of(1.0f, 1.0f);
    colour below = colour_of(-3.0f, 1.0f), above = colour_of(INFINITY, 1.0f), none = colour_of(0.5f, 0.0f);
    CHECK(memcmp(&zero, &below, sizeof zero) == 0 && memcmp(&zero, &none, sizeof zero) == 0, "below the scale");
    CHECK(memcmp(&one, &above, sizeof one) == 0, "above the scale");
    CHECK(luma(zero) < 0.02 && luma(one) > 0.85, "the ends of the scale are %g and %g", luma(zero), luma(one));
    CHECK(colour_to_terminal((colour){ 0, 0, 0 }) == 16 && colour_to_terminal((colour){ 255, 255, 255 }) == 231 &&
              colour_to_terminal((colour){ 95, 135, 175 }) == 67,
        "exact colours of the palette");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "layout", test_layout },
        { "utf8", test_utf8 },
        { "labels", test_labels },
        { "font", test_font },
        { "image", test_image },
        { "colours", test_colours },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
