/* Runs a case on every backend with several thread counts and compares all of it bit for bit, and with f64.
 * May know: verify.h, command.h for memory.
 * Must not know: files, how results are printed. */
#include "command.h"
#include "verify.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_COUNTS = 2, MANY_THREADS = 3 };

verify_backends verify_backends_find(heed_isa only)
{
    static const heed_isa all[VERIFY_BACKENDS] = { HEED_ISA_SCALAR, HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_NEON };
    verify_backends found = { .count = 0 };
    for (int i = 0; i < VERIFY_BACKENDS; i++)
        if (heed_isa_usable(all[i]) && (only == HEED_ISA_AUTO || only == all[i]))
            found.list[found.count++] = all[i];
    return found;
}

/* Without OpenMP the many threads are this executor: one thread, but all tasks cut and ordered differently. */
static void backwards(void *context, int64_t count, void (*task)(void *argument, int64_t index), void *argument)
{
    (void)context;
    for (int64_t i = count - 1; i >= 0; i--)
        task(argument, i);
}

/* Every NaN is the same, and so is every zero: the rest of the bits is under contract. */
static uint32_t canonical(float value)
{
    uint32_t bits;
    if (value != value)
        return 0x7FC00000;
    memcpy(&bits, &value, sizeof bits);
    return bits == 0x80000000 ? 0 : bits;
}

static uint64_t fingerprint(const float *values, int64_t count)
{
    uint64_t hash = verify_hash_start;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = canonical(values[i]);
        const unsigned char bytes[4] = { (unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
            (unsigned char)(bits >> 24) };
        hash = verify_hash(hash, bytes, sizeof bytes);
    }
    return hash;
}

/* Notes the first difference; later ones of the same case add nothing. */
static void note_difference(const verify_case *item, const float *first, const float *values, int64_t count,
    const char *backend, int threads, verify_result *result)
{
    verify_part parts[VERIFY_PARTS];
    int64_t at = 0;
    while (at < count && canonical(first[at]) == canonical(values[at]))
        at++;
    if (at == count || !result->same)
        return;
    result->same = false;
    int part = 0;
    int64_t index = at;
    for (verify_parts(item, parts); index >= parts[part].count; part++)
        index -= parts[part].count;
    complain(result->detail, sizeof result->detail,
        "%s with %d threads: %s[%" PRId64 "] is %.9g (%08" PRIx32 "), the first run had %.9g (%08" PRIx32 ")", backend,
        threads, parts[part].name, index, (double)values[at], canonical(values[at]), (double)first[at],
        canonical(first[at]));
}

/* Distance in units in the last place of want as a binary32 number.  Only for normal numbers: what the library rounds
 * to 0 below them (the built-in exp does) would count as millions of subnormal units. */
static double ulps(double got, double want)
{
    int exponent;
    if (fabs(want) < (double)FLT_MIN)
        return 0.0;
    frexp(want, &exponent);
    return ldexp(fabs(got - want), 24 - exponent);
}

static bool matches_odd(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want;
}

/* One output against its reference.  Returns the place where one is NaN or infinite and the other is not, or where the
 * error is farthest beyond its bound; -1 if there is none. */
static int64_t measure(const float *got, const double *want, const double *bounds, int64_t count, verify_result *result)
{
    double most_error = 0.0, most_value = 0.0, most_ulps = 0.0, most_beyond = 0.0;
    int64_t worst = -1;
    for (int64_t i = 0; i < count; i++) {
        double value = (double)got[i];
        if (!isfinite(want[i]) || !isfinite(value)) {
            if (!matches_odd(value, want[i]))
                return i;
            continue;
        }
        double distance = fabs(value - want[i]), units = ulps(value, want[i]);
        worst = distance - bounds[i] > most_beyond ? i : worst;
        most_beyond = worst == i ? distance - bounds[i] : most_beyond;
        most_error = distance > most_error ? distance : most_error;
        most_value = fabs(want[i]) > most_value ? fabs(want[i]) : most_value;
        most_ulps = units > most_ulps ? units : most_ulps;
    }
    double relative = most_error > 0.0 && most_value > 0.0 ? most_error / most_value : 0.0;
    result->relative = relative > result->relative ? relative : result->relative;
    result->ulp = most_ulps > result->ulp ? most_ulps : result->ulp;
    return worst;
}

static void measure_all(
    const verify_case *item, const float *got, const double *want, const double *bounds, verify_result *result)
{
    verify_part parts[VERIFY_PARTS];
    int count = verify_parts(item, parts);
    for (int i = 0; i < count; i++) {
        int64_t wrong = measure(got, want, bounds, parts[i].count, result);
        if (wrong >= 0) {
            result->accurate = false;
            complain(result->detail, sizeof result->detail,
                "%s[%" PRId64 "] is %.9g, in f64 %.9g; the bound of the error is %.3g", parts[i].name, wrong,
                (double)got[wrong], want[wrong], bounds[wrong]);
        }
        got += parts[i].count;
        want += parts[i].count;
        bounds += parts[i].count;
    }
}

/* One run into values, which hold NaN before: a place that is not written shows. */
static bool run_once(const verify_case *item, const verify_data *data, heed_isa isa, int threads, float *values,
    int64_t count, verify_result *result)
{
    const heed_executor executor = { NULL, MANY_THREADS, backwards };
    heed_options options = HEED_OPTIONS_INIT;
    heed_error error = { "" };
    options.isa = isa;
    options.exp = item->exp;
    options.num_threads = threads;
    options.executor = threads > 1 && !heed_has_openmp() ? &executor : NULL;
    for (int64_t i = 0; i < count; i++)
        values[i] = NAN;
    heed_status status = verify_call(item, data, &options, values, &error);
    if (status == HEED_OK)
        return true;
    result->same = result->accurate = false;
    complain(result->detail, sizeof result->detail, "%s with %d threads: %s", heed_isa_name(isa), threads,
        error.message[0] ? error.message : heed_status_string(status));
    return false;
}

static void run_all(const verify_case *item, const verify_data *data, const verify_backends *backends, float *first,
    float *values, int64_t count, verify_result *result)
{
    static const int threads[THREAD_COUNTS] = { 1, MANY_THREADS };
    for (int b = 0; b < backends->count; b++) {
        heed_isa isa = backends->list[b];
        if (item->exp == HEED_EXP_SLEEF && !heed_sleef_usable(isa))
            continue;
        for (int t = 0; t < THREAD_COUNTS; t++) {
            float *into = result->ran ? values : first;
            bool compare = result->ran;
            result->ran = true;
            if (!run_once(item, data, isa, threads[t], into, count, result))
                return;
            if (compare)
                note_difference(item, first, values, count, heed_isa_name(isa), threads[t], result);
        }
    }
}

static bool sleef_is_missing(const verify_case *item, const verify_backends *backends)
{
    for (int b = 0; b < backends->count; b++)
        if (heed_sleef_usable(backends->list[b]))
            return false;
    return item->exp == HEED_EXP_SLEEF;
}

void verify_run(const verify_case *item, const verify_backends *backends, verify_result *result)
{
    *result = (verify_result){ .same = true, .accurate = true };
    if (sleef_is_missing(item, backends)) {
        complain(result->detail, sizeof result->detail, "SLEEF cannot be used here");
        return;
    }
    verify_data data;
    int64_t count = verify_output_count(item);
    float *first = allocate_array(count, sizeof *first), *values = allocate_array(count, sizeof *values);
    double *want = allocate_array(count, sizeof *want), *bounds = allocate_array(count, sizeof *bounds);
    bool ready = verify_data_create(&data, item) && first && values && want && bounds &&
                 verify_reference(item, &data, want, bounds);
    if (ready) {
        run_all(item, &data, backends, first, values, count, result);
        result->fingerprint = fingerprint(first, count);
        if (result->same)
            measure_all(item, first, want, bounds, result);
    } else {
        result->ran = true;
        result->same = result->accurate = false;
        complain(result->detail, sizeof result->detail, "out of memory");
    }
    verify_data_destroy(&data);
    free(first);
    free(values);
    free(want);
    free(bounds);
}
