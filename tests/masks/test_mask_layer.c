/* heed_layer with rotary embedding, window, softcap, bias: equal to its parts run alone bit for bit, near the oracle.
 * May know: the public header, layer_case.h, check.h.
 * Must not know: anything under src/. */
#include "layer_case.h"

static const layer_case cases[] = {
    { 2, 33, 64, 64, 4, 2, 16, 16, HEED_CAUSAL_BOTTOM_RIGHT, HEED_ROPE_HALVES, 0, -1, -1, 0, 0, false, true },
    { 1, 70, 40, 24, 6, 1, 8, 9, HEED_CAUSAL_NONE, HEED_ROPE_INTERLEAVED, 6, 10, 3, 2.0f, 6, true, false },
    { 3, 17, 32, 33, 3, 3, 7, 5, HEED_CAUSAL_TOP_LEFT, HEED_ROPE_NONE, 0, 4, -1, 0.5f, 1, false, true },
    { 1, 300, 48, 16, 4, 2, 12, 12, HEED_CAUSAL_BOTTOM_RIGHT, HEED_ROPE_HALVES, 4, 40, -1, 0, 1, true, false },
    { 2, 20, 24, 24, 2, 1, 10, 3, HEED_CAUSAL_NONE, HEED_ROPE_INTERLEAVED, 0, -1, 0, 0, 2, false, true },
    { 1, 1, 8, 8, 1, 1, 2, 2, HEED_CAUSAL_NONE, HEED_ROPE_HALVES, 0, 0, 0, 1.0f, 1, false, false },
    { 2, 40, 96, 96, 13, 13, 6, 37, HEED_CAUSAL_TOP_LEFT, HEED_ROPE_HALVES, 2, -1, -1, 3.0f, 13, true, true },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void parts_and_oracle(void)
{
    check_rng rng = check_rng_named("layer");
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    for (size_t n = 0; n < CASES; n++) {
        const layer_case *c = &cases[n];
        layer_data d = layer_fill(c, &rng);
        const heed_options plain = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
        check_case("case %zu", n);
        layer_result scalar = layer_run(c, &d, &plain);
        layer_check_oracle(c, &d, &scalar);
        for (size_t i = 0; i < count; i++) {
            const heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 3);
            check_case("case %zu %s", n, heed_isa_name(list[i]));
            layer_result other = layer_run(c, &d, &options), parts = layer_run_parts(c, &d, &options);
            layer_same(c, &other, &scalar);
            layer_same(c, &parts, &scalar);
            layer_free_result(&other);
            layer_free_result(&parts);
        }
        layer_free_result(&scalar);
        layer_free(&d);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "parts_and_oracle", parts_and_oracle } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
