/* heed show on the terminal: snapshots, rows, hostile weights and tokens, wrong options.
 * May know: what the help says.
 * Must not know: how the map is drawn. */
#include "check.h"
#include "program.h"
#include "weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The output must be a file of snapshots/, byte for byte.  HEED_TEST_UPDATE=1 writes it instead, to be read over. */
static void expect_snapshot(const char *const *words, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", SNAPSHOTS, name);
    program_result result = program_run(words, NULL);
    CHECK(result.code == 0 && result.err[0] == 0, "exit code %d: %s", result.code, result.err);
    if (getenv("HEED_TEST_UPDATE"))
        file_put(path, result.out, strlen(result.out));
    char *want = file_get(path);
    CHECK(strcmp(result.out, want) == 0, "%s: got\n%s", name, result.out);
    free(want);
    program_free(&result);
}

static void test_snapshots(void)
{
    char folder[32];
    folder_enter(folder);
    weights_cats();
    weights_identity("three.npy", 3, 6);
    weights_spike("large.npy", 300, 500, 77, 444, 1.0f);
    expect_snapshot((const char *[]){ "show", "cats.npy", NULL }, "cats-numbers.txt");
    expect_snapshot((const char *[]){ "show", "cats.npy", "--tokens", "cats.txt", NULL }, "cats.txt");
    expect_snapshot((const char *[]){ "show", "three.npy", "--width", "40", "--title", "Three", NULL }, "three.txt");
    expect_snapshot((const char *[]){ "show", "three.npy", "--head", "2", "--max", "4", NULL }, "head.txt");
    expect_snapshot((const char *[]){ "show", "large.npy", "--width", "60", NULL }, "large.txt");
    expect_snapshot((const char *[]){ "show", "cats.npy", "--tokens", "cats.txt", "--row", "1", NULL }, "row.txt");
    expect_snapshot((const char *[]){ "show", "three.npy", "--row", "0", "--sort", "--top", "2", NULL }, "sorted.txt");
    folder_leave(folder);
}

static void test_odd_values(void)
{
    char folder[32];
    folder_enter(folder);
    const float values[6] = { check_float(0x7FC00000), 0.5f, -0.25f, check_float(0x7F800000), 1e-40f, 0.25f };
    const int64_t shape[2] = { 2, 3 };
    weights_save("odd.npy", values, 2, shape);
    expect_snapshot((const char *[]){ "show", "odd.npy", NULL }, "odd.txt");
    expect_snapshot((const char *[]){ "show", "odd.npy", "--row", "0", "--sort", NULL }, "odd-row.txt");
    folder_leave(folder);
}

static void test_terminal(void)
{
    char folder[32];
    folder_enter(folder);
    weights_cats();
    weights_identity("high.npy", 1, 100);
    const char *const small[] = { "show", "cats.npy", NULL }, *const ascii[] = { "show", "cats.npy", "--ascii", NULL };
    const char *const high[] = { "show", "high.npy", NULL }, *const list[] = { "show", "cats.npy", "--row", "0", NULL };
    const char *const no_colour[] = { "NO_COLOR=1", NULL }, *const dumb[] = { "TERM=dumb", NULL };
    const char *const latin[] = { "LC_ALL=C", NULL };
    program_result piped = program_run(small, NULL), coloured = program_run_terminal(small, NULL);
    program_result halves = program_run_terminal(high, NULL), plain = program_run_terminal(ascii, NULL);
    program_result refused = program_run_terminal(small, no_colour), stupid = program_run_terminal(small, dumb);
    program_result spaces = program_run_terminal(high, latin), bars = program_run_terminal(list, NULL);
    CHECK(!strchr(piped.out, 27), "escape sequences in a pipe");
    CHECK(strstr(coloured.out, "\033[48;5;") && strstr(coloured.out, "\033[0m"), "no colours on a terminal");
    CHECK(strstr(halves.out, "\xE2\x96\x80"), "no half blocks for many rows");
    CHECK(!strchr(plain.out, 27) && strchr(plain.out, '@'), "--ascii: %s", plain.out);
    CHECK(!strchr(refused.out, 27) && strchr(refused.out, '@'), "NO_COLOR: %s", refused.out);
    CHECK(!strchr(stupid.out, 27) && strchr(stupid.out, '@'), "TERM=dumb: %s", stupid.out);
    CHECK(strchr(spaces.out, 27) && !strstr(spaces.out, "\xE2"), "UTF-8 in the C locale");
    CHECK(strstr(bars.out, "\xE2\x96\x88"), "no blocks in a row on a terminal");
    program_result *all[] = { &piped, &coloured, &halves, &plain, &refused, &stupid, &spaces, &bars };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        CHECK(all[i]->code == 0, "exit code %d", all[i]->code);
        program_free(all[i]);
    }
    folder_leave(folder);
}

static void refuse_bytes(const void *bytes, size_t count, const char *reason)
{
    file_put("bad.npy", bytes, count);
    expect_refused((const char *[]){ "show", "bad.npy", NULL }, "bad.npy", reason);
#if defined(HEED_HAVE_PNG)
    expect_refused((const char *[]){ "show", "bad.npy", "-o", "bad.png", NULL }, "bad.npy", reason);
#endif
}

static void test_hostile_weights(void)
{
    char folder[32];
    folder_enter(folder);
    const int64_t shapes[4][5] = { { 9 }, { 1, 1, 1, 3, 3 }, { 0, 9 }, { 3, 0, 3 } };
    const int dims[4] = { 1, 5, 2, 3 };
    float *values = check_floats(9);
    for (int i = 0; i < 4; i++) {
        weights_save("bad.npy", values, dims[i], shapes[i]);
        expect_refused((const char *[]){ "show", "bad.npy", NULL }, "bad.npy", "shape");
    }
    free(values);
    weights_cats();
    char *good = file_get("cats.npy");
    enum { FILE_BYTES = 128 + 36 };
    for (size_t count = 0; count < FILE_BYTES; count += 13)
        refuse_bytes(good, count, "");
    char *longer = check_malloc(FILE_BYTES + 1);
    FILE *file = fopen("cats.npy", "rb");
    CHECK(file && fread(longer, 1, FILE_BYTES + 1, file) == FILE_BYTES, "cats.npy has not the expected size");
    fclose(file);
    char *shape = NULL;
    for (size_t i = 0; i + 6 < FILE_BYTES; i++)
        if (memcmp(longer + i, "(3, 3)", 6) == 0)
            shape = longer + i;
    if (CHECK(shape, "no shape in the header")) {
        memcpy(shape, "(9, 9)", 6);
        refuse_bytes(longer, FILE_BYTES, "");
    }
    free(longer);
    free(good);
    expect_refused((const char *[]){ "show", "none.npy", NULL }, "none.npy", "");
    expect_refused((const char *[]){ "show", ".", NULL }, ".", "");
    folder_leave(folder);
}

static void refuse_tokens(const char *bytes, size_t count, const char *reason)
{
    file_put("bad.txt", bytes, count);
    expect_refused((const char *[]){ "show", "cats.npy", "--tokens", "bad.txt", NULL }, "bad.txt", reason);
    expect_refused((const char *[]){ "show", "cats.npy", "--tokens-k", "bad.txt", NULL }, "bad.txt", reason);
}

static void test_tokens(void)
{
    char folder[32];
    folder_enter(folder);
    weights_cats();
    refuse_tokens("a\nb\n", 4, "2 tokens");
    refuse_tokens("a\nb\nc\nd", 7, "4 tokens");
    refuse_tokens("", 0, "0 tokens");
    refuse_tokens("a\nb\xFF\nc\n", 7, "line 2");
    refuse_tokens("a\nb\nc\xC3", 6, "line 3");
    refuse_tokens("\xED\xA0\x80\nb\nc\n", 8, "line 1"); /* a surrogate */
    refuse_tokens("\xC0\xAF\nb\nc\n", 7, "line 1");     /* overlong */
    refuse_tokens("a\nb\0\nc\n", 7, "NUL");
    expect_refused((const char *[]){ "show", "cats.npy", "--tokens", "none.txt", NULL }, "none.txt", "");
    /* Escape sequences of a token must not reach a terminal, nor those of a title or of a file's name. */
    static const char evil[] = "\xEF\xBB\xBF\033[31mred\r\n\xC2\x9B"
                               "31m\r\nplain";
    file_put("evil.txt", evil, sizeof evil - 1);
    const char *const map[] = { "show", "cats.npy", "--tokens", "evil.txt", "--title", "\033[2J\xE2\x80\xAEtitle",
        NULL };
    const char *const row[] = { "show", "cats.npy", "--tokens", "evil.txt", "--row", "0", NULL };
    program_result results[3] = { program_run(map, NULL), program_run(row, NULL), program_run_terminal(row, NULL) };
    for (int i = 0; i < 3; i++) {
        CHECK(results[i].code == 0, "exit code %d: %s", results[i].code, results[i].err);
        CHECK(!strchr(results[i].out, 27) && !strstr(results[i].out, "\xC2\x9B"), "escape: %s", results[i].out);
        CHECK(!strstr(results[i].out, "\xE2\x80\xAE"), "a mark that turns the text round");
        CHECK(strstr(results[i].out, "plain") || i == 0, "the last token is missing: %s", results[i].out);
        program_free(&results[i]);
    }
    folder_leave(folder);
}

static void test_options(void)
{
    static const struct {
        const char *words[6], *named, *reason;
    } wrong[] = {
        { { "show" }, "show", "weights" },
        { { "show", "cats.npy", "more.npy" }, "more.npy", "" },
        { { "show", "cats.npy", "--head", "1" }, "--head", "cats.npy" },
        { { "show", "cats.npy", "--head", "-1" }, "--head", "" },
        { { "show", "cats.npy", "--batch", "1" }, "--batch", "cats.npy" },
        { { "show", "cats.npy", "--batch", "x" }, "--batch", "" },
        { { "show", "cats.npy", "--row", "3" }, "--row", "3 queries" },
        { { "show", "cats.npy", "--row", "99999999999999999999" }, "--row", "" },
        { { "show", "cats.npy", "--sort" }, "--sort", "--row" },
        { { "show", "cats.npy", "--top", "2" }, "--top", "--row" },
        { { "show", "cats.npy", "--row", "0", "--top=0" }, "--top", "" },
        { { "show", "cats.npy", "--max", "0" }, "--max", "" },
        { { "show", "cats.npy", "--max=-1" }, "--max", "" },
        { { "show", "cats.npy", "--max", "nan" }, "--max", "" },
        { { "show", "cats.npy", "--max", "1e99" }, "--max", "" },
        { { "show", "cats.npy", "--reduce", "sum" }, "--reduce", "sum" },
        { { "show", "cats.npy", "--width", "19" }, "--width", "20" },
        { { "show", "cats.npy", "--width", "5000" }, "--width", "4096" },
        { { "show", "cats.npy", "--colour" }, "--colour", "" },
        { { "show", "cats.npy", "--tokens=cats.txt", "--tokens-q", "cats.txt" }, "--tokens", "" },
    };
    char folder[32];
    folder_enter(folder);
    weights_cats();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        check_case("option case %zu", i);
        const char *words[7] = { NULL };
        memcpy(words, wrong[i].words, sizeof wrong[i].words);
        expect_refused(words, wrong[i].named, wrong[i].reason);
    }
    check_case("%s", "");
    folder_leave(folder);
}

static void test_help(void)
{
    static const char *const options[] = { "--output", "--tokens", "--tokens-q", "--tokens-k", "--head", "--batch",
        "--row", "--sort", "--top", "--max", "--reduce", "--width", "--title", "--ascii" };
    program_result result = program_run((const char *[]){ "show", "--help", NULL }, NULL);
    CHECK(result.code == 0 && result.err[0] == 0, "exit code %d: %s", result.code, result.err);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        CHECK(strstr(result.out, options[i]), "no %s in the help", options[i]);
    program_free(&result);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "snapshots", test_snapshots },
        { "odd_values", test_odd_values },
        { "terminal", test_terminal },
        { "hostile_weights", test_hostile_weights },
        { "tokens", test_tokens },
        { "options", test_options },
        { "help", test_help },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
