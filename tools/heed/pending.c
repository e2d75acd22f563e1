/* Temporary files that a signal must not leave behind.
 * May know: POSIX signals.
 * Must not know: what the files are. */
#include "pending.h"

#include "command.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum { SIGNALS = 3, NAME_MAX_SIZE = 4096 };

static const int numbers[SIGNALS] = { SIGINT, SIGTERM, SIGHUP };

/* A signal handler gets no argument, so these are the only variables of the program that outlive a call.  A name is
 * complete before the count makes it visible, and is never freed: the handler may run on any thread. */
static char names[OUTPUTS_MAX][NAME_MAX_SIZE];
static atomic_int count;

static void remove_all(int number)
{
    int visible = atomic_load(&count);
    for (int i = 0; i < visible; i++) {
        unlink(names[i]);
    }
    /* SA_RESETHAND has restored the default action: end as the signal says. */
    raise(number);
}

/* Replaces one action by another; what the parent chose to ignore (nohup) stays ignored. */
static void change_action(void (*from)(int), void (*to)(int))
{
    for (int i = 0; i < SIGNALS; i++) {
        struct sigaction action;
        if (sigaction(numbers[i], NULL, &action) == 0 && action.sa_handler == from) {
            action.sa_handler = to;
            action.sa_flags = to == remove_all ? (int)SA_RESETHAND : 0;
            sigemptyset(&action.sa_mask);
            sigaction(numbers[i], &action, NULL);
        }
    }
}

static void ignore_signal(int number)
{
    (void)number;
}

void pending_add(const char *path)
{
    int slot = atomic_load(&count);
    if (slot == OUTPUTS_MAX || strlen(path) >= NAME_MAX_SIZE) {
        return;
    }
    memcpy(names[slot], path, strlen(path) + 1);
    atomic_store(&count, slot + 1);
    change_action(SIG_DFL, remove_all);
}

void pending_drop(void)
{
    int slot = atomic_load(&count);
    if (slot > 0) {
        atomic_store(&count, slot - 1);
    }
}

void pending_hold(void)
{
    change_action(remove_all, ignore_signal);
}

void pending_release(void)
{
    change_action(ignore_signal, remove_all);
}

void pending_clear(void)
{
    atomic_store(&count, 0);
    change_action(remove_all, SIG_DFL);
}
