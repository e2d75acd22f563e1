/* Terminals: what they can show, and text in a known number of columns.
 * May know: POSIX terminals, UTF-8.
 * Must not know: attention, values. */
#include "terminal.h"
#include "show_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool locale_is_utf8(void)
{
    static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (value && *value) /* the first that is set decides */
            return strstr(value, "UTF-8") || strstr(value, "utf8") || strstr(value, "UTF8") || strstr(value, "utf-8");
    }
    return false;
}

static int clamp_columns(long columns)
{
    return columns < TERMINAL_MIN_COLUMNS   ? TERMINAL_MIN_COLUMNS
           : columns > TERMINAL_MAX_COLUMNS ? TERMINAL_MAX_COLUMNS
                                            : (int)columns;
}

static int ask_columns(FILE *file)
{
    struct winsize size;
    if (ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return clamp_columns(size.ws_col);
    const char *text = getenv("COLUMNS");
    long columns = text ? strtol(text, NULL, 10) : 0;
    return columns > 0 ? clamp_columns(columns) : TERMINAL_DEFAULT_COLUMNS;
}

terminal terminal_detect(FILE *file, int columns, bool ascii)
{
    const char *refused = getenv("NO_COLOR"), *kind = getenv("TERM");
    bool colour = !ascii && isatty(fileno(file)) && !(refused && *refused) && !(kind && strcmp(kind, "dumb") == 0);
    return (terminal){
        .columns = columns > 0 ? clamp_columns(columns) : ask_columns(file),
        .colour = colour,
        .unicode = colour && locale_is_utf8(),
    };
}

/* 1 or 2 for characters whose width every terminal agrees on, else 0: combining, joining and direction marks would
 * disturb the columns, or the screen. */
static int columns_of(const terminal *screen, int point)
{
    static const struct {
        int first, last, columns;
    } ranges[] = {
        { 0x20, 0x7E, 1 }, { 0xA1, 0xAC, 1 }, { 0xAE, 0x2FF, 1 }, /* Latin */
        { 0x370, 0x482, 1 },                                      /* Greek, Cyrillic */
        { 0x48A, 0x52F, 1 },                                      /* Cyrillic */
        { 0x1E00, 0x1EFF, 1 },                                    /* Latin */
        { 0x2010, 0x2027, 1 },                                    /* dashes, quotes */
        { 0x2030, 0x205E, 1 },                                    /* punctuation */
        { 0x2190, 0x21FF, 1 },                                    /* arrows */
        { 0x2500, 0x259F, 1 }, /* lines, blocks; U+2581 begins a sentencepiece token */
        { 0x3001, 0x3029, 2 }, /* CJK punctuation */
        { 0x3041, 0x3096, 2 }, /* Hiragana */
        { 0x30A0, 0x30FF, 2 }, /* Katakana */
        { 0x3400, 0x4DBF, 2 }, /* CJK ideographs */
        { 0x4E00, 0x9FFF, 2 }, /* CJK ideographs */
        { 0xAC00, 0xD7A3, 2 }, /* Hangul */
        { 0xFF01, 0xFF60, 2 }, /* full-width forms */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return point < 0x7F || screen->unicode ? ranges[i].columns : 0;
    return 0;
}

static void put_utf8(FILE *file, int point)
{
    if (point < 0x80) {
        fputc(point, file);
    } else if (point < 0x800) {
        fprintf(file, "%c%c", 0xC0 | point >> 6, 0x80 | (point & 0x3F));
    } else {
        fprintf(file, "%c%c%c", 0xE0 | point >> 12, 0x80 | (point >> 6 & 0x3F), 0x80 | (point & 0x3F));
    }
}

void terminal_glyph(FILE *file, const terminal *screen, int point, int columns)
{
    int used = columns_of(screen, point);
    if (used == 0 || used > columns) {
        point = '?';
        used = 1;
    }
    put_utf8(file, point);
    for (; used < columns; used++)
        fputc(' ', file);
}

void terminal_text(FILE *file, const terminal *screen, const char *text, int columns, terminal_align align)
{
    int used = 0, glyphs = 0;
    for (const char *next = text;; glyphs++) {
        int point = text_next(&next);
        int width = point == 0 ? 0 : columns_of(screen, point) == 2 ? 2 : 1;
        if (width == 0 || used + width > columns)
            break;
        used += width;
    }
    for (int i = used; align == ALIGN_RIGHT && i < columns; i++)
        fputc(' ', file);
    for (int i = 0; i < glyphs; i++) {
        int point = text_next(&text);
        terminal_glyph(file, screen, point, columns_of(screen, point) == 2 ? 2 : 1);
    }
    for (int i = used; align == ALIGN_LEFT && i < columns; i++)
        fputc(' ', file);
}
