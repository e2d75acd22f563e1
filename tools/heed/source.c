/* The bytes of an input: a regular file, read piece by piece, or memory.
 * May know: POSIX files.
 * Must not know: what the bytes mean. */
#include "source.h"

#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool source_open(source *input, const char *path, char *message, size_t size)
{
    *input = (source){ NULL, -1, 0 };
    /* O_NONBLOCK: opening a pipe nobody writes to must fail below, not wait here. */
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return complain(message, size, "open: %s", strerror(errno));
    }
    struct stat status;
    if (fstat(file, &status) != 0) {
        complain(message, size, "open: %s", strerror(errno));
    } else if (!S_ISREG(status.st_mode)) {
        complain(message, size, "open: not a regular file");
    } else {
        *input = (source){ NULL, file, (int64_t)status.st_size };
        return true;
    }
    close(file);
    return false;
}

void source_close(source *input)
{
    if (input->file >= 0) {
        close(input->file);
    }
    *input = (source){ NULL, -1, 0 };
}

source source_from_memory(const void *bytes, size_t count)
{
    return (source){ bytes, -1, (int64_t)count };
}

bool source_read(const source *input, int64_t offset, void *bytes, int64_t count, char *message, size_t size)
{
    if (offset < 0 || count < 0 || offset > input->size || count > input->size - offset) {
        return complain(message, size, "file: truncated: %lld bytes wanted at byte %lld, it has %lld", (long long)count,
            (long long)offset, (long long)input->size);
    }
    if (count == 0) {
        return true;
    }
    if (input->file < 0) {
        memcpy(bytes, input->memory + offset, (size_t)count);
        return true;
    }
    uint8_t *to = bytes;
    while (count > 0) {
        ssize_t got = pread(input->file, to, (size_t)count, (off_t)offset);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got <= 0) {
            return complain(message, size, "read: %s", got < 0 ? strerror(errno) : "the file shrank while being read");
        }
        to += got;
        offset += got;
        count -= got;
    }
    return true;
}
