/* heed's table for a case that carries a heed_rope_desc.
 * May know: the public header, reference_file.h.
 * Must not know: anything under src/. */
#ifndef HEED_REFERENCE_ROPE_H
#define HEED_REFERENCE_ROPE_H

#include "reference_file.h"

/* Rows for positions first .. first + positions of the case; reports a failure of heed_rope_table. */
void reference_rope_table(const reference_case *c, int64_t positions, float *cosines, float *sines);

#endif /* HEED_REFERENCE_ROPE_H */
