/* The loop that finds the bandwidth of reading.
 * May know: words of memory.  Must not know: how it is timed. */
#ifndef HEED_BENCH_READ_LOOP_H
#define HEED_BENCH_READ_LOOP_H

#include <stddef.h>
#include <stdint.h>

/* Words are read in whole cache lines, from so many places side by side. */
enum { READ_STREAMS = 2, READ_LINE = 8 };

/* The sum of n words, n a multiple of READ_STREAMS * READ_LINE. */
uint64_t read_loop(const uint64_t *from, size_t n);

#endif
