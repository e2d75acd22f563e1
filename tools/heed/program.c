/* The program `heed` as a function: finds the command, runs it, and sees that its output arrived.
 * May know: the names of the commands.
 * Must not know: what they do. */
#include "command.h"

#include "heed/heed.h"

#include <errno.h>
#include <string.h>

typedef struct command {
    const char *name;
    int (*run)(int argc, char **argv);
} command;

static const command commands[] = {
    { "info", command_info },
    { "run", command_run },
    { "show", command_show },
    { "verify", command_verify },
};

static int print_help(int argc, char **argv)
{
    if (argc > 3) {
        return fail("help", NULL, "%s: unexpected argument", argv[3]);
    }
    if (!help_print(stdout, argc > 2 ? argv[2] : NULL)) {
        return fail("help", NULL, "%s: no such command (see: heed --help)", argv[2]);
    }
    return EXIT_OK;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2) {
        help_print(stderr, NULL);
        return EXIT_BAD_INPUT;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        printf("heed %s\n", heed_version());
        return EXIT_OK;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return print_help(argc, argv);
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(name, commands[i].name) == 0) {
            return commands[i].run(argc - 1, argv + 1);
        }
    }
    return fail(NULL, NULL, "%s: no such command (see: heed --help)", name);
}

int program(int argc, char **argv)
{
    int code = dispatch(argc, argv);
    /* A full disk or a closed pipe behind stdout must not pass for success. */
    bool stdout_failed = ferror(stdout) != 0;
    if (fflush(stdout) != 0 || stdout_failed) {
        return fail(NULL, "standard output", "write: %s", strerror(errno));
    }
    return code;
}
