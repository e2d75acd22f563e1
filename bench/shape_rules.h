/* What a line of shapes.txt may say: fields with their limits, kinds with their fields.
 * May know: shapes.  Must not know: the syntax of the file. */
#ifndef HEED_BENCH_SHAPE_RULES_H
#define HEED_BENCH_SHAPE_RULES_H

#include "shape.h"

#include <stddef.h>

typedef struct field_rule {
    const char *name;
    int64_t least, most;
    const char *const *words; /* NULL, or names for the values from 0 on, ending with NULL: then no numbers */
} field_rule;

extern const field_rule shape_field_rules[SHAPE_FIELDS];

/* The field or kind of a name of that length; -1 if there is none. */
int shape_find_field(const char *name, size_t length);
int shape_find_kind(const char *name, size_t length);

/* 1 if a shape of this kind has the field. */
int shape_has_field(shape_kind kind, shape_field field);

/* Fills in what depends on other fields and what has a default.  Returns the field that is missing or wrong with the
 * reason in *reason, or -1. */
int shape_complete(bench_shape *shape, const char **reason);

#endif
