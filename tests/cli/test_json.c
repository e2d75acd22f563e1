/* The JSON parser: what is JSON and what is not, strings unescaped, numbers in range, depth.
 * May know: json.h.
 * Must not know: what documents are read with it. */
#include "check.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

/* A cursor over a copy that ends at a page nobody may touch. */
static json_cursor cursor_over(const void *text, size_t size)
{
    uint8_t *copy = check_alloc(size, CHECK_GUARD_BEHIND);
    memcpy(copy, text, size);
    return (json_cursor){ copy, size, 0, NULL };
}

static bool is_json(const void *text, size_t size)
{
    json_cursor json = cursor_over(text, size);
    bool good = json_skip(&json);
    CHECK(good || json.problem, "a refusal without a reason");
    good = good && json_at_end(&json);
    check_free_all();
    return good;
}

static void test_valid(void)
{
    static const char *const documents[] = { "0", "-0", "1", "-12", "10", "0.5", "1e5", "1E+5", "1.25e-10", "true",
        "false", "null", "\"\"", "\"a\"", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"", "\"\\ud83d\\ude00\"", "\"\xC3\xA9\"",
        "\"\xF0\x9F\x98\x80\"", "\"\xEF\xBF\xBF\"", "\"\xF4\x8F\xBF\xBF\"", "[]", "{}", " [ ] ", "[1,2,[3,{}]]",
        "{\"a\":1,\"b\":[true,null],\"a\":{}}", "\t\r\n{\"\":\"\"} \n", "\"\x7F\"" };
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        CHECK(is_json(documents[i], strlen(documents[i])), "refused: %s", documents[i]);
    }
}

static void test_invalid(void)
{
    static const char *const documents[] = { "", " ", "-", "+1", "01", "-01", ".5", "1.", "1.e5", "1e", "1e+", "0x10",
        "NaN", "Infinity", "-Infinity", "tru", "True", "nul", "truex", "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"",
        "\"\\u12g4\"", "\"\\ud800\"", "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"\\ud83dx\"", "\"\\u0000\"", "\"\n\"",
        "\"\x01\"", "\"\x80\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xC3\"", "\"\xC3(\"", "\"\xE0\x80\x80\"",
        "\"\xE0\x9F\xBF\"", "\"\xED\xA0\x80\"", "\"\xF0\x8F\xBF\xBF\"", "\"\xF4\x90\x80\x80\"", "\"\xF5\x80\x80\x80\"",
        "\"\xFF\"", "\"\xE2\x82", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "{", "}", "{\"a\"",
        "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{a:1}", "{1:1}", "{\"a\" 1}", "{\"a\":1 \"b\":2}",
        "{\"a\":1]", "[1}", "1 2", "[] []", "'a'", "/* */ 1", "\xEF\xBB\xBF[]", "\x0B[]" };
    for (size_t i = 0; i < sizeof documents / sizeof documents[0]; i++) {
        CHECK(!is_json(documents[i], strlen(documents[i])), "accepted: %s", documents[i]);
    }
    CHECK(!is_json("[]\0", 3), "a zero byte after the document is accepted");
    CHECK(!is_json("\"a\0b\"", 5), "a zero byte in a string is accepted");
}

/* As deep as allowed, one deeper, and a million. */
static void test_depth(void)
{
    enum { DEEP = 1000000 };
    char *text = check_malloc(2 * DEEP);
    for (int depth = 1; depth <= JSON_MAX_DEPTH + 2; depth++) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        CHECK(is_json(text, 2 * (size_t)depth) == (depth <= JSON_MAX_DEPTH), "depth %d", depth);
    }
    memset(text, '[', DEEP);
    CHECK(!is_json(text, DEEP), "a million opening brackets are accepted");
    for (int i = 0; i + 5 <= DEEP; i += 5) {
        memcpy(text + i, "{\"\":[", 5);
    }
    CHECK(!is_json(text, DEEP), "a million nested objects are accepted");
    free(text);
}

static void test_strings(void)
{
    static const struct {
        const char *text, *want;
    } cases[] = { { "\"\"", "" }, { "  \"a.b\"", "a.b" }, { "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t" },
        { "\"\\u0041\\u00e9\\u20AC\\ud83d\\ude00\"", "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80" },
        { "\"\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\"", "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t length = strlen(cases[i].want);
        for (size_t room = 1; room <= length + 2; room++) {
            char *copy = check_alloc(room, CHECK_GUARD_BEHIND);
            json_cursor json = cursor_over(cases[i].text, strlen(cases[i].text));
            bool good = json_string(&json, copy, room);
            CHECK(good == (room > length), "%s in %zu bytes: %d", cases[i].text, room, good);
            CHECK(!good || strcmp(copy, cases[i].want) == 0, "%s becomes %s", cases[i].text, copy);
            CHECK(!good || json_at_end(&json), "%s: something is left", cases[i].text);
            check_free_all();
        }
    }
}

static void test_sizes(void)
{
    static const struct {
        const char *text;
        int64_t want; /* -1: refused */
    } cases[] = { { "0", 0 }, { " 42,", 42 }, { "9223372036854775807", INT64_MAX }, { "9223372036854775808", -1 },
        { "18446744073709551616", -1 }, { "99999999999999999999999999", -1 }, { "-1", -1 }, { "1.0", -1 },
        { "1e3", -1 }, { "1E3", -1 }, { "00", -1 }, { "01", -1 }, { "", -1 }, { "x", -1 }, { "\"1\"", -1 },
        { "+1", -1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = -1;
        json_cursor json = cursor_over(cases[i].text, strlen(cases[i].text));
        bool good = json_size(&json, &value);
        CHECK(good == (cases[i].want >= 0), "'%s': %d", cases[i].text, good);
        CHECK(!good || value == cases[i].want, "'%s' is %lld", cases[i].text, (long long)value);
        check_free_all();
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "valid", test_valid },
        { "invalid", test_invalid },
        { "depth", test_depth },
        { "strings", test_strings },
        { "sizes", test_sizes },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
