/* A strict pull parser for JSON (RFC 8259) in memory: the caller says what it expects, the parser checks.
 * May know: JSON and UTF-8.
 * Must not know: what the document means. */
#ifndef HEED_TOOL_JSON_H
#define HEED_TOOL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Containers inside containers that json_skip follows. */
enum { JSON_MAX_DEPTH = 32 };

typedef struct json_cursor {
    const uint8_t *text;
    size_t size, at;
    const char *problem; /* NULL, or why the last call returned false */
} json_cursor;

/* Takes the character (one of {}[]:,) after white space, if it is next; leaves problem alone. */
bool json_take(json_cursor *json, char wanted);

/* As json_take, but something else is a problem. */
bool json_expect(json_cursor *json, char wanted);

/* A string, unescaped, with a terminating zero; one that holds U+0000 or does not fit in capacity is refused. */
bool json_string(json_cursor *json, char *copy, size_t capacity);

/* A whole number from 0 to INT64_MAX, written without fraction or exponent. */
bool json_size(json_cursor *json, int64_t *value);

/* Any one value. */
bool json_skip(json_cursor *json);

/* True if only white space is left. */
bool json_at_end(json_cursor *json);

#endif
