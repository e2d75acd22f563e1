/* What the tests of the kernel tables share (see kernels.h).
 * May know: src/backend.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

kernel_tables kernels_usable(void)
{
    kernel_tables tables = { { NULL } };
    size_t count = 1;
    for (size_t i = 0; heed_backends[i]; i++)
        if (heed_backend_usable(heed_backends[i], heed_cpu()))
            tables.list[heed_backends[i]->isa == HEED_ISA_SCALAR ? 0 : count++] = heed_backends[i];
    return tables;
}

int kernels_have_sleef(void)
{
    return heed_backend_sleef_usable(kernels_usable().list[0], heed_cpu());
}

size_t kernels_up(size_t n, size_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

float *kernels_random(check_rng *rng, size_t count)
{
    float *x = check_floats(count);
    check_fill(rng, x, 1, count, CHECK_NORMAL);
    return x;
}
