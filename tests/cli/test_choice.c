/* The reason that `heed info` gives for its default backend, on machines nobody has at hand.
 * May know: choice.h.
 * Must not know: how choice.c does it. */
#include "check.h"
#include "choice.h"

#include <string.h>

static void reasons(void)
{
    static const struct {
        choice_facts facts;
        const char *want;
    } cases[] = {
        { { "avx512", NULL, 0 }, "the best usable one" },
        { { "avx512", "", 0 }, "the best usable one" },
        { { "avx2", NULL, 256 }, "this CPU prefers 256-bit vectors" },
        { { "avx2", "", 256 }, "this CPU prefers 256-bit vectors" },
        { { "avx2", "avx2", 256 }, "HEED_ISA asks for it" },
        { { "avx512", "avx512", 0 }, "HEED_ISA asks for it" },
        { { "scalar", "scalar", 0 }, "HEED_ISA asks for it" },
        { { "avx512", "neon", 0 }, "the best usable one; HEED_ISA=neon is ignored, it names no usable backend" },
        { { "avx2", "neon", 256 },
            "this CPU prefers 256-bit vectors; HEED_ISA=neon is ignored, it names no usable backend" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[160];
        check_case("%s, HEED_ISA=%s, %d bits", cases[i].facts.chosen,
            cases[i].facts.wanted ? cases[i].facts.wanted : "-", (int)cases[i].facts.preferred_bits);
        choice_explain(text, sizeof text, &cases[i].facts);
        CHECK(strcmp(text, cases[i].want) == 0, "says: %s", text);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "reasons", reasons } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
