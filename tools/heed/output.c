/* Output files that appear whole or not at all.
 * May know: POSIX files.
 * Must not know: what is written. */
#include "command.h"

#include "pending.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The absolute name of a file that is not there yet. */
static char *resolve_new(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (*name == 0) {
        errno = EISDIR;
        return NULL;
    }
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    size_t size = real ? strlen(real) + strlen(name) + 2 : 0;
    char *joined = real ? malloc(size) : NULL;
    if (joined) {
        snprintf(joined, size, "%s%s%s", real, strcmp(real, "/") == 0 ? "" : "/", name);
    }
    free(real);
    return joined;
}

/* The absolute name, malloc'ed, of the file that path stands for: links are followed, so that no link is replaced and
 * two names of one file are seen to be that. */
static char *resolve(const char *path, char *message, size_t size)
{
    struct stat status;
    bool exists = lstat(path, &status) == 0;
    char *real = exists ? realpath(path, NULL) : errno == ENOENT ? resolve_new(path) : NULL;
    if (!real) {
        complain(message, size, "output: %s", strerror(errno));
        return NULL;
    }
    if (exists && (stat(real, &status) != 0 || !S_ISREG(status.st_mode))) {
        complain(message, size, "output: exists and is not a regular file");
        free(real);
        return NULL;
    }
    return real;
}

bool output_check(const char *path, char *message, size_t size)
{
    char *folder = resolve(path, message, size);
    if (!folder) {
        return false;
    }
    /* Keep the slash of "/name". */
    char *slash = strrchr(folder, '/');
    slash[slash == folder] = 0;
    bool writable = access(folder, W_OK | X_OK) == 0;
    if (!writable) {
        complain(message, size, "output: %s", strerror(errno));
    }
    free(folder);
    return writable;
}

/* Two outputs under one name would silently lose one of them. */
static bool already_open(const outputs *set, const char *path)
{
    for (int i = 0; i < set->count; i++) {
        if (strcmp(set->files[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

/* Opens path.PID-N.part for the first N that is free, with the permissions the umask leaves.  The name is this
 * process's own, so a signal may remove it even before it is known whether it could be created. */
static FILE *create_beside(output_file *output)
{
    enum { TRIES = 1000, SUFFIX = 40 };
    size_t size = strlen(output->path) + SUFFIX;
    output->temporary = malloc(size);
    int file = -1;
    errno = output->temporary ? EEXIST : ENOMEM;
    for (int n = 0; output->temporary && file < 0 && errno == EEXIST && n < TRIES; n++) {
        snprintf(output->temporary, size, "%s.%lld-%d.part", output->path, (long long)getpid(), n);
        pending_add(output->temporary);
        file = open(output->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file < 0) {
            pending_drop();
        }
    }
    if (file < 0) {
        free(output->temporary);
        output->temporary = NULL;
        return NULL;
    }
    return fdopen(file, "wb");
}

FILE *outputs_open(outputs *set, const char *path, char *message, size_t size)
{
    if (set->count == OUTPUTS_MAX) {
        complain(message, size, "output: more than %d files", OUTPUTS_MAX);
        return NULL;
    }
    char *real = resolve(path, message, size);
    if (!real) {
        return NULL;
    }
    if (already_open(set, real)) {
        complain(message, size, "output: two outputs have this name");
        free(real);
        return NULL;
    }
    output_file *output = &set->files[set->count];
    *output = (output_file){ real, NULL, NULL };
    output->file = create_beside(output);
    if (!output->temporary) {
        complain(message, size, "output: %s", strerror(errno));
        free(real);
        return NULL;
    }
    /* From here on outputs_discard knows the file, even if its stream could not be made. */
    set->count++;
    if (!output->file) {
        complain(message, size, "output: %s", strerror(errno));
    }
    return output->file;
}

static bool complete(output_file *output, char *message, size_t size)
{
    FILE *file = output->file;
    output->file = NULL;
    if (!file) {
        return complain(message, size, "output: was not opened");
    }
    bool written = !ferror(file) && fflush(file) == 0;
    /* Some file systems have nothing to sync and say so with EINVAL. */
    written = written && (fsync(fileno(file)) == 0 || errno == EINVAL);
    int reason = errno;
    if (fclose(file) != 0 || !written) {
        return complain(message, size, "write: %s", strerror(written ? errno : reason));
    }
    return true;
}

static bool rename_all(outputs *set, int *failed, char *message, size_t size)
{
    for (int i = 0; i < set->count; i++) {
        if (rename(set->files[i].temporary, set->files[i].path) != 0) {
            complain(message, size, "rename: %s", strerror(errno));
            *failed = i;
            /* All or none: a set of which some files are new and some old would lie. */
            for (int done = 0; done < i; done++) {
                unlink(set->files[done].path);
            }
            return false;
        }
    }
    return true;
}

bool outputs_commit(outputs *set, int *failed, char *message, size_t size)
{
    bool done = true;
    for (int i = 0; done && i < set->count; i++) {
        done = complete(&set->files[i], message, size);
        *failed = i;
    }
    if (done) {
        pending_hold();
        done = rename_all(set, failed, message, size);
        pending_release();
    }
    outputs_discard(set);
    return done;
}

void outputs_discard(outputs *set)
{
    for (int i = 0; i < set->count; i++) {
        output_file *output = &set->files[i];
        if (output->file) {
            fclose(output->file);
        }
        unlink(output->temporary);
        free(output->temporary);
        free(output->path);
    }
    *set = (outputs){ { { NULL, NULL, NULL } }, 0 };
    pending_clear();
}
