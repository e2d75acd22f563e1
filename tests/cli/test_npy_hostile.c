/* The .npy reader on hostile files: wrong headers and starts, every truncation, every changed byte.
 * May know: npy.h, the format.
 * Must not know: how npy.c does it. */
#include "check.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const float six[6] = { 1, 2, 3, -4, 5.5f, -0.25f };

static void expect_refused_as(const made_file *file, npy_kind kind, const char *fragment)
{
    npy_array array;
    char message[MADE_MESSAGE];
    bool good = made_npy_parse_as(file, file->size, kind, &array, message);
    CHECK(!good, "accepted instead of refused with '%s'", fragment);
    CHECK(good || strstr(message, fragment), "refused with '%s', which lacks '%s'", message, fragment);
    CHECK(
        good || (!array.data && !array.doubles && !array.bytes && array.ndim == 0), "an array is left after a refusal");
    CHECK(!strchr(message, '\n'), "the message has more than one line");
    npy_free(&array);
}

static void expect_refused(const made_file *file, const char *fragment)
{
    expect_refused_as(file, NPY_FLOATS, fragment);
}

/* Headers that are wrong, each with 24 bytes of data, and what the message must name. */
static const struct {
    const char *header, *fragment;
} wrong[] = {
    { "", "header: not a dictionary" },
    { "{}", "'descr' is missing" },
    { "{,}", "header: a quoted key" },
    { "('descr', '<f4')", "header: not a dictionary" },
    { "{'descr': '<f4', 'fortran_order': False}", "'shape' is missing" },
    { "{'descr': '<f4', 'shape': (6,)}", "'fortran_order' is missing" },
    { "{'fortran_order': False, 'shape': (6,)}", "'descr' is missing" },
    { "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", "'descr' given twice" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'shape': (6,)}", "'shape' given twice" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", "unknown key 'more'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)} x", "something follows" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}{}", "something follows" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", "',' or '}'" },
    { "{'descr': '<f4' 'fortran_order': False, 'shape': (6,)}", "',' or '}'" },
    { "{'descr' '<f4', 'fortran_order': False, 'shape': (6,)}", "':' expected" },
    { "{'descr: '<f4', 'fortran_order': False, 'shape': (6,)}", "unknown key 'descr: '" },
    { "{'de\\x73cr': '<f4', 'fortran_order': False, 'shape': (6,)}", "a quoted key" },
    { "{descr: '<f4', 'fortran_order': False, 'shape': (6,)}", "a quoted key" },
    { "{'a key of more than thirty-one letters': 1}", "a quoted key" },
    { "{'descr': '<i4', 'fortran_order': False, 'shape': (6,)}", "descr: dtype '<i4'" },
    { "{'descr': '<f44', 'fortran_order': False, 'shape': (6,)}", "descr: dtype '<f44'" },
    { "{'descr': '|f4', 'fortran_order': False, 'shape': (6,)}", "descr: dtype '|f4'" },
    { "{'descr': 'f4', 'fortran_order': False, 'shape': (6,)}", "descr: dtype 'f4'" },
    { "{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}", "descr: dtype '<c8'" },
    { "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "descr: dtype '|O'" },
    { "{'descr': '', 'fortran_order': False, 'shape': (6,)}", "descr: dtype ''" },
    { "{'descr': '<', 'fortran_order': False, 'shape': (6,)}", "descr: dtype '<'" },
    { "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "descr: not the name" },
    { "{'descr': '<f4', 'fortran_order': 0, 'shape': (6,)}", "fortran_order: neither" },
    { "{'descr': '<f4', 'fortran_order': 'False', 'shape': (6,)}", "fortran_order: neither" },
    { "{'descr': '<f4', 'fortran_order': Falsey, 'shape': (6,)}", "',' or '}'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "shape: not a tuple" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "shape: not a tuple" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': [6]}", "shape: not a tuple" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6,,)}", "shape: dimension 1" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "shape: ',' or ')'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (-6,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (+6,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (06,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6.0,)}", "shape: ',' or ')'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (0x6,)}", "shape: ',' or ')'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6L,)}", "shape: ',' or ')'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (nan,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (6", "shape: ',' or ')'" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999999,)}", "shape: dimension 0" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}", "shape: the product" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "shape: the product" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4294967296, 4294967296)}", "shape: the product" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 1073741824, 4)}", "shape: the product" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (2305843009213693951,)}", "data: truncated" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,6)}", "more than 8 dimensions" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (7,)}", "data: truncated" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (5,)}", "data: trailing bytes" },
    { "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", "data: trailing bytes" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': (6,)}", "data: truncated" },
    { "{'descr': '<f2', 'fortran_order': False, 'shape': (6,)}", "data: trailing bytes" },
};

static void test_wrong_headers(void)
{
    uint8_t data[24];
    made_file file;
    made_f4(data, six, 6);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check_case("header %s", wrong[i].header);
        made_npy(&file, 1, wrong[i].header, data, sizeof data);
        expect_refused(&file, wrong[i].fragment);
    }
    check_case("%s", "");
}

/* Each kind refuses the dtypes of the other, and sizes are taken by the dtype. */
static void test_kinds(void)
{
    static const struct {
        const char *descr, *shape;
        npy_kind kind;
        const char *fragment;
    } cases[] = {
        { "|b1", "(24,)", NPY_FLOATS, "descr: dtype '|b1' is not supported: <f2" },
        { "|u1", "(24,)", NPY_DOUBLES, "descr: dtype '|u1' is not supported: <f2" },
        { "<f4", "(6,)", NPY_BYTES, "descr: dtype '<f4' is not supported: |b1 and |u1" },
        { "<b1", "(24,)", NPY_BYTES, "descr: dtype '<b1'" },
        { "|i1", "(24,)", NPY_BYTES, "descr: dtype '|i1'" },
        { "|b1", "(23,)", NPY_BYTES, "data: trailing bytes" },
        { "|u1", "(25,)", NPY_BYTES, "data: truncated" },
        { "|u1", "(9223372036854775807,)", NPY_BYTES, "data: truncated" },
        { "|u1", "(4294967296, 4294967296)", NPY_BYTES, "shape: the product" },
        { "<f8", "(1152921504606846976,)", NPY_DOUBLES, "shape: the product" },
        { "<f8", "(1152921504606846975,)", NPY_DOUBLES, "data: truncated" },
    };
    uint8_t data[24] = { 0 };
    made_file file;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char header[120];
        check_case("%s %s", cases[i].descr, cases[i].shape);
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s}", cases[i].descr,
            cases[i].shape);
        made_npy(&file, 1, header, data, sizeof data);
        expect_refused_as(&file, cases[i].kind, cases[i].fragment);
    }
    check_case("%s", "");
}

static void test_wrong_starts(void)
{
    static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}";
    made_file file;
    made_npy(&file, 1, header, "", 0);
    for (size_t i = 0; i < 6; i++) {
        file.bytes[i] ^= 0x20;
        expect_refused(&file, "magic: not a .npy file");
        file.bytes[i] ^= 0x20;
    }
    for (int major = 0; major < 256; major++) {
        if (major < 1 || major > 3) {
            file.bytes[6] = (uint8_t)major;
            expect_refused(&file, "version: ");
        }
    }
    file.bytes[6] = 1;
    file.bytes[7] = 1;
    expect_refused(&file, "version: 1.1");
    static const uint32_t lengths[] = { 100, 16385, 65536, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF };
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        made_npy_start(&file, 2, lengths[i]);
        made_append(&file, header, strlen(header));
        expect_refused(&file, "header length");
    }
    made_npy_start(&file, 1, 65535);
    made_append(&file, header, strlen(header));
    expect_refused(&file, "header length");
    static const char nul[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}\0";
    made_npy_start(&file, 1, sizeof nul);
    made_append(&file, nul, sizeof nul);
    expect_refused(&file, "something follows");
}

/* A header of spaces after a good start, all of it in the file: the longest that is read, and one byte more. */
static void test_long_headers(void)
{
    enum { LONGEST = 16384 };
    static const char start[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}";
    made_file *file = check_malloc(sizeof *file);
    npy_array array;
    char message[MADE_MESSAGE];
    for (uint32_t length = LONGEST; length <= MADE_MAX - 100; length += length == LONGEST ? 1 : 13000) {
        made_npy_start(file, 2, length);
        made_append(file, start, strlen(start));
        while (file->size < 12 + length) {
            made_append(file, " ", 1);
        }
        if (length == LONGEST) {
            CHECK(made_npy_parse(file, file->size, &array, message), "the longest header is refused: %s", message);
            npy_free(&array);
        } else {
            expect_refused(file, "longer than any header");
        }
    }
    free(file);
}

static void test_too_large_values(void)
{
    static const uint8_t data[16] = { 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0, 0, 0, 0, 0, 0, 0xF0, 0x47 };
    made_file file;
    made_npy(&file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", data, sizeof data);
    expect_refused(&file, "data: element 1 is too large");
}

/* Cut anywhere, a good file is refused. */
static void test_truncation(void)
{
    uint8_t data[24];
    made_file file;
    npy_array array;
    char message[MADE_MESSAGE];
    made_f4(data, six, 6);
    for (int major = 1; major <= 3; major++) {
        made_npy(&file, major, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }    \n", data, sizeof data);
        for (size_t size = 0; size < file.size; size++) {
            CHECK(
                !made_npy_parse(&file, size, &array, message), "version %d cut to %zu bytes is accepted", major, size);
            CHECK(message[0], "no message for version %d cut to %zu bytes", major, size);
            npy_free(&array);
        }
        made_append(&file, "x", 1);
        expect_refused(&file, "trailing bytes");
    }
}

/* Every byte before the data set to every value: what is still accepted agrees with the size of the file. */
static void change_bytes(const char *header, npy_kind kind, int64_t wanted)
{
    uint8_t data[24];
    made_file file;
    npy_array array;
    char message[MADE_MESSAGE];
    int accepted = 0;
    made_f4(data, six, 6);
    made_npy(&file, 2, header, data, sizeof data);
    size_t header_end = file.size - sizeof data;
    for (size_t at = 0; at < header_end; at++) {
        uint8_t original = file.bytes[at];
        for (int value = 0; value < 256; value++) {
            file.bytes[at] = (uint8_t)value;
            if (made_npy_parse_as(&file, file.size, kind, &array, message)) {
                int64_t count = npy_count(&array);
                accepted++;
                CHECK(count == wanted, "byte %zu = %d: %lld elements accepted", at, value, (long long)count);
            }
            npy_free(&array);
        }
        file.bytes[at] = original;
    }
    CHECK(accepted > (int)header_end, "only %d variants are accepted, not even the original each time", accepted);
}

static void test_changed_bytes(void)
{
    change_bytes("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", NPY_FLOATS, 6);
    change_bytes("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", NPY_DOUBLES, 6);
    change_bytes("{'descr': '|b1', 'fortran_order': True, 'shape': (4, 6), }\n", NPY_BYTES, 24);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "wrong_headers", test_wrong_headers },
        { "kinds", test_kinds },
        { "wrong_starts", test_wrong_starts },
        { "long_headers", test_long_headers },
        { "too_large_values", test_too_large_values },
        { "truncation", test_truncation },
        { "changed_bytes", test_changed_bytes },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
