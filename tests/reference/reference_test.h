/* What the tests against cases.bin share: running every case on every backend, inputs, outputs, comparison.
 * May know: the public header, check.h, reference_file.h.
 * Must not know: anything under src/, what a kind of case means. */
#ifndef HEED_REFERENCE_TEST_H
#define HEED_REFERENCE_TEST_H

#include "check.h"
#include "reference_file.h"

/* u = 2^-24, the rounding of f32, which every bound is a multiple of. */
static const double unit = 0x1p-24;

extern reference_file reference;

typedef void reference_visit(const reference_case *c, const heed_options *options);

/* Calls visit for every case of this kind, on every backend with every exp it has. */
void each_run(const char *kind, reference_visit *visit);

/* Calls visit once for every case of this kind. */
void each_case(const char *kind, void (*visit)(const reference_case *c));

/* Guarded copies of a case's tensors; NULL where it has none of that name. */
const float *input_or_null(const reference_case *c, const char *name);
const uint8_t *input_bytes(const reference_case *c, const char *name);
const int32_t *input_lengths(const reference_case *c, const char *name);

/* The same; a missing tensor ends the test. */
const float *input(const reference_case *c, const char *name);

/* Memory for an output that the case has, else NULL. */
float *output(const reference_case *c, const char *name);

/* got against the case's tensor, if there is a got; the part of the bound that its worst error takes. */
double compare(const reference_case *c, const char *name, const float *got, double bound);

double largest(const float *values, size_t count);

/* The tests of the other files. */
void test_oracle(void);
void test_attention(void);
void test_layer(void);
void test_rope_table(void);
void test_rope_apply(void);
void test_rope_attention(void);

#endif /* HEED_REFERENCE_TEST_H */
