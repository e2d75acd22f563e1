/* What the operating system tells about the machine.
 * May know: /proc and /sys of Linux, POSIX.
 * Must not know: the library heed. */
#ifndef HEED_TOOL_SYSTEM_H
#define HEED_TOOL_SYSTEM_H

#include <stdint.h>

enum { SYSTEM_TEXT = 96, SYSTEM_CACHES = 8 };

typedef struct system_cache {
    int level;
    char type[16]; /* "data", "instruction", "unified" */
    int64_t bytes;
    char shared_by[SYSTEM_TEXT]; /* list of CPUs, "0-7" */
} system_cache;

typedef struct system_facts {
    char vendor[SYSTEM_TEXT], model[SYSTEM_TEXT]; /* "unknown" where the system does not say */
    int64_t online_cpus;
    int num_caches; /* of CPU 0 */
    system_cache caches[SYSTEM_CACHES];
} system_facts;

system_facts system_examine(void);

#endif
