/* Which tensors of a weights file are the projections of one attention layer.
 * May know: the names that models use, safetensors.h.
 * Must not know: the numbers in the tensors, the library heed. */
#include "names.h"

#include "command.h"

#include <string.h>

enum { NAME_SIZE = 512 };

/* A known way of naming: what stands before the layer's number and after it. */
typedef struct family {
    const char *name, *before;
    const char *after[PROJECTIONS];
    bool rotary;
} family;

static const family families[] = {
    { "BERT", "encoder.layer.",
        { ".attention.self.query", ".attention.self.key", ".attention.self.value", ".attention.output.dense" }, false },
    { "Llama", "layers.", { ".self_attn.q_proj", ".self_attn.k_proj", ".self_attn.v_proj", ".self_attn.o_proj" },
        true },
};

enum { FAMILIES = sizeof families / sizeof families[0] };

const char *projection_name(projection which)
{
    static const char *const names[PROJECTIONS] = { "q", "k", "v", "o" };
    return which < PROJECTIONS ? names[which] : "?";
}

/* What a search over all tensors came to. */
typedef struct match {
    const family *family;
    const tensor_info *query;
    size_t prefix;           /* bytes before family->before */
    int count;               /* tensors that fit */
    int64_t lowest, highest; /* of the layers in the file; lowest > highest: none */
} match;

/* Whether text ends in ending before *end, which then moves to where ending starts. */
static bool strip(const char *text, size_t *end, const char *ending)
{
    size_t length = strlen(ending);
    if (*end < length || memcmp(text + *end - length, ending, length) != 0) {
        return false;
    }
    *end -= length;
    return true;
}

/* Whether name is some layer's query weight, behind a prefix that is empty or ends in a dot. */
static bool is_query(const char *name, const family *known, size_t *prefix, int64_t *layer)
{
    enum { DIGITS_MAX = 9 };
    size_t end = strlen(name);
    if (!strip(name, &end, ".weight") || !strip(name, &end, known->after[PROJECTION_Q])) {
        return false;
    }
    int64_t number = 0;
    int64_t place = 1;
    size_t last = end;
    while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9' && last - end < DIGITS_MAX) {
        number += place * (name[--end] - '0');
        place *= 10;
    }
    bool leading_zero = last - end > 1 && name[end] == '0';
    if (end == last || leading_zero || !strip(name, &end, known->before)) {
        return false;
    }
    *prefix = end;
    *layer = number;
    return end == 0 || name[end - 1] == '.';
}

static match search(const safetensors *file, int64_t layer)
{
    match found = { NULL, NULL, 0, 0, INT64_MAX, -1 };
    for (int64_t i = 0; i < file->count; i++) {
        for (size_t f = 0; f < FAMILIES; f++) {
            size_t prefix;
            int64_t number;
            if (!is_query(file->tensors[i].name, &families[f], &prefix, &number)) {
                continue;
            }
            found.lowest = number < found.lowest ? number : found.lowest;
            found.highest = number > found.highest ? number : found.highest;
            if (number == layer) {
                found.family = &families[f];
                found.query = &file->tensors[i];
                found.prefix = prefix;
                found.count++;
            }
        }
    }
    return found;
}

static const tensor_info *find_part(
    const safetensors *file, const match *found, int64_t layer, const char *after, const char *part)
{
    char name[NAME_SIZE];
    int length = snprintf(name, sizeof name, "%.*s%s%lld%s%s", (int)found->prefix, found->query->name,
        found->family->before, (long long)layer, after, part);
    return length > 0 && length < NAME_SIZE ? safetensors_find(file, name) : NULL;
}

static bool explain_no_match(const safetensors *file, const match *found, int64_t layer, char *message, size_t size)
{
    if (found->lowest <= found->highest) {
        return complain(message, size, "--layer: the file has no layer %lld, its layers are %lld to %lld",
            (long long)layer, (long long)found->lowest, (long long)found->highest);
    }
    return complain(message, size,
        "tensor names: no attention layer with BERT's or Llama's names among %lld tensors; give --names",
        (long long)file->count);
}

static bool find_known(const safetensors *file, int64_t layer, layer_names *found, char *message, size_t size)
{
    if (layer < 0) {
        return complain(message, size, "--layer: is needed with --weights");
    }
    match query = search(file, layer);
    if (query.count == 0) {
        return explain_no_match(file, &query, layer, message, size);
    }
    if (query.count > 1) {
        return complain(message, size, "tensor names: %d tensors could be the queries of layer %lld; give --names",
            query.count, (long long)layer);
    }
    found->family = query.family->name;
    found->rotary = query.family->rotary;
    found->normed = find_part(file, &query, layer, ".self_attn.q_norm", ".weight") != NULL;
    for (int p = 0; p < PROJECTIONS; p++) {
        const char *after = query.family->after[p];
        found->weight[p] = find_part(file, &query, layer, after, ".weight");
        found->bias[p] = find_part(file, &query, layer, after, ".bias");
        if (!found->weight[p]) {
            return complain(message, size, "tensor names: %.160s is there, but no ...%lld%s.weight", query.query->name,
                (long long)layer, after);
        }
    }
    return true;
}

/* Copies a name of --names up to its comma, with {layer} replaced. */
static bool expand(const char *text, size_t length, int64_t layer, char *name, char *message, size_t size)
{
    static const char mark[] = "{layer}";
    size_t mark_length = sizeof mark - 1;
    size_t used = 0;
    for (size_t i = 0; i < length;) {
        bool marked = length - i >= mark_length && strncmp(text + i, mark, mark_length) == 0;
        if (marked && layer < 0) {
            return complain(message, size, "--layer: is needed for {layer} in --names");
        }
        int added = marked ? snprintf(name + used, NAME_SIZE - used, "%lld", (long long)layer)
                           : snprintf(name + used, NAME_SIZE - used, "%c", text[i]);
        used += (size_t)added;
        if (used >= NAME_SIZE) {
            return complain(message, size, "--names: a name is longer than %d bytes", NAME_SIZE - 1);
        }
        i += marked ? mark_length : 1;
    }
    name[used] = 0;
    return true;
}

/* The place for the tensor that "q", "bq", ... of length bytes names, or NULL. */
static const tensor_info **find_place(layer_names *found, const char *key, size_t length)
{
    for (int p = 0; p < PROJECTIONS; p++) {
        char letter = projection_name((projection)p)[0];
        if (length == 1 && key[0] == letter) {
            return &found->weight[p];
        }
        if (length == 2 && key[0] == 'b' && key[1] == letter) {
            return &found->bias[p];
        }
    }
    return NULL;
}

static bool take_entry(const safetensors *file, const char *entry, size_t length, int64_t layer, layer_names *found,
    char *message, size_t size)
{
    char name[NAME_SIZE];
    const char *equals = memchr(entry, '=', length);
    size_t key = equals ? (size_t)(equals - entry) : 0;
    const tensor_info **place = equals ? find_place(found, entry, key) : NULL;
    if (!place) {
        return complain(message, size, "--names: '%.*s' is not q=, k=, v=, o=, bq=, bk=, bv= or bo= and a name",
            (int)(length < 80 ? length : 80), entry);
    }
    if (*place) {
        return complain(message, size, "--names: '%.*s' is given twice", (int)key, entry);
    }
    if (!expand(equals + 1, length - key - 1, layer, name, message, size)) {
        return false;
    }
    *place = safetensors_find(file, name);
    return *place || complain(message, size, "--names: the file has no tensor '%.200s'", name);
}

static bool find_given(
    const safetensors *file, int64_t layer, const char *templates, layer_names *found, char *message, size_t size)
{
    found->family = "--names";
    for (const char *entry = templates;;) {
        size_t length = strcspn(entry, ",");
        if (!take_entry(file, entry, length, layer, found, message, size)) {
            return false;
        }
        if (entry[length] == 0) {
            break;
        }
        entry += length + 1;
    }
    for (int p = 0; p < PROJECTIONS; p++) {
        if (!found->weight[p]) {
            return complain(message, size, "--names: %s= is missing", projection_name((projection)p));
        }
    }
    return true;
}

bool names_find(
    const safetensors *file, int64_t layer, const char *templates, layer_names *found, char *message, size_t size)
{
    *found = (layer_names){ { NULL }, { NULL }, NULL, false, false };
    return templates ? find_given(file, layer, templates, found, message, size)
                     : find_known(file, layer, found, message, size);
}
