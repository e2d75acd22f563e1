/* Memory through the caller's allocator, or malloc.
 * May know: the C library, Linux's huge pages.  Must not know: what the memory holds. */
#define _DEFAULT_SOURCE /* madvise */
#include "allocate.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

heed_allocator heed_allocator_of(const heed_options *options)
{
    static const heed_allocator none = { NULL, NULL, NULL };
    return options->allocator ? *options->allocator : none;
}

/* One row by packed weights reads them from end to end, and waits for a new address translation every 4 KiB: with pages of 2 MiB it takes
 * 0.70 to 0.86 of the time (docs/design.md).  What is less than two of them may hold none.  Advice alone: where it is refused, nothing
 * changes but the speed. */
static void advise_huge_pages(void *memory, size_t size)
{
#if defined(MADV_HUGEPAGE)
    enum { HUGE_PAGE = 2 << 20 };
    const size_t head = (HUGE_PAGE - (uintptr_t)memory % HUGE_PAGE) % HUGE_PAGE;
    const int before = errno;
    if (memory && size >= 2 * (size_t)HUGE_PAGE)
        (void)madvise((char *)memory + head, (size - head) / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
    errno = before;
#else
    (void)memory;
    (void)size;
#endif
}

void *heed_allocate(const heed_allocator *allocator, size_t size)
{
    if (allocator->allocate)
        return allocator->allocate(allocator->context, size);
    void *memory = malloc(size);
    advise_huge_pages(memory, size);
    return memory;
}

void heed_release(const heed_allocator *allocator, void *memory)
{
    if (!memory)
        return;
    if (allocator->release)
        allocator->release(allocator->context, memory);
    else
        free(memory);
}
