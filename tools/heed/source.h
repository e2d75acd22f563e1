/* The bytes of an input: a regular file, read piece by piece, or memory.
 * May know: POSIX files.
 * Must not know: what the bytes mean. */
#ifndef HEED_TOOL_SOURCE_H
#define HEED_TOOL_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct source {
    const uint8_t *memory; /* NULL for a file */
    int file;              /* descriptor, -1 for memory */
    int64_t size;
} source;

/* Files other than regular ones (pipes, folders, devices) have no size to check against and are refused. */
bool source_open(source *input, const char *path, char *message, size_t size);
void source_close(source *input);

/* Memory that stays the caller's. */
source source_from_memory(const void *bytes, size_t count);

/* Reads exactly count bytes; a range that is not inside the source is refused. */
bool source_read(const source *input, int64_t offset, void *bytes, int64_t count, char *message, size_t size);

#endif
