/* `heed run`: the rotary position embedding: its options and its tables.
 * May know: run.h, heed.h.
 * Must not know: weights files. */
#include "run.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS_MAX = 1 << 30 };

/* What the library says against it; a table of no rows does nothing but look. */
static bool check_desc(const char *option, const heed_rope_desc *desc, char *message, size_t size)
{
    heed_error error;
    heed_rope_desc looked_at = *desc;
    looked_at.dim = 2;
    return heed_rope_table(&looked_at, 0, 0, NULL, NULL, &error) == HEED_OK ||
           complain(message, size, "--%s: %s", option, error.message);
}

/* Exactly count numbers with commas between them. */
static bool split_numbers(const char *text, int count, double *numbers)
{
    char unused[MESSAGE_SIZE];
    for (int i = 0; i < count; i++) {
        char piece[64];
        size_t length = strcspn(text, ",");
        if (length >= sizeof piece || (text[length] == 0) != (i + 1 == count)) {
            return false;
        }
        memcpy(piece, text, length);
        piece[length] = 0;
        if (!parse_double("rope-scaling", piece, -DBL_MAX, DBL_MAX, &numbers[i], unused, sizeof unused)) {
            return false;
        }
        text += length + 1;
    }
    return true;
}

static bool parse_scaling(const char *text, heed_rope_desc *desc, char *message, size_t size)
{
    static const struct {
        const char *start;
        heed_rope_scaling scaling;
        int numbers;
    } kinds[] = { { "linear:", HEED_ROPE_LINEAR, 1 }, { "llama3:", HEED_ROPE_LLAMA3, 4 },
        { "yarn:", HEED_ROPE_YARN, 2 } };
    double numbers[4] = { 0.0 };
    desc->scaling = HEED_ROPE_PLAIN;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t length = strlen(kinds[i].start);
        if (strncmp(text, kinds[i].start, length) == 0 && split_numbers(text + length, kinds[i].numbers, numbers)) {
            desc->scaling = kinds[i].scaling;
        }
    }
    if (desc->scaling == HEED_ROPE_PLAIN) {
        return complain(message, size,
            "--rope-scaling: '%.64s' is not linear:F, llama3:F,LOW,HIGH,ORIG or yarn:F,ORIG, all of them numbers",
            text);
    }
    desc->factor = numbers[0];
    desc->low_freq_factor = numbers[1];
    desc->high_freq_factor = numbers[2];
    double original = desc->scaling == HEED_ROPE_LLAMA3 ? numbers[3] : numbers[1];
    if (desc->factor < 1.0) {
        return complain(message, size, "--rope-scaling: F is %g, must be at least 1", desc->factor);
    }
    if (desc->scaling != HEED_ROPE_LINEAR &&
        !(original >= 1.0 && original <= POSITIONS_MAX && original == floor(original))) {
        return complain(message, size, "--rope-scaling: ORIG is %.9g, not a whole number from 1 to %d", original,
            (int)POSITIONS_MAX);
    }
    desc->original_positions = desc->scaling == HEED_ROPE_LINEAR ? 0 : (int64_t)original;
    return check_desc("rope-scaling", desc, message, size);
}

bool run_rope_parse(const char *pairs, const char *base, const char *dim, const char *scaling, const char *offset,
    run_rope *rope, char *message, size_t size)
{
    static const choice words[] = { { "none", HEED_ROPE_NONE }, { "halves", HEED_ROPE_HALVES },
        { "interleaved", HEED_ROPE_INTERLEAVED }, { NULL, 0 } };
    static const heed_rope_desc plain = HEED_ROPE_DESC_INIT;
    int value = HEED_ROPE_NONE;
    rope->desc = plain;
    rope->given = pairs != NULL;
    rope->detail = base ? "rope-base" : dim ? "rope-dim" : scaling ? "rope-scaling" : offset ? "rope-offset" : NULL;
    if (!parse_choice("rope", pairs, words, &value, message, size)) {
        return false;
    }
    rope->pairs = (heed_rope_pairs)value;
    if (base && (!parse_double("rope-base", base, 1.0, 1e100, &rope->desc.base, message, size) ||
                    !check_desc("rope-base", &rope->desc, message, size))) {
        return false;
    }
    if (dim && !parse_integer("rope-dim", dim, 2, INT32_MAX, &rope->desc.dim, message, size)) {
        return false;
    }
    if (rope->desc.dim % 2 != 0) {
        return complain(message, size, "--rope-dim: %lld is odd", (long long)rope->desc.dim);
    }
    return (!scaling || parse_scaling(scaling, &rope->desc, message, size)) &&
           (!offset || parse_integer("rope-offset", offset, 0, POSITIONS_MAX, &rope->offset, message, size));
}

bool run_rope_choose(
    const run_rope *asked, bool model_rotates, int64_t head_dim, run_rope *chosen, run_problem *problem)
{
    *chosen = *asked;
    if (!asked->given) {
        chosen->pairs = model_rotates ? HEED_ROPE_HALVES : HEED_ROPE_NONE;
    }
    if (chosen->pairs == HEED_ROPE_NONE) {
        return !asked->detail ||
               run_refuse(problem, NULL, "--%s: nothing is rotated without --rope halves or --rope interleaved",
                   asked->detail);
    }
    chosen->desc.dim = asked->desc.dim ? asked->desc.dim : head_dim;
    if (chosen->desc.dim > head_dim) {
        return run_refuse(
            problem, NULL, "--rope-dim: %lld, but head_dim is %lld", (long long)chosen->desc.dim, (long long)head_dim);
    }
    return chosen->desc.dim % 2 == 0 ||
           run_refuse(
               problem, NULL, "--rope: head_dim %lld is odd: give --rope-dim, or --rope none", (long long)head_dim);
}

bool run_rope_compute(const run_rope *rope, int64_t positions, run_rope_tables *tables, run_problem *problem)
{
    heed_error error;
    int64_t count = 0;
    *tables = (run_rope_tables){ NULL, NULL };
    if (rope->pairs == HEED_ROPE_NONE) {
        return true;
    }
    if (checked_multiply(positions, rope->desc.dim / 2, &count)) {
        tables->cosines = allocate_array(count, sizeof(float));
        tables->sines = allocate_array(count, sizeof(float));
    }
    if (!tables->cosines || !tables->sines) {
        return run_refuse(problem, NULL, "--rope: not enough memory for %lld positions", (long long)positions);
    }
    return heed_rope_table(&rope->desc, rope->offset, positions, tables->cosines, tables->sines, &error) == HEED_OK ||
           run_refuse(problem, NULL, "--rope: %s", error.message);
}

void run_rope_free(run_rope_tables *tables)
{
    free(tables->cosines);
    free(tables->sines);
    *tables = (run_rope_tables){ NULL, NULL };
}

void run_rope_say(const run_rope *rope, int64_t head_dim, run_result *result)
{
    static const char *const scalings[] = { "not scaled", "scaled linearly", "scaled as Llama 3", "scaled by YaRN" };
    if (rope->pairs == HEED_ROPE_NONE) {
        run_say(result, "rope: none\n");
        return;
    }
    run_say(result, "rope: %s, base %g, %lld of %lld elements of a head, %s",
        rope->pairs == HEED_ROPE_HALVES ? "halves" : "interleaved", rope->desc.base != 0.0 ? rope->desc.base : 10000.0,
        (long long)rope->desc.dim, (long long)head_dim, scalings[rope->desc.scaling]);
    if (rope->desc.scaling != HEED_ROPE_PLAIN) {
        run_say(result, " by %g", rope->desc.factor);
    }
    run_say(result, ", positions from %lld\n", (long long)rope->offset);
}
