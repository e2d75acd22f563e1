/* Memory through the caller's allocator, or malloc.
 * May know: the public types.  Must not know: what the memory holds. */
#ifndef HEED_ALLOCATE_H
#define HEED_ALLOCATE_H

#include "heed/heed.h"

/* The caller's allocator, or one without functions, which stands for malloc and free. */
heed_allocator heed_allocator_of(const heed_options *options);
void *heed_allocate(const heed_allocator *allocator, size_t size);
void heed_release(const heed_allocator *allocator, void *memory);

#endif
