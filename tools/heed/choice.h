/* Why a backend is the default one, in words.
 * May know: nothing of the library.
 * Must not know: the machine, the environment. */
#ifndef HEED_TOOL_CHOICE_H
#define HEED_TOOL_CHOICE_H

#include <stddef.h>
#include <stdint.h>

typedef struct choice_facts {
    const char *chosen;     /* name of the default backend */
    const char *wanted;     /* value of HEED_ISA, or NULL */
    int32_t preferred_bits; /* the CPU's preference if a usable backend was passed over for it, else 0 */
} choice_facts;

void choice_explain(char *text, size_t size, const choice_facts *facts);

#endif
