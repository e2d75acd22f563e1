/* A problem of masked.h run from a cache of store.h: queries and output of any type, queries packed or padded.
 * May know: masked.h, store.h, check.h.
 * Must not know: anything under src/, what is expected. */
#ifndef HEED_TESTS_CACHED_H
#define HEED_TESTS_CACHED_H

#include "../masks/masked.h"
#include "store.h"

typedef struct cached_run {
    heed_type type_q, type_out;
    bool tokens_first; /* [seq][head][dim] of queries and output where the cache leaves the choice */
    bool varlen;       /* queries packed without padding where the layout allows it */
    bool in_place;     /* out is q where types and sizes allow it */
} cached_run;

/* Queries or output in memory. */
typedef struct cached_rows {
    heed_strides strides;
    int64_t dim;
    heed_type type;
    size_t count; /* elements */
    void *data;
} cached_rows;

/* A run about to begin; whoever likes changes its words first.  Memory comes from check_alloc. */
typedef struct cached {
    const masked *problem;
    heed_attention shape;
    heed_tensors tensors;
    cached_rows q, out;
    int32_t *offsets; /* with varlen: [batch + 1] rows */
    size_t count_lse;
} cached;

cached cached_place(const masked *m, const store *s, const cached_run *run);

/* On a serial executor that claims that many threads, in a workspace of the size asked for. */
heed_status cached_attend(const cached *c, heed_isa isa, int32_t threads, heed_error *error);

/* Packed and widened; gaps are checked. */
masked_result cached_take(const cached *c);

/* Nothing has been written. */
void cached_untouched(const cached *c);

#endif
