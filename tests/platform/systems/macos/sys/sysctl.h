/* What src/cpu_arm.c takes from macOS's header of this name,
 * so that its lines for that system are compiled on every machine.
 * May know: the declaration.
 * Must not know: anything else. */
#include <stddef.h>

int sysctlbyname(const char *name, void *old_value, size_t *old_size, void *new_value, size_t new_size);
