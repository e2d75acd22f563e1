/* Test support: seeds, random values, guarded memory, comparisons, error metrics, registry and reporting.
 * May know: POSIX, the public header.
 * Must not know: anything under src/, the oracle, what is being tested. */
#ifndef HEED_TESTS_CHECK_H
#define HEED_TESTS_CHECK_H

#include <heed/heed.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CHECK_PRINTF(text, first) __attribute__((__format__(__printf__, text, first)))
#else
#define CHECK_PRINTF(text, first)
#endif

/* ---- Registry and reporting ---- */

typedef struct check_test {
    const char *name;
    void (*run)(void);
} check_test;

/* Runs the tests whose name contains argv[1] (all without it) and prints what ran.  The last line is "N passed, M
 * failed"; returns the exit code, 1 when anything failed or nothing was checked.  A crash is reported like a failure. */
int check_main(int argc, char **argv, const check_test *tests, size_t count);

/* Counts one check; when it failed prints place, message, the current case and the seed.  Returns ok.  Any thread. */
bool check_that(bool ok, const char *file, int line, const char *format, ...) CHECK_PRINTF(4, 5);
#define CHECK(ok, ...) check_that((ok), __FILE__, __LINE__, __VA_ARGS__)

/* Checks that failed so far. */
long check_failures(void);

/* Describes the case at hand for this thread's failures; "" ends it. */
void check_case(const char *format, ...) CHECK_PRINTF(1, 2);

/* A line of information in the report. */
void check_note(const char *format, ...) CHECK_PRINTF(1, 2);

/* Reports a failure and ends the program: the test itself cannot go on. */
void check_fatal(const char *reason);

/* True with HEED_TEST_QUICK=1: tables are thinned for slow emulators. */
bool check_quick(void);

/* True in builds with AddressSanitizer or ThreadSanitizer, whose own memory hides what the process uses. */
bool check_sanitized(void);

/* In quick mode true for every step-th index, else always true. */
bool check_keep(size_t index, size_t step);

/* ---- Backends ---- */

enum { CHECK_MAX_BACKENDS = 4 };

/* The usable backends, the scalar one first; returns how many. */
size_t check_backends(heed_isa list[CHECK_MAX_BACKENDS]);

/* Options for one backend. */
heed_options check_options(heed_isa isa, heed_exp exp, int32_t num_threads);

/* ---- Random values ---- */

typedef struct check_rng {
    uint64_t state[4];
} check_rng;

typedef enum check_values {
    CHECK_NORMAL,   /* standard normal */
    CHECK_LARGE,    /* normal times 50: scores of a few 1e4 at head_dim 64 */
    CHECK_HEAVY,    /* Cauchy, cut at 1e4 */
    CHECK_ONE_HOT,  /* one 8 per row, else 0 */
    CHECK_CONSTANT, /* one normal value per row */
    CHECK_DENORMAL, /* subnormal numbers of both signs */
    CHECK_VALUES_COUNT
} check_values;

const char *check_values_name(check_values kind);

/* HEED_TEST_SEED, or 1. */
uint64_t check_seed(void);

/* A generator that depends on HEED_TEST_SEED and the name alone. */
check_rng check_rng_named(const char *name);
uint64_t check_next(check_rng *rng);
int64_t check_between(check_rng *rng, int64_t low, int64_t high); /* both included */
double check_uniform(check_rng *rng);                             /* (0, 1] */
float check_normal(check_rng *rng);
void check_fill(check_rng *rng, float *values, size_t rows, size_t width, check_values kind);

/* ---- Memory ----
 * Every block has an inaccessible page on both sides.  It ends exactly at the one behind, or starts exactly at the one
 * before; what is left of its own pages holds a canary that check_free_all verifies.  One thread at a time. */

typedef enum check_side { CHECK_GUARD_BEHIND, CHECK_GUARD_BEFORE } check_side;

void *check_alloc(size_t bytes, check_side side);                             /* filled with bytes 0xff: NaN */
const void *check_copy(const void *values, size_t bytes, check_side side);    /* read-only */
float *check_input(const float *values, size_t count, check_side side);       /* a read-only copy */
const int32_t *check_lengths(const int32_t *values, size_t count);            /* the same; NULL stays NULL */
float *check_output(size_t count, check_side side);                           /* filled with a NaN of its own */
void check_free_all(void);                                                    /* verifies and frees all of the above */
void check_take(float *output, float *packed, size_t count);                  /* moves out, leaving the fill behind */
bool check_untouched(const float *output, size_t count, const char *what);    /* still all fill */
bool check_untouched_bytes(const void *data, size_t bytes, const char *what); /* still all 0xff */
void *check_malloc(size_t bytes);                                             /* malloc that ends the test on failure */
float *check_floats(size_t count);                                            /* the same for floats, zeroed */

/* ---- Comparison ---- */

uint32_t check_bits(float value);
float check_float(uint32_t bits);

/* What bits mean in an IEEE-754 format of so many bits of exponent and fraction, at most 8 and 23: binary16 is 5, 10, bfloat16
 * 8, 7.  A definition by powers of two, without conversions. */
double check_narrow(uint32_t bits, int exponent_bits, int fraction_bits);

/* Same bits, where any NaN equals any NaN and -0 equals +0.  Reports the first difference. */
bool check_same(const float *got, const float *want, size_t count, const char *what);
bool check_equal_bits(float got, float want);

typedef struct check_error {
    double max_abs;      /* max |got - want| */
    double relative;     /* max_abs / max |want|; 0 when both are 0 */
    double ulp;          /* max |got - want| in units of the last place of (float)want */
    double square;       /* sum of squares of got - want, for root mean squares */
    size_t count, worst; /* values compared, index of max_abs */
    bool mismatch;       /* a NaN or an infinity on one side only */
} check_error;

check_error check_errors(const float *got, const double *want, size_t count);
double check_ulp(double got, double want);

/* max_abs <= bound and no mismatch; reports the worst place. */
bool check_close(const float *got, const double *want, size_t count, double bound, const char *what);

#endif /* HEED_TESTS_CHECK_H */
