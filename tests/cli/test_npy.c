/* The .npy reader and writer on good files of every kind, and on what is no regular file.
 * May know: npy.h, the format.
 * Must not know: how npy.c does it. */
#include "check.h"
#include "made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const float six[6] = { 1, 2, 3, -4, 5.5f, -0.25f };

static void expect_values(const made_file *file, int ndim, const int64_t *shape, const float *values)
{
    npy_array array;
    char message[MADE_MESSAGE];
    bool good = made_npy_parse(file, file->size, &array, message);
    if (!CHECK(good, "refused: %s", message)) {
        return;
    }
    int64_t count = 1;
    CHECK(array.ndim == ndim, "%d dimensions, not %d", array.ndim, ndim);
    for (int i = 0; i < ndim && i < array.ndim; i++) {
        CHECK(array.shape[i] == shape[i], "dimension %d is %lld", i, (long long)array.shape[i]);
        count *= shape[i];
    }
    CHECK(npy_count(&array) == count, "count is %lld", (long long)npy_count(&array));
    if (npy_count(&array) == count) {
        CHECK(check_same(array.data, values, (size_t)count, "values"), "values differ");
    }
    npy_free(&array);
    CHECK(!array.data && npy_count(&array) == 0, "npy_free leaves something");
}

static void test_versions_and_spelling(void)
{
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }      \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}",
        "{\"shape\":(2,3,),\"descr\":\"<f4\",\"fortran_order\":False}\n\n",
        " { 'shape' : ( 2 , 3 ) , 'fortran_order' : False , 'descr' : '<f4' , } ",
    };
    uint8_t data[24];
    made_file file;
    made_f4(data, six, 6);
    for (int major = 1; major <= 3; major++) {
        for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
            check_case("version %d, header %zu", major, i);
            made_npy(&file, major, headers[i], data, sizeof data);
            expect_values(&file, 2, (int64_t[]){ 2, 3 }, six);
        }
    }
    check_case("%s", "");
}

static void test_types(void)
{
    static const uint8_t f2[] = { 0x00, 0x3C, 0x00, 0xC0, 0xFF, 0x7B };
    static const uint8_t f2_big[] = { 0x3C, 0x00, 0xC0, 0x00, 0x7B, 0xFF };
    static const uint8_t f8[] = { 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0, 0, 0, 0, 0, 0, 0, 0xC0, 0, 0, 0, 0, 0, 0xFC, 0xEF,
        0x40 };
    static const float values[] = { 1.0f, -2.0f, 65504.0f };
    made_file file;
    uint8_t f8_big[24];
    uint8_t f4[12];
    uint8_t f4_big[12];
    for (size_t i = 0; i < 24; i++) {
        f8_big[i] = f8[i / 8 * 8 + 7 - i % 8];
    }
    made_f4(f4, values, 3);
    for (size_t i = 0; i < 12; i++) {
        f4_big[i] = f4[i / 4 * 4 + 3 - i % 4];
    }
    const struct {
        const char *name;
        const uint8_t *bytes;
        size_t size;
    } types[] = { { "<f2", f2, 6 }, { ">f2", f2_big, 6 }, { "<f4", f4, 12 }, { ">f4", f4_big, 12 }, { "<f8", f8, 24 },
        { ">f8", f8_big, 24 } };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        char header[100];
        check_case("%s", types[i].name);
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (3,), }", types[i].name);
        made_npy(&file, 1, header, types[i].bytes, types[i].size);
        expect_values(&file, 1, (int64_t[]){ 3 }, values);
    }
    check_case("%s", "");
}

/* Doubles keep what a float cannot hold; bytes are as they are. */
static void test_kinds(void)
{
    static const uint8_t f8[16] = { 0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0xD5, 0x3F, 0x9C, 0x75, 0, 0x88, 0x3C, 0xE4,
        0x37, 0x7E };
    static const uint8_t bytes[6] = { 0, 1, 2, 255, 128, 0 };
    static const uint8_t turned[6] = { 0, 2, 128, 1, 255, 0 };
    static const char *const dtypes[2] = { "|b1", "|u1" };
    made_file file;
    npy_array array;
    char message[MADE_MESSAGE];
    uint8_t f4[24];
    made_npy(&file, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }", f8, sizeof f8);
    CHECK(made_npy_parse_as(&file, file.size, NPY_DOUBLES, &array, message), "refused: %s", message);
    CHECK(array.doubles && !array.data && array.doubles[0] == 1.0 / 3.0 && array.doubles[1] == 1e300, "doubles");
    npy_free(&array);
    made_f4(f4, six, 6);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 2), }", f4, sizeof f4);
    CHECK(made_npy_parse_as(&file, file.size, NPY_DOUBLES, &array, message), "refused: %s", message);
    for (size_t i = 0; array.doubles && i < 6; i++) {
        CHECK(array.doubles[i] == (double)six[i % 2 * 3 + i / 2], "double %zu is %g", i, array.doubles[i]);
    }
    npy_free(&array);
    for (size_t d = 0; d < 2; d++) {
        for (int fortran = 0; fortran < 2; fortran++) {
            char header[100];
            snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': (2, 3), }", dtypes[d],
                fortran ? "True" : "False");
            made_npy(&file, 1, header, bytes, sizeof bytes);
            CHECK(made_npy_parse_as(&file, file.size, NPY_BYTES, &array, message), "%s: %s", header, message);
            CHECK(array.bytes && npy_count(&array) == 6 && memcmp(array.bytes, fortran ? turned : bytes, 6) == 0,
                "bytes of %s", header);
            npy_free(&array);
            CHECK(!array.bytes && npy_count(&array) == 0, "npy_free leaves something");
        }
    }
}

static void test_shapes(void)
{
    static const float many[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    uint8_t data[64];
    made_file file;
    made_f4(data, many, 16);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", data, 4);
    expect_values(&file, 0, NULL, many);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': ()}", data, 4);
    expect_values(&file, 0, NULL, many);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", data, 0);
    expect_values(&file, 1, (int64_t[]){ 0 }, many);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0, 7)}", data, 0);
    expect_values(&file, 3, (int64_t[]){ 3, 0, 7 }, many);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 2, 1, 2, 1, 2, 1)}", data, 64);
    expect_values(&file, 8, (int64_t[]){ 2, 1, 2, 1, 2, 1, 2, 1 }, many);
}

/* In Fortran order the file runs through the first index fastest. */
static void test_fortran(void)
{
    enum { A = 3, B = 4, C = 5 };
    float stored[A * B * C];
    float wanted[A * B * C];
    uint8_t data[4 * A * B * C];
    made_file file;
    for (size_t a = 0; a < A; a++) {
        for (size_t b = 0; b < B; b++) {
            for (size_t c = 0; c < C; c++) {
                float value = (float)(100 * a + 10 * b + c);
                stored[a + A * (b + B * c)] = value;
                wanted[(a * B + b) * C + c] = value;
            }
        }
    }
    made_f4(data, stored, A * B * C);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4, 5), }", data, sizeof data);
    expect_values(&file, 3, (int64_t[]){ A, B, C }, wanted);
    made_f4(data, six, 6);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (6,), }", data, 24);
    expect_values(&file, 1, (int64_t[]){ 6 }, six);
    made_npy(&file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (4, 0), }", data, 0);
    expect_values(&file, 2, (int64_t[]){ 4, 0 }, six);
}

/* Longer than the reader's pieces, in both orders. */
static void test_large(void)
{
    enum { ROWS = 150, COLS = 110 };
    float *values = check_floats(ROWS * COLS);
    float *transposed = check_floats(ROWS * COLS);
    made_file *file = check_malloc(sizeof *file);
    uint8_t *data = check_malloc(4 * ROWS * COLS);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        values[i] = (float)i;
        transposed[i % COLS * ROWS + i / COLS] = (float)i;
    }
    made_f4(data, values, ROWS * COLS);
    made_npy(file, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (150, 110), }", data, 4 * ROWS * COLS);
    expect_values(file, 2, (int64_t[]){ ROWS, COLS }, values);
    made_npy(file, 1, "{'descr': '<f4', 'fortran_order': True, 'shape': (110, 150), }", data, 4 * ROWS * COLS);
    expect_values(file, 2, (int64_t[]){ COLS, ROWS }, transposed);
    free(data);
    free(file);
    free(transposed);
    free(values);
}

/* What the writer writes, byte for byte as NumPy does, and reads back. */
static void test_write(void)
{
    static const char start[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': ";
    static const struct {
        int ndim;
        int64_t shape[8];
        const char *text;
    } cases[] = { { 2, { 2, 3 }, "(2, 3), }" }, { 1, { 6 }, "(6,), }" }, { 3, { 1, 6, 1 }, "(1, 6, 1), }" } };
    char path[] = "heed-test-XXXXXX";
    int descriptor = mkstemp(path);
    CHECK(descriptor >= 0, "no temporary file");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char message[MADE_MESSAGE];
        uint8_t want[152];
        uint8_t got[200];
        FILE *file = fopen(path, "w+b");
        CHECK(npy_write(file, six, cases[i].ndim, cases[i].shape, message, sizeof message), "%s", message);
        rewind(file);
        size_t size = fread(got, 1, sizeof got, file);
        fclose(file);
        memset(want, ' ', 128);
        memcpy(want, start, sizeof start - 1);
        memcpy(want + sizeof start - 1, cases[i].text, strlen(cases[i].text));
        want[127] = '\n';
        made_f4(want + 128, six, 6);
        CHECK(size == sizeof want && memcmp(got, want, size) == 0, "the file of case %zu differs from NumPy's", i);
        npy_array array;
        CHECK(npy_read(path, &array, message, sizeof message), "%s", message);
        CHECK(array.ndim == cases[i].ndim && check_same(array.data, six, 6, "values"), "read back differently");
        npy_free(&array);
    }
    close(descriptor);
    unlink(path);
}

/* The longest header there can be, and shapes that cannot be. */
static void test_write_limits(void)
{
    char message[MADE_MESSAGE];
    FILE *file = tmpfile();
    const int64_t longest[8] = { 0, INT64_MAX, 1, 1, 1, 1, 1, 1 };
    CHECK(npy_write(file, six, 8, longest, message, sizeof message), "%s", message);
    CHECK(ftell(file) % 64 == 0, "the data is not aligned to 64 bytes");
    CHECK(!npy_write(file, six, 2, (int64_t[]){ -1, 6 }, message, sizeof message), "a negative shape is written");
    CHECK(!npy_write(file, six, 9, longest, message, sizeof message), "9 dimensions are written");
    CHECK(!npy_write(file, six, 2, (int64_t[]){ INT64_MAX, 2 }, message, sizeof message), "an overflow is written");
    fclose(file);
}

static void expect_unreadable(const char *path, const char *fragment)
{
    npy_array array;
    char message[MADE_MESSAGE] = "";
    CHECK(!npy_read(path, &array, message, sizeof message), "%s is read", path);
    CHECK(strstr(message, fragment) != NULL, "%s: '%s' lacks '%s'", path, message, fragment);
    npy_free(&array);
}

static void test_strange_files(void)
{
    char folder[] = "heed-test-XXXXXX";
    char path[64];
    CHECK(mkdtemp(folder) != NULL, "no temporary folder");
    snprintf(path, sizeof path, "%s/x", folder);
    expect_unreadable(path, "No such file");
    expect_unreadable(folder, "not a regular file");
    CHECK(mkfifo(path, 0600) == 0, "no pipe");
    expect_unreadable(path, "not a regular file");
    unlink(path);
    fclose(fopen(path, "wb"));
    expect_unreadable(path, "magic");
    unlink(path);
    expect_unreadable("/dev/zero", "not a regular file");
    rmdir(folder);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "versions_and_spelling", test_versions_and_spelling },
        { "types", test_types },
        { "kinds", test_kinds },
        { "shapes", test_shapes },
        { "fortran", test_fortran },
        { "large", test_large },
        { "write", test_write },
        { "write_limits", test_write_limits },
        { "strange_files", test_strange_files },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
