/* A piece of work made ready: tensors filled, plans made, one call left to be timed.
 * May know: shapes, heed.  Must not know: how it is measured and reported. */
#ifndef HEED_BENCH_WORK_H
#define HEED_BENCH_WORK_H

#include "shape.h"

#include "heed/heed.h"

#include <stddef.h>

enum { WORK_BLOCKS = 16 };

typedef struct bench_work bench_work;

struct bench_work {
    /* One call. */
    heed_status (*run)(bench_work *work, heed_error *error);
    /* Releases what is not in blocks; NULL: nothing. */
    void (*release)(bench_work *work);
    /* So many bytes of what is streamed, farthest from its next use; NULL if there are not that many, or as a pointer: never. */
    const void *(*streamed)(bench_work *work, size_t bytes);

    heed_isa isa;
    int threads;
    double flops;     /* of a call, two each multiply-add, the visible half under causal; 0: not counted */
    double bytes;     /* that a call cannot do without: each input read once, each output written once */
    double elements;  /* exps of a call, where that is the measure of the work; 0: it is not */
    size_t workspace; /* bytes heed asked for */
    int stream;       /* the bytes come from memory at every call */

    void *blocks[WORK_BLOCKS];
    int num_blocks;
};

/* The choices that are not part of a shape. */
typedef struct work_options {
    heed_isa isa; /* usable on this CPU */
    int threads;
    size_t cache; /* bytes; what must not stay in a cache is made twice as large */
} work_options;

/* Returns NULL with the reason in error->message. */
bench_work *work_create(const bench_shape *shape, const work_options *options, heed_error *error);
void work_destroy(bench_work *work);

/* ---- For the files that make work ---- */

/* size bytes of zeros that begin with a bench_work; NULL without memory. */
bench_work *work_new(size_t size, const bench_shape *shape, const work_options *options);

/* count floats in [-limit, limit], at 64 bytes, released with the work; NULL without memory. */
float *work_floats(bench_work *work, size_t count, float limit);

/* size bytes of any content at 64 bytes, released with the work, or before it by work_drop; NULL without memory. */
void *work_bytes(bench_work *work, size_t size);

/* Releases the block that was made last. */
void work_drop(bench_work *work);

/* How many copies of that many bytes, used in turn, never find themselves in a cache. */
size_t work_copies(const work_options *options, double bytes);

heed_options work_heed_options(const work_options *options, int64_t exp);

/* By kind; like work_create, but the message is empty where memory is what is missing. */
bench_work *work_attention(const bench_shape *shape, const work_options *options, heed_error *error);
bench_work *work_linear(const bench_shape *shape, const work_options *options, heed_error *error);
bench_work *work_layer(const bench_shape *shape, const work_options *options, heed_error *error);
bench_work *work_softmax(const bench_shape *shape, const work_options *options, heed_error *error);
bench_work *work_kernel(const bench_shape *shape, const work_options *options, heed_error *error);

#endif
