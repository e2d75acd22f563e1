/* Sizes that cannot overflow, memory by them, and a clock.
 * May know: malloc, POSIX clocks.
 * Must not know: what the memory is for. */
#include "command.h"

#include <stdlib.h>
#include <time.h>

bool checked_multiply(int64_t a, int64_t b, int64_t *product)
{
    if (a < 0 || b < 0 || (b != 0 && a > INT64_MAX / b)) {
        return false;
    }
    *product = a * b;
    return true;
}

bool checked_product(int count, const int64_t *dimensions, int64_t *product)
{
    /* A zero dimension must not hide others whose product overflows: strides are made of them. */
    int64_t all = 1;
    bool empty = false;
    for (int i = 0; i < count; i++) {
        int64_t dimension = dimensions[i];
        empty = empty || dimension == 0;
        if (!checked_multiply(all, dimension == 0 ? 1 : dimension, &all)) {
            return false;
        }
    }
    *product = empty ? 0 : all;
    return true;
}

void *allocate_array(int64_t count, size_t size)
{
    if (count < 0 || size == 0 || (uint64_t)count > (uint64_t)PTRDIFF_MAX / size) {
        return NULL;
    }
    size_t bytes = (size_t)count * size;
    return malloc(bytes ? bytes : 1);
}

double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
