/* Refusals of masks, packed sequences and merges: the status, the field and its value in the message, nothing written.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* status, a message of one line that names the field and the value, and no word when there is no error to fill. */
static void expect(heed_status got, heed_status want, const heed_error *error, const char *field, const char *value)
{
    CHECK(got == want, "%s %s: status %d, want %d (%s)", field, value, (int)got, (int)want, error->message);
    CHECK(strstr(error->message, field) && strstr(error->message, value) && !strchr(error->message, '\n') &&
              memchr(error->message, 0, sizeof error->message),
        "\"%s\" does not name %s and %s", error->message, field, value);
}

static const heed_error fresh = { "left over" };

/* ---- Attention: the plan ---- */

static heed_attention shape(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = 2;
    a.num_heads = 4;
    a.num_kv_heads = 2;
    a.seq_len_q = 3;
    a.seq_len_kv = 5;
    a.head_dim = 4;
    a.layout = HEED_LAYOUT_BSHD;
    return a;
}

static void expect_plan(const heed_attention *a, heed_status want, const char *field, const char *value)
{
    heed_error error = fresh;
    heed_plan *plan = (heed_plan *)&error;
    expect(heed_plan_create(&plan, a, NULL, &error), want, &error, field, value);
    CHECK(!plan, "a plan in spite of the error");
    CHECK(heed_plan_create(&plan, a, NULL, NULL) == want && !plan, "without an error to fill");
}

static void plan_numbers(void)
{
    static const struct {
        size_t at;
        int64_t number;
        heed_status status;
        const char *field, *value;
    } bad[] = {
        { offsetof(heed_attention, window_left), -2, HEED_ERROR_INVALID, "window_left", "-2" },
        { offsetof(heed_attention, window_right), INT64_MIN, HEED_ERROR_INVALID, "window_right",
            "-9223372036854775808" },
        { offsetof(heed_attention, block_mask_q), -1, HEED_ERROR_INVALID, "block_mask_q", "-1" },
        { offsetof(heed_attention, block_mask_kv), -30, HEED_ERROR_INVALID, "block_mask_kv", "-30" },
        { offsetof(heed_attention, strides_bias.batch), -1, HEED_ERROR_INVALID, "strides_bias.batch", "-1" },
        { offsetof(heed_attention, strides_bias.head), -2, HEED_ERROR_INVALID, "strides_bias.head", "-2" },
        { offsetof(heed_attention, strides_bias.query), -3, HEED_ERROR_INVALID, "strides_bias.query", "-3" },
        { offsetof(heed_attention, strides_bias.key), -4, HEED_ERROR_INVALID, "strides_bias.key", "-4" },
        { offsetof(heed_attention, strides_mask.batch), -5, HEED_ERROR_INVALID, "strides_mask.batch", "-5" },
        { offsetof(heed_attention, strides_mask.head), -6, HEED_ERROR_INVALID, "strides_mask.head", "-6" },
        { offsetof(heed_attention, strides_mask.query), -7, HEED_ERROR_INVALID, "strides_mask.query", "-7" },
        { offsetof(heed_attention, strides_mask.key), -8, HEED_ERROR_INVALID, "strides_mask.key", "-8" },
        { offsetof(heed_attention, strides_bias.batch), INT64_MAX, HEED_ERROR_OVERFLOW, "strides_bias", "address" },
        { offsetof(heed_attention, strides_bias.key), INT64_MAX / 2, HEED_ERROR_OVERFLOW, "strides_bias", "address" },
        { offsetof(heed_attention, strides_mask.query), INT64_MAX / 3, HEED_ERROR_OVERFLOW, "strides_mask", "address" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        heed_attention a = shape();
        memcpy((char *)&a + bad[i].at, &bad[i].number, sizeof bad[i].number);
        expect_plan(&a, bad[i].status, bad[i].field, bad[i].value);
    }
}

static void plan_choices(void)
{
    heed_attention a = shape();
    a.softcap = -1.5f;
    expect_plan(&a, HEED_ERROR_INVALID, "softcap", "-1.5");
    a.softcap = NAN;
    expect_plan(&a, HEED_ERROR_INVALID, "softcap", "nan");
    a.softcap = INFINITY;
    expect_plan(&a, HEED_ERROR_INVALID, "softcap", "inf");
    a = shape();
    a.varlen = 2;
    expect_plan(&a, HEED_ERROR_INVALID, "varlen", "2");
    a.varlen = 1;
    a.layout = HEED_LAYOUT_BHSD;
    expect_plan(&a, HEED_ERROR_INVALID, "layout", "BHSD");
    a = shape();
    a.causal = (heed_causal)5;
    expect_plan(&a, HEED_ERROR_INVALID, "causal", "5");
}

/* Numbers at the ends of what is allowed are no error. */
static void plan_extremes(void)
{
    static const int64_t offsets[] = { INT64_MIN, INT64_MIN + 1, -1, INT64_MAX };
    for (size_t i = 0; i < 4; i++) {
        heed_attention a = shape();
        a.causal = HEED_CAUSAL_OFFSET;
        a.causal_offset = offsets[i];
        a.window_left = a.window_right = INT64_MAX;
        a.block_mask_q = a.block_mask_kv = INT64_MAX;
        float q[96] = { 0 }, kv[80], out[96];
        const uint8_t visible = 1;
        for (int n = 0; n < 80; n++)
            kv[n] = 1.0f;
        heed_tensors t = HEED_TENSORS_INIT;
        t.q = q;
        t.k = t.v = kv;
        t.out = out;
        t.block_mask = &visible;
        heed_error error = fresh;
        CHECK(heed_attend(&a, &t, NULL, &error) == HEED_OK && !error.message[0], "%s", error.message);
        CHECK(out[0] == (offsets[i] > 0 ? 1.0f : 0.0f), "the first row with offset %lld is %g", (long long)offsets[i],
            (double)out[0]);
    }
}

/* The stride of a dimension of size 1 is ignored, that of the keys too. */
static void plan_strides_of_one(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = a.num_heads = a.num_kv_heads = a.seq_len_q = a.seq_len_kv = a.head_dim = 1;
    const int64_t strides[] = { INT64_MAX, INT64_MAX / 3, -1 };
    const float one = 1.0f, bias = 0.5f;
    const uint8_t mask = 1;
    for (size_t i = 0; i < 3; i++) {
        const int64_t s = strides[i];
        const heed_mask_strides odd = { s, s, s, s };
        a.strides_bias = a.strides_mask = odd;
        float out = 0.0f;
        heed_tensors t = HEED_TENSORS_INIT;
        t.q = t.k = t.v = &one;
        t.out = &out;
        t.bias = &bias;
        t.mask = &mask;
        heed_error error = fresh;
        const heed_status status = heed_attend(&a, &t, NULL, &error);
        CHECK(status == HEED_OK && out == 1.0f, "stride %lld: %d %s", (long long)s, (int)status, error.message);
    }
}

/* ---- Attention: the run ---- */

/* The tensors of shape() in guarded memory, all that is optional NULL. */
static heed_tensors tensors(void)
{
    static float zeros[200];
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = check_input(zeros, 96, CHECK_GUARD_BEHIND);
    t.k = t.v = check_input(zeros, 80, CHECK_GUARD_BEHIND);
    t.out = check_output(96, CHECK_GUARD_BEHIND);
    t.lse = check_output(24, CHECK_GUARD_BEHIND);
    return t;
}

static void expect_run(
    const heed_attention *a, const heed_tensors *t, heed_status want, const char *field, const char *value)
{
    heed_error error = fresh;
    expect(heed_attend(a, t, NULL, &error), want, &error, field, value);
    check_untouched(t->out, 96, "out");
    check_untouched(t->lse, 24, "lse");
}

static void run_masks(void)
{
    const uint8_t visible = 1;
    heed_attention a = shape();
    heed_tensors t = tensors();
    t.block_mask = &visible;
    expect_run(&a, &t, HEED_ERROR_INVALID, "block_mask", "block_mask_q is 0");
    a.block_mask_q = 3;
    expect_run(&a, &t, HEED_ERROR_INVALID, "block_mask", "block_mask_kv is 0");
}

static void run_offsets(void)
{
    static const struct {
        int32_t q[3], kv[3];
        const char *field, *value;
    } bad[] = {
        { { -1, 0, 1 }, { 0, 1, 2 }, "offsets_q[0]", "-1" },
        { { 0, 3, 2 }, { 0, 1, 2 }, "offsets_q[2]", "2 after 3" },
        { { 0, 1, 5 }, { 0, 1, 2 }, "offsets_q[2]", "0 .. 3" },
        { { 0, 1, 2 }, { -7, 1, 2 }, "offsets_kv[0]", "-7" },
        { { 0, 1, 2 }, { 0, 6, 7 }, "offsets_kv[1]", "0 .. 5" },
        { { 0, 1, 2 }, { 0, INT32_MAX, INT32_MIN }, "offsets_kv[1]", "2147483647" },
        { { 0, 1, 2 }, { INT32_MAX, 0, 0 }, "offsets_kv[1]", "0 after 2147483647" },
    };
    heed_attention a = shape();
    a.varlen = 1;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        heed_tensors t = tensors();
        t.offsets_q = bad[i].q;
        t.offsets_kv = bad[i].kv;
        expect_run(&a, &t, HEED_ERROR_INVALID, bad[i].field, bad[i].value);
        check_free_all();
    }
}

static void run_varlen_fields(void)
{
    static const int32_t offsets[3] = { 0, 2, 4 }, lengths[2] = { 1, 1 };
    heed_attention a = shape();
    heed_tensors t = tensors();
    t.offsets_q = offsets;
    expect_run(&a, &t, HEED_ERROR_INVALID, "offsets_q", "varlen");
    t.offsets_q = NULL;
    t.offsets_kv = offsets;
    expect_run(&a, &t, HEED_ERROR_INVALID, "offsets_kv", "varlen");
    a.varlen = 1;
    expect_run(&a, &t, HEED_ERROR_INVALID, "offsets_q", "NULL");
    t.offsets_q = offsets;
    t.offsets_kv = NULL;
    expect_run(&a, &t, HEED_ERROR_INVALID, "offsets_kv", "NULL");
    t.offsets_kv = offsets;
    t.lengths_q = lengths;
    expect_run(&a, &t, HEED_ERROR_INVALID, "lengths_q", "varlen");
    t.lengths_q = NULL;
    t.lengths_kv = lengths;
    expect_run(&a, &t, HEED_ERROR_INVALID, "lengths_kv", "varlen");
}

/* Four rows at distances that only three of them, one sequence, could bear. */
static void run_varlen_strides(void)
{
    static const int32_t offsets[3] = { 0, 2, 4 };
    heed_attention a = shape();
    const heed_strides narrow = { 0, 12, 4 }, far = { 0, 4, INT64_MAX / 10 }, good = { 0, 4, 16 };
    a.varlen = 1;
    a.layout = HEED_LAYOUT_STRIDED;
    a.strides_q = a.strides_k = a.strides_v = a.strides_out = good;
    heed_tensors t = tensors();
    t.offsets_q = t.offsets_kv = offsets;
    a.strides_out = narrow;
    expect_run(&a, &t, HEED_ERROR_INVALID, "strides_out", "head 12");
    a.strides_out = good;
    a.strides_q = far;
    expect_run(&a, &t, HEED_ERROR_OVERFLOW, "strides_q", "address");
}

/* Packed [head][row]: heads are as far apart as there are rows, be these fewer than the longest sequence could have. */
static void varlen_of_few_rows(void)
{
    static const int32_t offsets[3] = { 0, 1, 2 };
    heed_attention a = shape();
    const heed_strides q = { 0, 8, 4 };
    a.varlen = 1;
    a.layout = HEED_LAYOUT_STRIDED;
    a.strides_q = a.strides_k = a.strides_v = a.strides_out = q;
    float values[32], out[32];
    for (int i = 0; i < 32; i++)
        values[i] = (float)(i / 4);
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = t.k = t.v = values;
    t.out = out;
    t.offsets_q = t.offsets_kv = offsets;
    heed_error error = fresh;
    const heed_status status = heed_attend(&a, &t, NULL, &error);
    CHECK(status == HEED_OK, "%d %s", (int)status, error.message);
    for (int i = 0; i < 32 && status == HEED_OK; i++) /* each row sees one key */
        CHECK(out[i] == (float)(i / 16 * 2 + i / 4 % 2), "out[%d] is %g", i, (double)out[i]);
}

/* ---- Merge ---- */

static void merge_fields(void)
{
    static const struct {
        int64_t parts, rows, dim, stride_part, stride_out;
        const char *field, *value;
    } bad[] = {
        { 0, 1, 2, 2, 2, "parts", "0" },
        { -3, 1, 2, 2, 2, "parts", "-3" },
        { 65, 1, 2, 2, 2, "parts", "65" },
        { 2, -1, 2, 2, 2, "rows", "-1" },
        { 2, 2, 0, 2, 2, "head_dim_v", "0" },
        { 2, 2, 2, -1, 2, "stride_part", "-1" },
        { 2, 2, 2, 2, 1, "stride_out", "1" },
        { 2, 2, 2, 2, -2, "stride_out", "-2" },
    };
    const float zeros[4] = { 0 };
    const float *part[65];
    for (size_t i = 0; i < 65; i++)
        part[i] = zeros;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float *out = check_output(4, CHECK_GUARD_BEHIND);
        heed_error error = fresh;
        expect(heed_merge(bad[i].parts, bad[i].rows, bad[i].dim, part, bad[i].stride_part, part, out, bad[i].stride_out,
                   NULL, NULL, &error),
            HEED_ERROR_INVALID, &error, bad[i].field, bad[i].value);
        check_untouched(out, 4, "out");
        check_free_all();
    }
}

static void merge_pointers(void)
{
    const float zeros[4] = { 0 };
    const float *part[2] = { zeros, zeros }, *missing[2] = { zeros, NULL };
    float out[4];
    heed_error error = fresh;
    expect(
        heed_merge(2, 2, 2, NULL, 2, part, out, 2, NULL, NULL, &error), HEED_ERROR_INVALID, &error, "part_out", "NULL");
    expect(
        heed_merge(2, 2, 2, part, 2, NULL, out, 2, NULL, NULL, &error), HEED_ERROR_INVALID, &error, "part_lse", "NULL");
    expect(heed_merge(2, 2, 2, part, 2, part, NULL, 2, NULL, NULL, &error), HEED_ERROR_INVALID, &error, "out", "NULL");
    expect(heed_merge(2, 2, 2, missing, 2, part, out, 2, NULL, NULL, &error), HEED_ERROR_INVALID, &error, "part_out[1]",
        "NULL");
    expect(heed_merge(2, 2, 2, part, 2, missing, out, 2, NULL, NULL, &error), HEED_ERROR_INVALID, &error, "part_lse[1]",
        "NULL");
    heed_options options = check_options((heed_isa)77, HEED_EXP_DEFAULT, 1);
    expect(heed_merge(2, 2, 2, part, 2, part, out, 2, NULL, &options, &error), HEED_ERROR_UNSUPPORTED, &error, "isa",
        "77");
    options = check_options(HEED_ISA_AUTO, (heed_exp)9, 1);
    expect(heed_merge(2, 2, 2, part, 2, part, out, 2, NULL, &options, &error), HEED_ERROR_INVALID, &error, "exp", "9");
    options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, -1);
    expect(heed_merge(2, 2, 2, part, 2, part, out, 2, NULL, &options, &error), HEED_ERROR_INVALID, &error,
        "num_threads", "-1");
}

/* Parts beyond the address space: refused before their rows are counted. */
static void merge_overflow(void)
{
    const float zeros[4] = { 0 };
    const float *part[1] = { zeros };
    float out[4];
    heed_error error = fresh;
    expect(heed_merge(1, INT64_MAX / 2, 1, part, INT64_MAX / 2, part, out, 1, NULL, NULL, &error), HEED_ERROR_OVERFLOW,
        &error, "stride_part", "address");
    expect(heed_merge(1, INT64_MAX / 2, 1, part, 0, part, out, INT64_MAX / 2, NULL, NULL, &error), HEED_ERROR_OVERFLOW,
        &error, "stride_out", "address");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "plan_numbers", plan_numbers }, { "plan_choices", plan_choices },
        { "plan_extremes", plan_extremes }, { "plan_strides_of_one", plan_strides_of_one }, { "run_masks", run_masks },
        { "run_offsets", run_offsets }, { "run_varlen_fields", run_varlen_fields },
        { "run_varlen_strides", run_varlen_strides }, { "varlen_of_few_rows", varlen_of_few_rows },
        { "merge_fields", merge_fields }, { "merge_pointers", merge_pointers }, { "merge_overflow", merge_overflow } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
