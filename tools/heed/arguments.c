/* Arguments of the commands: options by a table, numbers read strictly.
 * May know: nothing but text.
 * Must not know: what any option means. */
#include "command.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One argument being parsed. */
typedef struct state {
    int argc, at;
    char **argv;
    const option_spec *specs;
    arguments *parsed;
} state;

static bool refuse(const state *now, const char *format, const char *what, int *exit_code)
{
    char text[MESSAGE_SIZE];
    complain(text, sizeof text, format, what);
    *exit_code = fail(now->argv[0], NULL, "%s (see: heed %s --help)", text, now->argv[0]);
    return false;
}

/* Index of the option that argument is, or -1; *attached is what follows in the same argument, or NULL. */
static int find_option(const option_spec *specs, const char *argument, const char **attached)
{
    *attached = NULL;
    for (int i = 0; specs[i].name; i++) {
        if (argument[1] == '-') {
            size_t length = strlen(specs[i].name);
            if (strncmp(argument + 2, specs[i].name, length) == 0 &&
                (argument[2 + length] == 0 || argument[2 + length] == '=')) {
                *attached = argument[2 + length] ? argument + 3 + length : NULL;
                return i;
            }
        } else if (specs[i].letter && argument[1] == specs[i].letter) {
            *attached = argument[2] ? argument + 2 : NULL;
            return i;
        }
    }
    return -1;
}

static bool take_option(state *now, int *exit_code)
{
    const char *argument = now->argv[now->at];
    const char *attached;
    int index = find_option(now->specs, argument, &attached);
    if (index < 0) {
        return refuse(now, "%s: unknown option", argument, exit_code);
    }
    const option_spec *spec = &now->specs[index];
    if (now->parsed->values[index]) {
        return refuse(now, "--%s: given twice", spec->name, exit_code);
    }
    if (attached && spec->kind == OPTION_FLAG) {
        return refuse(now, "--%s: takes no value", spec->name, exit_code);
    }
    if (!attached && spec->kind == OPTION_VALUE) {
        /* An option in place of the value is a forgotten value; --name=--value means it. */
        if (now->at + 1 >= now->argc || strncmp(now->argv[now->at + 1], "--", 2) == 0) {
            return refuse(now, "--%s: needs a value", spec->name, exit_code);
        }
        attached = now->argv[++now->at];
    }
    if (attached && *attached == 0) {
        return refuse(now, "--%s: the value is empty", spec->name, exit_code);
    }
    now->parsed->values[index] = attached ? attached : "";
    return true;
}

static bool take_word(state *now, int max_words, int *exit_code)
{
    if (now->parsed->num_words == max_words) {
        return refuse(now, "%s: unexpected argument", now->argv[now->at], exit_code);
    }
    now->parsed->words[now->parsed->num_words++] = now->argv[now->at];
    return true;
}

bool arguments_parse(int argc, char **argv, const option_spec *specs, int max_words, arguments *parsed, int *exit_code)
{
    *parsed = (arguments){ { NULL }, { NULL }, 0 };
    state now = { argc, 1, argv, specs, parsed };
    bool options_ended = false;
    for (; now.at < argc; now.at++) {
        const char *argument = argv[now.at];
        if (!options_ended && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)) {
            help_print(stdout, argv[0]);
            *exit_code = EXIT_OK;
            return false;
        }
        if (!options_ended && strcmp(argument, "--") == 0) {
            options_ended = true;
        } else if (!options_ended && argument[0] == '-' && argument[1] != 0) {
            if (!take_option(&now, exit_code)) {
                return false;
            }
        } else if (!take_word(&now, max_words, exit_code)) {
            return false;
        }
    }
    return true;
}

/* Where the number at text ends, or NULL.  Only an optional sign and digits: strtoll would take white space too. */
static const char *read_integer(const char *text, int64_t *value)
{
    const char *digits = text + (*text == '-' || *text == '+');
    if (*digits < '0' || *digits > '9') {
        return NULL;
    }
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0) {
        return NULL;
    }
    *value = (int64_t)number;
    return end;
}

bool parse_integer(
    const char *option, const char *text, int64_t low, int64_t high, int64_t *value, char *message, size_t size)
{
    int64_t number;
    const char *end = read_integer(text, &number);
    if (!end || *end != 0 || number < low || number > high) {
        return complain(message, size, "--%s: '%.64s' is not a whole number from %lld to %lld", option, text,
            (long long)low, (long long)high);
    }
    *value = number;
    return true;
}

/* strtod also takes white space, "nan", "inf" and hexadecimal; only plain decimal text is wanted. */
static bool read_number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return strspn(text, "+-.0123456789eE") == strlen(text) && end != text && *end == 0 && isfinite(*value);
}

bool parse_double(
    const char *option, const char *text, double low, double high, double *value, char *message, size_t size)
{
    double number;
    if (!read_number(text, &number) || number < low || number > high) {
        return complain(message, size, "--%s: '%.64s' is not a number from %g to %g", option, text, low, high);
    }
    *value = number;
    return true;
}

bool parse_float(const char *option, const char *text, float *value, char *message, size_t size)
{
    double number;
    /* Not the double rounded once more: that could be another float than the nearest. */
    float nearest = read_number(text, &number) ? strtof(text, NULL) : INFINITY;
    if (!isfinite(nearest)) {
        return complain(message, size, "--%s: '%.64s' is not a finite number", option, text);
    }
    *value = nearest;
    return true;
}

bool parse_choice(const char *option, const char *text, const choice *choices, int *value, char *message, size_t size)
{
    char list[128] = "";
    for (size_t i = 0; text && choices[i].word; i++) {
        if (strcmp(text, choices[i].word) == 0) {
            *value = choices[i].value;
            return true;
        }
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", choices[i].word);
    }
    return !text || complain(message, size, "--%s: '%.64s' is none of %s", option, text, list);
}

bool parse_integer_list(const char *option, const char *text, int32_t low, int32_t high, int32_t **values,
    int64_t *count, char *message, size_t size)
{
    int64_t entries = 1;
    for (const char *at = text; *at; at++) {
        entries += *at == ',';
    }
    int32_t *list = allocate_array(entries, sizeof *list);
    if (!list) {
        return complain(message, size, "--%s: not enough memory", option);
    }
    const char *at = text;
    for (int64_t i = 0; i < entries; i++) {
        int64_t number;
        const char *end = read_integer(at, &number);
        if (!end || *end != (i + 1 < entries ? ',' : 0) || number < low || number > high) {
            free(list);
            return complain(message, size, "--%s: entry %lld is not a whole number from %ld to %ld", option,
                (long long)i, (long)low, (long)high);
        }
        list[i] = (int32_t)number;
        at = end + 1;
    }
    *values = list;
    *count = entries;
    return true;
}
