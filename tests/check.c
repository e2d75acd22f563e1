/* Test support: registry, reporting, random values, guarded memory, comparisons (see check.h).
 * May know: POSIX, the public header.
 * Must not know: anything under src/, the oracle, what is being tested. */
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CHECK_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CHECK_SANITIZED 1
#endif

enum { CASE_LENGTH = 512, MAX_PRINTED = 20 };

static atomic_long passed, failed;
static uint64_t seed = 1;
static const char *current_test = "start";
static _Thread_local char case_text[CASE_LENGTH];

/* ---- Registry and reporting ---- */

#if !defined(CHECK_SANITIZED)
/* The sanitizers print better reports of their own. */
static void report_crash(int number)
{
    char text[CASE_LENGTH + 256];
    int length = snprintf(text, sizeof text, "FAIL %s: signal %d [%s] seed %llu\n%ld passed, %ld failed\n",
        current_test, number, case_text, (unsigned long long)seed, atomic_load(&passed), atomic_load(&failed) + 1);
    ssize_t written = length > 0 ? write(STDOUT_FILENO, text, (size_t)length) : 0;
    _exit(written > 0 ? 1 : 2);
}
#endif

static void start(const char *program)
{
    const char *text = getenv("HEED_TEST_SEED");
    if (text && *text)
        seed = strtoull(text, NULL, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
#if !defined(CHECK_SANITIZED)
    static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], report_crash);
#endif
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    const char *slash = strrchr(program, '/');
    printf("%s: seed %llu, %s tables, backends", slash ? slash + 1 : program, (unsigned long long)seed,
        check_quick() ? "THINNED (HEED_TEST_QUICK)" : "full");
    for (size_t i = 0; i < count; i++)
        printf(" %s", heed_isa_name(list[i]));
    printf("\n");
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int check_main(int argc, char **argv, const check_test *tests, size_t count)
{
    start(argc > 0 ? argv[0] : "test");
    for (size_t i = 0; i < count; i++) {
        if (argc > 1 && !strstr(tests[i].name, argv[1]))
            continue;
        long passed_before = atomic_load(&passed), failed_before = atomic_load(&failed);
        double begin = seconds();
        current_test = tests[i].name;
        printf("  %s\n", current_test);
        tests[i].run();
        check_case("%s", "");
        check_free_all();
        long bad = atomic_load(&failed) - failed_before, good = atomic_load(&passed) - passed_before;
        check_that(good + bad > 1, __FILE__, __LINE__, "the test checked nothing");
        printf("  %-40s %8ld checks %8.2f s  %s\n", current_test, good + bad, seconds() - begin, bad ? "FAILED" : "ok");
    }
    long good = atomic_load(&passed), bad = atomic_load(&failed);
    printf("%ld passed, %ld failed\n", good, bad);
    return bad || !good;
}

bool check_that(bool ok, const char *file, int line, const char *format, ...)
{
    if (ok) {
        atomic_fetch_add(&passed, 1);
        return true;
    }
    if (atomic_fetch_add(&failed, 1) >= MAX_PRINTED)
        return false;
    char text[CASE_LENGTH];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    const char *slash = strrchr(file, '/');
    printf("FAIL %s: %s:%d: %s [%s] seed %llu\n", current_test, slash ? slash + 1 : file, line, text, case_text,
        (unsigned long long)seed);
    return false;
}

long check_failures(void)
{
    return atomic_load(&failed);
}

void check_case(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(case_text, sizeof case_text, format, list);
    va_end(list);
}

void check_note(const char *format, ...)
{
    char text[CASE_LENGTH];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    printf("    %s\n", text);
}

bool check_quick(void)
{
    const char *text = getenv("HEED_TEST_QUICK");
    return text && strcmp(text, "") != 0 && strcmp(text, "0") != 0;
}

bool check_sanitized(void)
{
#if defined(CHECK_SANITIZED)
    return true;
#else
    return false;
#endif
}

bool check_keep(size_t index, size_t step)
{
    return !check_quick() || index % step == 0;
}

void check_fatal(const char *reason)
{
    check_that(false, __FILE__, __LINE__, "the test cannot go on: %s", reason);
    printf("%ld passed, %ld failed\n", atomic_load(&passed), atomic_load(&failed));
    exit(1);
}

uint64_t check_seed(void)
{
    return seed;
}

/* ---- Backends ---- */

size_t check_backends(heed_isa list[CHECK_MAX_BACKENDS])
{
    static const heed_isa all[CHECK_MAX_BACKENDS] = { HEED_ISA_SCALAR, HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_NEON };
    size_t count = 0;
    for (size_t i = 0; i < CHECK_MAX_BACKENDS; i++)
        if (heed_isa_usable(all[i]))
            list[count++] = all[i];
    return count;
}

heed_options check_options(heed_isa isa, heed_exp exp, int32_t num_threads)
{
    heed_options options = HEED_OPTIONS_INIT;
    options.isa = isa;
    options.exp = exp;
    options.num_threads = num_threads;
    return options;
}

/* ---- Comparison ---- */

uint32_t check_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

float check_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

bool check_equal_bits(float got, float want)
{
    return check_bits(got) == check_bits(want) || (isnan(got) && isnan(want)) || (got == 0.0f && want == 0.0f);
}

bool check_same(const float *got, const float *want, size_t count, const char *what)
{
    size_t i = 0;
    while (i < count && check_equal_bits(got[i], want[i]))
        i++;
    float g = i < count ? got[i] : 0.0f, w = i < count ? want[i] : 0.0f;
    return CHECK(i == count, "%s: bits differ first at %zu of %zu: got %08x (%.9g), want %08x (%.9g)", what, i, count,
        (unsigned)check_bits(g), (double)g, (unsigned)check_bits(w), (double)w);
}

double check_ulp(double got, double want)
{
    if (got == want || (isnan(got) && isnan(want)))
        return 0.0;
    if (!isfinite(got) || !isfinite(want))
        return INFINITY;
    int exponent = -149;
    if (want != 0.0)
        frexp(want, &exponent); /* want in [2^(e-1), 2^e): its last place in binary32 is 2^(e-24), at least 2^-149 */
    return fabs(got - want) / ldexp(1.0, exponent - 24 < -149 ? -149 : exponent - 24);
}

check_error check_errors(const float *got, const double *want, size_t count)
{
    check_error e = { .count = count };
    double largest = 0.0;
    for (size_t i = 0; i < count; i++) {
        double g = (double)got[i], w = want[i];
        if (!isfinite(g) || !isfinite(w)) {
            bool same = (isnan(g) && isnan(w)) || g == w;
            if (!same && !e.mismatch)
                e.worst = i;
            e.mismatch = e.mismatch || !same;
            continue;
        }
        double error = fabs(g - w);
        largest = fmax(largest, fabs(w));
        e.square += error * error;
        e.ulp = fmax(e.ulp, check_ulp(g, w));
        if (error > e.max_abs && !e.mismatch)
            e.worst = i;
        e.max_abs = fmax(e.max_abs, error);
    }
    if (e.max_abs > 0.0)
        e.relative = largest > 0.0 ? e.max_abs / largest : INFINITY;
    return e;
}

bool check_close(const float *got, const double *want, size_t count, double bound, const char *what)
{
    check_error e = check_errors(got, want, count);
    size_t at = count ? e.worst : 0;
    double g = count ? (double)got[at] : 0.0, w = count ? want[at] : 0.0;
    return CHECK(!e.mismatch && e.max_abs <= bound,
        "%s: worst at %zu of %zu: got %.9g, want %.9g, error %.3g, bound %.3g", what, at, count, g, w, fabs(g - w),
        bound);
}
