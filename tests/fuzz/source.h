/* The bytes of a fuzzer's input as choices, and how a fuzzer fails.
 * May know: the C library.
 * Must not know: what is fuzzed. */
#ifndef HEED_TESTS_SOURCE_H
#define HEED_TESTS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct source {
    const uint8_t *at, *end;
} source;

/* 0 beyond the end. */
static inline uint8_t next_byte(source *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static inline int64_t next_below(source *s, int64_t count)
{
    return next_byte(s) % count;
}

static inline void require(bool truth)
{
    if (truth)
        return;
    fflush(stdout); /* where failed checks say what they saw */
    abort();
}

#endif
