/* The commands of the program `heed`, and what they share: messages, arguments, output files, progress.
 * May know: the C library, POSIX.
 * Must not know: the library heed, any file format. */
#ifndef HEED_TOOL_COMMAND_H
#define HEED_TOOL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* What the program returns. */
enum { EXIT_OK = 0, EXIT_CHECK_FAILED = 1, EXIT_BAD_INPUT = 2 };

/* A size for the `char *message, size_t size` of the functions below and of the readers. */
enum { MESSAGE_SIZE = 320 };

/* The whole program: argv[0] is its name, argv[1] the command.  Returns the exit code (program.c). */
int program(int argc, char **argv);

/* argv[0] is the command's own name, argv[argc] is NULL.  They return an exit code. */
int command_info(int argc, char **argv);
int command_run(int argc, char **argv);
int command_show(int argc, char **argv);
int command_verify(int argc, char **argv);

/* ---- Messages (message.c) -------------------------------------------------------------------------------------- */

/* Prints one line "heed COMMAND: FILE: text" on stderr and returns EXIT_BAD_INPUT.  file may be NULL.  Control
 * characters, which may come from a hostile file, are printed as '?'. */
int fail(const char *command, const char *file, const char *format, ...);

/* One line "heed COMMAND: note: text" on stderr, for what the user must know although the command goes on. */
void note(const char *command, const char *format, ...);

/* Prints text with every control character as '?'. */
void print_clean(FILE *file, const char *text);

/* Formats message and returns false: `return complain(message, size, "shape: ...")`. */
bool complain(char *message, size_t size, const char *format, ...);

/* ---- Arguments (arguments.c) ----------------------------------------------------------------------------------- */

typedef enum option_kind {
    OPTION_FLAG,    /* --name */
    OPTION_VALUE,   /* --name value, --name=value; with a letter also -n value, -nvalue */
    OPTION_OPTIONAL /* --name, --name=value */
} option_kind;

typedef struct option_spec {
    const char *name; /* without dashes; NULL ends a list */
    char letter;      /* the one-dash form, or 0 */
    option_kind kind;
} option_spec;

enum { OPTIONS_MAX = 48, WORDS_MAX = 4 };

typedef struct arguments {
    const char *values[OPTIONS_MAX]; /* by index of the spec: NULL not given, "" given without a value */
    const char *words[WORDS_MAX];    /* what is no option */
    int num_words;
} arguments;

/* Parses argv[1 ..]; unknown options, options given twice, missing and empty values, and more than max_words words are
 * refused with a message.  --help and -h print the help of argv[0] on stdout.  True: go on.  False: return *exit_code.
 */
bool arguments_parse(int argc, char **argv, const option_spec *specs, int max_words, arguments *parsed, int *exit_code);

/* Strict: the whole text is one number in range, else a message that names the option. */
bool parse_integer(
    const char *option, const char *text, int64_t low, int64_t high, int64_t *value, char *message, size_t size);

/* A finite number in range; one that fits binary32. */
bool parse_double(
    const char *option, const char *text, double low, double high, double *value, char *message, size_t size);
bool parse_float(const char *option, const char *text, float *value, char *message, size_t size);

/* A word of an option and the number it stands for; a list ends with the word NULL. */
typedef struct choice {
    const char *word;
    int value;
} choice;

/* text NULL (the option was not given) leaves *value alone. */
bool parse_choice(const char *option, const char *text, const choice *choices, int *value, char *message, size_t size);

/* "1,2,3": *values is malloc'ed, with *count >= 1 entries. */
bool parse_integer_list(const char *option, const char *text, int32_t low, int32_t high, int32_t **values,
    int64_t *count, char *message, size_t size);

/* ---- Help (help.c) --------------------------------------------------------------------------------------------- */

/* False if there is no such command; NULL is the program itself. */
bool help_print(FILE *file, const char *command);

/* ---- Output files (output.c) ----------------------------------------------------------------------------------- */

enum { OUTPUTS_MAX = 8 };

typedef struct output_file {
    char *path;      /* what the file is to be called; symbolic links are followed */
    char *temporary; /* the name beside it that is written first */
    FILE *file;
} output_file;

/* Start from {0}.  Nothing appears under a final name before outputs_commit, and a signal that ends the program
 * (SIGINT, SIGTERM, SIGHUP) removes the temporary files. */
typedef struct outputs {
    output_file files[OUTPUTS_MAX];
    int count;
} outputs;

/* Whether path could be written: its folder exists and is writable, it is no special file.  Creates nothing; for
 * refusing before long work. */
bool output_check(const char *path, char *message, size_t size);

/* Creates a temporary file beside path; NULL and a message on failure, after which outputs_discard is still due.  The
 * caller writes to the stream and does not close it. */
FILE *outputs_open(outputs *set, const char *path, char *message, size_t size);

/* Flushes, syncs and closes every file, and only when all of them are complete renames them.  On failure nothing is
 * left behind, and *failed is the index of the file (in order of opening) that failed.  Afterwards the set is empty. */
bool outputs_commit(outputs *set, int *failed, char *message, size_t size);

/* Removes what outputs_open created.  Harmless after a commit. */
void outputs_discard(outputs *set);

/* ---- Progress (progress.c) ------------------------------------------------------------------------------------- */

/* Draws one line over the last one on stderr when that is a terminal, else does nothing.  total 0: no percentage. */
void progress_show(const char *what, int64_t done, int64_t total);

/* Removes the line; call before printing anything else. */
void progress_clear(void);

/* ---- Sizes and time (memory.c) --------------------------------------------------------------------------------- */

/* a * b of non-negative numbers; false when it does not fit. */
bool checked_multiply(int64_t a, int64_t b, int64_t *product);

/* The product of all dimensions; false when one is negative or the product does not fit. */
bool checked_product(int count, const int64_t *dimensions, int64_t *product);

/* NULL when count * size does not fit or there is no memory; never NULL for count 0. */
void *allocate_array(int64_t count, size_t size);

/* Seconds of a clock that only goes forward. */
double seconds_now(void);

#endif
