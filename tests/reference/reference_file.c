/* The reader of cases.bin: lines of text, and each tensor's values after its line.
 * May know: the C library, the file's format.
 * Must not know: heed, what the cases mean. */
#include "reference_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 1024, MAX_CASES = 256, MAX_COUNT = 1 << 20 };

typedef struct reader {
    FILE *file;
    char line[LINE];
} reader;

/* The next line without its end; false at the end of the file or when it is too long. */
static bool next_line(reader *r)
{
    if (!fgets(r->line, LINE, r->file))
        return false;
    size_t length = strlen(r->line);
    if (length == 0 || r->line[length - 1] != '\n')
        return false;
    r->line[length - 1] = '\0';
    return true;
}

/* " key=value key=value" */
static bool parse_numbers(reference_case *c, const char *text)
{
    while (*text) {
        if (c->num_numbers == REFERENCE_NUMBERS)
            return false;
        reference_number *n = &c->numbers[c->num_numbers++];
        int used = 0;
        if (sscanf(text, " %47[^= ]=%lf%n", n->name, &n->value, &used) != 2)
            return false;
        text += used;
    }
    return true;
}

/* Little-endian values of 1, 4 or 8 bytes, whatever this machine's order is. */
static bool read_values(FILE *file, void *values, size_t count, size_t width)
{
    unsigned char bytes[8];
    for (size_t i = 0; i < count; i++) {
        if (fread(bytes, 1, width, file) != width)
            return false;
        uint64_t bits = 0;
        for (size_t b = 0; b < width; b++)
            bits |= (uint64_t)bytes[b] << 8 * b;
        uint32_t low = (uint32_t)bits;
        const void *value = width == 8 ? (const void *)&bits : width == 4 ? (const void *)&low : bytes;
        memcpy((unsigned char *)values + i * width, value, width);
    }
    return fgetc(file) == '\n';
}

/* Memory for the values behind the field of their type; NULL for a type that does not exist. */
static void *make_values(reference_tensor *t, const char *type, size_t *width)
{
    *width = strcmp(type, "f64") == 0 ? 8 : strcmp(type, "u8") == 0 ? 1 : 4;
    void *values = calloc(t->count + 1, *width);
    if (strcmp(type, "f32") == 0)
        return t->f32 = values;
    if (strcmp(type, "f64") == 0)
        return t->f64 = values;
    if (strcmp(type, "i32") == 0)
        return t->i32 = values;
    if (strcmp(type, "u8") == 0)
        return t->u8 = values;
    free(values);
    return NULL;
}

/* "tensor NAME TYPE NDIM d0 d1 ..." and the values behind it. */
static bool read_tensor(reader *r, reference_case *c)
{
    char type[4];
    int ndim = 0, used = 0;
    if (c->num_tensors == REFERENCE_TENSORS)
        return false;
    reference_tensor *t = &c->tensors[c->num_tensors++];
    if (sscanf(r->line, "tensor %47s %3s %d%n", t->name, type, &ndim, &used) != 3 || ndim < 1 || ndim > REFERENCE_DIMS)
        return false;
    t->count = 1;
    for (int d = 0; d < REFERENCE_DIMS; d++)
        t->shape[d] = 1;
    const char *text = r->line + used;
    for (int d = 0; d < ndim; d++) {
        unsigned long size = 0;
        if (sscanf(text, " %lu%n", &size, &used) != 1 || size > MAX_COUNT || t->count * size > MAX_COUNT)
            return false;
        t->count *= size;
        t->shape[d] = size;
        text += used;
    }
    size_t width;
    void *values = make_values(t, type, &width);
    return values && read_values(r->file, values, t->count, width);
}

static bool read_case(reader *r, reference_case *c)
{
    int used = 0;
    if (sscanf(r->line, "case %47s %47s%n", c->kind, c->name, &used) != 2 || !parse_numbers(c, r->line + used))
        return false;
    while (next_line(r)) {
        if (strcmp(r->line, "end") == 0)
            return true;
        if (!read_tensor(r, c))
            return false;
    }
    return false;
}

static bool read_all(reader *r, reference_file *file)
{
    if (!next_line(r) || strcmp(r->line, "heed-reference 1") != 0)
        return false;
    if (!next_line(r) || sscanf(r->line, "versions %255[^\n]", file->versions) != 1)
        return false;
    while (next_line(r)) {
        if (file->num_cases == MAX_CASES || !read_case(r, &file->cases[file->num_cases++]))
            return false;
    }
    return feof(r->file) && file->num_cases > 0;
}

bool reference_open(reference_file *file, const char *path)
{
    memset(file, 0, sizeof *file);
    reader r = { .file = fopen(path, "rb") };
    file->cases = calloc(MAX_CASES, sizeof *file->cases);
    bool ok = r.file && file->cases && read_all(&r, file);
    if (!ok)
        printf("%s: cannot be read, or broken in case %zu near \"%.60s\"\n", path, file->num_cases, r.line);
    if (r.file)
        fclose(r.file);
    return ok;
}

void reference_close(reference_file *file)
{
    for (size_t i = 0; i < file->num_cases; i++) {
        for (size_t t = 0; t < file->cases[i].num_tensors; t++) {
            free(file->cases[i].tensors[t].f32);
            free(file->cases[i].tensors[t].f64);
            free(file->cases[i].tensors[t].i32);
            free(file->cases[i].tensors[t].u8);
        }
    }
    free(file->cases);
    memset(file, 0, sizeof *file);
}

static const void *need(const void *found, const reference_case *c, const char *name)
{
    if (found)
        return found;
    printf("case %s has no %s of the right type\n", c->name, name);
    abort();
}

double reference_get(const reference_case *c, const char *name)
{
    const reference_number *found = NULL;
    for (size_t i = 0; i < c->num_numbers; i++)
        if (strcmp(c->numbers[i].name, name) == 0)
            found = &c->numbers[i];
    return ((const reference_number *)need(found, c, name))->value;
}

int64_t reference_size(const reference_case *c, const char *name)
{
    return (int64_t)reference_get(c, name);
}

const reference_tensor *reference_find(const reference_case *c, const char *name)
{
    for (size_t i = 0; i < c->num_tensors; i++)
        if (strcmp(c->tensors[i].name, name) == 0)
            return &c->tensors[i];
    return NULL;
}

const float *reference_f32_or_null(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return t ? need(t->f32, c, name) : NULL;
}

const int32_t *reference_i32_or_null(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return t ? need(t->i32, c, name) : NULL;
}

const float *reference_f32(const reference_case *c, const char *name)
{
    return need(reference_f32_or_null(c, name), c, name);
}

const double *reference_f64(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return need(t ? t->f64 : NULL, c, name);
}
