/* The manners of projections, the layer and the row softmax; allocators, descriptions, names, versions, struct sizes.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "check.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refused(heed_status got, const heed_error *error, heed_status want, const char *word)
{
    CHECK(got == want, "status %d, want %d (%s): %s", (int)got, (int)want, heed_status_string(want), error->message);
    CHECK(strstr(error->message, word) && !strchr(error->message, '\n'), "the message does not name %s: \"%s\"", word,
        error->message);
}

typedef struct field_case {
    const char *word;
    heed_status status;
    size_t offset;
    int64_t value;
} field_case;

/* ---- Projections ---- */

static const float numbers[4096];

static heed_linear_desc small_linear(void)
{
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    desc.in_features = 6;
    desc.out_features = 5;
    desc.weight = numbers;
    desc.stride_in = 5;
    desc.stride_out = 1;
    return desc;
}

static void linear_create(void)
{
    static const field_case cases[] = { { "in_features", HEED_ERROR_INVALID, offsetof(heed_linear_desc, in_features),
                                            0 },
        { "in_features", HEED_ERROR_INVALID, offsetof(heed_linear_desc, in_features), -1 },
        { "out_features", HEED_ERROR_INVALID, offsetof(heed_linear_desc, out_features), 0 },
        { "stride_in", HEED_ERROR_INVALID, offsetof(heed_linear_desc, stride_in), -1 },
        { "stride_out", HEED_ERROR_INVALID, offsetof(heed_linear_desc, stride_out), -1 },
        { "", HEED_ERROR_OVERFLOW, offsetof(heed_linear_desc, in_features), INT64_MAX },
        { "", HEED_ERROR_OVERFLOW, offsetof(heed_linear_desc, out_features), INT64_MAX },
        { "", HEED_ERROR_OVERFLOW, offsetof(heed_linear_desc, stride_in), INT64_MAX },
        { "struct_size", HEED_ERROR_INVALID, offsetof(heed_linear_desc, struct_size), sizeof(heed_linear_desc) + 1 },
        { "struct_size", HEED_ERROR_INVALID, offsetof(heed_linear_desc, struct_size), 0 },
        { "weight", HEED_ERROR_INVALID, offsetof(heed_linear_desc, weight), 0 } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        check_case("%zu %s", n, cases[n].word);
        heed_linear_desc desc = small_linear();
        memcpy((char *)&desc + cases[n].offset, &cases[n].value, sizeof cases[n].value);
        heed_error error = { "" };
        int anything;
        heed_linear *linear = (heed_linear *)(void *)&anything;
        refused(heed_linear_create(&linear, &desc, NULL, &error), &error, cases[n].status, cases[n].word);
        CHECK(linear == NULL, "*linear is not NULL after an error");
    }
    heed_error error = { "" };
    heed_linear *linear = NULL;
    heed_linear_desc desc = small_linear();
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, -1);
    refused(heed_linear_create(&linear, &desc, &options, &error), &error, HEED_ERROR_INVALID, "num_threads");
    refused(heed_linear_create(NULL, &desc, NULL, &error), &error, HEED_ERROR_INVALID, "linear");
    refused(heed_linear_create(&linear, NULL, NULL, &error), &error, HEED_ERROR_INVALID, "desc");
    heed_linear_destroy(NULL);
}

static void linear_run(void)
{
    heed_linear_desc desc = small_linear();
    heed_linear *linear = NULL;
    if (!CHECK(heed_linear_create(&linear, &desc, NULL, NULL) == HEED_OK, "create"))
        return;
    CHECK(heed_linear_workspace_size(linear, 0) == 0, "0 rows need 0 bytes");
    size_t size = heed_linear_workspace_size(linear, 40);
    static const struct {
        const char *word;
        heed_status status;
        int64_t rows, stride_x, stride_y;
        int missing; /* 1 x, 2 y, 3 workspace too small, 4 workspace NULL, 5 linear */
    } cases[] = { { "rows", HEED_ERROR_INVALID, -1, 6, 5, 0 }, { "stride_x", HEED_ERROR_INVALID, 40, -1, 5, 0 },
        { "stride_y", HEED_ERROR_INVALID, 40, 6, 4, 0 }, { "stride_y", HEED_ERROR_INVALID, 40, 6, 0, 0 },
        { "x", HEED_ERROR_INVALID, 40, 6, 5, 1 }, { "y", HEED_ERROR_INVALID, 40, 6, 5, 2 },
        { "workspace", HEED_ERROR_WORKSPACE, 40, 6, 5, 3 }, { "workspace", HEED_ERROR_INVALID, 40, 6, 5, 4 },
        { "linear", HEED_ERROR_INVALID, 40, 6, 5, 5 }, { "", HEED_ERROR_OVERFLOW, 40, INT64_MAX / 8, 5, 0 },
        { "", HEED_ERROR_OVERFLOW, 40, 6, INT64_MAX / 8, 0 }, { "", HEED_ERROR_OVERFLOW, INT64_MAX, 6, 5, 0 } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        int missing = cases[n].missing;
        if ((missing == 3 || missing == 4) && !size)
            continue;
        check_case("%zu %s", n, cases[n].word);
        float *y = check_output(200, CHECK_GUARD_BEHIND);
        heed_error error = { "" };
        heed_status status = heed_linear_run(missing == 5 ? NULL : linear, cases[n].rows, missing == 1 ? NULL : numbers,
            cases[n].stride_x, missing == 2 ? NULL : y, cases[n].stride_y,
            missing == 4 ? NULL : check_alloc(size, CHECK_GUARD_BEHIND), missing == 3 ? size - 1 : size, &error);
        refused(status, &error, cases[n].status, cases[n].word);
        check_untouched(y, 200, "y");
        check_free_all();
    }
    CHECK(heed_linear_run(linear, 0, NULL, 6, NULL, 5, NULL, 0, NULL) == HEED_OK, "0 rows");
    heed_linear_destroy(linear);
}

/* ---- The layer ---- */

static heed_layer_desc small_layer(void)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = 8;
    desc.num_heads = desc.num_kv_heads = 2;
    desc.head_dim = 4;
    desc.weight_q = desc.weight_k = desc.weight_v = desc.weight_o = numbers;
    return desc;
}

#define LAYER(name) #name, HEED_ERROR_INVALID, offsetof(heed_layer_desc, name)

static void layer_create(void)
{
    static const field_case cases[] = { { LAYER(model_dim), 0 }, { LAYER(model_dim), -1 }, { LAYER(out_dim), -1 },
        { LAYER(num_heads), 0 }, { LAYER(num_heads), 3 }, { LAYER(num_kv_heads), 0 }, { LAYER(num_kv_heads), -2 },
        { LAYER(head_dim), 0 }, { LAYER(head_dim_v), -1 }, { LAYER(weight_q), 0 }, { LAYER(weight_k), 0 },
        { LAYER(weight_v), 0 }, { LAYER(weight_o), 0 }, { LAYER(struct_size), 0 },
        { LAYER(struct_size), sizeof(heed_layer_desc) + 8 } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0] + 4; n++) {
        heed_layer_desc desc = small_layer();
        const char *word = n < 15    ? cases[n].word
                           : n == 15 ? "scale"
                           : n == 16 ? "causal"
                           : n == 17 ? "weight_layout"
                                     : "";
        check_case("%zu %s", n, word);
        if (n < 15)
            memcpy((char *)&desc + cases[n].offset, &cases[n].value, sizeof cases[n].value);
        desc.scale = n == 15 ? NAN : 0.0f;
        desc.causal = n == 16 ? (heed_causal)9 : HEED_CAUSAL_NONE;
        desc.weight_layout = n == 17 ? (heed_weight_layout)2 : HEED_WEIGHT_OUT_IN;
        desc.model_dim = n == 18 ? INT64_MAX : desc.model_dim;
        heed_error error = { "" };
        int anything;
        heed_layer *layer = (heed_layer *)(void *)&anything;
        heed_status status = heed_layer_create(&layer, &desc, NULL, &error);
        if (n == 18)
            CHECK(status != HEED_OK, "a model_dim of INT64_MAX");
        else
            refused(status, &error, HEED_ERROR_INVALID, word);
        CHECK(layer == NULL, "*layer is not NULL after an error");
    }
    heed_error error = { "" };
    heed_layer_desc desc = small_layer();
    heed_layer *layer = NULL;
    refused(heed_layer_create(NULL, &desc, NULL, &error), &error, HEED_ERROR_INVALID, "layer");
    refused(heed_layer_create(&layer, NULL, NULL, &error), &error, HEED_ERROR_INVALID, "desc");
    heed_layer_destroy(NULL);
}

static void layer_run(void)
{
    static const int32_t long_lengths[2] = { 3, 4 }, negative[2] = { -1, 0 };
    heed_layer_desc desc = small_layer();
    heed_layer *layer = NULL;
    size_t size = 0;
    if (!CHECK(heed_layer_create(&layer, &desc, NULL, NULL) == HEED_OK, "create"))
        return;
    CHECK(heed_layer_workspace_size(layer, 2, 3, &size, NULL) == HEED_OK && size > 0, "size %zu", size);
    static const char *const words[] = { "x", "y", "lengths", "lengths", "struct_size", "workspace", "workspace",
        "tensors", "layer", "batch", "seq_len" };
    for (size_t n = 0; n < sizeof words / sizeof words[0]; n++) {
        check_case("%zu %s", n, words[n]);
        heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
        float *y = check_output(48, CHECK_GUARD_BEHIND);
        t.x = n == 0 ? NULL : numbers;
        t.y = n == 1 ? NULL : y;
        t.lengths = n == 2 ? long_lengths : n == 3 ? negative : NULL;
        t.struct_size = n == 4 ? 1 : sizeof t;
        heed_error error = { "" };
        heed_status status =
            heed_layer_run(n == 8 ? NULL : layer, n == 9 ? -1 : 2, n == 10 ? -1 : 3, n == 7 ? NULL : &t,
                n == 6 ? NULL : check_alloc(size, CHECK_GUARD_BEHIND), n == 5 ? size - 1 : size, &error);
        refused(status, &error, n == 5 ? HEED_ERROR_WORKSPACE : HEED_ERROR_INVALID, words[n]);
        check_untouched(y, 48, "y");
        check_free_all();
    }
    heed_error error = { "" };
    CHECK(heed_layer_workspace_size(layer, INT64_MAX, INT64_MAX, &size, &error) == HEED_ERROR_OVERFLOW &&
              error.message[0],
        "%s", error.message);
    CHECK(heed_layer_workspace_size(layer, INT64_C(1) << 30, INT64_C(1) << 30, &size, NULL) == HEED_ERROR_OVERFLOW,
        "2^60");
    refused(heed_layer_workspace_size(layer, 2, 3, NULL, &error), &error, HEED_ERROR_INVALID, "size");
    refused(heed_layer_workspace_size(NULL, 2, 3, &size, &error), &error, HEED_ERROR_INVALID, "layer");
    heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
    CHECK(heed_layer_run(layer, 0, 3, &t, NULL, 0, &error) == HEED_OK, "batch 0: %s", error.message);
    CHECK(heed_layer_run(layer, 2, 0, &t, NULL, 0, &error) == HEED_OK, "seq_len 0: %s", error.message);
    heed_layer_destroy(layer);
}

/* ---- Row softmax ---- */

static void softmax(void)
{
    static const int32_t long_lengths[2] = { 3, 4 }, negative[2] = { 0, -1 };
    static const struct {
        const char *word;
        heed_status status;
        int64_t rows, cols, stride_x, stride_y;
        int missing; /* 1 x, 2 y, 3 4 lengths, 5 options */
    } cases[] = { { "rows", HEED_ERROR_INVALID, -1, 3, 3, 3, 0 }, { "cols", HEED_ERROR_INVALID, 2, -1, 3, 3, 0 },
        { "x", HEED_ERROR_INVALID, 2, 3, 3, 3, 1 }, { "y", HEED_ERROR_INVALID, 2, 3, 3, 3, 2 },
        { "stride_x", HEED_ERROR_INVALID, 2, 3, -1, 3, 0 }, { "stride_y", HEED_ERROR_INVALID, 2, 3, 3, 2, 0 },
        { "lengths", HEED_ERROR_INVALID, 2, 3, 3, 3, 3 }, { "lengths", HEED_ERROR_INVALID, 2, 3, 3, 3, 4 },
        { "exp", HEED_ERROR_INVALID, 2, 3, 3, 3, 5 }, { "", HEED_ERROR_OVERFLOW, INT64_MAX, 3, 3, 3, 0 },
        { "", HEED_ERROR_OVERFLOW, 2, INT64_MAX, INT64_MAX, INT64_MAX, 0 },
        { "", HEED_ERROR_OVERFLOW, 2, 3, INT64_MAX / 2, 3, 0 } };
    heed_options bad = check_options(HEED_ISA_AUTO, (heed_exp)7, 1);
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        check_case("%zu %s", n, cases[n].word);
        int missing = cases[n].missing;
        float *y = check_output(6, CHECK_GUARD_BEHIND);
        heed_error error = { "" };
        heed_status status = heed_softmax(cases[n].rows, cases[n].cols, missing == 1 ? NULL : numbers,
            cases[n].stride_x, missing == 2 ? NULL : y, cases[n].stride_y,
            missing == 3   ? long_lengths
            : missing == 4 ? negative
                           : NULL,
            missing == 5 ? &bad : NULL, &error);
        refused(status, &error, cases[n].status, cases[n].word);
        check_untouched(y, 6, "y");
        check_free_all();
    }
    CHECK(heed_softmax(0, 3, NULL, 3, NULL, 3, NULL, NULL, NULL) == HEED_OK, "0 rows");
    CHECK(heed_softmax(3, 0, NULL, 0, NULL, 0, NULL, NULL, NULL) == HEED_OK, "0 cols");
}

/* ---- Memory of the caller: counted, and failing at the n-th request (case J06) ---- */

typedef struct counter {
    int64_t live, calls, fail_at;
} counter;

#if !defined(WRAP_MALLOC)
static void *count_allocate(void *context, size_t size)
{
    counter *c = context;
    if (++c->calls == c->fail_at)
        return NULL;
    c->live++;
    return malloc(size);
}

static void count_release(void *context, void *memory)
{
    counter *c = context;
    c->live -= memory != NULL;
    free(memory);
}
#endif

#if defined(WRAP_MALLOC)
/* Linked so that the library's malloc and free arrive here: the same for who brings no allocator. */
static counter *wrapped; /* NULL: not now */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void __real_free(void *memory);
void __wrap_free(void *memory);

void *__wrap_malloc(size_t size)
{
    if (wrapped && ++wrapped->calls == wrapped->fail_at)
        return NULL;
    if (wrapped)
        wrapped->live++;
    return __real_malloc(size);
}

void __wrap_free(void *memory)
{
    if (wrapped)
        wrapped->live -= memory != NULL;
    __real_free(memory);
}
#endif

static heed_status everything(const heed_options *options, heed_error *error, float *out)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = a.num_heads = a.num_kv_heads = 1;
    a.seq_len_q = a.seq_len_kv = 4;
    a.head_dim = 4;
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = t.k = t.v = numbers;
    t.out = out;
    heed_plan *plan = NULL;
    heed_linear *linear = NULL;
    heed_layer *layer = NULL;
    heed_linear_desc linear_desc = small_linear();
    heed_layer_desc layer_desc = small_layer();
    heed_status status = heed_attend(&a, &t, options, error);
    if (status == HEED_OK)
        status = heed_plan_create(&plan, &a, options, error);
    if (status == HEED_OK)
        status = heed_linear_create(&linear, &linear_desc, options, error);
    if (status == HEED_OK)
        status = heed_layer_create(&layer, &layer_desc, options, error);
    heed_plan_destroy(plan);
    heed_linear_destroy(linear);
    heed_layer_destroy(layer);
    return status;
}

/* The same with what it allocates counted. */
static heed_status counted(counter *c, heed_error *error, float *out)
{
    heed_options options = HEED_OPTIONS_INIT;
#if defined(WRAP_MALLOC)
    wrapped = c;
    const heed_status status = everything(&options, error, out);
    wrapped = NULL;
    return status;
#else
    const heed_allocator allocator = { c, count_allocate, count_release };
    options.allocator = &allocator;
    return everything(&options, error, out);
#endif
}

static void allocators(void)
{
    counter c = { 0, 0, 0 };
    heed_error error = { "" };
    float out[16];
    CHECK(counted(&c, &error, out) == HEED_OK, "%s", error.message);
    int64_t calls = c.calls;
    CHECK(calls >= 4 && c.live == 0, "%lld allocations, %lld not released", (long long)calls, (long long)c.live);
    for (int64_t n = 1; n <= calls; n++) {
        check_case("allocation %lld of %lld fails", (long long)n, (long long)calls);
        c.calls = 0;
        c.fail_at = n;
        refused(counted(&c, &error, out), &error, HEED_ERROR_OUT_OF_MEMORY, "");
        CHECK(error.message[0] && c.live == 0, "%lld not released: %s", (long long)c.live, error.message);
    }
    c.fail_at = 0;
    CHECK(counted(&c, &error, out) == HEED_OK, "after the failures: %s", error.message);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "linear_create", linear_create }, { "linear_run", linear_run },
        { "layer_create", layer_create }, { "layer_run", layer_run }, { "softmax", softmax },
        { "allocators", allocators } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
