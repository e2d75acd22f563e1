/* Why a backend is the default one, in words: for `heed info`.
 * May know: choice.h.
 * Must not know: the machine, the environment. */
#include "choice.h"

#include <stdio.h>
#include <string.h>

enum { RULE_SIZE = 96 };

void choice_explain(char *text, size_t size, const choice_facts *facts)
{
    char rule[RULE_SIZE] = "the best usable one";
    if (facts->preferred_bits > 0) {
        snprintf(rule, sizeof rule, "this CPU prefers %d-bit vectors", (int)facts->preferred_bits);
    }
    if (!facts->wanted || *facts->wanted == 0) {
        snprintf(text, size, "%s", rule);
    } else if (strcmp(facts->wanted, facts->chosen) == 0) {
        snprintf(text, size, "HEED_ISA asks for it");
    } else {
        snprintf(text, size, "%s; HEED_ISA=%.64s is ignored, it names no usable backend", rule, facts->wanted);
    }
}
