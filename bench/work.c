/* What all pieces of work share: memory, data, copies.
 * May know: shapes, heed's options.  Must not know: how a kind of work is called. */
#include "work.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64, MOST_COPIES = 256 };

static const double MOST_COPIED_BYTES = (double)(1 << 30);

static void *add_block(bench_work *work, size_t size)
{
    void *block = size <= PTRDIFF_MAX - ALIGNMENT && work->num_blocks < WORK_BLOCKS
                      ? aligned_alloc(ALIGNMENT, (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)
                      : NULL;
    if (block)
        work->blocks[work->num_blocks++] = block;
    return block;
}

bench_work *work_new(size_t size, const bench_shape *shape, const work_options *options)
{
    bench_work *work = calloc(1, size);
    if (!work)
        return NULL;
    work->isa = options->isa;
    work->threads = options->threads;
    work->stream = (int)shape->field[SHAPE_STREAM];
    return work;
}

/* Data of an xorshift generator (Marsaglia 2003): the same at every run. */
float *work_floats(bench_work *work, size_t count, float limit)
{
    float *floats = count <= PTRDIFF_MAX / sizeof *floats ? add_block(work, count * sizeof *floats) : NULL;
    uint64_t bits = UINT64_C(88172645463325252);
    for (size_t i = 0; floats && i < count; i++) {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        bits ^= bits << 17;
        floats[i] = ((float)(bits >> 40) * 0x1p-23f - 1.0f) * limit;
    }
    return floats;
}

void *work_bytes(bench_work *work, size_t size)
{
    return add_block(work, size);
}

void work_drop(bench_work *work)
{
    free(work->blocks[--work->num_blocks]);
}

size_t work_copies(const work_options *options, double bytes)
{
    const double most = MOST_COPIED_BYTES / bytes, wanted = 2.0 * (double)options->cache / bytes + 1.0;
    const double copies = wanted < most ? wanted : most;
    return copies < 1.0 ? 1 : copies > MOST_COPIES ? MOST_COPIES : (size_t)copies;
}

heed_options work_heed_options(const work_options *options, int64_t exp)
{
    heed_options o = HEED_OPTIONS_INIT;
    o.isa = options->isa;
    o.num_threads = (int32_t)options->threads;
    o.exp = (heed_exp)exp;
    return o;
}

static bench_work *create(const bench_shape *shape, const work_options *options, heed_error *error)
{
    switch (shape->kind) {
    case SHAPE_ATTENTION: return work_attention(shape, options, error);
    case SHAPE_LINEAR: return work_linear(shape, options, error);
    case SHAPE_LAYER: return work_layer(shape, options, error);
    case SHAPE_SOFTMAX: return work_softmax(shape, options, error);
    default: return work_kernel(shape, options, error);
    }
}

bench_work *work_create(const bench_shape *shape, const work_options *options, heed_error *error)
{
    error->message[0] = 0;
    bench_work *work = create(shape, options, error);
    if (!work && !error->message[0])
        snprintf(error->message, sizeof error->message, "no memory for its tensors");
    return work;
}

void work_destroy(bench_work *work)
{
    if (!work)
        return;
    if (work->release)
        work->release(work);
    for (int i = 0; i < work->num_blocks; i++)
        free(work->blocks[i]);
    free(work);
}
