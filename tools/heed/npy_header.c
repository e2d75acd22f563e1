/* The header of a .npy file: magic, version, length, and a Python dictionary of three known keys.
 * May know: the format.
 * Must not know: how the data is stored in memory. */
#include "npy_header.h"

#include "command.h"

#include <string.h>

/* NumPy's own reader stops at 10000 bytes; what is longer describes no array of numbers. */
enum { HEADER_MAX = 16384, TEXT_MAX = 32 };

typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_space(cursor *text)
{
    while (text->at < text->end && (*text->at == ' ' || *text->at == '\n' || *text->at == '\t')) {
        text->at++;
    }
}

/* Skips white space, then takes the character if it is the next one. */
static bool take(cursor *text, char wanted)
{
    skip_space(text);
    if (text->at < text->end && *text->at == wanted) {
        text->at++;
        return true;
    }
    return false;
}

static bool take_word(cursor *text, const char *word)
{
    skip_space(text);
    size_t length = strlen(word);
    if ((size_t)(text->end - text->at) < length || memcmp(text->at, word, length) != 0) {
        return false;
    }
    text->at += length;
    return true;
}

/* A quoted text of plain printable characters that fits. */
static bool take_text(cursor *text, char *copy)
{
    char quote = take(text, '\'') ? '\'' : take(text, '"') ? '"' : 0;
    for (int length = 0; quote && length < TEXT_MAX && text->at < text->end; length++) {
        char now = *text->at++;
        if (now == quote) {
            copy[length] = 0;
            return true;
        }
        if (now < 0x20 || now > 0x7E || now == '\\') {
            return false;
        }
        copy[length] = now;
    }
    return false;
}

/* Decimal digits without a sign; a leading zero only in "0" itself. */
static bool take_size(cursor *text, int64_t *value)
{
    skip_space(text);
    const char *start = text->at;
    int64_t number = 0;
    while (text->at < text->end && *text->at >= '0' && *text->at <= '9') {
        int digit = *text->at++ - '0';
        if (number > (INT64_MAX - digit) / 10) {
            return false;
        }
        number = number * 10 + digit;
    }
    *value = number;
    return text->at > start && (*start != '0' || text->at == start + 1);
}

static bool parse_descr(cursor *text, npy_header *header, char *message, size_t size)
{
    static const struct {
        const char *name;
        element_type type;
        bool big_endian;
    } dtypes[] = { { "<f2", ELEMENT_F16, false }, { ">f2", ELEMENT_F16, true }, { "<f4", ELEMENT_F32, false },
        { ">f4", ELEMENT_F32, true }, { "<f8", ELEMENT_F64, false }, { ">f8", ELEMENT_F64, true },
        { "|b1", ELEMENT_U8, false }, { "|u1", ELEMENT_U8, false }, { "<V2", ELEMENT_BF16, false },
        { "|V2", ELEMENT_BF16, false } };
    bool bf16 = header->kind == NPY_FLOATS_OR_BF16;
    char name[TEXT_MAX];
    if (!take_text(text, name)) {
        return complain(message, size, "descr: not the name of one plain dtype");
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        bool wanted = (dtypes[i].type == ELEMENT_U8) == (header->kind == NPY_BYTES);
        if (wanted && (bf16 || dtypes[i].type != ELEMENT_BF16) && strcmp(name, dtypes[i].name) == 0) {
            header->type = dtypes[i].type;
            header->big_endian = dtypes[i].big_endian;
            return true;
        }
    }
    if (strcmp(name + (*name != 0), "V2") == 0 && header->kind == NPY_FLOATS) {
        return complain(
            message, size, "descr: dtype '%s' may be anything: is it bfloat16? (heed run --bf16-npy)", name);
    }
    return complain(message, size, "descr: dtype '%s' is not supported: %s are", name,
        header->kind == NPY_BYTES ? "|b1 and |u1"
        : bf16                    ? "<f2, <f4, <f8 (or >), <V2 and |V2"
                                  : "<f2, <f4, <f8 (or >)");
}

static bool parse_order(cursor *text, npy_header *header, char *message, size_t size)
{
    header->fortran_order = take_word(text, "True");
    if (!header->fortran_order && !take_word(text, "False")) {
        return complain(message, size, "fortran_order: neither True nor False");
    }
    return true;
}

static bool parse_shape(cursor *text, npy_header *header, char *message, size_t size)
{
    if (!take(text, '(')) {
        return complain(message, size, "shape: not a tuple");
    }
    header->ndim = 0;
    bool comma = true;
    while (!take(text, ')')) {
        if (!comma) {
            return complain(message, size, "shape: ',' or ')' expected");
        }
        if (header->ndim == NPY_MAX_DIMS) {
            return complain(message, size, "shape: more than %d dimensions", NPY_MAX_DIMS);
        }
        if (!take_size(text, &header->shape[header->ndim])) {
            return complain(message, size, "shape: dimension %d is not a number from 0 to %lld", header->ndim,
                (long long)INT64_MAX);
        }
        header->ndim++;
        comma = take(text, ',');
    }
    if (header->ndim == 1 && !comma) {
        return complain(message, size, "shape: not a tuple: (n,) has a comma");
    }
    return true;
}

static bool parse_entry(cursor *text, npy_header *header, bool seen[3], char *message, size_t size)
{
    static const char *const keys[3] = { "descr", "fortran_order", "shape" };
    char key[TEXT_MAX];
    if (!take_text(text, key)) {
        return complain(message, size, "header: a quoted key expected");
    }
    int found = 0;
    while (found < 3 && strcmp(key, keys[found]) != 0) {
        found++;
    }
    if (found == 3) {
        return complain(message, size, "header: unknown key '%s'", key);
    }
    if (seen[found]) {
        return complain(message, size, "header: key '%s' given twice", key);
    }
    seen[found] = true;
    if (!take(text, ':')) {
        return complain(message, size, "header: ':' expected after '%s'", key);
    }
    return found == 0   ? parse_descr(text, header, message, size)
           : found == 1 ? parse_order(text, header, message, size)
                        : parse_shape(text, header, message, size);
}

static bool parse_dictionary(cursor text, npy_header *header, char *message, size_t size)
{
    bool seen[3] = { false, false, false };
    if (!take(&text, '{')) {
        return complain(message, size, "header: not a dictionary");
    }
    bool comma = true;
    while (!take(&text, '}')) {
        if (!comma) {
            return complain(message, size, "header: ',' or '}' expected");
        }
        if (!parse_entry(&text, header, seen, message, size)) {
            return false;
        }
        comma = take(&text, ',');
    }
    skip_space(&text);
    if (text.at != text.end) {
        return complain(message, size, "header: something follows the dictionary");
    }
    if (!seen[0] || !seen[1] || !seen[2]) {
        return complain(message, size, "header: key '%s' is missing",
            !seen[0]   ? "descr"
            : !seen[1] ? "fortran_order"
                       : "shape");
    }
    return true;
}

bool npy_read_header(const source *input, npy_kind kind, npy_header *header, char *message, size_t size)
{
    uint8_t start[12] = { 0 };
    char text[HEADER_MAX];
    *header = (npy_header){ kind, ELEMENT_F32, false, false, 0, { 0 }, 0 };
    if (input->size < 10 || !source_read(input, 0, start, 10, message, size) || memcmp(start, "\x93NUMPY", 6) != 0) {
        return complain(message, size, "magic: not a .npy file");
    }
    int major = start[6];
    if (major < 1 || major > 3 || start[7] != 0) {
        return complain(message, size, "version: %d.%d is not supported: 1.0, 2.0 and 3.0 are", major, start[7]);
    }
    int64_t offset = major == 1 ? 10 : 12;
    if (!source_read(input, 0, start, offset, message, size)) {
        return false;
    }
    int64_t length = (int64_t)start[8] | (int64_t)start[9] << 8 | (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
    if (length > HEADER_MAX || length > input->size - offset) {
        return complain(message, size, "header length: %lld bytes: %s", (long long)length,
            length > HEADER_MAX ? "longer than any header of an array of numbers" : "longer than the file");
    }
    if (!source_read(input, offset, text, length, message, size)) {
        return false;
    }
    header->data_offset = offset + length;
    return parse_dictionary((cursor){ text, text + length }, header, message, size);
}
