/* What the tests of the kernel tables share (see kernels.h).
 * May know: src/backend.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

#include <stdlib.h>
#include <string.h>

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

/* ---- Storage types ---- */

const char *kernels_type_name(heed_type type)
{
    static const char *const names[] = { "f32", "f16", "bf16", "i8" };
    return names[type];
}

static void set_pattern(kernel_stored *s, size_t index, uint32_t pattern)
{
    const uint16_t half = (uint16_t)pattern;
    const uint8_t byte = (uint8_t)pattern;
    unsigned char *to = s->bytes + index * s->size;
    switch (s->type) {
    case HEED_TYPE_F16:
        memcpy(to, &half, sizeof half);
        s->values[index] = (float)check_narrow(pattern, 5, 10);
        break;
    case HEED_TYPE_BF16:
        memcpy(to, &half, sizeof half);
        s->values[index] = (float)check_narrow(pattern, 8, 7);
        break;
    case HEED_TYPE_I8:
        memcpy(to, &byte, sizeof byte);
        s->values[index] = (float)pattern - (pattern > 127 ? 256.0f : 0.0f);
        break;
    default:
        memcpy(to, &pattern, sizeof pattern);
        s->values[index] = check_float(pattern);
        break;
    }
}

/* Sign and fraction of any bits; the exponent within four powers of two around 1, or in one of 16 elements 0. */
static uint32_t any_pattern(heed_type type, uint64_t bits)
{
    const uint32_t above = bits >> 60 ? (uint32_t)(bits >> 56) % 4 : 0;
    const int subnormal = bits >> 60 == 0;
    switch (type) {
    case HEED_TYPE_F16: return ((uint32_t)bits & 0x83ffu) | (subnormal ? 0 : 13 + above) << 10;
    case HEED_TYPE_BF16: return ((uint32_t)bits & 0x807fu) | (subnormal ? 0 : 125 + above) << 7;
    case HEED_TYPE_I8: return (uint32_t)bits & 0xffu;
    default: return ((uint32_t)bits & 0x807fffffu) | (subnormal ? 0 : 125 + above) << 23;
    }
}

kernel_stored kernels_stored(check_rng *rng, heed_type type, size_t count)
{
    const size_t size = type == HEED_TYPE_F32 ? 4 : type == HEED_TYPE_I8 ? 1 : 2;
    kernel_stored s = { type, size, check_malloc(count * size), check_floats(count) };
    for (size_t i = 0; i < count; i++)
        set_pattern(&s, i, any_pattern(type, check_next(rng)));
    return s;
}

void kernels_stored_set(kernel_stored *s, size_t index, size_t which)
{
    static const uint32_t patterns[4][4] = { { 0x7fc00000u, 0x7f800000u, 0xff800000u, 0x7f7fffffu },
        { 0x7e00u, 0x7c00u, 0xfc00u, 0x7bffu }, { 0x7fc0u, 0x7f80u, 0xff80u, 0x7f7fu }, { 127, 127, 127, 127 } };
    set_pattern(s, index, patterns[s->type][which]);
}

const void *kernels_stored_input(const kernel_stored *s, size_t first, size_t count)
{
    return check_copy(s->bytes + first * s->size, count * s->size, CHECK_GUARD_BEHIND);
}

void kernels_stored_free(kernel_stored *s)
{
    free(s->bytes);
    free(s->values);
}
