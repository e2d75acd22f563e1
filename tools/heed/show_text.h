/* Token lists read from a text file, and walking over UTF-8.
 * May know: the C library.
 * Must not know: pictures, terminals, attention. */
#ifndef HEED_TOOL_SHOW_TEXT_H
#define HEED_TOOL_SHOW_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOKENS_MAX_BYTES = 1 << 26,
    TEXT_INVALID = -1,        /* bytes that are not UTF-8 */
    TEXT_LABEL_BYTES = 4 * 64 /* room for a shortened label */
};

/* The tokens of a file, one a line, valid UTF-8. */
typedef struct token_list {
    char *text; /* the file, with a NUL after each token */
    const char **tokens;
    int64_t count;
} token_list;

/* On failure returns false with the reason in message, which does not name the file, and nothing is to be destroyed. */
bool token_list_read(token_list *list, const char *path, char *message, size_t message_size);
void token_list_destroy(token_list *list);

/* The code point at *text, which moves past it; 0 at the end, where *text stays.  TEXT_INVALID moves one byte. */
int32_t text_next(const char **text);

/* Copies at most `glyphs` code points of text into label (TEXT_LABEL_BYTES), control characters as U+FFFD; what was cut
 * is marked by ".." at the end.  Returns the code points written. */
int text_shorten(char *label, const char *text, int glyphs);

/* The label of a row or column: its token, its number when tokens is NULL, or both; shortened to so many glyphs.  label
 * has TEXT_LABEL_BYTES.  Returns the code points written. */
int text_label(char *label, const token_list *tokens, int64_t index, bool numbered, int glyphs);

/* The code points of the longest token, at most glyphs; 0 for NULL. */
int text_longest_token(const token_list *tokens, int glyphs);

#endif
