/* What heed verify must notice: a stand-in for the library whose softmax is wrong in chosen ways.
 * May know: verify.h, the public header, whose functions it defines.
 * Must not know: the library. */
#include "check.h"
#include "oracle.h"
#include "verify.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum fault {
    FAULT_NONE,
    FAULT_ZERO_SIGN,   /* allowed: -0 for +0 */
    FAULT_NAN_PAYLOAD, /* allowed: another NaN */
    FAULT_LAST_BIT,    /* avx2: one element, one bit */
    FAULT_THREADS,     /* three threads: one element, one bit */
    FAULT_NOT_WRITTEN, /* avx2: the last element is left alone */
    FAULT_ALL_WRONG,   /* every backend alike: a hundredth too large */
    FAULT_NAN_FOR_ALL, /* every backend alike: a NaN where there is none */
    FAULT_STATUS       /* avx2: an error */
} fault;

/* The library has no state to set from outside, so its stand-in needs this. */
static fault now = FAULT_NONE;

const char *heed_isa_name(heed_isa isa)
{
    return isa == HEED_ISA_SCALAR ? "scalar" : "avx2";
}

int heed_isa_usable(heed_isa isa)
{
    return isa == HEED_ISA_SCALAR || isa == HEED_ISA_AVX2;
}

int heed_sleef_usable(heed_isa isa)
{
    return isa == HEED_ISA_AVX2;
}

int heed_has_openmp(void)
{
    return 0;
}

const char *heed_status_string(heed_status status)
{
    return status == HEED_OK ? "ok" : "stand-in";
}

static void nudge(float *value)
{
    *value = nextafterf(*value, INFINITY);
}

static void spoil(float *y, int64_t count, const heed_options *options)
{
    bool second = options->isa == HEED_ISA_AVX2;
    for (int64_t i = 0; i < count; i++) {
        if (now == FAULT_ZERO_SIGN && second && y[i] == 0.0f)
            y[i] = -0.0f;
        if (now == FAULT_NAN_PAYLOAD && second && isnan(y[i]))
            y[i] = check_float(0xFFC12345);
        if (now == FAULT_ALL_WRONG)
            y[i] *= 1.01f;
    }
    if ((now == FAULT_LAST_BIT && second) || (now == FAULT_THREADS && options->num_threads > 1))
        nudge(&y[0]);
    if (now == FAULT_NAN_FOR_ALL)
        y[0] = check_float(0x7FC00000);
}

heed_status heed_softmax(int64_t rows, int64_t cols, const float *x, int64_t stride_x, float *y, int64_t stride_y,
    const int32_t *lengths, const heed_options *options, heed_error *error)
{
    (void)error;
    if (now == FAULT_STATUS && options->isa == HEED_ISA_AVX2)
        return HEED_ERROR_UNSUPPORTED;
    double *want = check_malloc((size_t)(rows * cols) * sizeof *want);
    float last = y[rows * cols - 1];
    CHECK(stride_y == cols, "rows are not packed");
    oracle_softmax(rows, cols, x, stride_x, lengths, want);
    for (int64_t i = 0; i < rows * cols; i++)
        y[i] = (float)want[i];
    spoil(y, rows * cols, options);
    if (now == FAULT_NOT_WRITTEN && options->isa == HEED_ISA_AVX2)
        y[rows * cols - 1] = last;
    free(want);
    return HEED_OK;
}

/* The rest of the API, which softmax cases do not use. */
heed_status heed_attend(
    const heed_attention *attention, const heed_tensors *tensors, const heed_options *options, heed_error *error)
{
    (void)attention, (void)tensors, (void)options, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

heed_status heed_kv_append(const heed_kv_cache *cache, const heed_kv_tokens *tokens, heed_error *error)
{
    (void)cache, (void)tokens, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

heed_status heed_linear_create(
    heed_linear **linear, const heed_linear_desc *desc, const heed_options *options, heed_error *error)
{
    (void)desc, (void)options, (void)error;
    *linear = NULL;
    return HEED_ERROR_UNSUPPORTED;
}

void heed_linear_destroy(heed_linear *linear)
{
    (void)linear;
}

size_t heed_linear_workspace_size(const heed_linear *linear, int64_t rows)
{
    (void)linear, (void)rows;
    return 0;
}

heed_status heed_linear_run(const heed_linear *linear, int64_t rows, const float *x, int64_t stride_x, float *y,
    int64_t stride_y, void *workspace, size_t workspace_size, heed_error *error)
{
    (void)linear, (void)rows, (void)x, (void)stride_x, (void)y, (void)stride_y;
    (void)workspace, (void)workspace_size, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

heed_status heed_layer_create(
    heed_layer **layer, const heed_layer_desc *desc, const heed_options *options, heed_error *error)
{
    (void)desc, (void)options, (void)error;
    *layer = NULL;
    return HEED_ERROR_UNSUPPORTED;
}

void heed_layer_destroy(heed_layer *layer)
{
    (void)layer;
}

heed_status heed_layer_workspace_size(
    const heed_layer *layer, int64_t batch, int64_t seq_len, size_t *size, heed_error *error)
{
    (void)layer, (void)batch, (void)seq_len, (void)size, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

heed_status heed_layer_run(const heed_layer *layer, int64_t batch, int64_t seq_len, const heed_layer_tensors *tensors,
    void *workspace, size_t workspace_size, heed_error *error)
{
    (void)layer, (void)batch, (void)seq_len, (void)tensors, (void)workspace, (void)workspace_size, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

heed_status heed_rope_table(const heed_rope_desc *desc, int64_t first_position, int64_t positions, float *cosines,
    float *sines, heed_error *error)
{
    (void)desc, (void)first_position, (void)positions, (void)cosines, (void)sines, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

heed_status heed_rope_apply(heed_rope_pairs pairs, int64_t dim, int64_t batch, int64_t heads, int64_t seq_len, float *x,
    heed_strides strides, const float *cosines, const float *sines, int64_t table_row, heed_error *error)
{
    (void)pairs, (void)dim, (void)batch, (void)heads, (void)seq_len, (void)x, (void)strides, (void)cosines, (void)sines;
    (void)table_row, (void)error;
    return HEED_ERROR_UNSUPPORTED;
}

static verify_result run_with(fault wrong, verify_fill fill, heed_exp exp)
{
    verify_case item = { .name = "catch", .kind = VERIFY_SOFTMAX, .exp = exp, .fill = fill, .rows = 6, .in = 21 };
    verify_backends backends = verify_backends_find(HEED_ISA_AUTO);
    verify_result result;
    now = wrong;
    verify_run(&item, &backends, &result);
    now = FAULT_NONE;
    return result;
}

static void expect(fault wrong, bool same, bool accurate, const char *detail)
{
    verify_result result = run_with(wrong, FILL_POISON, HEED_EXP_BUILTIN);
    check_case("fault %d", (int)wrong);
    CHECK(result.ran && result.same == same && result.accurate == accurate, "same %d, accurate %d: %s", result.same,
        result.accurate, result.detail);
    CHECK(strstr(result.detail, detail), "says: %s", result.detail);
    check_case("%s", "");
}

static void test_faults(void)
{
    expect(FAULT_NONE, true, true, "");
    expect(FAULT_ZERO_SIGN, true, true, "");
    expect(FAULT_NAN_PAYLOAD, true, true, "");
    expect(FAULT_LAST_BIT, false, true, "avx2 with 1 threads: y[0]");
    expect(FAULT_THREADS, false, true, "scalar with 3 threads: y[0]");
    expect(FAULT_NOT_WRITTEN, false, true, "avx2 with 1 threads: y[125]");
    expect(FAULT_ALL_WRONG, true, false, "bound");
    expect(FAULT_NAN_FOR_ALL, true, false, "bound");
    expect(FAULT_STATUS, false, false, "avx2 with 1 threads: stand-in");
}

static void test_fingerprints(void)
{
    uint64_t right = run_with(FAULT_NONE, FILL_POISON, HEED_EXP_BUILTIN).fingerprint;
    CHECK(run_with(FAULT_NONE, FILL_POISON, HEED_EXP_BUILTIN).fingerprint == right, "not the same again");
    CHECK(run_with(FAULT_ZERO_SIGN, FILL_POISON, HEED_EXP_BUILTIN).fingerprint == right, "changed by -0");
    CHECK(run_with(FAULT_NAN_PAYLOAD, FILL_POISON, HEED_EXP_BUILTIN).fingerprint == right, "changed by another NaN");
    CHECK(run_with(FAULT_ALL_WRONG, FILL_POISON, HEED_EXP_BUILTIN).fingerprint != right, "not changed by an error");
    CHECK(run_with(FAULT_NONE, FILL_PLAIN, HEED_EXP_BUILTIN).fingerprint != right, "not changed by other inputs");
}

/* A backend without SLEEF is left out of a SLEEF case; without any such backend the case is not run. */
static void test_sleef(void)
{
    verify_result result = run_with(FAULT_LAST_BIT, FILL_PLAIN, HEED_EXP_SLEEF);
    CHECK(result.ran && result.same, "avx2 alone: %s", result.detail);
    verify_case item = { .name = "catch", .kind = VERIFY_SOFTMAX, .exp = HEED_EXP_SLEEF, .rows = 6, .in = 21 };
    verify_backends scalar = verify_backends_find(HEED_ISA_SCALAR);
    verify_run(&item, &scalar, &result);
    CHECK(!result.ran && result.detail[0] && scalar.count == 1, "run without SLEEF");
    item.kind = VERIFY_LINEAR;
    item.exp = HEED_EXP_DEFAULT;
    item.out = 3;
    verify_run(&item, &scalar, &result);
    CHECK(result.ran && !result.same && !result.accurate, "an error passes");
}

/* The generators are a part of the file format: these values come from a separate implementation. */
static void test_random(void)
{
    verify_random random = verify_random_seeded(1);
    CHECK(random.state[0] == 0x910A2DEC89025CC1u && random.state[1] == 0xBEEB8DA1658EEC67u &&
              random.state[2] == 0xF893A2EEFB32555Eu && random.state[3] == 0x71C18690EE42C90Bu,
        "splitmix64");
    float values[3];
    verify_fill_rows(&random, FILL_PLAIN, 1.0f, 1, 3, values);
    CHECK(check_bits(values[0]) == 0xBEBE4AD0 && check_bits(values[1]) == 0x3E3205C0 &&
              check_bits(values[2]) == 0xBD8CDF80,
        "%08x %08x %08x", check_bits(values[0]), check_bits(values[1]), check_bits(values[2]));
    CHECK(verify_hash(verify_hash_start, "foobar", 6) == 0x85944171F73967E8u, "FNV-1a");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "faults", test_faults },
        { "fingerprints", test_fingerprints },
        { "sleef", test_sleef },
        { "random", test_random },
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
