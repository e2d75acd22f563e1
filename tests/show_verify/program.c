/* Runs the program heed and catches what it prints.
 * May know: POSIX, check.h.
 * Must not know: what the program does. */
#include "program.h"
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS_MOST = 40, TERMINAL_BYTES = 1 << 20 };

/* Emulator (words separated by spaces), program, arguments. */
static void put_together(const char *const *words, char *emulator, const char **all)
{
    int count = 0;
    for (char *word = strtok(emulator, " "); word; word = strtok(NULL, " "))
        all[count++] = word;
    all[count++] = HEED_PROGRAM;
    for (; *words; words++) {
        if (count == WORDS_MOST - 1)
            check_fatal("too many arguments");
        all[count++] = *words;
    }
    all[count] = NULL;
}

/* In the child: never returns. */
static void become(const char *const *words, const char *const *environment, int out, int err)
{
    static const char *const clean[] = { "NO_COLOR", "COLUMNS", "LC_ALL", "LC_CTYPE", "HEED_ISA" };
    char emulator[] = HEED_EMULATOR;
    const char *all[WORDS_MOST];
    put_together(words, emulator, all);
    for (size_t i = 0; i < sizeof clean / sizeof clean[0]; i++)
        unsetenv(clean[i]);
    setenv("LANG", "C.UTF-8", 1);
    setenv("TERM", "xterm", 1);
    for (; environment && *environment; environment++)
        putenv((char *)*environment);
    int empty = open("/dev/null", O_RDONLY);
    if (dup2(empty, 0) >= 0 && dup2(out, 1) >= 0 && dup2(err, 2) >= 0)
        execvp(all[0], (char *const *)all);
    _exit(127);
}

static int wait_for(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static char *take_text(FILE *file)
{
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    char *text = check_malloc((size_t)size + 1);
    text[fread(text, 1, (size_t)size, file)] = 0;
    fclose(file);
    return text;
}

static FILE *temporary(void)
{
    FILE *file = tmpfile();
    if (!file)
        check_fatal("no temporary file");
    return file;
}

program_result program_run(const char *const *words, const char *const *environment)
{
    FILE *out = temporary(), *err = temporary();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        become(words, environment, fileno(out), fileno(err));
    program_result result = { .code = wait_for(child) };
    result.out = take_text(out);
    result.err = take_text(err);
    return result;
}

static int open_terminal(char *name, size_t size)
{
    const struct winsize window = { .ws_row = 24, .ws_col = 80 };
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    const char *path = master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0 ? ptsname(master) : NULL;
    if (!path || strlen(path) >= size || ioctl(master, TIOCSWINSZ, &window) != 0)
        check_fatal("no pseudo-terminal");
    strcpy(name, path);
    return master;
}

program_result program_run_terminal(const char *const *words, const char *const *environment)
{
    char name[64];
    int master = open_terminal(name, sizeof name), slave = open(name, O_RDWR | O_NOCTTY);
    FILE *err = temporary();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(master);
        become(words, environment, slave, fileno(err));
    }
    close(slave);
    char *text = check_malloc(TERMINAL_BYTES);
    size_t used = 0;
    for (ssize_t got; used < TERMINAL_BYTES - 1; used += (size_t)got) {
        got = read(master, text + used, TERMINAL_BYTES - 1 - used);
        if (got <= 0) /* EIO: the child has closed its side */
            break;
    }
    text[used] = 0;
    close(master);
    program_result result = { wait_for(child), text, NULL };
    result.err = take_text(err);
    return result;
}

void program_free(program_result *result)
{
    free(result->out);
    free(result->err);
}

void folder_enter(char name[32])
{
    strcpy(name, "heed-test-XXXXXX");
    if (!mkdtemp(name) || chdir(name) != 0)
        check_fatal("no temporary folder");
}

/* Entries but . and .., each removed if asked for. */
static int walk_folder(bool removing)
{
    int count = 0;
    DIR *listing = opendir(".");
    if (!listing)
        check_fatal("the folder cannot be read");
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (removing && remove(entry->d_name) != 0)
            check_fatal("a temporary file cannot be removed");
    }
    closedir(listing);
    return count;
}

void folder_leave(const char *name)
{
    walk_folder(true);
    if (chdir("..") != 0 || rmdir(name) != 0)
        check_fatal("the temporary folder cannot be removed");
}

int folder_entries(void)
{
    return walk_folder(false);
}

void file_put(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        check_fatal("a file cannot be written");
}

char *file_get(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        check_fatal("a file cannot be read");
    return take_text(file);
}

void expect_refused(const char *const *words, const char *file, const char *reason)
{
    int before = folder_entries();
    program_result result = program_run(words, NULL);
    CHECK(result.code == 2, "exit code %d, stderr: %s", result.code, result.err);
    const char *newline = strchr(result.err, '\n');
    CHECK(newline && newline[1] == 0, "stderr is not one line: %s", result.err);
    CHECK(strstr(result.err, file), "stderr does not name '%s': %s", file, result.err);
    CHECK(strstr(result.err, reason), "stderr does not say '%s': %s", reason, result.err);
    CHECK(!strchr(result.err, 27), "stderr holds an escape sequence");
    CHECK(folder_entries() == before, "a file was left behind");
    program_free(&result);
}
