/* The program `heed`: what is a program's and not a function's.
 * May know: POSIX signals.
 * Must not know: the commands. */
#include "command.h"

#include <signal.h>

int main(int argc, char **argv)
{
    /* A file at the limit of its size is a write error with a message, not a death that leaves files behind. */
    signal(SIGXFSZ, SIG_IGN);
    return program(argc, argv);
}
