/* A strict pull parser for JSON (RFC 8259) in memory: the caller says what it expects, the parser checks.
 * May know: JSON and UTF-8.
 * Must not know: what the document means. */
#include "json.h"

#include <string.h>

/* Where an unescaped string goes; copy NULL only checks it. */
typedef struct string_sink {
    char *copy;
    size_t capacity, length;
} string_sink;

static bool refuse(json_cursor *json, const char *problem)
{
    json->problem = problem;
    return false;
}

/* The next byte, or -1. */
static int peek(const json_cursor *json)
{
    return json->at < json->size ? json->text[json->at] : -1;
}

static void skip_space(json_cursor *json)
{
    int now = peek(json);
    while (now == ' ' || now == '\t' || now == '\n' || now == '\r') {
        json->at++;
        now = peek(json);
    }
}

bool json_take(json_cursor *json, char wanted)
{
    skip_space(json);
    if (peek(json) != wanted) {
        return false;
    }
    json->at++;
    return true;
}

bool json_expect(json_cursor *json, char wanted)
{
    if (json_take(json, wanted)) {
        return true;
    }
    switch (wanted) {
    case '{': return refuse(json, "'{' expected");
    case '[': return refuse(json, "'[' expected");
    case ':': return refuse(json, "':' expected");
    default: return refuse(json, "',' or the closing bracket expected");
    }
}

bool json_at_end(json_cursor *json)
{
    skip_space(json);
    return json->at == json->size;
}

static bool put(string_sink *sink, uint32_t byte)
{
    if (sink->copy) {
        if (sink->length + 1 >= sink->capacity) {
            return false;
        }
        sink->copy[sink->length++] = (char)byte;
    }
    return true;
}

static bool put_code_point(string_sink *sink, uint32_t code)
{
    if (code < 0x80) {
        return put(sink, code);
    }
    if (code < 0x800) {
        return put(sink, 0xC0 | code >> 6) && put(sink, 0x80 | (code & 0x3F));
    }
    if (code < 0x10000) {
        return put(sink, 0xE0 | code >> 12) && put(sink, 0x80 | (code >> 6 & 0x3F)) && put(sink, 0x80 | (code & 0x3F));
    }
    return put(sink, 0xF0 | code >> 18) && put(sink, 0x80 | (code >> 12 & 0x3F)) &&
           put(sink, 0x80 | (code >> 6 & 0x3F)) && put(sink, 0x80 | (code & 0x3F));
}

/* One character of several bytes, checked for overlong forms, surrogates and the end of Unicode. */
static bool take_utf8(json_cursor *json, string_sink *sink)
{
    static const uint32_t lowest[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    uint32_t lead = json->text[json->at];
    uint32_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || json->size - json->at < length) {
        return refuse(json, "a string is not UTF-8");
    }
    uint32_t code = lead & (0x7FU >> length);
    for (uint32_t i = 1; i < length; i++) {
        uint32_t next = json->text[json->at + i];
        if ((next & 0xC0) != 0x80) {
            return refuse(json, "a string is not UTF-8");
        }
        code = code << 6 | (next & 0x3F);
    }
    if (code < lowest[length] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
        return refuse(json, "a string is not UTF-8");
    }
    json->at += length;
    return put_code_point(sink, code) || refuse(json, "a string is too long");
}

/* The four digits of \uXXXX. */
static bool take_hex(json_cursor *json, uint32_t *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++) {
        int now = peek(json);
        int digit = now >= '0' && now <= '9'   ? now - '0'
                    : now >= 'a' && now <= 'f' ? now - 'a' + 10
                    : now >= 'A' && now <= 'F' ? now - 'A' + 10
                                               : -1;
        if (digit < 0) {
            return refuse(json, "four hexadecimal digits expected after \\u");
        }
        *code = *code << 4 | (uint32_t)digit;
        json->at++;
    }
    return true;
}

static bool take_unicode_escape(json_cursor *json, string_sink *sink)
{
    uint32_t code;
    uint32_t low;
    if (!take_hex(json, &code)) {
        return false;
    }
    if (code >= 0xD800 && code <= 0xDBFF) {
        bool pair = json->size - json->at >= 2 && memcmp(json->text + json->at, "\\u", 2) == 0;
        json->at += pair ? 2 : 0;
        if (!pair || !take_hex(json, &low) || low < 0xDC00 || low > 0xDFFF) {
            return refuse(json, "half of a surrogate pair");
        }
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code <= 0xDFFF) {
        return refuse(json, "half of a surrogate pair");
    }
    if (code == 0) {
        return refuse(json, "a string contains U+0000");
    }
    return put_code_point(sink, code) || refuse(json, "a string is too long");
}

static bool take_escape(json_cursor *json, string_sink *sink)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    int letter = peek(json);
    json->at += letter >= 0;
    if (letter == 'u') {
        return take_unicode_escape(json, sink);
    }
    const char *found = letter > 0 ? strchr(letters, letter) : NULL;
    if (!found) {
        return refuse(json, "unknown escape in a string");
    }
    return put(sink, (uint8_t)meanings[found - letters]) || refuse(json, "a string is too long");
}

static bool take_string(json_cursor *json, string_sink *sink)
{
    if (!json_take(json, '"')) {
        return refuse(json, "a string expected");
    }
    for (;;) {
        int now = peek(json);
        if (now < 0x20) {
            return refuse(json, now < 0 ? "a string does not end" : "a control character in a string");
        }
        if (now >= 0x80) {
            if (!take_utf8(json, sink)) {
                return false;
            }
            continue;
        }
        json->at++;
        if (now == '"') {
            return true;
        }
        if (now == '\\') {
            if (!take_escape(json, sink)) {
                return false;
            }
        } else if (!put(sink, (uint32_t)now)) {
            return refuse(json, "a string is too long");
        }
    }
}

bool json_string(json_cursor *json, char *copy, size_t capacity)
{
    string_sink sink = { copy, capacity, 0 };
    if (!take_string(json, &sink)) {
        return false;
    }
    copy[sink.length] = 0;
    return true;
}

static bool is_digit(int now)
{
    return now >= '0' && now <= '9';
}

bool json_size(json_cursor *json, int64_t *value)
{
    skip_space(json);
    size_t start = json->at;
    int64_t number = 0;
    while (is_digit(peek(json))) {
        int digit = json->text[json->at++] - '0';
        if (number > (INT64_MAX - digit) / 10) {
            return refuse(json, "a number is too large");
        }
        number = number * 10 + digit;
    }
    int next = peek(json);
    bool leading_zero = json->at > start + 1 && json->text[start] == '0';
    if (json->at == start || leading_zero || next == '.' || next == 'e' || next == 'E') {
        return refuse(json, "a whole number expected");
    }
    *value = number;
    return true;
}

static bool skip_digits(json_cursor *json)
{
    size_t start = json->at;
    while (is_digit(peek(json))) {
        json->at++;
    }
    return json->at > start || refuse(json, "a digit expected");
}

static bool skip_number(json_cursor *json)
{
    json->at += peek(json) == '-';
    if (peek(json) == '0') {
        json->at++;
    } else if (!skip_digits(json)) {
        return false;
    }
    if (peek(json) == '.') {
        json->at++;
        if (!skip_digits(json)) {
            return false;
        }
    }
    if (peek(json) == 'e' || peek(json) == 'E') {
        json->at++;
        json->at += peek(json) == '+' || peek(json) == '-';
        return skip_digits(json);
    }
    return true;
}

static bool skip_word(json_cursor *json, const char *word)
{
    size_t length = strlen(word);
    if (json->size - json->at < length || memcmp(json->text + json->at, word, length) != 0) {
        return refuse(json, "a value expected");
    }
    json->at += length;
    return true;
}

static bool skip_value(json_cursor *json, int depth);

static bool skip_members(json_cursor *json, char closing, int depth)
{
    if (json_take(json, closing)) {
        return true;
    }
    string_sink nowhere = { NULL, 0, 0 };
    do {
        if (closing == '}' && (!take_string(json, &nowhere) || !json_expect(json, ':'))) {
            return false;
        }
        if (!skip_value(json, depth)) {
            return false;
        }
    } while (json_take(json, ','));
    return json_expect(json, closing);
}

static bool skip_value(json_cursor *json, int depth)
{
    string_sink nowhere = { NULL, 0, 0 };
    bool object = json_take(json, '{');
    if (object || json_take(json, '[')) {
        return depth > 0 ? skip_members(json, object ? '}' : ']', depth - 1)
                         : refuse(json, "values are nested too deeply");
    }
    switch (peek(json)) {
    case '"': return take_string(json, &nowhere);
    case 't': return skip_word(json, "true");
    case 'f': return skip_word(json, "false");
    case 'n': return skip_word(json, "null");
    default: return skip_number(json);
    }
}

bool json_skip(json_cursor *json)
{
    return skip_value(json, JSON_MAX_DEPTH);
}
