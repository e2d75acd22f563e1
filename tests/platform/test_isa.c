/* What the library says about this machine's instruction sets, and that what is asked for is what runs.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const heed_isa isas[] = { HEED_ISA_SCALAR, HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_NEON };
enum { ISAS = sizeof isas / sizeof isas[0] };

static bool has_word(const char *text, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += length)
        if ((at == text || at[-1] == ' ') && (at[length] == ' ' || at[length] == '\0'))
            return true;
    return false;
}

static heed_attention small_problem(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = 1;
    a.num_heads = a.num_kv_heads = 2;
    a.seq_len_q = 3;
    a.seq_len_kv = 19;
    a.head_dim = 20;
    return a;
}

/* Cut at every size: what fits, an end, and not a byte more. */
static void features_text(void)
{
    char whole[512], before = '\x7f';
    const size_t length = heed_cpu_features(whole, sizeof whole);
    if (!CHECK(length < sizeof whole - 1 && strlen(whole) == length, "length %zu of '%s'", length, whole))
        return;
    check_note("features: %s", length ? whole : "none");
    CHECK(heed_cpu_features(NULL, 0) == length, "the length alone");
    for (size_t size = 0; size <= length + 2; size++) {
        char *text = check_alloc(size, CHECK_GUARD_BEHIND);
        check_case("size %zu of %zu", size, length + 1);
        CHECK(heed_cpu_features(text, size) == length, "the length does not depend on the size");
        const size_t fits = size == 0 ? 0 : size - 1 < length ? size - 1 : length;
        CHECK(memcmp(text, whole, fits) == 0, "the text differs");
        CHECK(size == 0 || text[fits] == '\0', "no end");
    }
    check_case("%s", "");
    CHECK(length == 0 || (whole[0] != ' ' && whole[length - 1] != ' ' && !strstr(whole, "  ")), "'%s'", whole);
    heed_cpu_features(&before, 0);
    CHECK(before == '\x7f', "size 0 wrote");
}

static void agreement(void)
{
    char features[512];
    heed_cpu_features(features, sizeof features);
    const heed_isa best = heed_isa_default();
    CHECK(heed_isa_compiled(HEED_ISA_SCALAR) == 1 && heed_isa_usable(HEED_ISA_SCALAR) == 1, "scalar is always there");
    CHECK(heed_isa_compiled(best) == 1 && heed_isa_usable(best) == 1, "the default cannot run");
    CHECK(heed_isa_compiled(HEED_ISA_AUTO) == 1 && heed_isa_usable(HEED_ISA_AUTO) == 1, "auto cannot run");
    CHECK(heed_sleef_usable(HEED_ISA_AUTO) == heed_sleef_usable(best), "SLEEF of auto");
    CHECK(best != HEED_ISA_AUTO, "the default is a backend");
    for (int i = 0; i < ISAS; i++) {
        check_case("%s", heed_isa_name(isas[i]));
        CHECK(heed_isa_usable(isas[i]) <= heed_isa_compiled(isas[i]), "usable but not compiled");
        CHECK(heed_sleef_usable(isas[i]) <= heed_isa_usable(isas[i]), "SLEEF usable, the backend not");
    }
    check_case("%s", "");
    CHECK(heed_isa_usable(HEED_ISA_AVX2) == (heed_isa_compiled(HEED_ISA_AVX2) && has_word(features, "avx2") &&
                                                has_word(features, "fma") && has_word(features, "f16c")),
        "avx2 and the features");
    CHECK(heed_isa_usable(HEED_ISA_AVX512) ==
              (heed_isa_compiled(HEED_ISA_AVX512) && has_word(features, "avx512f") && has_word(features, "avx512dq") &&
                  has_word(features, "avx512bw") && has_word(features, "avx512vl") && has_word(features, "avx2") &&
                  has_word(features, "fma") && has_word(features, "f16c")),
        "avx512 and the features");
    CHECK(heed_isa_usable(HEED_ISA_NEON) == (heed_isa_compiled(HEED_ISA_NEON) && has_word(features, "neon")),
        "neon and the features");
#if defined(__x86_64__) && defined(__GNUC__)
    /* The compiler's own run-time library asks the same; without AVX it may still report what builds on it. */
    __builtin_cpu_init();
    const bool avx = __builtin_cpu_supports("avx") != 0, avx2 = avx && __builtin_cpu_supports("avx2");
    const bool vl = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    CHECK(has_word(features, "avx") == avx, "avx: the compiler disagrees");
    CHECK(has_word(features, "avx2") == avx2, "avx2: the compiler disagrees");
    CHECK(has_word(features, "fma") == (avx && __builtin_cpu_supports("fma")), "fma: the compiler disagrees");
    CHECK(has_word(features, "avx512vl") == vl, "avx512vl: the compiler disagrees");
#endif
}

static void strangers(void)
{
    static const int values[] = { -1, 5, 77, 1 << 30 };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        const heed_isa isa = (heed_isa)values[i];
        check_case("heed_isa %d", values[i]);
        CHECK(strcmp(heed_isa_name(isa), "unknown") == 0, "its name is %s", heed_isa_name(isa));
        CHECK(!heed_isa_compiled(isa) && !heed_isa_usable(isa) && !heed_sleef_usable(isa), "it exists");
    }
    check_case("%s", "");
    CHECK(strcmp(heed_isa_name(HEED_ISA_AUTO), "auto") == 0, "auto");
    for (int i = 0; i < ISAS; i++)
        for (int j = 0; j < i; j++)
            CHECK(strcmp(heed_isa_name(isas[i]), heed_isa_name(isas[j])) != 0, "two of one name");
}

/* The line "backend: NAME (...)" of the description. */
static bool describes(const heed_plan *plan, heed_isa isa)
{
    char text[1024], want[64];
    heed_plan_describe(plan, text, sizeof text);
    snprintf(want, sizeof want, "backend: %s ", heed_isa_name(isa));
    const char *found = strstr(text, want);
    return found && (found == text || found[-1] == '\n');
}

static void check_refused(heed_status status, const heed_error *error, heed_isa isa)
{
    CHECK(status == HEED_ERROR_UNSUPPORTED, "status %s", heed_status_string(status));
    CHECK(strstr(error->message, "isa") && strstr(error->message, heed_isa_name(isa)),
        "the message names neither field nor backend: '%s'", error->message);
    CHECK(!strchr(error->message, '\n'), "more than a line");
}

/* A plan for each instruction set: it runs on what was asked for, or is refused with a message. */
static void plans(void)
{
    const heed_attention a = small_problem();
    for (int i = 0; i < ISAS; i++) {
        const heed_options options = check_options(isas[i], HEED_EXP_DEFAULT, 1);
        heed_plan *plan = NULL;
        heed_error error = { "" };
        check_case("%s", heed_isa_name(isas[i]));
        const heed_status status = heed_plan_create(&plan, &a, &options, &error);
        if (!heed_isa_usable(isas[i])) {
            CHECK(plan == NULL, "a plan in spite of the error");
            check_refused(status, &error, isas[i]);
            continue;
        }
        if (!CHECK(status == HEED_OK && plan, "refused: %s", error.message))
            continue;
        CHECK(heed_plan_isa(plan) == isas[i], "runs on %s", heed_isa_name(heed_plan_isa(plan)));
        CHECK(describes(plan, isas[i]), "the description names another backend");
        heed_plan_destroy(plan);
    }
    heed_plan *plan = NULL;
    check_case("auto");
    CHECK(heed_plan_create(&plan, &a, NULL, NULL) == HEED_OK && plan, "refused");
    CHECK(plan && heed_plan_isa(plan) == heed_isa_default() && describes(plan, heed_isa_default()), "not the default");
    heed_plan_destroy(plan);
}

/* The other operations refuse like attention, and leave their outputs alone. */
static void refusals(void)
{
    const heed_attention a = small_problem();
    float values[2 * 19 * 20] = { 0.0f };
    float *out = check_output(2 * 19 * 20, CHECK_GUARD_BEHIND);
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = tensors.k = tensors.v = values;
    tensors.out = out;
    heed_linear_desc linear = HEED_LINEAR_DESC_INIT;
    linear.in_features = linear.out_features = linear.stride_in = 4;
    linear.stride_out = 1;
    linear.weight = values;
    heed_layer_desc layer = HEED_LAYER_DESC_INIT;
    layer.model_dim = layer.head_dim = 4;
    layer.num_heads = layer.num_kv_heads = 1;
    layer.weight_q = layer.weight_k = layer.weight_v = layer.weight_o = values;
    for (int i = 0; i < ISAS; i++) {
        const heed_options options = check_options(isas[i], HEED_EXP_DEFAULT, 1);
        heed_error error = { "" };
        heed_linear *made_linear = NULL;
        heed_layer *made_layer = NULL;
        check_case("%s", heed_isa_name(isas[i]));
        if (heed_isa_usable(isas[i])) {
            CHECK(heed_linear_create(&made_linear, &linear, &options, &error) == HEED_OK, "%s", error.message);
            CHECK(heed_layer_create(&made_layer, &layer, &options, &error) == HEED_OK, "%s", error.message);
            heed_linear_destroy(made_linear);
            heed_layer_destroy(made_layer);
            continue;
        }
        check_refused(heed_attend(&a, &tensors, &options, &error), &error, isas[i]);
        check_refused(heed_softmax(1, 9, values, 9, out, 9, NULL, &options, &error), &error, isas[i]);
        check_refused(heed_linear_create(&made_linear, &linear, &options, &error), &error, isas[i]);
        check_refused(heed_layer_create(&made_layer, &layer, &options, &error), &error, isas[i]);
        CHECK(!made_linear && !made_layer, "an object in spite of the error");
        check_untouched(out, 2 * 19 * 20, "after a refusal");
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "features_text", features_text }, { "agreement", agreement },
        { "strangers", strangers }, { "plans", plans }, { "refusals", refusals } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
