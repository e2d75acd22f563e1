/* Messages of the program: one line each, safe to print on a terminal.
 * May know: stderr.
 * Must not know: commands, files, the library heed. */
#include "command.h"

#include <stdarg.h>
#include <string.h>

void print_clean(FILE *file, const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        if (*at == 0xC2 && at[1] >= 0x80 && at[1] <= 0x9F) {
            /* U+0080 to U+009F in UTF-8: terminals obey these as they obey ESC. */
            at++;
            fputc('?', file);
        } else {
            fputc(*at < 0x20 || *at == 0x7F ? '?' : *at, file);
        }
    }
}

static void print_line(const char *command, const char *file, const char *format, va_list values)
{
    char text[2 * MESSAGE_SIZE];
    vsnprintf(text, sizeof text, format, values);
    progress_clear();
    fputs("heed", stderr);
    if (command) {
        fputc(' ', stderr);
        print_clean(stderr, command);
    }
    fputs(": ", stderr);
    if (file) {
        print_clean(stderr, file);
        fputs(": ", stderr);
    }
    print_clean(stderr, text);
    fputc('\n', stderr);
}

int fail(const char *command, const char *file, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line(command, file, format, values);
    va_end(values);
    return EXIT_BAD_INPUT;
}

void note(const char *command, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    print_line(command, "note", format, values);
    va_end(values);
}

bool complain(char *message, size_t size, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    vsnprintf(message, size, format, values);
    va_end(values);
    return false;
}
