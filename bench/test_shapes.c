/* Tests the reader of shapes.txt: what it accepts, what it makes of it, and that it refuses everything else with one
 * line.
 * May know: the reader, the rules of shapes.  Must not know: how shapes are measured. */
#include "shape_file.h"

#include "heed/heed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONG_TEXT = 1 << 21 };

static int failures;

static void check(int condition, const char *text, const char *what)
{
    if (condition)
        return;
    failures++;
    fprintf(stderr, "FAILED: %s: %.200s\n", what, text);
}

static int parse(shape_list *list, const char *text, char *message)
{
    message[0] = 0;
    /* An exact copy, so that reading past the end is seen by a sanitizer or valgrind. */
    const size_t size = strlen(text);
    char *copy = malloc(size ? size : 1);
    if (!copy)
        exit(2);
    memcpy(copy, text, size);
    const int ok = shape_list_parse(list, "shapes", copy, size, message);
    free(copy);
    return ok;
}

static void refuses(const char *text, const char *reason)
{
    shape_list list;
    char message[SHAPE_MESSAGE_SIZE];
    check(!parse(&list, text, message), text, "was accepted");
    check(strstr(message, reason) != NULL, message, reason);
    check(strncmp(message, "shapes:", 7) == 0 && !strchr(message, '\n'), message, "is not one line with the place");
    check(list.shapes == NULL && list.count == 0, text, "left something behind");
}

static const bench_shape *find(const shape_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->shapes[i].name, name) == 0)
            return &list->shapes[i];
    check(0, name, "is missing");
    exit(1);
}

static void test_meaning(void)
{
    static const char text[] =
        "# comment\n\n"
        "attention a{seq}_d{dim} heads=8 kv_heads=2 seq=16,32 dim=64,80 causal=1 # more\r\n"
        "\tattention decode heads=4 seq_q=1 seq_kv=100 dim=8 dim_v=16 stream=1 exp=sleef batch=3\n"
        "linear a rows=1 in=2 out=3\n"
        "softmax {exp} rows=1 cols=5 exp=default,builtin,sleef";
    shape_list list;
    char message[SHAPE_MESSAGE_SIZE];
    check(parse(&list, text, message), message, "was refused");
    check(list.count == 9, text, "gives 9 shapes");
    const bench_shape *a = find(&list, "a32_d64");
    const int64_t *f = a->field;
    check(a->kind == SHAPE_ATTENTION && f[SHAPE_BATCH] == 1 && f[SHAPE_HEADS] == 8 && f[SHAPE_KV_HEADS] == 2 &&
              f[SHAPE_SEQ_Q] == 32 && f[SHAPE_SEQ_KV] == 32 && f[SHAPE_DIM] == 64 && f[SHAPE_DIM_V] == 64 &&
              f[SHAPE_CAUSAL] == 1 && f[SHAPE_STREAM] == 0 && f[SHAPE_EXP_KIND] == 0,
        a->name, "has other fields");
    check(shape_visible(a) == 32.0 * 33.0 / 2.0, a->name, "sees half");
    f = find(&list, "decode")->field;
    check(f[SHAPE_BATCH] == 3 && f[SHAPE_KV_HEADS] == 4 && f[SHAPE_SEQ_Q] == 1 && f[SHAPE_SEQ_KV] == 100 &&
              f[SHAPE_DIM_V] == 16 && f[SHAPE_STREAM] == 1 && f[SHAPE_EXP_KIND] == HEED_EXP_SLEEF,
        "decode", "has other fields");
    check(find(&list, "builtin")->field[SHAPE_EXP_KIND] == HEED_EXP_BUILTIN, "builtin", "has another exp");
    shape_list_free(&list);
}

static void test_cache_fields(void)
{
    static const char text[] =
        "attention c_{type}_{page} heads=1 seq_q=1 seq_kv=100 dim=8 type=f32,f16,bf16,i8 page=none,16,32,64,128\n"
        "attention ragged batch=3 heads=1 seq_q=1 seq_kv=100 dim=8 ragged=1 causal=1\n";
    shape_list list;
    char message[SHAPE_MESSAGE_SIZE];
    check(parse(&list, text, message), message, "was refused");
    check(list.count == 21, text, "gives 21 shapes");
    check(find(&list, "c_i8_64")->field[SHAPE_TYPE] == HEED_TYPE_I8, "c_i8_64", "has another type");
    check(find(&list, "c_bf16_none")->field[SHAPE_TYPE] == HEED_TYPE_BF16, "c_bf16_none", "has another type");
    check(shape_page_size(find(&list, "c_f32_none")) == 0, "c_f32_none", "has pages");
    check(shape_page_size(find(&list, "c_f16_16")) == 16, "c_f16_16", "has other pages");
    check(shape_page_size(find(&list, "c_f16_128")) == 128, "c_f16_128", "has other pages");
    check(shape_keys(find(&list, "c_f16_16"), 0) == 100, "c_f16_16", "has other keys");
    const bench_shape *ragged = find(&list, "ragged");
    check(shape_keys(ragged, 0) == 34 && shape_keys(ragged, 1) == 67 && shape_keys(ragged, 2) == 100, "ragged",
        "has other lengths");
    check(shape_visible(ragged) == 67.0, "ragged", "pairs are counted wrongly");
    shape_list_free(&list);
}

static void test_visible(void)
{
    for (int64_t q = 1; q < 9; q++)
        for (int64_t kv = 1; kv < 9; kv++) {
            bench_shape shape = { SHAPE_ATTENTION, "causal",
                { [SHAPE_SEQ_Q] = q, [SHAPE_SEQ_KV] = kv, [SHAPE_CAUSAL] = 1 } };
            double pairs = 0.0;
            for (int64_t i = 0; i < q; i++)
                for (int64_t j = 0; j < kv; j++)
                    pairs += j <= i + kv - q;
            check(shape_visible(&shape) == pairs, shape.name, "pairs are counted wrongly");
            shape.field[SHAPE_CAUSAL] = 0;
            check(shape_visible(&shape) == (double)(q * kv), shape.name, "pairs without a mask are counted wrongly");
        }
}

static void test_refusals(void)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        { "", "no shapes" },
        { "# only a comment\n", "no shapes" },
        { "attention", "has no name" },
        { "attend x heads=1 seq=1 dim=1", "not a kind" },
        { "attention x heads=1 seq=1", "dim: is missing" },
        { "attention x heads=1 dim=1", "seq: is missing" },
        { "attention x heads=1 dim=1 seq_q=1", "seq_kv: is missing" },
        { "attention x heads=1 dim=1 seq=1 seq_kv=1", "beside" },
        { "attention x heads=3 kv_heads=2 seq=1 dim=1", "does not divide" },
        { "attention x heads=1 seq=1 dim=1 dim=2", "given twice" },
        { "attention x heads=1 seq=1 dim=1 rows=2", "not a field of attention" },
        { "attention x heads=1 seq=1 dim=1 colour=2", "not a field" },
        { "attention x heads=1 seq=1 dim", "not FIELD=VALUE" },
        { "attention x heads=1 seq=1 dim=", "must be a number in 1 .. 4096" },
        { "attention x heads=1 seq=1 dim=0", "must be a number" },
        { "attention x heads=1 seq=1 dim=-1", "must be a number" },
        { "attention x heads=1 seq=1 dim=4097", "must be a number" },
        { "attention x heads=1 seq=1 dim=99999999999999999999999", "must be a number" },
        { "attention x heads=1 seq=1 dim=1e2", "must be a number" },
        { "attention x heads=1 seq=1 dim=0x10", "must be a number" },
        { "attention x{dim} heads=1 seq=1 dim=1,", "must be a number" },
        { "attention x{dim} heads=1 seq=1 dim=,1", "must be a number" },
        { "attention x heads=1 seq=1 dim=1,2", "must have {dim}" },
        { "attention x{dim} heads=1 seq=1 dim=1,1", "is there twice" },
        { "attention x{dim} heads=1 seq=1 dim=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "more than 16" },
        { "attention x{batch} heads=1 seq=1 dim=1", "{place}" },
        { "attention x{nothing} heads=1 seq=1 dim=1", "{place}" },
        { "attention x{dim heads=1 seq=1 dim=1", "{place}" },
        { "attention X heads=1 seq=1 dim=1", "a name is of" },
        { "attention a/b heads=1 seq=1 dim=1", "a name is of" },
        { "attention x heads=1 seq=1 dim=1 exp=fast", "must be default, builtin or sleef" },
        { "attention x heads=1 seq=1 dim=1 exp=1", "must be default, builtin or sleef" },
        { "attention x heads=1 seq=1 dim=1 mask=all", "must be none, bias, boolean, alibi or softcap" },
        { "attention x heads=1 seq=1 dim=1 type=f64", "must be f32, f16, bf16 or i8" },
        { "attention x heads=1 seq=1 dim=1 type=", "must be f32" },
        { "attention x heads=1 seq=1 dim=1 page=0", "must be none, 16, 32, 64 or 128" },
        { "attention x heads=1 seq=1 dim=1 page=17", "must be none, 16" },
        { "linear x rows=1 in=1 out=1 type=f16", "not a field of linear" },
        { "attention x heads=1 seq=2 dim=1 ragged=1", "ragged: needs seq_q=1" },
        { "attention x heads=1 seq_q=1 seq_kv=2 dim=1 ragged=1 mask=bias", "ragged: needs" },
        { "attention x heads=1 seq=1 dim=1 causal=2", "must be a number in 0 .. 1" },
        { "linear x rows=1 in=1", "out: is missing" },
        { "linear x rows=1 in=1 out=1\nlinear x rows=2 in=1 out=1", "shapes:2: x: is there twice" },
        { "pack_k x rows=257 dim=1", "more than one block" },
        { "linear \x01 rows=1 in=1 out=1", "not printable" },
        { "linear \xff rows=1 in=1 out=1", "not printable" },
        { "linear aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa rows=1 in=1 out=1",
            "longer" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refuses(cases[i].text, cases[i].reason);
}

static void test_size_limits(void)
{
    char *text = malloc(LONG_TEXT);
    shape_list list;
    char message[SHAPE_MESSAGE_SIZE];
    if (!text)
        exit(2);
    memset(text, 'a', LONG_TEXT - 1);
    text[LONG_TEXT - 1] = 0;
    memcpy(text, "linear ", 7);
    refuses(text, "too long");
    /* 16^4 combinations: more shapes than there may be. */
    snprintf(text, LONG_TEXT, "attention h{heads}q{seq_q}k{seq_kv}d{dim}");
    for (int f = 0; f < 4; f++) {
        static const char *const names[] = { "heads", "seq_q", "seq_kv", "dim" };
        strcat(strcat(strcat(text, " "), names[f]), "=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16");
    }
    refuses(text, "more than 4096 shapes");
    free(text);
    check(!shape_list_read(&list, "/nowhere/shapes", message), message, "was read");
    check(!shape_list_read(&list, "/", message), message, "was read");
}

/* Every prefix of the file, and every byte of a part of it changed, is accepted or refused, but never read past. */
static void test_damaged(const char *path)
{
    char message[SHAPE_MESSAGE_SIZE];
    shape_list list;
    FILE *file = fopen(path, "rb");
    char text[4096];
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    check(size > 0, path, "cannot be read");
    for (size_t n = 0; n < size; n++) {
        char *copy = malloc(n + 1);
        if (!copy)
            exit(2);
        memcpy(copy, text, n);
        if (shape_list_parse(&list, "shapes", copy, n, message))
            shape_list_free(&list);
        if (n > 0) {
            copy[n / 2] = (char)(copy[n / 2] ^ (1 << n % 8));
            if (shape_list_parse(&list, "shapes", copy, n, message))
                shape_list_free(&list);
        }
        free(copy);
    }
}

int main(int argc, char **argv)
{
    shape_list list;
    char message[SHAPE_MESSAGE_SIZE];
    if (argc != 2)
        return 2;
    test_meaning();
    test_cache_fields();
    test_visible();
    test_refusals();
    test_size_limits();
    test_damaged(argv[1]);
    check(shape_list_read(&list, argv[1], message), message, "was refused");
    check(list.count > 100, argv[1], "has few shapes");
    shape_list_free(&list);
    if (!failures)
        printf("all right\n");
    return failures ? 1 : 0;
}
