/* A projection with packed weights.
 * May know: backends as tables.  Must not know: layers, attention. */
#ifndef HEED_LINEAR_H
#define HEED_LINEAR_H

#include "plan.h"

struct heed_linear {
    const heed_backend *backend;
    heed_threads threads;
    heed_allocator allocator;
    int64_t in_features, out_features;
    float *panels; /* [block of in_features][panel][rows of the block][nr], columns beyond out_features are 0 */
    float *bias;   /* out_features rounded up to nr, 0 where there is none */
};

/* Several projections of the same input as one: their output columns side by side.  The parts agree in in_features and have
 * been copied from the caller. */
heed_status heed_linear_create_fused(
    heed_linear **linear, const heed_linear_desc *parts, int count, const heed_options *options, heed_error *error);

#endif
