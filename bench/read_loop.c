/* The loop that finds the bandwidth of reading, compiled with -O2 in every build: it must wait for memory alone.
 * May know: words of memory.  Must not know: how it is timed.
 * Two streams gave 27 GB/s where one gave 25 and four 26 (Zen 4, 4 KiB pages); wider loads gave no more. */
#include "read_loop.h"

#include "kernels/common.h"

uint64_t read_loop(const uint64_t *from, size_t n)
{
    uint64_t sums[READ_LINE] = { 0 }, sum = 0;
    const size_t part = n / READ_STREAMS;
    for (size_t i = 0; i < part; i += READ_LINE) {
        UNROLL
        for (size_t s = 0; s < READ_STREAMS; s++) {
            UNROLL
            for (size_t w = 0; w < READ_LINE; w++)
                sums[w] += from[s * part + i + w];
        }
    }
    for (size_t w = 0; w < READ_LINE; w++)
        sum += sums[w];
    return sum;
}
