/* Output files: whole or not at all, also when a rename fails or a signal ends the program.  And the argument parser.
 * May know: command.h, POSIX.
 * Must not know: how output.c does it. */
#include "check.h"
#include "command.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char message[MESSAGE_SIZE];

/* Enters a new folder; leave removes everything in it. */
static void enter(char *folder)
{
    strcpy(folder, "heed-test-XXXXXX");
    if (!mkdtemp(folder) || chdir(folder) != 0) {
        check_fatal("no temporary folder");
    }
}

/* Number of entries in the current folder. */
static int entries(void)
{
    int count = 0;
    DIR *folder = opendir(".");
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    closedir(folder);
    return count;
}

static void leave(const char *folder)
{
    DIR *listing = opendir(".");
    for (struct dirent *entry = readdir(listing); entry; entry = readdir(listing)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && unlink(entry->d_name) != 0) {
            rmdir(entry->d_name);
        }
    }
    closedir(listing);
    if (chdir("..") != 0 || rmdir(folder) != 0) {
        check_fatal("the temporary folder cannot be removed");
    }
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
}

static bool holds(const char *path, const char *text)
{
    char got[64] = "";
    FILE *file = fopen(path, "rb");
    if (!file) {
        return false;
    }
    got[fread(got, 1, sizeof got - 1, file)] = 0;
    fclose(file);
    return strcmp(got, text) == 0;
}

static void test_commit(void)
{
    char folder[32];
    outputs set = { 0 };
    int failed = -1;
    enter(folder);
    put("b", "old");
    FILE *a = outputs_open(&set, "a", message, sizeof message);
    FILE *b = outputs_open(&set, "b", message, sizeof message);
    CHECK(a && b, "not opened: %s", message);
    fputs("new a", a);
    fputs("new b", b);
    CHECK(access("a", F_OK) != 0 && holds("b", "old"), "something appears before the commit");
    CHECK(outputs_commit(&set, &failed, message, sizeof message), "%s", message);
    CHECK(holds("a", "new a") && holds("b", "new b") && entries() == 2, "wrong files after the commit");
    outputs_discard(&set);
    CHECK(entries() == 2, "a discard after the commit removes something");
    leave(folder);
}

static void test_discard(void)
{
    char folder[32];
    outputs set = { 0 };
    enter(folder);
    put("b", "old");
    fputs("x", outputs_open(&set, "a", message, sizeof message));
    fputs("x", outputs_open(&set, "b", message, sizeof message));
    CHECK(!outputs_open(&set, "./missing/c", message, sizeof message), "opened in a folder that is not there");
    CHECK(!outputs_open(&set, "a", message, sizeof message), "the same name twice");
    CHECK(strstr(message, "two outputs") != NULL, "%s", message);
    CHECK(symlink("b", "link") == 0 && !outputs_open(&set, "link", message, sizeof message) &&
              strstr(message, "two outputs"),
        "the same file twice, through a link: %s", message);
    outputs_discard(&set);
    CHECK(entries() == 2 && holds("b", "old"), "something is left, or lost");
    leave(folder);
}

/* One target turns into a folder meanwhile: neither output may stay. */
static void test_failed_rename(void)
{
    char folder[32];
    outputs set = { 0 };
    int failed = -1;
    enter(folder);
    fputs("x", outputs_open(&set, "a", message, sizeof message));
    fputs("x", outputs_open(&set, "b", message, sizeof message));
    CHECK(mkdir("b", 0700) == 0, "no folder");
    CHECK(!outputs_commit(&set, &failed, message, sizeof message), "a folder was replaced");
    CHECK(failed == 1 && strstr(message, "rename"), "failed %d: %s", failed, message);
    CHECK(entries() == 1, "files are left");
    leave(folder);
}

static void test_targets(void)
{
    char folder[32];
    outputs set = { 0 };
    int failed = -1;
    enter(folder);
    mkdir("folder", 0700);
    CHECK(!output_check("folder", message, sizeof message) && strstr(message, "regular"), "%s", message);
    CHECK(!output_check("/dev/null", message, sizeof message) && strstr(message, "regular"), "%s", message);
    CHECK(!output_check("missing/x", message, sizeof message) && strstr(message, "No such"), "%s", message);
    CHECK(!output_check("new/", message, sizeof message), "a folder's name is accepted");
    CHECK(!output_check("", message, sizeof message), "an empty name is accepted");
    CHECK(output_check("folder/x", message, sizeof message), "%s", message);
    CHECK(output_check("x", message, sizeof message), "%s", message);
    CHECK(symlink("nowhere", "dangling") == 0 && !output_check("dangling", message, sizeof message), "dangling link");
    put("folder/real", "old");
    CHECK(symlink("folder/real", "link") == 0, "no link");
    fputs("new", outputs_open(&set, "link", message, sizeof message));
    CHECK(outputs_commit(&set, &failed, message, sizeof message), "%s", message);
    struct stat status;
    CHECK(
        holds("folder/real", "new") && lstat("link", &status) == 0 && S_ISLNK(status.st_mode), "the link is replaced");
    unlink("folder/real");
    leave(folder);
}

/* A child with open outputs ends by a signal, or ignores it as its parent wished. */
static void test_signals(void)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    char folder[32];
    enter(folder);
    for (size_t i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            outputs set = { 0 };
            signal(numbers[i], SIG_DFL);
            FILE *a = outputs_open(&set, "a", message, sizeof message);
            FILE *b = outputs_open(&set, "b", message, sizeof message);
            if (a && b && entries() == 2) {
                raise(numbers[i]);
            }
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i], "the child does not die of signal %d", numbers[i]);
        CHECK(entries() == 0, "signal %d leaves files", numbers[i]);
    }
    pid_t child = fork();
    if (child == 0) {
        outputs set = { 0 };
        int failed;
        signal(SIGHUP, SIG_IGN);
        outputs_open(&set, "a", message, sizeof message);
        raise(SIGHUP);
        _exit(outputs_commit(&set, &failed, message, sizeof message) ? 7 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7 && entries() == 1, "an ignored signal is not ignored");
    leave(folder);
}

static void test_numbers(void)
{
    static const char *const not_integers[] = { "", " 1", "1 ", "1x", "x", "0x10", "1.0", "1e3", "--1", "+-1", "-", "+",
        "9223372036854775808", "-9223372036854775809", "99999999999999999999999" };
    static const char *const not_floats[] = { "", " 1", "1 ", "1x", "x", "nan", "inf", "-inf", "0x1p3", "1e39", "-1e39",
        "1e", "e5", ".", "+", "1,5" };
    int64_t integer = 0;
    float number = 0;
    for (size_t i = 0; i < sizeof not_integers / sizeof not_integers[0]; i++) {
        CHECK(!parse_integer("n", not_integers[i], INT64_MIN, INT64_MAX, &integer, message, sizeof message),
            "'%s' is a whole number", not_integers[i]);
        CHECK(strncmp(message, "--n: ", 5) == 0, "%s", message);
    }
    for (size_t i = 0; i < sizeof not_floats / sizeof not_floats[0]; i++) {
        CHECK(!parse_float("f", not_floats[i], &number, message, sizeof message), "'%s' is a number", not_floats[i]);
    }
    CHECK(parse_integer("n", "-5", -5, 5, &integer, message, sizeof message) && integer == -5, "-5");
    CHECK(parse_integer("n", "+5", -5, 5, &integer, message, sizeof message) && integer == 5, "+5");
    CHECK(!parse_integer("n", "6", -5, 5, &integer, message, sizeof message), "6 is below 5");
    CHECK(!parse_integer("n", "-6", -5, 5, &integer, message, sizeof message), "-6 is above -5");
    CHECK(parse_float("f", "-1.5e-3", &number, message, sizeof message) && number == -1.5e-3f, "-1.5e-3");
    CHECK(parse_float("f", "3.4028235e38", &number, message, sizeof message), "the largest float");
}

static void test_lists(void)
{
    static const char *const wrong[] = { "", ",", "1,", ",1", "1,,2", "1, 2", "1;2", "1,x", "1,-1", "1,11" };
    int32_t *list = NULL;
    int64_t count = 0;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK(!parse_integer_list("l", wrong[i], 0, 10, &list, &count, message, sizeof message), "'%s'", wrong[i]);
        CHECK(strncmp(message, "--l: ", 5) == 0, "%s", message);
    }
    CHECK(parse_integer_list("l", "3,0,10", 0, 10, &list, &count, message, sizeof message), "%s", message);
    CHECK(count == 3 && list[0] == 3 && list[1] == 0 && list[2] == 10, "wrong list");
    free(list);
}

static void test_products(void)
{
    int64_t product = 0;
    CHECK(checked_product(0, NULL, &product) && product == 1, "of nothing");
    CHECK(checked_product(3, (int64_t[]){ 2, 3, 4 }, &product) && product == 24, "24");
    CHECK(checked_product(2, (int64_t[]){ 0, 5 }, &product) && product == 0, "0");
    CHECK(!checked_product(2, (int64_t[]){ -1, 5 }, &product), "negative");
    CHECK(!checked_product(3, (int64_t[]){ 0, INT64_MAX, 2 }, &product), "an overflow behind a 0");
    CHECK(checked_multiply(INT64_MAX, 1, &product) && product == INT64_MAX, "the largest");
    CHECK(!checked_multiply(INT64_MAX / 2 + 1, 2, &product) && !checked_multiply(-1, 0, &product), "overflow");
    CHECK(
        !allocate_array(-1, 4) && !allocate_array(INT64_MAX, 4) && !allocate_array(INT64_MAX / 2 + 1, 2), "allocated");
    void *memory = allocate_array(0, 4);
    CHECK(memory != NULL, "no memory for nothing");
    free(memory);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "commit", test_commit },
        { "discard", test_discard },
        { "failed_rename", test_failed_rename },
        { "targets", test_targets },
        { "signals", test_signals },
        { "numbers", test_numbers },
        { "lists", test_lists },
        { "products", test_products },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
