/* A line of progress on a terminal.
 * May know: stderr and whether it is a terminal.
 * Must not know: what is being done. */
#include "command.h"

#include <unistd.h>

void progress_show(const char *what, int64_t done, int64_t total)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    fputs("\r\033[K", stderr);
    print_clean(stderr, what);
    if (total > 0) {
        fprintf(stderr, " %d %%", (int)(100.0 * (double)done / (double)total));
    }
    fflush(stderr);
}

void progress_clear(void)
{
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
