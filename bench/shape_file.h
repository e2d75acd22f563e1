/* The reader of shapes.txt.
 * May know: shapes and the syntax of the file.  Must not know: how shapes are measured. */
#ifndef HEED_BENCH_SHAPE_FILE_H
#define HEED_BENCH_SHAPE_FILE_H

#include "shape.h"

#include <stddef.h>

typedef struct shape_list {
    bench_shape *shapes;
    size_t count;
} shape_list;

enum { SHAPE_MESSAGE_SIZE = 256 };

/* Both return 1, or 0 with one line "NAME:LINE: FIELD: reason" in message; list is then empty.  name is only for
 * messages. */
int shape_list_parse(shape_list *list, const char *name, const char *text, size_t size, char *message);
int shape_list_read(shape_list *list, const char *path, char *message);
void shape_list_free(shape_list *list);

#endif
