/* The reader of shapes.txt: lines, fields, lists of values, names with places for values.
 * May know: the rules of shapes and the syntax.  Must not know: how shapes are measured.
 * Every byte may be hostile: sizes and counts are limited before anything is stored. */
#include "shape_file.h"

#include "shape_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20, MOST_SHAPES = 1 << 12, MOST_VALUES = 16, NAME_TEXT_SIZE = 128 };

typedef struct word {
    const char *text;
    size_t length;
} word;

typedef struct reader {
    shape_list *list;
    size_t capacity;
    const char *name;
    int line;
    char *message;
} reader;

/* One line, before its lists of values are multiplied out. */
typedef struct pattern {
    shape_kind kind;
    word name;
    int64_t values[SHAPE_FIELDS][MOST_VALUES];
    size_t counts[SHAPE_FIELDS];
} pattern;

static int fail(const reader *r, word at, const char *format, ...)
{
    char text[SHAPE_MESSAGE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(r->message, SHAPE_MESSAGE_SIZE, "%.96s:%d: %.*s: %.96s", r->name, r->line,
        (int)(at.length < 32 ? at.length : 32), at.text, text);
    return 0;
}

static word word_of(const char *text)
{
    const word w = { text, strlen(text) };
    return w;
}

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The next word before end; length 0 if there is none, or a comment begins. */
static word next_word(const char **at, const char *end)
{
    while (*at < end && is_blank(**at))
        ++*at;
    word w = { *at, 0 };
    if (*at < end && **at == '#')
        *at = end;
    while (*at < end && !is_blank(**at)) {
        ++*at;
        w.length++;
    }
    return w;
}

/* The part of w before the separator, which is taken off w with it. */
static word split(word *w, char separator)
{
    word part = { w->text, 0 };
    while (part.length < w->length && part.text[part.length] != separator)
        part.length++;
    const size_t taken = part.length < w->length ? part.length + 1 : part.length;
    w->text += taken;
    w->length -= taken;
    return part;
}

static int parse_value(word text, const field_rule *rule, int64_t *value)
{
    if (rule->words) {
        for (*value = rule->least; rule->words[*value]; ++*value)
            if (strlen(rule->words[*value]) == text.length && !memcmp(rule->words[*value], text.text, text.length))
                return 1;
        return 0;
    }
    *value = 0;
    for (size_t i = 0; i < text.length; i++) {
        if (text.text[i] < '0' || text.text[i] > '9')
            return 0;
        *value = *value * 10 + (text.text[i] - '0');
        if (*value > rule->most)
            return 0;
    }
    return text.length > 0 && *value >= rule->least;
}

/* "must be A, B or C" */
static int fail_words(const reader *r, word at, const char *const *words)
{
    char text[SHAPE_MESSAGE_SIZE] = "";
    size_t used = 0;
    for (size_t i = 0; words[i]; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s",
            i == 0         ? ""
            : words[i + 1] ? ", "
                           : " or ",
            words[i]);
    return fail(r, at, "must be %s", text);
}

static int parse_field(const reader *r, pattern *p, word w)
{
    const word all = w;
    const word name = split(&w, '=');
    if (name.length == all.length)
        return fail(r, all, "is not FIELD=VALUE");
    const int field = shape_find_field(name.text, name.length);
    if (field < 0 || !shape_has_field(p->kind, (shape_field)field))
        return fail(r, name, "is not a field of %s", shape_kind_name(p->kind));
    if (p->counts[field])
        return fail(r, name, "is given twice");
    const field_rule *rule = &shape_field_rules[field];
    for (;;) {
        const size_t before = w.length;
        const word value = split(&w, ',');
        if (p->counts[field] == MOST_VALUES)
            return fail(r, name, "has more than %d values", MOST_VALUES);
        if (!parse_value(value, rule, &p->values[field][p->counts[field]++])) {
            if (rule->words)
                return fail_words(r, name, rule->words);
            return fail(r, name, "must be a number in %lld .. %lld", (long long)rule->least, (long long)rule->most);
        }
        if (value.length == before)
            return 1;
    }
}

/* ---- Names ---- */

typedef struct name_text {
    char text[NAME_TEXT_SIZE];
    size_t length;
} name_text;

static int append(name_text *to, const char *text, size_t length)
{
    if (length >= sizeof to->text - to->length)
        return 0;
    memcpy(to->text + to->length, text, length);
    to->length += length;
    to->text[to->length] = 0;
    return 1;
}

static int append_value(name_text *to, const bench_shape *shape, int field)
{
    char number[24];
    const char *const *words = shape_field_rules[field].words;
    const int64_t value = shape->field[field];
    if (!words)
        snprintf(number, sizeof number, "%lld", (long long)value);
    const char *text = words ? words[value] : number;
    return append(to, text, strlen(text));
}

static int name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

/* Writes the shape's name; used[f] becomes 1 for each field that the name tells. */
static int expand_name(const reader *r, const pattern *p, bench_shape *shape, int used[SHAPE_FIELDS])
{
    name_text name = { "", 0 };
    word rest = p->name;
    memset(used, 0, SHAPE_FIELDS * sizeof *used);
    while (rest.length) {
        if (*rest.text == '{') {
            word in = { rest.text + 1, rest.length - 1 };
            const word place = split(&in, '}');
            const int closed = place.length + 1 < rest.length;
            const int field = closed ? shape_find_field(place.text, place.length) : -1;
            if (field < 0 || !p->counts[field])
                return fail(r, p->name, "a {place} must name a field of this line");
            used[field] = 1;
            if (!append_value(&name, shape, field))
                return fail(r, p->name, "the name is too long");
            rest = in;
        } else if (!name_char(*rest.text)) {
            return fail(r, p->name, "a name is of a-z, 0-9, _ and {fields}");
        } else if (!append(&name, rest.text, 1)) {
            return fail(r, p->name, "the name is too long");
        } else {
            rest.text++;
            rest.length--;
        }
    }
    if (name.length >= sizeof shape->name)
        return fail(r, p->name, "the name is longer than %d", SHAPE_NAME_SIZE - 1);
    memcpy(shape->name, name.text, name.length + 1);
    return 1;
}

/* ---- Shapes ---- */

static int add_shape(reader *r, const bench_shape *shape)
{
    shape_list *list = r->list;
    for (size_t i = 0; i < list->count; i++)
        if (list->shapes[i].kind == shape->kind && strcmp(list->shapes[i].name, shape->name) == 0)
            return fail(r, word_of(shape->name), "is there twice");
    if (list->count == MOST_SHAPES)
        return fail(r, word_of(shape->name), "more than %d shapes", MOST_SHAPES);
    if (list->count == r->capacity) {
        r->capacity = r->capacity ? 2 * r->capacity : 64;
        bench_shape *shapes = realloc(list->shapes, r->capacity * sizeof *shapes);
        if (!shapes)
            return fail(r, word_of(shape->name), "no memory");
        list->shapes = shapes;
    }
    list->shapes[list->count++] = *shape;
    return 1;
}

static int add_combination(reader *r, const pattern *p, const size_t chosen[SHAPE_FIELDS])
{
    bench_shape shape;
    int used[SHAPE_FIELDS];
    const char *reason;
    memset(&shape, 0, sizeof shape);
    shape.kind = p->kind;
    for (int f = 0; f < SHAPE_FIELDS; f++)
        if (p->counts[f])
            shape.field[f] = p->values[f][chosen[f]];
    if (!expand_name(r, p, &shape, used))
        return 0;
    for (int f = 0; f < SHAPE_FIELDS; f++)
        if (p->counts[f] > 1 && !used[f])
            return fail(r, word_of(shape_field_rules[f].name), "has several values, the name must have {%s}",
                shape_field_rules[f].name);
    const int wrong = shape_complete(&shape, &reason);
    return wrong < 0 ? add_shape(r, &shape) : fail(r, word_of(shape_field_rules[wrong].name), "%s", reason);
}

/* Every combination of values, the last field changing fastest. */
static int add_shapes(reader *r, const pattern *p)
{
    size_t chosen[SHAPE_FIELDS] = { 0 };
    for (;;) {
        if (!add_combination(r, p, chosen))
            return 0;
        int f = SHAPE_FIELDS - 1;
        while (f >= 0 && chosen[f] + 1 >= p->counts[f])
            chosen[f--] = 0;
        if (f < 0)
            return 1;
        chosen[f]++;
    }
}

static int parse_line(reader *r, const char *at, const char *end)
{
    pattern p;
    memset(&p, 0, sizeof p);
    for (const char *c = at; c < end; c++)
        if (((unsigned char)*c < ' ' && !is_blank(*c)) || (unsigned char)*c > '~')
            return fail(r, word_of("line"), "holds a byte that is not printable ASCII");
    const word kind = next_word(&at, end);
    if (!kind.length)
        return 1;
    const int found = shape_find_kind(kind.text, kind.length);
    if (found < 0)
        return fail(r, kind, "is not a kind of shape");
    p.kind = (shape_kind)found;
    p.name = next_word(&at, end);
    if (!p.name.length)
        return fail(r, kind, "has no name");
    for (;;) {
        const word field = next_word(&at, end);
        if (!field.length)
            return add_shapes(r, &p);
        if (!parse_field(r, &p, field))
            return 0;
    }
}

int shape_list_parse(shape_list *list, const char *name, const char *text, size_t size, char *message)
{
    reader r = { list, 0, name, 1, message };
    const char *at = text, *end = text + size;
    list->shapes = NULL;
    list->count = 0;
    for (; at < end; r.line++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (!line_end)
            line_end = end;
        if (!parse_line(&r, at, line_end)) {
            shape_list_free(list);
            return 0;
        }
        at = line_end < end ? line_end + 1 : end;
    }
    if (!list->count)
        return fail(&r, word_of("file"), "holds no shapes");
    return 1;
}

int shape_list_read(shape_list *list, const char *path, char *message)
{
    reader r = { list, 0, path, 0, message };
    list->shapes = NULL;
    list->count = 0;
    FILE *file = fopen(path, "rb");
    char *text = malloc(MOST_BYTES + 1);
    const size_t size = file && text ? fread(text, 1, MOST_BYTES + 1, file) : 0;
    const int failed = !file || !text || ferror(file);
    if (file)
        fclose(file);
    int ok = 0;
    if (failed)
        fail(&r, word_of("file"), "cannot be read");
    else if (size > MOST_BYTES)
        fail(&r, word_of("file"), "is larger than %d bytes", MOST_BYTES);
    else
        ok = shape_list_parse(list, path, text, size, message);
    free(text);
    return ok;
}

void shape_list_free(shape_list *list)
{
    free(list->shapes);
    list->shapes = NULL;
    list->count = 0;
}
