/* vf_deal_16 and vf_deal_8 of vec.md in C, for vector layers that have no instructions for them.
 * May know: baseline C.  Must not know: vectors. */
#ifndef HEED_KERNELS_DEAL_H
#define HEED_KERNELS_DEAL_H

#include "common.h"

#include <stddef.h>
#include <string.h>

INLINE void vf_deal_16(char *to, const char *from, ptrdiff_t distance)
{
    for (int i = 0; i < 16; i++)
        for (int c = 0; c < 8; c++)
            memcpy(to + 32 * c + 2 * i, from + i * distance + 2 * c, 2);
}
INLINE void vf_deal_8(char *to, const char *from, ptrdiff_t distance)
{
    for (int i = 0; i < 32; i++)
        for (int c = 0; c < 16; c++)
            to[32 * c + i] = from[i * distance + c];
}

#endif
