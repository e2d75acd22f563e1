/* The table of tensors of a .safetensors file.
 * May know: the format.
 * Must not know: how tensors are read. */
#ifndef HEED_TOOL_SAFETENSORS_HEADER_H
#define HEED_TOOL_SAFETENSORS_HEADER_H

#include "safetensors.h"

/* The limit of the format's reference implementation. */
enum { SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000 };

/* Fills tensors, count and names from the JSON text that follows the eight bytes of length in file->input.  After a
 * failure safetensors_close frees what was made. */
bool safetensors_parse_header(safetensors *file, const uint8_t *text, size_t length, char *message, size_t size);

#endif
