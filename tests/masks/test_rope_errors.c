/* Refusals of rotary embedding and layers: the status, the field and its value in the message, nothing written.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "check.h"

#include <math.h>
#include <string.h>

static const heed_error fresh = { "left over" };

static void expect(heed_status got, heed_status want, const heed_error *error, const char *field, const char *value)
{
    CHECK(got == want, "%s %s: status %d, want %d (%s)", field, value, (int)got, (int)want, error->message);
    CHECK(strstr(error->message, field) && strstr(error->message, value) && !strchr(error->message, '\n'),
        "\"%s\" does not name %s and %s", error->message, field, value);
}

/* ---- Tables ---- */

static void expect_table(
    const heed_rope_desc *desc, int64_t first, int64_t positions, const char *field, const char *value)
{
    heed_error error = fresh;
    float *c = check_output(64, CHECK_GUARD_BEHIND), *s = check_output(64, CHECK_GUARD_BEHIND);
    expect(heed_rope_table(desc, first, positions, c, s, &error), HEED_ERROR_INVALID, &error, field, value);
    check_untouched(c, 64, "cosines");
    check_untouched(s, 64, "sines");
    check_free_all();
}

static void table_fields(void)
{
    const size_t size = sizeof(heed_rope_desc);
    const struct {
        heed_rope_desc desc;
        const char *field, *value;
    } bad[] = {
        { { size, 0, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "dim", "0" },
        { { size, -4, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "dim", "-4" },
        { { size, 7, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "dim", "7" },
        { { size, INT64_MAX - 1, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "dim", "9223372036854775806" },
        { { size, 4, 1, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "base", "1.0" },
        { { size, 4, -10, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "base", "-10" },
        { { size, 4, NAN, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "base", "nan" },
        { { size, 4, INFINITY, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "base", "inf" },
        { { size, 4, 0, (heed_rope_scaling)4, 1, 0, 0, 0, 0, 0, 0 }, "scaling", "4" },
        { { size, 4, 0, HEED_ROPE_LINEAR, 0.5, 0, 0, 0, 0, 0, 0 }, "factor", "0.5" },
        { { size, 4, 0, HEED_ROPE_LINEAR, NAN, 0, 0, 0, 0, 0, 0 }, "factor", "nan" },
        { { size, 4, 0, HEED_ROPE_LLAMA3, INFINITY, 1, 4, 0, 0, 0, 8192 }, "factor", "inf" },
        { { size, 4, 0, HEED_ROPE_LLAMA3, 8, 1, 4, 0, 0, 0, 0 }, "original_positions", "0" },
        { { size, 4, 0, HEED_ROPE_LLAMA3, 8, 4, 4, 0, 0, 0, 8192 }, "high_freq_factor", "4.0" },
        { { size, 4, 0, HEED_ROPE_LLAMA3, 8, -1, 4, 0, 0, 0, 8192 }, "low_freq_factor", "-1" },
        { { size, 4, 0, HEED_ROPE_LLAMA3, 8, 1, NAN, 0, 0, 0, 8192 }, "high_freq_factor", "nan" },
        { { size, 4, 0, HEED_ROPE_YARN, 4, 0, 0, 0, 0, 0, -2 }, "original_positions", "-2" },
        { { size, 4, 0, HEED_ROPE_YARN, 4, 0, 0, -1, 32, 0, 4096 }, "beta_slow", "-1" },
        { { size, 4, 0, HEED_ROPE_YARN, 4, 0, 0, 1, NAN, 0, 4096 }, "beta_fast", "nan" },
        { { size, 4, 0, HEED_ROPE_YARN, 4, 0, 0, 0, 0, INFINITY, 4096 }, "attention_factor", "inf" },
        { { size + 8, 4, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "struct_size", "desc" },
        { { 0, 4, 0, HEED_ROPE_PLAIN, 1, 0, 0, 0, 0, 0, 0 }, "struct_size", "0" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        expect_table(&bad[i].desc, 0, 2, bad[i].field, bad[i].value);
}

static void table_arguments(void)
{
    heed_rope_desc desc = HEED_ROPE_DESC_INIT;
    float values[64];
    heed_error error = fresh;
    desc.dim = 4;
    expect_table(&desc, -1, 2, "first_position", "-1");
    expect_table(&desc, INT64_MAX, 2, "first_position", "9223372036854775807");
    expect_table(&desc, 0, -3, "positions", "-3");
    expect_table(&desc, 0, INT64_MAX, "positions", "9223372036854775807");
    expect_table(NULL, 0, 2, "desc", "NULL");
    expect(heed_rope_table(&desc, 0, 2, NULL, values, &error), HEED_ERROR_INVALID, &error, "cosines", "NULL");
    expect(heed_rope_table(&desc, 0, 2, values, NULL, &error), HEED_ERROR_INVALID, &error, "sines", "NULL");
    CHECK(heed_rope_table(&desc, 0, 2, values, NULL, NULL) == HEED_ERROR_INVALID, "without an error to fill");
}

/* ---- Application ---- */

static void apply_arguments(void)
{
    static const struct {
        int pairs;
        int64_t dim, batch, heads, seq, row;
        const char *field, *value;
    } bad[] = {
        { HEED_ROPE_NONE, 4, 1, 1, 1, 0, "pairs", "0" },
        { 3, 4, 1, 1, 1, 0, "pairs", "3" },
        { HEED_ROPE_HALVES, 3, 1, 1, 1, 0, "dim", "3" },
        { HEED_ROPE_HALVES, 0, 1, 1, 1, 0, "dim", "0" },
        { HEED_ROPE_HALVES, -2, 1, 1, 1, 0, "dim", "-2" },
        { HEED_ROPE_INTERLEAVED, 4, -1, 1, 1, 0, "batch", "-1" },
        { HEED_ROPE_INTERLEAVED, 4, 1, -5, 1, 0, "heads", "-5" },
        { HEED_ROPE_INTERLEAVED, 4, 1, 1, -6, 0, "seq_len", "-6" },
        { HEED_ROPE_INTERLEAVED, 4, 1, 1, 1, -7, "table_row", "-7" },
    };
    const float table[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const heed_strides strides = { 16, 8, 4 };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        float *x = check_output(32, CHECK_GUARD_BEHIND);
        heed_error error = fresh;
        expect(heed_rope_apply((heed_rope_pairs)bad[i].pairs, bad[i].dim, bad[i].batch, bad[i].heads, bad[i].seq, x,
                   strides, table, table, bad[i].row, &error),
            HEED_ERROR_INVALID, &error, bad[i].field, bad[i].value);
        check_untouched(x, 32, "x");
        check_free_all();
    }
}

static void apply_memory(void)
{
    const float table[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    const heed_strides good = { 16, 8, 4 }, negative = { 16, -8, 4 }, overlap = { 16, 3, 8 },
                       far = { INT64_MAX / 2, 8, 4 };
    float *x = check_output(32, CHECK_GUARD_BEHIND);
    heed_error error = fresh;
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 2, 2, 2, NULL, good, table, table, 0, &error), HEED_ERROR_INVALID,
        &error, "x", "NULL");
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 2, 2, 2, x, good, NULL, table, 0, &error), HEED_ERROR_INVALID, &error,
        "cosines", "NULL");
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 2, 2, 2, x, good, table, NULL, 0, &error), HEED_ERROR_INVALID, &error,
        "sines", "NULL");
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 2, 2, 2, x, negative, table, table, 0, &error), HEED_ERROR_INVALID,
        &error, "strides.head", "-8");
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 2, 2, 2, x, overlap, table, table, 0, &error), HEED_ERROR_INVALID,
        &error, "strides", "head 3");
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 3, 2, 2, x, far, table, table, 0, &error), HEED_ERROR_OVERFLOW, &error,
        "strides", "address");
    /* Half of the rotated elements times the rows of the table. */
    expect(heed_rope_apply(HEED_ROPE_HALVES, 4, 2, 2, 2, x, good, table, table, INT64_MAX / 2, &error),
        HEED_ERROR_OVERFLOW, &error, "table_row", "address");
    check_untouched(x, 32, "x");
    CHECK(heed_rope_apply(HEED_ROPE_HALVES, 4, 0, 2, 2, NULL, good, NULL, NULL, 0, &error) == HEED_OK &&
              !error.message[0],
        "nothing to rotate: %s", error.message);
}

/* ---- Layer ---- */

static const float weights[64] = { 0 };

static heed_layer_desc layer_desc(void)
{
    heed_layer_desc d = HEED_LAYER_DESC_INIT;
    d.model_dim = 8;
    d.num_heads = 2;
    d.num_kv_heads = 1;
    d.head_dim = 4;
    d.weight_q = d.weight_k = d.weight_v = d.weight_o = weights;
    return d;
}

static void expect_layer(const heed_layer_desc *d, const char *field, const char *value)
{
    heed_error error = fresh;
    heed_layer *layer = (heed_layer *)&error;
    expect(heed_layer_create(&layer, d, NULL, &error), HEED_ERROR_INVALID, &error, field, value);
    CHECK(!layer, "a layer in spite of the error");
}

static void layer_fields(void)
{
    heed_layer_desc d = layer_desc();
    d.window_left = -2;
    expect_layer(&d, "window_left", "-2");
    d = layer_desc();
    d.window_right = -3;
    expect_layer(&d, "window_right", "-3");
    d = layer_desc();
    d.softcap = -4.5f;
    expect_layer(&d, "softcap", "-4.5");
    d = layer_desc();
    d.reserved = 7;
    expect_layer(&d, "reserved", "7");
    d = layer_desc();
    d.rope = (heed_rope_pairs)3;
    expect_layer(&d, "rope", "3");
    static const int64_t dims[] = { -2, 3, 6 };
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = { "-2", "3", "6" };
        d = layer_desc();
        d.rope = HEED_ROPE_HALVES;
        d.rope_dim = dims[i];
        expect_layer(&d, "rope_dim", names[i]);
    }
    d = layer_desc();
    d.rope = HEED_ROPE_INTERLEAVED;
    d.head_dim = 3;
    expect_layer(&d, "rope_dim", "3");
}

/* Widths of two to the 62nd each, whose sum is none. */
static void layer_widths(void)
{
    const int64_t most = INT32_MAX;
    for (int values = 0; values < 2; values++) {
        heed_layer_desc d = layer_desc();
        heed_error error = fresh;
        heed_layer *layer = NULL;
        d.num_heads = d.num_kv_heads = most;
        *(values ? &d.head_dim_v : &d.head_dim) = most;
        expect(heed_layer_create(&layer, &d, NULL, &error), HEED_ERROR_OVERFLOW, &error,
            values ? "head_dim_v" : "head_dim", "2147483647");
    }
}

static void expect_layer_run(const heed_layer *layer, const heed_layer_tensors *t, const char *field, const char *value)
{
    static unsigned char workspace[1 << 16];
    heed_error error = fresh;
    expect(
        heed_layer_run(layer, 1, 2, t, workspace, sizeof workspace, &error), HEED_ERROR_INVALID, &error, field, value);
    check_untouched(t->y, 16, "y");
}

static void layer_tensors(void)
{
    const float zeros[64] = { 0 };
    heed_layer_desc d = layer_desc();
    heed_layer *layer = NULL;
    d.rope = HEED_ROPE_HALVES;
    CHECK(heed_layer_create(&layer, &d, NULL, NULL) == HEED_OK, "heed_layer_create");
    heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
    t.x = zeros;
    t.y = check_output(16, CHECK_GUARD_BEHIND);
    t.rope_sines = zeros;
    expect_layer_run(layer, &t, "rope_cosines", "NULL");
    t.rope_cosines = zeros;
    t.rope_sines = NULL;
    expect_layer_run(layer, &t, "rope_sines", "NULL");
    t.rope_sines = zeros;
    t.bias = zeros;
    expect_layer_run(layer, &t, "bias_heads", "0");
    t.bias_heads = 3;
    expect_layer_run(layer, &t, "bias_heads", "3");
    t.bias_heads = -1;
    expect_layer_run(layer, &t, "bias_heads", "num_heads 2");
    heed_layer_destroy(layer);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "table_fields", table_fields }, { "table_arguments", table_arguments },
        { "apply_arguments", apply_arguments }, { "apply_memory", apply_memory }, { "layer_fields", layer_fields },
        { "layer_widths", layer_widths }, { "layer_tensors", layer_tensors } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
