/* The first process of the emulated machine: mounts, runs one program, sends its output out framed, switches off.
 * May know: Linux, the ports 0xE9 (bytes come out on the emulator's stdout) and 0x8900 ("Shutdown" ends the emulator).
 * Must not know: heed.  Linked statically; boot.py writes the files it reads and takes the frames apart. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_PORT = 0xe9, POWER_PORT = 0x8900, LIST_BYTES = 1 << 20, LIST_ITEMS = 1 << 16, PIPES = 2 };

static char mark[33]; /* what no program prints by chance: starts every frame */

/* \1 mark kind length(8 hex digits) bytes.  Kinds: B begin, O stdout, E stderr, X exit status (in place of the length). */
static void send_frame(char kind, const void *bytes, unsigned length)
{
    char head[64];
    const int size = snprintf(head, sizeof head, "\001%s%c%08x", mark, kind, length);
    outsb(OUTPUT_PORT, head, (unsigned long)size);
    if (bytes)
        outsb(OUTPUT_PORT, bytes, length);
}

/* A file of strings, each ended by a 0 byte, as an argument vector. */
static char **read_list(const char *path)
{
    char *text = malloc(LIST_BYTES + 1), **list = malloc(LIST_ITEMS * sizeof *list);
    const int file = open(path, O_RDONLY);
    size_t length = 0, count = 0;
    if (!text || !list || file < 0)
        _exit(1);
    for (ssize_t n; length < LIST_BYTES && (n = read(file, text + length, LIST_BYTES - length)) > 0;)
        length += (size_t)n;
    close(file);
    text[length] = '\0';
    for (char *p = text; p < text + length && count + 1 < LIST_ITEMS; p += strlen(p) + 1)
        list[count++] = p;
    list[count] = NULL;
    return list;
}

static void mount_all(void)
{
    static const char *const folders[] = { "/proc", "/sys", "/dev" };
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        mkdir(folders[i], 0755);
    mkdir("/tmp", 01777);
    mount("proc", "/proc", "proc", 0, NULL);
    mount("sysfs", "/sys", "sysfs", 0, NULL);
    mount("devtmpfs", "/dev", "devtmpfs", 0, NULL);
    mkdir("/dev/shm", 01777);
    mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
}

static void become(char **command, char **environment, const char *directory, const int ends[PIPES])
{
    dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    dup2(ends[0], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    for (int i = 3; i < 32; i++)
        close(i);
    setsid();
    iopl(0);
    if (chdir(directory))
        dprintf(STDERR_FILENO, "emulated machine: %s: %s\n", directory, strerror(errno));
    execve(command[0], command, environment);
    dprintf(STDERR_FILENO, "emulated machine: %s: %s\n", command[0], strerror(errno));
    _exit(127);
}

/* Passes on what the program writes; ends with it, even if a stray child of it keeps a pipe open. */
static int relay(pid_t child, const int ends[PIPES])
{
    static char buffer[1 << 16];
    struct pollfd pipes[PIPES] = { { ends[0], POLLIN, 0 }, { ends[1], POLLIN, 0 } };
    int status = 0, open_pipes = PIPES;
    bool gone = false;
    while (open_pipes) {
        if (poll(pipes, PIPES, gone ? 0 : 100) <= 0) {
            if (gone)
                break;
            gone = waitpid(child, &status, WNOHANG) == child;
            continue;
        }
        for (int i = 0; i < PIPES; i++) {
            if (pipes[i].fd < 0 || !pipes[i].revents)
                continue;
            const ssize_t n = read(pipes[i].fd, buffer, sizeof buffer);
            if (n > 0) {
                send_frame("OE"[i], buffer, (unsigned)n);
                continue;
            }
            close(pipes[i].fd);
            pipes[i].fd = -1;
            open_pipes--;
        }
    }
    while (!gone && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(void)
{
    int out[2], err[2];
    if (iopl(3))
        return 1;
    mount_all();
    char **run = read_list("/emulate/run"); /* the mark, the working directory */
    char **command = read_list("/emulate/command"), **environment = read_list("/emulate/environment");
    snprintf(mark, sizeof mark, "%s", run[0]);
    send_frame('B', NULL, 0);
    if (pipe(out) || pipe(err))
        return 1;
    const pid_t child = fork();
    if (child < 0)
        return 1;
    if (child == 0)
        become(command, environment, run[1], (const int[PIPES]){ out[1], err[1] });
    close(out[1]);
    close(err[1]);
    send_frame('X', NULL, (unsigned)relay(child, (const int[PIPES]){ out[0], err[0] }));
    for (const char *p = "Shutdown"; *p; p++)
        outb((unsigned char)*p, POWER_PORT);
    for (;;)
        pause();
}
