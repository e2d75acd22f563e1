/* The .safetensors reader: good files, hand-made hostile ones, every truncation, every changed byte.
 * May know: safetensors.h, the format.
 * Must not know: how safetensors.c does it. */
#include "check.h"
#include "made.h"

#include <stdlib.h>
#include <string.h>

static void expect_refused(const made_file *made, const char *fragment)
{
    safetensors file;
    char message[MADE_MESSAGE];
    bool good = made_safetensors_parse(made, made->size, &file, message);
    CHECK(!good, "accepted instead of refused with '%s'", fragment);
    CHECK(good || strstr(message, fragment), "refused with '%s', which lacks '%s'", message, fragment);
    CHECK(good || (!file.tensors && !file.names && file.count == 0), "something is left after a refusal");
    made_safetensors_close(&file);
}

static void expect_values(const safetensors *file, const char *name, const float *values, int64_t count)
{
    char message[MADE_MESSAGE];
    const tensor_info *tensor = safetensors_find(file, name);
    if (!CHECK(tensor != NULL, "%s is not found", name)) {
        return;
    }
    CHECK(tensor->count == count, "%s has %lld elements", name, (long long)tensor->count);
    float *got = safetensors_read(file, tensor, message, sizeof message);
    if (CHECK(got != NULL, "%s: %s", name, message) && tensor->count == count) {
        CHECK(check_same(got, values, (size_t)count, name), "%s differs", name);
    }
    free(got);
}

static const char good_header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                  "\"z.f32\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
                                  "\"a.f16\":{\"shape\":[3],\"data_offsets\":[8,14],\"dtype\":\"F16\"},"
                                  "\"b\\u002ebf16\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[14,16]},"
                                  "\"m.f64\":{\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":[16,24]},"
                                  "\"m.none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[24,24]},"
                                  "\"m.int\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[24,32]},"
                                  "\"m.new\":{\"dtype\":\"F4\",\"shape\":[7],\"data_offsets\":[32,36]}}   ";

static const uint8_t good_data[36] = { 0, 0, 0x80, 0x3F, 0, 0, 0, 0xC0, 0, 0x3C, 0, 0xC0, 1, 0, 0xC0, 0x3F, 0, 0, 0, 0,
    0, 0, 0x04, 0xC0, 7, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9 };

static void test_good(void)
{
    made_file made;
    safetensors file;
    char message[MADE_MESSAGE];
    made_safetensors(&made, good_header, good_data, sizeof good_data);
    bool good = made_safetensors_parse(&made, made.size, &file, message);
    if (!CHECK(good, "refused: %s", message)) {
        return;
    }
    CHECK(file.count == 7, "%lld tensors", (long long)file.count);
    expect_values(&file, "z.f32", (float[]){ 1, -2 }, 2);
    expect_values(&file, "a.f16", (float[]){ 1, -2, 0x1p-24f }, 3);
    expect_values(&file, "b.bf16", (float[]){ 1.5f }, 1);
    expect_values(&file, "m.f64", (float[]){ -2.5f }, 1);
    expect_values(&file, "m.none", NULL, 0);
    CHECK(!safetensors_find(&file, "m") && !safetensors_find(&file, "") && !safetensors_find(&file, "zz"), "found");
    CHECK(!safetensors_find(&file, "__metadata__"), "the metadata is a tensor");
    const tensor_info *other = safetensors_find(&file, "m.int");
    CHECK(other && !safetensors_read(&file, other, message, sizeof message), "an I64 tensor is read");
    CHECK(strstr(message, "m.int: dtype I64") != NULL, "message: %s", message);
    other = safetensors_find(&file, "m.new");
    CHECK(other && !safetensors_read(&file, other, message, sizeof message), "an F4 tensor is read");
    made_safetensors_close(&file);
    made_safetensors(&made, "{}", "", 0);
    CHECK(made_safetensors_parse(&made, made.size, &file, message) && file.count == 0, "an empty file is refused: %s",
        message);
    CHECK(!safetensors_find(&file, "a"), "found in an empty file");
    made_safetensors_close(&file);
}

static void test_too_large_values(void)
{
    static const uint8_t data[16] = { 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0, 0, 0, 0, 0, 0, 0xF0, 0x47 };
    made_file made;
    safetensors file;
    char message[MADE_MESSAGE];
    made_safetensors(&made, "{\"w\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", data, sizeof data);
    CHECK(made_safetensors_parse(&made, made.size, &file, message), "refused: %s", message);
    CHECK(!safetensors_read(&file, &file.tensors[0], message, sizeof message), "2^128 is read");
    CHECK(strstr(message, "w: element 1 is too large") != NULL, "message: %s", message);
    made_safetensors_close(&file);
}

/* Headers that are wrong, each with 16 bytes of data, and what the message must name. */
static const struct {
    const char *header, *fragment;
} wrong[] = {
    { "", "does not start with '{'" },
    { " {}", "does not start with '{'" },
    { "[]", "does not start with '{'" },
    { "{}", "names no tensor" },
    { "{", "a string expected" },
    { "{\"a\"", "':' expected" },
    { "{\"a\":1}", "'{' expected" },
    { "{\"a\":{}}", "is missing" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4]}}", "is missing" },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,16]}}", "is missing" },
    { "{\"a\":{\"shape\":[4],\"data_offsets\":[0,16]}}", "is missing" },
    { "{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "given twice" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"shape\":[4],\"data_offsets\":[0,16]}}", "given twice" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],\"x\":1}}", "a field other than" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}} x", "something follows" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},}", "a string expected" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16],}}", "a string expected" },
    { "{\"a\":{\"dtype\":F32,\"shape\":[4],\"data_offsets\":[0,16]}}", "a string expected" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":4,\"data_offsets\":[0,16]}}", "'[' expected" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4,],\"data_offsets\":[0,16]}}", "a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-4],\"data_offsets\":[0,16]}}", "a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4.0],\"data_offsets\":[0,16]}}", "a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[NaN],\"data_offsets\":[0,16]}}", "a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[\"4\"],\"data_offsets\":[0,16]}}", "a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,16]}}", "too large" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,4],\"data_offsets\":[0,16]}}", "more than 8" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,16]}}", "overflows" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[0,4294967296,4294967296],\"data_offsets\":[0,0]}}", "overflows" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775807],\"data_offsets\":[0,16]}}", "overflows" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", "another number of bytes" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387908],\"data_offsets\":[0,16]}}", "overflows" },
    { "{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,16]}}", "another number of bytes" },
    { "{\"a\":{\"dtype\":\"F64\",\"shape\":[4],\"data_offsets\":[0,16]}}", "another number of bytes" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,17]}}", "not inside the file" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,0]}}", "not inside the file" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[16,32]}}", "not inside the file" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[9223372036854775800,9223372036854775807]}}",
        "not inside the file" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[-16,0]}}", "a whole number" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0]}}", "',' or the closing bracket" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16,16]}}", "',' or the closing bracket" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,12]}}", "trailing bytes" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]}}", "leave a gap" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}}",
        "b: data_offsets: leave a gap" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[4,16]}}",
        "b: data_offsets: overlap" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
      "\"b\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}",
        "data_offsets: overlap" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
        "a: the tensor is given twice" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"\\u0061\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
        "a: the tensor is given twice" },
    { "{\"__metadata__\":{},\"__metadata__\":{}}", "__metadata__ is given twice" },
    { "{\"__metadata__\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
        "nested too deeply" },
    { "{\"__metadata__\":{\"a\":\"\xFF\"}}", "not UTF-8" },
    { "{\"a\xFF\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "not UTF-8" },
    { "{\"a\\u0000\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "U+0000" },
    { "{\"a\":{\"dtype\":\"a dtype with a long name\",\"shape\":[4],\"data_offsets\":[0,16]}}", "too long" },
};

static void test_wrong_headers(void)
{
    made_file made;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check_case("header %s", wrong[i].header);
        made_safetensors(&made, wrong[i].header, good_data, 16);
        expect_refused(&made, wrong[i].fragment);
    }
    check_case("%s", "");
}

static void test_wrong_lengths(void)
{
    static const uint64_t lengths[] = { 3, 100, 100000001, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFF8,
        0xFFFFFFFFFFFFFFFF };
    made_file made;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        made_safetensors_start(&made, lengths[i]);
        made_append(&made, "{}", 2);
        expect_refused(&made, "header length");
    }
    made_safetensors_start(&made, 0);
    expect_refused(&made, "does not start with '{'");
}

/* Cut anywhere, a good file is refused, and so is one byte more. */
static void test_truncation(void)
{
    made_file made;
    safetensors file;
    char message[MADE_MESSAGE];
    made_safetensors(&made, good_header, good_data, sizeof good_data);
    for (size_t size = 0; size < made.size; size++) {
        CHECK(!made_safetensors_parse(&made, size, &file, message), "cut to %zu bytes it is accepted", size);
        CHECK(message[0], "no message for %zu bytes", size);
        made_safetensors_close(&file);
    }
    made_append(&made, "x", 1);
    expect_refused(&made, "trailing bytes");
}

/* Reads all that can be read; the guard page behind the file catches what lies outside. */
static void read_all(const safetensors *file)
{
    char message[MADE_MESSAGE];
    for (int64_t i = 0; i < file->count; i++) {
        float *values = safetensors_read(file, &file->tensors[i], message, sizeof message);
        CHECK(values || message[0], "no message");
        free(values);
    }
}

/* Every byte of length and header set to many values. */
static void test_changed_bytes(void)
{
    made_file made;
    safetensors file;
    char message[MADE_MESSAGE];
    int accepted = 0;
    made_safetensors(&made, good_header, good_data, sizeof good_data);
    size_t header_end = made.size - sizeof good_data;
    int step = check_quick() ? 17 : 1;
    for (size_t at = 0; at < header_end; at++) {
        uint8_t original = made.bytes[at];
        for (int value = 0; value < 256; value += step) {
            made.bytes[at] = (uint8_t)value;
            if (made_safetensors_parse(&made, made.size, &file, message)) {
                accepted++;
                read_all(&file);
            }
            made_safetensors_close(&file);
        }
        made.bytes[at] = original;
    }
    CHECK(accepted > 100, "only %d variants are accepted", accepted);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "good", test_good },
        { "too_large_values", test_too_large_values },
        { "wrong_headers", test_wrong_headers },
        { "wrong_lengths", test_wrong_lengths },
        { "truncation", test_truncation },
        { "changed_bytes", test_changed_bytes },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
