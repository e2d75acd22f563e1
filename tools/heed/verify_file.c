/* Fingerprint files: JSON written here, perhaps by another machine, perhaps by an enemy.
 * May know: json.h, source.h, verify.h.
 * Must not know: how fingerprints are made. */
#include "command.h"
#include "json.h"
#include "source.h"
#include "verify.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST_BYTES = 1 << 22, FINGERPRINT_DIGITS = 16, KEY_SIZE = 16 };

static const char not_run[] = "not run";

/* One entry of "cases" as it is read. */
typedef struct file_entry {
    char name[VERIFY_NAME_SIZE];
    char fingerprint[FINGERPRINT_DIGITS + 1];
    bool has_name, has_fingerprint;
} file_entry;

typedef struct reader {
    json_cursor json;
    const verify_case *cases;
    int64_t count;
    verify_expected *expected;
    verify_unknown *unknown;
} reader;

static bool refuse(reader *file, const char *problem)
{
    file->json.problem = problem;
    return false;
}

static bool read_digits(const char *text, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < FINGERPRINT_DIGITS; i++) {
        const char *digits = "0123456789abcdef", *digit = text[i] ? strchr(digits, text[i]) : NULL;
        if (!digit)
            return false;
        *value = *value << 4 | (uint64_t)(digit - digits);
    }
    return text[FINGERPRINT_DIGITS] == 0;
}

static bool keep_entry(reader *file, const file_entry *entry)
{
    uint64_t fingerprint = 0;
    bool ran = strcmp(entry->fingerprint, not_run) != 0;
    if (!entry->has_name || !entry->has_fingerprint)
        return refuse(file, "cases: an entry without name or fingerprint");
    if (ran && !read_digits(entry->fingerprint, &fingerprint))
        return refuse(file, "fingerprint: not 16 digits of 0-9 and a-f");
    int64_t i = 0;
    while (i < file->count && strcmp(file->cases[i].name, entry->name) != 0)
        i++;
    if (i == file->count) {
        verify_unknown *unknown = file->unknown;
        if (unknown->count < (int64_t)(sizeof unknown->names / sizeof unknown->names[0]))
            memcpy(unknown->names[unknown->count], entry->name, sizeof entry->name);
        unknown->count++;
        return true;
    }
    if (file->expected[i].present)
        return refuse(file, "name: a case is named twice");
    file->expected[i] = (verify_expected){ true, ran, fingerprint };
    return true;
}

static bool read_entry(reader *file)
{
    file_entry entry = { .name = "" };
    json_cursor *json = &file->json;
    if (!json_expect(json, '{'))
        return false;
    do {
        char key[KEY_SIZE];
        if (!json_string(json, key, sizeof key) || !json_expect(json, ':'))
            return false;
        bool is_name = strcmp(key, "name") == 0, is_fingerprint = strcmp(key, "fingerprint") == 0;
        if ((is_name && entry.has_name) || (is_fingerprint && entry.has_fingerprint))
            return refuse(file, "cases: a key is given twice");
        if (!is_name && !is_fingerprint)
            return refuse(file, "cases: an unknown key");
        if (!json_string(
                json, is_name ? entry.name : entry.fingerprint, is_name ? sizeof entry.name : sizeof entry.fingerprint))
            return false;
        entry.has_name = entry.has_name || is_name;
        entry.has_fingerprint = entry.has_fingerprint || is_fingerprint;
    } while (json_take(json, ','));
    return json_expect(json, '}') && keep_entry(file, &entry);
}

static bool read_cases(reader *file)
{
    json_cursor *json = &file->json;
    if (!json_expect(json, '['))
        return false;
    if (json_take(json, ']'))
        return true;
    do {
        if (!read_entry(file))
            return false;
    } while (json_take(json, ','));
    return json_expect(json, ']');
}

static bool read_document(reader *file)
{
    json_cursor *json = &file->json;
    bool has_version = false, has_cases = false;
    if (!json_expect(json, '{'))
        return false;
    do {
        char key[KEY_SIZE];
        int64_t version = VERIFY_FILE_VERSION;
        if (!json_string(json, key, sizeof key) || !json_expect(json, ':'))
            return false;
        bool is_version = strcmp(key, "version") == 0, is_cases = strcmp(key, "cases") == 0;
        if ((is_version && has_version) || (is_cases && has_cases))
            return refuse(file, "a key is given twice");
        if (!is_version && !is_cases)
            return refuse(file, "an unknown key; expected version and cases");
        if (is_version ? !json_size(json, &version) : !read_cases(file))
            return false;
        if (version != VERIFY_FILE_VERSION)
            return refuse(file, "version: this program reads version 1 only");
        has_version = has_version || is_version;
        has_cases = has_cases || is_cases;
    } while (json_take(json, ','));
    if (!json_expect(json, '}'))
        return false;
    if (!has_version || !has_cases)
        return refuse(file, has_cases ? "version: missing" : "cases: missing");
    return json_at_end(json) || refuse(file, "text after the end");
}

static bool load(const char *path, uint8_t **text, size_t *length, char *message, size_t size)
{
    source input;
    *text = NULL;
    if (!source_open(&input, path, message, size))
        return false;
    bool loaded = false;
    if (input.size > FILE_MOST_BYTES)
        complain(message, size, "size: more than %d bytes", FILE_MOST_BYTES);
    else if (!(*text = allocate_array(input.size, 1)))
        complain(message, size, "out of memory");
    else
        loaded = source_read(&input, 0, *text, input.size, message, size);
    *length = (size_t)input.size;
    source_close(&input);
    return loaded;
}

bool verify_file_read(const char *path, const verify_case *cases, int64_t count, verify_expected *expected,
    verify_unknown *unknown, char *message, size_t size)
{
    uint8_t *text;
    size_t length = 0;
    unknown->count = 0;
    for (int64_t i = 0; i < count; i++)
        expected[i] = (verify_expected){ false, false, 0 };
    bool good = load(path, &text, &length, message, size);
    if (good) {
        reader file = { { text, length, 0, NULL }, cases, count, expected, unknown };
        good = read_document(&file);
        if (!good)
            complain(message, size, "byte %zu: %s", file.json.at, file.json.problem ? file.json.problem : "malformed");
    }
    free(text);
    return good;
}

void verify_file_write(FILE *file, const verify_case *cases, const verify_result *results, int64_t count)
{
    fprintf(file, "{\n  \"version\": %d,\n  \"cases\": [\n", VERIFY_FILE_VERSION);
    for (int64_t i = 0; i < count; i++) {
        char digits[FINGERPRINT_DIGITS + 1];
        snprintf(digits, sizeof digits, "%016" PRIx64, results[i].fingerprint);
        fprintf(file, "    {\"name\": \"%s\", \"fingerprint\": \"%s\"}%s\n", cases[i].name,
            results[i].ran ? digits : not_run, i + 1 < count ? "," : "");
    }
    fputs("  ]\n}\n", file);
}
