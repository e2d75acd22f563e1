/* heed verify as a program: files written and checked, changed ones found, malformed ones refused.
 * May know: what the help says.
 * Must not know: the cases, how they are run. */
#include "check.h"
#include "json.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static program_result expect_code(const char *const *words, int code)
{
    program_result result = program_run(words, NULL);
    CHECK(result.code == code, "exit code %d, not %d: %s%s", result.code, code, result.err, result.out);
    return result;
}

static void expect_says(const char *const *words, int code, const char *text)
{
    program_result result = expect_code(words, code);
    CHECK(strstr(result.out, text), "does not say '%s'", text);
    program_free(&result);
}

static void test_write_and_check(void)
{
    char folder[32];
    folder_enter(folder);
    /* Emulators are slow: there the short run stands for the whole. */
    const char *const quick = check_quick() ? "--quick" : NULL;
    expect_says((const char *[]){ "verify", "--write", "all.json", quick, NULL }, 0, "All that was run agrees");
    expect_says((const char *[]){ "verify", "--check", "all.json", quick, NULL }, 0, "All that was run agrees");
    expect_says((const char *[]){ "verify", "--check", "all.json", "--quick", NULL }, 0, "left out");
    heed_isa backends[CHECK_MAX_BACKENDS];
    size_t count = check_backends(backends);
    for (size_t i = 0; i < count; i++)
        expect_says(
            (const char *[]){ "verify", "--check", "all.json", "--quick", "--isa", heed_isa_name(backends[i]), NULL },
            0, "All that was run agrees");
    expect_says(
        (const char *[]){ "verify", "--quick", "--write", "again.json", "--check", "all.json", NULL }, 0, "same");
    /* What --quick left out has no value in its file, and that is not agreement. */
    expect_says((const char *[]){ "verify", "--check", "again.json", NULL }, 0, "NOT CHECKED");
    CHECK(folder_entries() == 2, "%d files", folder_entries());
    folder_leave(folder);
}

/* Replaces the first occurrence; both texts have the same length unless the file may shrink. */
static void edit(char *text, const char *from, const char *to)
{
    char *at = strstr(text, from);
    if (!CHECK(at, "no '%s' in the file", from))
        return;
    size_t old = strlen(from), new = strlen(to);
    memmove(at + new, at + old, strlen(at + old) + 1);
    memcpy(at, to, new);
}

static void check_edited(const char *original, const char *from, const char *to, int code, const char *says)
{
    char *text = check_malloc(strlen(original) + strlen(to) + 1);
    strcpy(text, original);
    edit(text, from, to);
    file_put("edited.json", text, strlen(text));
    expect_says((const char *[]){ "verify", "--quick", "--check", "edited.json", NULL }, code, says);
    /* What does not agree is not written. */
    program_result result = expect_code(
        (const char *[]){ "verify", "--quick", "--check", "edited.json", "--write", "new.json", NULL }, code);
    FILE *file = fopen("new.json", "rb");
    CHECK((file != NULL) == (code == 0), "new.json with exit code %d", code);
    if (file)
        fclose(file);
    remove("new.json");
    program_free(&result);
    free(text);
}

static void test_tampered(void)
{
    char folder[32], line[160];
    folder_enter(folder);
    program_result written = expect_code((const char *[]){ "verify", "--quick", "--write", "good.json", NULL }, 0);
    char *good = file_get("good.json");
    char *value = strstr(good, "\"fingerprint\": \"");
    if (CHECK(value, "no fingerprint in the file")) {
        snprintf(line, sizeof line, "%.32s", value); /* the key and 16 digits */
        char changed[160];
        strcpy(changed, line);
        changed[20] = changed[20] == '0' ? '1' : '0';
        check_edited(good, line, changed, 1, "CHANGED");
        check_edited(good, line, "\"fingerprint\": \"not run", 0, "NOT CHECKED");
        check_edited(good, "\"name\": \"attention/", "\"name\": \"attentive/", 1, "only in the file: attentive/");
        check_edited(good, "\"name\": \"attention/", "\"name\": \"attentive/", 1, "NOT IN FILE");
        const char *first = strstr(good, "    {");
        snprintf(line, sizeof line, "%.*s", (int)(strchr(first, '\n') + 1 - first), first);
        check_edited(good, line, "", 1, "1 not in the file");
        check_edited(good, "\n    {", "\n    {\"name\": \"new\", \"fingerprint\": \"0123456789abcdef\"},\n    {", 1,
            "1 only in the file");
    }
    file_put("empty.json", "{\"version\": 1, \"cases\": []}", 27);
    expect_says((const char *[]){ "verify", "--quick", "--check", "empty.json", NULL }, 1, "NOT IN FILE");
    program_free(&written);
    free(good);
    folder_leave(folder);
}

static void expect_refused_file(const char *text, size_t count, const char *reason)
{
    file_put("bad.json", text, count);
    expect_refused((const char *[]){ "verify", "--check", "bad.json", NULL }, "bad.json", reason);
}

static void refuse_file(const char *text, size_t count)
{
    expect_refused_file(text, count, "");
}

static void test_malformed(void)
{
    static const char *const bad[] = {
        "",
        " ",
        "[]",
        "{}",
        "null",
        "{\"version\": 1}",
        "{\"cases\": []}",
        "{\"version\": 2, \"cases\": []}",
        "{\"version\": 1.0, \"cases\": []}",
        "{\"version\": \"1\", \"cases\": []}",
        "{\"version\": 18446744073709551617, \"cases\": []}",
        "{\"version\": 1, \"version\": 1, \"cases\": []}",
        "{\"version\": 1, \"cases\": [], \"cases\": []}",
        "{\"version\": 1, \"cases\": [], \"more\": 1}",
        "{\"version\": 1, \"cases\": []} x",
        "{\"version\": 1, \"cases\": [],}",
        "{\"version\": 1, \"cases\": {}}",
        "{\"version\": 1, \"cases\": [1]}",
        "{\"version\": 1, \"cases\": [{}]}",
        "{\"version\": 1, \"cases\": [[]]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\"}]}",
        "{\"version\": 1, \"cases\": [{\"fingerprint\": \"0123456789abcdef\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": 1, \"fingerprint\": \"0123456789abcdef\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"0123456789abcde\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"0123456789abcdef0\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"0123456789ABCDEF\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"0123456789abcdef\", \"name\": \"y\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"0123456789abcdef\", \"size\": 1}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\", \"fingerprint\": \"0123456789abcdef\"},]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"x\\u0000\", \"fingerprint\": \"0123456789abcdef\"}]}",
        "{\"version\": 1, \"cases\": [{\"name\": \"\xFF\", \"fingerprint\": \"0123456789abcdef\"}]}",
    };
    char folder[32];
    folder_enter(folder);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_case("malformed file %zu", i);
        refuse_file(bad[i], strlen(bad[i]));
    }
    check_case("%s", "");
    static const char entry[] = "{\"name\": \"linear/1x1x1\", \"fingerprint\": \"0123456789abcdef\"}";
    char twice[256];
    snprintf(twice, sizeof twice, "{\"version\": 1, \"cases\": [%s, %s]}", entry, entry);
    expect_refused_file(twice, strlen(twice), "twice");
    char *deep = check_malloc(200000);
    memset(deep, '[', 200000);
    refuse_file(deep, 200000);
    memset(deep, 0, 200000);
    refuse_file(deep, 200000);
    free(deep);
    expect_refused((const char *[]){ "verify", "--check", "none.json", NULL }, "none.json", "");
    expect_refused((const char *[]){ "verify", "--check", ".", NULL }, ".", "");
    folder_leave(folder);
}

static void test_truncated(void)
{
    char folder[32];
    folder_enter(folder);
    program_result written = expect_code((const char *[]){ "verify", "--quick", "--write", "good.json", NULL }, 0);
    char *good = file_get("good.json");
    size_t size = strlen(good);
    while (size > 0 && good[size - 1] == '\n') /* without it the file is still whole */
        size--;
    for (size_t count = 0; count < size; count += 1 + size / 60)
        refuse_file(good, count);
    refuse_file(good, size - 1);
    program_free(&written);
    free(good);
    folder_leave(folder);
}

static void test_options(void)
{
    char folder[32];
    folder_enter(folder);
    expect_refused((const char *[]){ "verify", "--isa", "sse9", NULL }, "--isa", "sse9");
    expect_refused((const char *[]){ "verify", "--isa", "auto", NULL }, "--isa", "auto");
    expect_refused((const char *[]){ "verify", "word", NULL }, "word", "");
    expect_refused((const char *[]){ "verify", "--write", NULL }, "--write", "");
    expect_refused((const char *[]){ "verify", "--write", "none/f.json", NULL }, "none/f.json", "");
    static const char *const options[] = { "--quick", "--isa", "--write", "--check", "--json" };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        expect_says((const char *[]){ "verify", "--help", NULL }, 0, options[i]);
    static const heed_isa all[] = { HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_NEON };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!heed_isa_usable(all[i]))
            expect_refused(
                (const char *[]){ "verify", "--isa", heed_isa_name(all[i]), NULL }, "--isa", heed_isa_name(all[i]));
    folder_leave(folder);
}

/* The report as JSON is JSON, and says what the table says. */
static void test_json(void)
{
    program_result result = expect_code((const char *[]){ "verify", "--quick", "--json", NULL }, 0);
    json_cursor json = { (const uint8_t *)result.out, strlen(result.out), 0, NULL };
    CHECK(json_skip(&json) && json_at_end(&json), "byte %zu: %s", json.at, json.problem ? json.problem : "more text");
    CHECK(strstr(result.out, "\"agree\": true"), "it does not agree");
    CHECK(strstr(result.out, "\"backends\": [\"scalar\""), "no backends");
    program_free(&result);
}

/* The name of a line of a fingerprint file up to its colon, and the fingerprint; false: another line. */
static bool read_line(const char *line, char stem[64], char fingerprint[20])
{
    return sscanf(line, " {\"name\": \"%63[^\":]:%*[^\"]\", \"fingerprint\": \"%16[0-9a-f]\"", stem, fingerprint) == 2;
}

/* However a cache is stored, and whether its queries end a prefill, the bits are the same: names of decode/ that differ
 * after the colon only have one fingerprint. */
static void test_caches(void)
{
    char *text = file_get(GOLDEN), stem[64], fingerprint[20], last_stem[64] = "", last[20] = "";
    int pairs = 0, stems = 0;
    for (const char *line = text; line && *line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        if (!read_line(line, stem, fingerprint) || strncmp(stem, "decode/", 7) != 0)
            continue;
        const bool known = strcmp(stem, last_stem) == 0;
        CHECK(!known || strcmp(fingerprint, last) == 0, "%s: %s and %s", stem, last, fingerprint);
        pairs += known;
        stems += !known;
        strcpy(last_stem, stem);
        strcpy(last, fingerprint);
    }
    CHECK(stems >= 30 && pairs >= 4 * stems, "%d caches in the golden file, %d comparisons", stems, pairs);
    free(text);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "write_and_check", test_write_and_check },
        { "tampered", test_tampered },
        { "malformed", test_malformed },
        { "truncated", test_truncated },
        { "options", test_options },
        { "json", test_json },
        { "caches", test_caches },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
