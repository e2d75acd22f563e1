/* Failing with a message, checked sizes and versioned structs: what every public call needs.
 * May know: the public types.  Must not know: problems, plans, backends. */
#ifndef HEED_ERROR_H
#define HEED_ERROR_H

#include "ieee.h"

#include "heed/heed.h"

/* Writes the message, if wanted, and returns status. */
#if defined(__MINGW32__) /* in ISO C its printf functions are C99's, which it does not say of "printf" */
__attribute__((format(gnu_printf, 3, 4)))
#elif defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
heed_status
heed_fail(heed_error *error, heed_status status, const char *format, ...);

/* Empties the message and returns HEED_OK. */
heed_status heed_succeed(heed_error *error);

/* *product = a * b; 0 if it does not fit (the product is then left alone). */
int heed_multiply(size_t a, size_t b, size_t *product);
/* *sum += rounded-up value; 0 if it does not fit. */
int heed_add(size_t *sum, size_t value);

/* Appends count elements to a map of memory whose parts begin at multiples of HEED_ALIGNMENT: *offset is where, *size grows.  0 if
 * it does not fit. */
int heed_place(size_t *size, size_t *offset, size_t count, size_t element);

/* Copies a versioned struct of the caller, whose first member is its struct_size, over the defaults in to.  name is for the
 * message. */
heed_status heed_copy_struct(void *to, size_t to_size, const void *from, const char *name, heed_error *error);

/* options may be NULL; the result is complete and checked except for what needs a backend. */
heed_status heed_copy_options(heed_options *to, const heed_options *options, heed_error *error);

/* The first address at or above memory that is a multiple of HEED_ALIGNMENT; sizes add HEED_ALIGNMENT - 1 for it. */
enum { HEED_ALIGNMENT = 64 };
void *heed_align(void *memory);
static inline size_t heed_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

#endif
