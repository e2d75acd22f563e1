/* Numbers as files store them, and their conversion to binary32 and binary64.
 * May know: the IEEE-754 formats and bfloat16, little and big endian.
 * Must not know: files, shapes. */
#ifndef HEED_TOOL_ELEMENT_H
#define HEED_TOOL_ELEMENT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum element_type { ELEMENT_F16, ELEMENT_BF16, ELEMENT_F32, ELEMENT_F64, ELEMENT_U8 } element_type;

/* Bytes of one element. */
int64_t element_size(element_type type);

/* Exact; a NaN stays a NaN of the same sign. */
float float_from_f16(uint16_t bits);
float float_from_bf16(uint16_t bits);

/* Converts count elements.  binary64 is rounded to nearest even; a finite value that rounds to infinity is not
 * converted: returns its index, else -1. */
int64_t elements_to_f32(element_type type, bool big_endian, const uint8_t *bytes, int64_t count, float *values);

/* The same to binary64, which holds every value of every type. */
void elements_to_f64(element_type type, bool big_endian, const uint8_t *bytes, int64_t count, double *values);

#endif
