/* What the bytes of an input say of an attention problem: its options and contents; and its result against the oracle.
 * May know: masked.h, source.h.
 * Must not know: where keys and values are kept, anything under src/. */
#ifndef HEED_TESTS_PROBLEM_H
#define HEED_TESTS_PROBLEM_H

#include "../masks/masked.h"
#include "source.h"

/* What is in a problem beside plain numbers. */
typedef struct contents {
    bool wild;     /* a number so large that f64 is no measure */
    bool infinite; /* NaN or an infinity in a value */
} contents;

/* A value of one of three kinds: f32 and f64 see it alike, wild, not finite. */
float next_value(source *s, unsigned kind);

/* Random numbers whose seed is a byte. */
check_rng next_rng(source *s);

/* HEED_CAUSAL_*, window, softcap, masks, lengths and the like for a problem of given sizes. */
void next_options(source *s, check_rng *rng, masked *m);

/* The rest of the bytes: values at places of the tensors. */
contents next_contents(source *s, masked *m);

/* Aborts where a result that the oracle can judge is not within its bounds; score_error as in mask_oracle.h. */
void require_oracle(const masked *m, const masked_result *got, contents in, double score_error);

#endif
