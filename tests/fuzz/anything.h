/* Calls of operations with arguments of any value: a status with its message, and no access to what is not the call's.
 * May know: the public header, source.h.
 * Must not know: anything under src/. */
#ifndef HEED_TESTS_ANYTHING_H
#define HEED_TESTS_ANYTHING_H

#include "source.h"

void linear_of_anything(source *s);
void softmax_of_anything(source *s);
void merge_of_anything(source *s);
void rope_of_anything(source *s);
void layer_of_anything(source *s);

#endif
