/* The manners of the attention calls: every refusal names its field and writes nothing; empty problems, describe, versions.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { B = 2, H = 4, G = 2, LQ = 3, LK = 5, D = 8, OUT = B * H * LQ * D, ROWS = B * H * LQ };

static heed_attention small_problem(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = B;
    a.num_heads = H;
    a.num_kv_heads = G;
    a.seq_len_q = LQ;
    a.seq_len_kv = LK;
    a.head_dim = D;
    const heed_strides q = { H * LQ * D, LQ * D, D }, k = { G * LK * D, LK * D, D };
    a.strides_q = a.strides_out = q;
    a.strides_k = a.strides_v = k;
    return a;
}

static heed_tensors small_tensors(void)
{
    static const float zeros[B * H * LK * D];
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = check_input(zeros, B * H * LQ * D, CHECK_GUARD_BEHIND);
    t.k = check_input(zeros, B * G * LK * D, CHECK_GUARD_BEHIND);
    t.v = check_input(zeros, B * G * LK * D, CHECK_GUARD_BEHIND);
    t.out = check_output(OUT, CHECK_GUARD_BEHIND);
    t.lse = check_output(ROWS, CHECK_GUARD_BEHIND);
    t.weights = check_output(ROWS * LK, CHECK_GUARD_BEHIND);
    return t;
}

/* The status, and a one-line message that contains the word. */
static void refused(heed_status got, const heed_error *error, heed_status want, const char *word)
{
    CHECK(got == want, "status %d, want %d (%s): %s", (int)got, (int)want, heed_status_string(want), error->message);
    CHECK(strstr(error->message, word) && !strchr(error->message, '\n'), "the message does not name %s: \"%s\"", word,
        error->message);
    CHECK(memchr(error->message, 0, sizeof error->message), "the message is not terminated");
}

/* heed_plan_create and heed_attend refuse; *plan becomes NULL; no output is written. */
static void expect(const heed_attention *a, const heed_options *options, heed_status want, const char *word)
{
    check_case("%s", word);
    heed_error error = { "" };
    int anything;
    heed_plan *plan = (heed_plan *)(void *)&anything;
    refused(heed_plan_create(&plan, a, options, &error), &error, want, word);
    CHECK(plan == NULL, "*plan is not NULL after an error");
    plan = (heed_plan *)(void *)&anything;
    CHECK(heed_plan_create(&plan, a, options, NULL) == want && !plan, "the same without an error to fill");
    heed_tensors t = small_tensors();
    refused(heed_attend(a, &t, options, &error), &error, want, word);
    check_untouched(t.out, OUT, "out");
    check_untouched(t.lse, ROWS, "lse");
    check_untouched(t.weights, ROWS * LK, "weights");
    check_free_all();
}

typedef struct field_case {
    const char *word;
    heed_status status;
    size_t offset;
    int64_t value;
} field_case;

#define FIELD(name) #name, HEED_ERROR_INVALID, offsetof(heed_attention, name)
#define HUGE_FIELD(name) #name, HEED_ERROR_OVERFLOW, offsetof(heed_attention, name)

static void attention_fields(void)
{
    static const field_case cases[] = { { FIELD(batch), -1 }, { FIELD(batch), INT64_MIN }, { FIELD(num_heads), -1 },
        { FIELD(num_heads), 5 }, { FIELD(num_kv_heads), 0 }, { FIELD(num_kv_heads), -1 }, { FIELD(num_kv_heads), 3 },
        { FIELD(num_kv_heads), 8 }, { FIELD(seq_len_q), -1 }, { FIELD(seq_len_kv), -1 }, { FIELD(head_dim), 0 },
        { FIELD(head_dim), -1 }, { FIELD(head_dim_v), -1 }, { HUGE_FIELD(batch), INT64_MAX },
        { HUGE_FIELD(num_heads), INT64_MAX - 1 }, { HUGE_FIELD(seq_len_q), INT64_MAX },
        { HUGE_FIELD(seq_len_kv), INT64_MAX }, { HUGE_FIELD(head_dim), INT64_MAX },
        { HUGE_FIELD(head_dim_v), INT64_MAX } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        heed_attention a = small_problem();
        memcpy((char *)&a + cases[n].offset, &cases[n].value, sizeof cases[n].value);
        expect(&a, NULL, cases[n].status, cases[n].word);
    }
}

/* Products that overflow although each size is modest. */
static void attention_products(void)
{
    static const struct {
        const char *word;
        int64_t batch, heads, queries, keys, dim, dim_v;
    } cases[] = { { "q", INT64_C(1) << 40, 4, 3, 5, 1 << 24, 1 }, { "q", 2, 4, INT64_C(1) << 58, 5, 8, 8 },
        { "k", 2, 4, 3, INT64_C(1) << 58, 8, 1 }, { "v", 1, 4, 3, INT64_C(1) << 52, 1, 1 << 12 },
        { "out", 1, 4, INT64_C(1) << 40, 1, 1, INT64_C(1) << 40 }, { "q", 2, INT64_C(1) << 59, 3, 5, 8, 8 },
        { "", INT64_C(1) << 31, INT64_C(1) << 31, 2, 2, 1, 1 },
        { "", 4, 4, 3, INT64_C(1) << 31, INT64_C(1) << 31, 1 } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        heed_attention a = small_problem();
        a.batch = cases[n].batch;
        a.num_heads = cases[n].heads;
        a.seq_len_q = cases[n].queries;
        a.seq_len_kv = cases[n].keys;
        a.head_dim = cases[n].dim;
        a.head_dim_v = cases[n].dim_v;
        expect(&a, NULL, HEED_ERROR_OVERFLOW, cases[n].word);
    }
}

static void attention_strides(void)
{
    static const field_case cases[] = { { "strides_q", HEED_ERROR_INVALID, offsetof(heed_attention, strides_q.batch),
                                            -1 },
        { "strides_q", HEED_ERROR_INVALID, offsetof(heed_attention, strides_q.seq), INT64_MIN },
        { "strides_k", HEED_ERROR_INVALID, offsetof(heed_attention, strides_k.head), -8 },
        { "strides_v", HEED_ERROR_INVALID, offsetof(heed_attention, strides_v.seq), -1 },
        { "strides_out", HEED_ERROR_INVALID, offsetof(heed_attention, strides_out.seq), -1 },
        { "strides_out", HEED_ERROR_INVALID, offsetof(heed_attention, strides_out.seq), 0 },
        { "strides_out", HEED_ERROR_INVALID, offsetof(heed_attention, strides_out.seq), D - 1 },
        { "strides_out", HEED_ERROR_INVALID, offsetof(heed_attention, strides_out.head), D },
        { "strides_q", HEED_ERROR_OVERFLOW, offsetof(heed_attention, strides_q.batch), INT64_MAX },
        { "strides_k", HEED_ERROR_OVERFLOW, offsetof(heed_attention, strides_k.seq), INT64_MAX / 4 },
        { "strides_v", HEED_ERROR_OVERFLOW, offsetof(heed_attention, strides_v.head), INT64_MAX / 2 },
        { "strides_out", HEED_ERROR_OVERFLOW, offsetof(heed_attention, strides_out.batch), INT64_MAX / 4 } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        heed_attention a = small_problem();
        a.layout = HEED_LAYOUT_STRIDED;
        memcpy((char *)&a + cases[n].offset, &cases[n].value, sizeof cases[n].value);
        expect(&a, NULL, cases[n].status, cases[n].word);
    }
}

static void attention_choices(void)
{
    static const float scales[] = { NAN, INFINITY, -INFINITY };
    for (size_t n = 0; n < 3; n++) {
        heed_attention a = small_problem();
        a.scale = scales[n];
        expect(&a, NULL, HEED_ERROR_INVALID, "scale");
    }
    static const int values[] = { -1, 5, 1000 };
    for (size_t n = 0; n < 3; n++) {
        heed_attention a = small_problem(), b = a;
        a.causal = (heed_causal)values[n];
        expect(&a, NULL, HEED_ERROR_INVALID, "causal");
        b.layout = (heed_layout)values[n];
        expect(&b, NULL, HEED_ERROR_INVALID, "layout");
    }
    static const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, sizeof(heed_attention) + 1, SIZE_MAX };
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        heed_attention a = small_problem();
        a.struct_size = sizes[n];
        expect(&a, NULL, HEED_ERROR_INVALID, "struct_size");
    }
    expect(NULL, NULL, HEED_ERROR_INVALID, "attention");
    heed_attention a = small_problem();
    heed_error error = { "" };
    refused(heed_plan_create(NULL, &a, NULL, &error), &error, HEED_ERROR_INVALID, "plan");
}

static void serial(void *context, int64_t count, void (*task)(void *, int64_t), void *argument)
{
    (void)context;
    for (int64_t i = 0; i < count; i++)
        task(argument, i);
}

static void *no_memory(void *context, size_t size)
{
    (void)context;
    (void)size;
    return NULL;
}

static void ignore(void *context, void *memory)
{
    (void)context;
    (void)memory;
}

static void bad_options(void)
{
    const heed_executor no_threads = { NULL, 0, serial }, no_function = { NULL, 2, NULL };
    const heed_allocator no_allocate = { NULL, NULL, ignore }, no_release = { NULL, no_memory, NULL };
    heed_options o[9];
    for (size_t n = 0; n < 9; n++)
        o[n] = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
    o[0].isa = (heed_isa)77; /* documented: anything that cannot run is unsupported */
    o[1].exp = (heed_exp)3;
    o[2].exp = (heed_exp)-1;
    o[3].num_threads = -1;
    o[4].executor = &no_threads;
    o[5].executor = &no_function;
    o[6].allocator = &no_allocate;
    o[7].allocator = &no_release;
    o[8].struct_size = sizeof(heed_options) + 8;
    static const char *const words[] = { "isa", "exp", "exp", "num_threads", "executor", "executor", "allocator",
        "allocator", "struct_size" };
    heed_attention a = small_problem();
    for (size_t n = 0; n < 9; n++)
        expect(&a, &o[n], n ? HEED_ERROR_INVALID : HEED_ERROR_UNSUPPORTED, words[n]);
}

/* Every backend either works or is refused with a reason; so is SLEEF's exp. */
static void unsupported(void)
{
    heed_attention a = small_problem();
    for (int isa = HEED_ISA_SCALAR; isa <= HEED_ISA_NEON; isa++)
        for (int exp = HEED_EXP_DEFAULT; exp <= HEED_EXP_SLEEF; exp++) {
            heed_options o = check_options((heed_isa)isa, (heed_exp)exp, 1);
            bool usable = heed_isa_usable((heed_isa)isa);
            check_case("%s exp %d", heed_isa_name((heed_isa)isa), exp);
            if (!usable) {
                expect(&a, &o, HEED_ERROR_UNSUPPORTED, "isa");
                continue;
            }
            if (exp == HEED_EXP_SLEEF && !heed_sleef_usable((heed_isa)isa)) {
                expect(&a, &o, HEED_ERROR_UNSUPPORTED, "exp");
                continue;
            }
            heed_plan *plan = NULL;
            heed_error error = { "stale" };
            CHECK(heed_plan_create(&plan, &a, &o, &error) == HEED_OK && plan, "%s", error.message);
            CHECK(error.message[0] == 0, "the message after success is \"%s\"", error.message);
            CHECK((int)heed_plan_isa(plan) == isa, "another backend than asked for");
            heed_plan_destroy(plan);
        }
}

/* What heed_run refuses: each leaves the outputs alone. */
static void bad_runs(void)
{
    static const int32_t short_q[B] = { 0, -1 }, long_q[B] = { LQ + 1, 0 }, bad_kv[B] = { LK, INT32_MIN },
                         long_kv[B] = { 1, LK + 1 };
    heed_attention a = small_problem();
    heed_plan *plan = NULL;
    if (!CHECK(heed_plan_create(&plan, &a, NULL, NULL) == HEED_OK, "plan"))
        return;
    size_t size = heed_plan_workspace_size(plan);
    CHECK(size > 0, "this problem needs workspace");
    static const char *const words[] = { "q", "k", "v", "out", "lengths_q", "lengths_q", "lengths_kv", "lengths_kv",
        "struct_size", "struct_size", "workspace", "workspace", "workspace", "tensors", "plan" };
    for (size_t n = 0; n < sizeof words / sizeof words[0]; n++) {
        check_case("run %zu: %s", n, words[n]);
        heed_tensors t = small_tensors(), original = t;
        unsigned char *workspace = check_alloc(size, CHECK_GUARD_BEHIND);
        t.q = n == 0 ? NULL : t.q;
        t.k = n == 1 ? NULL : t.k;
        t.v = n == 2 ? NULL : t.v;
        t.out = n == 3 ? NULL : t.out;
        t.lengths_q = n == 4 ? short_q : n == 5 ? long_q : NULL;
        t.lengths_kv = n == 6 ? bad_kv : n == 7 ? long_kv : NULL;
        t.struct_size = n == 8 ? 3 : n == 9 ? sizeof t + 1 : sizeof t;
        size_t given = n == 10 ? size - 1 : n == 11 ? 0 : size;
        heed_error error = { "" };
        heed_status status =
            heed_run(n == 14 ? NULL : plan, n == 13 ? NULL : &t, n == 12 ? NULL : workspace, given, &error);
        refused(status, &error, n == 10 || n == 11 ? HEED_ERROR_WORKSPACE : HEED_ERROR_INVALID, words[n]);
        check_untouched(original.out, OUT, "out");
        check_untouched(original.lse, ROWS, "lse");
        check_untouched(original.weights, ROWS * LK, "weights");
        check_untouched_bytes(workspace, size, "workspace");
        check_free_all();
    }
    heed_plan_destroy(plan);
    heed_plan_destroy(NULL);
}

/* Case D01: every subset of the sizes set to 0, and 9 heads over 7.  Nothing is written outside, nothing is read. */
static void zero_sizes(void)
{
    for (unsigned set = 0; set < 128; set++) {
        heed_attention a = small_problem();
        int64_t *const sizes[] = { &a.batch, &a.num_heads, &a.num_kv_heads, &a.seq_len_q, &a.seq_len_kv, &a.head_dim,
            &a.head_dim_v };
        for (size_t n = 0; n < 7; n++)
            *sizes[n] = set >> n & 1 ? 0 : *sizes[n];
        a.causal = set % 2 ? HEED_CAUSAL_BOTTOM_RIGHT : HEED_CAUSAL_NONE;
        check_case("set %u", set);
        heed_tensors t = small_tensors();
        heed_error error = { "" };
        heed_status status = heed_attend(&a, &t, NULL, &error);
        bool invalid = a.head_dim == 0 || (a.num_kv_heads == 0 && a.num_heads > 0),
             empty = !a.batch || !a.num_heads || !a.seq_len_q;
        if (invalid)
            refused(status, &error, HEED_ERROR_INVALID, a.head_dim ? "num_kv_heads" : "");
        else
            CHECK(status == HEED_OK, "status %d %s", (int)status, error.message);
        if (invalid || empty)
            check_untouched(t.out, OUT, "out");
        const float *out = t.out;
        for (size_t i = 0; i < OUT && !invalid && !empty; i++)
            if (!(out[i] == 0.0f))
                CHECK(false, "out[%zu] is %g", i, (double)out[i]);
        check_free_all();
    }
    heed_attention a = small_problem();
    a.num_heads = 9;
    a.num_kv_heads = 7;
    a.seq_len_q = a.seq_len_kv = 0;
    expect(&a, NULL, HEED_ERROR_INVALID, "num_heads");
}

/* No keys: every row is 0 with LSE -inf, and q, k, v are not needed. */
static void no_keys(void)
{
    heed_attention a = small_problem();
    a.seq_len_kv = 0;
    heed_tensors t = small_tensors();
    t.q = t.k = t.v = NULL;
    heed_error error = { "" };
    CHECK(heed_attend(&a, &t, NULL, &error) == HEED_OK, "%s", error.message);
    const float *out = t.out;
    for (size_t i = 0; i < OUT; i++)
        if (check_bits(out[i]))
            CHECK(false, "out[%zu] is %g", i, (double)out[i]);
    for (size_t i = 0; i < ROWS; i++)
        CHECK(t.lse[i] == -INFINITY, "lse[%zu] is %g", i, (double)t.lse[i]);
    check_untouched(t.weights, ROWS * LK, "weights of no keys");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "attention_fields", attention_fields },
        { "attention_products", attention_products }, { "attention_strides", attention_strides },
        { "attention_choices", attention_choices }, { "bad_options", bad_options }, { "unsupported", unsupported },
        { "bad_runs", bad_runs }, { "zero_sizes", zero_sizes }, { "no_keys", no_keys } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
