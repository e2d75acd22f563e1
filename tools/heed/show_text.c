/* Token lists and UTF-8.  A token file is hostile input: every line is checked before anything is drawn.
 * May know: source.h, command.h for messages.
 * Must not know: pictures, terminals, attention. */
#include "show_text.h"
#include "command.h"
#include "source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int32_t text_next(const char **text)
{
    const unsigned char *bytes = (const unsigned char *)*text;
    if (bytes[0] == 0)
        return 0;
    *text += 1;
    if (bytes[0] < 0x80)
        return bytes[0];
    int extra = bytes[0] >= 0xF0 ? 3 : bytes[0] >= 0xE0 ? 2 : 1;
    static const int32_t smallest[4] = { 0, 0x80, 0x800, 0x10000 };
    if (bytes[0] < 0xC2 || bytes[0] > 0xF4)
        return TEXT_INVALID;
    int32_t point = bytes[0] & (0x3F >> extra);
    for (int i = 1; i <= extra; i++) {
        if ((bytes[i] & 0xC0) != 0x80) /* also ends at the NUL */
            return TEXT_INVALID;
        point = point << 6 | (bytes[i] & 0x3F);
    }
    if (point < smallest[extra] || point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return TEXT_INVALID;
    *text += extra;
    return point;
}

int text_shorten(char *label, const char *text, int glyphs)
{
    static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */
    char *end = label, *keep = label;                 /* keep: where ".." goes if the text is longer */
    int count = 0;
    glyphs = glyphs > TEXT_LABEL_BYTES / 4 - 1 ? TEXT_LABEL_BYTES / 4 - 1 : glyphs;
    for (const char *next = text;;) {
        const char *start = next;
        int32_t point = text_next(&next);
        if (point == 0)
            break;
        if (count == glyphs) {
            memset(keep, '.', (size_t)(glyphs < 2 ? glyphs : 2));
            end = keep + (glyphs < 2 ? glyphs : 2);
            break;
        }
        if (count == (glyphs > 2 ? glyphs - 2 : 0))
            keep = end;
        int control = point < 0x20 || (point >= 0x7F && point < 0xA0);
        size_t size = control ? sizeof replacement - 1 : (size_t)(next - start);
        memcpy(end, control ? replacement : start, size);
        end += size;
        count++;
    }
    *end = 0;
    return count;
}

static char *read_text(const char *path, size_t *size, char *message, size_t message_size)
{
    source input;
    if (!source_open(&input, path, message, message_size)) {
        return NULL;
    }
    char *text = NULL;
    if (input.size > TOKENS_MAX_BYTES) {
        complain(message, message_size, "size: more than %d bytes", TOKENS_MAX_BYTES);
    } else if (!(text = malloc((size_t)input.size + 1))) {
        complain(message, message_size, "out of memory");
    } else if (source_read(&input, 0, text, input.size, message, message_size)) {
        text[input.size] = 0;
        *size = (size_t)input.size;
    } else {
        free(text);
        text = NULL;
    }
    source_close(&input);
    return text;
}

/* Cuts the text into lines in place; a last line without a newline counts, an empty last line does not. */
static int64_t split_lines(char *text, size_t size, const char **tokens)
{
    int64_t count = 0;
    char *end = text + size;
    for (char *line = text; line < end; count++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        char *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        if (stop > line && stop[-1] == '\r')
            stop--;
        if (tokens) {
            *stop = 0;
            tokens[count] = line;
        }
        line = next;
    }
    return count;
}

static int64_t first_bad_line(const token_list *list)
{
    for (int64_t i = 0; i < list->count; i++)
        for (const char *next = list->tokens[i];;) {
            int32_t point = text_next(&next);
            if (point == TEXT_INVALID)
                return i;
            if (point == 0)
                break;
        }
    return -1;
}

bool token_list_read(token_list *list, const char *path, char *message, size_t message_size)
{
    size_t size = 0;
    memset(list, 0, sizeof *list);
    list->text = read_text(path, &size, message, message_size);
    if (!list->text) {
        return false;
    }
    char *text = list->text;
    bool marked = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0; /* byte order mark */
    text += marked ? 3 : 0;
    size -= marked ? 3 : 0;
    bool has_nul = strlen(text) != size;
    list->count = split_lines(text, size, NULL);
    list->tokens = allocate_array(list->count, sizeof *list->tokens);
    if (has_nul) {
        complain(message, message_size, "holds a NUL byte, so it is no text file");
    } else if (!list->tokens) {
        complain(message, message_size, "out of memory");
    } else {
        split_lines(text, size, list->tokens);
        int64_t bad = first_bad_line(list);
        if (bad < 0) {
            return true;
        }
        complain(message, message_size, "line %" PRId64 ": not UTF-8", bad + 1);
    }
    token_list_destroy(list);
    return false;
}

void token_list_destroy(token_list *list)
{
    free(list->text);
    free((void *)list->tokens);
    memset(list, 0, sizeof *list);
}

int text_label(char *label, const token_list *tokens, int64_t index, bool numbered, int glyphs)
{
    char token[TEXT_LABEL_BYTES], both[TEXT_LABEL_BYTES + 32];
    if (!tokens) {
        snprintf(both, sizeof both, "%" PRId64, index);
        return text_shorten(label, both, glyphs);
    }
    if (!numbered)
        return text_shorten(label, tokens->tokens[index], glyphs);
    text_shorten(token, tokens->tokens[index], glyphs);
    snprintf(both, sizeof both, "%" PRId64 " %s", index, token);
    return text_shorten(label, both, glyphs);
}

int text_longest_token(const token_list *tokens, int glyphs)
{
    char label[TEXT_LABEL_BYTES];
    int longest = 0;
    for (int64_t i = 0; tokens && i < tokens->count && longest < glyphs; i++) {
        int count = text_shorten(label, tokens->tokens[i], glyphs);
        longest = count > longest ? count : longest;
    }
    return longest;
}
