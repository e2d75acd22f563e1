/* Failing with a message, checked sizes and versioned structs.
 * May know: the public types and the C library.  Must not know: problems, plans, backends. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

heed_status heed_fail(heed_error *error, heed_status status, const char *format, ...)
{
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        (void)vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
    }
    return status;
}

heed_status heed_succeed(heed_error *error)
{
    if (error)
        error->message[0] = '\0';
    return HEED_OK;
}

int heed_multiply(size_t a, size_t b, size_t *product)
{
    if (b != 0 && a > SIZE_MAX / b)
        return 0;
    *product = a * b;
    return 1;
}

int heed_add(size_t *sum, size_t value)
{
    if (value > SIZE_MAX - *sum)
        return 0;
    *sum += value;
    return 1;
}

int heed_place(size_t *size, size_t *offset, size_t count, size_t element)
{
    size_t bytes;
    *offset = *size;
    return heed_multiply(count, element, &bytes) && bytes <= SIZE_MAX - HEED_ALIGNMENT &&
           heed_add(size, heed_round_up(bytes, HEED_ALIGNMENT));
}

heed_status heed_copy_struct(void *to, size_t to_size, const void *from, const char *name, heed_error *error)
{
    size_t size;
    memcpy(&size, from, sizeof size);
    if (size < sizeof size || size > to_size)
        return heed_fail(error, HEED_ERROR_INVALID,
            "%s.struct_size is %zu, this library knows up to %zu: start from the INIT macro", name, size, to_size);
    memcpy(to, from, size);
    return HEED_OK;
}

heed_status heed_copy_options(heed_options *to, const heed_options *options, heed_error *error)
{
    static const heed_options defaults = HEED_OPTIONS_INIT;
    *to = defaults;
    if (!options)
        return HEED_OK;
    const heed_status status = heed_copy_struct(to, sizeof *to, options, "options", error);
    if (status != HEED_OK)
        return status;
    if (to->num_threads < 0)
        return heed_fail(
            error, HEED_ERROR_INVALID, "options.num_threads is %d, must be at least 0", (int)to->num_threads);
    if (to->executor && (to->executor->num_threads < 1 || !to->executor->parallel_for))
        return heed_fail(
            error, HEED_ERROR_INVALID, "options.executor: needs num_threads of at least 1 and parallel_for");
    if (to->allocator && (!to->allocator->allocate || !to->allocator->release))
        return heed_fail(error, HEED_ERROR_INVALID, "options.allocator: needs both allocate and release");
    return HEED_OK;
}

void *heed_align(void *memory)
{
    const uintptr_t address = (uintptr_t)memory;
    return (char *)memory + (HEED_ALIGNMENT - address % HEED_ALIGNMENT) % HEED_ALIGNMENT;
}
