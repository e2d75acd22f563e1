/* Runs the program heed and catches what it prints; temporary folders.
 * May know: POSIX.
 * Must not know: what the program does. */
#ifndef HEED_TESTS_PROGRAM_H
#define HEED_TESTS_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct program_result {
    int code; /* exit code, or 128 + the number of the signal */
    char *out, *err;
} program_result;

/* words: the arguments, NULL at the end.  environment: "NAME=value" settings for the run, or NULL. */
program_result program_run(const char *const *words, const char *const *environment);

/* The same with a terminal of 80 columns as standard output. */
program_result program_run_terminal(const char *const *words, const char *const *environment);

void program_free(program_result *result);

/* Enters a new folder; leave removes it with all in it. */
void folder_enter(char name[32]);
void folder_leave(const char *name);

/* Files in the current folder, hidden ones included. */
int folder_entries(void);

void file_put(const char *path, const void *bytes, size_t count);
char *file_get(const char *path); /* malloc'ed text; ends the test on failure */

/* Bad input: exit code 2, one line on stderr that holds both texts, and no new file in the folder. */
void expect_refused(const char *const *words, const char *file, const char *reason);

#endif
