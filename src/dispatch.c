/* The list of backends, best first, and the choice among them.
 * May know: which backends were compiled, CPU bits, the environment variable HEED_ISA.  Must not know: instructions.
 * The only global state of the library is here: two atomics that every racing thread sets to the same value. */
#define _GNU_SOURCE /* secure_getenv */
#include "backend.h"
#include "cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What was compiled, best first, as the build says it:
 * HEED_BACKEND_LIST=HEED_ROW(avx512)HEED_ROW(avx2)HEED_ROW(scalar). */
#define HEED_ROW(name) extern const heed_backend heed_backend_##name;
HEED_BACKEND_LIST
#undef HEED_ROW

const heed_backend *const heed_backends[] = {
#define HEED_ROW(name) &heed_backend_##name,
    HEED_BACKEND_LIST NULL
#undef HEED_ROW
};

/* Every value of heed_isa, compiled or not. */
static const char *const isa_names[] = { "auto", "scalar", "avx2", "avx512", "neon" };

enum { CPU_DETECTED = 1 << 30 };
_Static_assert(HEED_CPU_COUNT < 30, "CPU_DETECTED must not be a feature");

uint32_t heed_cpu(void)
{
    static _Atomic uint32_t cache;
    uint32_t features = atomic_load_explicit(&cache, memory_order_relaxed);
    if (!features) {
        features = heed_cpu_detect() | CPU_DETECTED;
        atomic_store_explicit(&cache, features, memory_order_relaxed);
    }
    return features & ~(uint32_t)CPU_DETECTED;
}

int heed_backend_usable(const heed_backend *backend, uint32_t cpu)
{
    return (cpu & backend->requires_cpu) == backend->requires_cpu;
}

int heed_backend_sleef_usable(const heed_backend *backend, uint32_t cpu)
{
    return backend->has_sleef && heed_backend_usable(backend, cpu) &&
           (cpu & backend->sleef_requires_cpu) == backend->sleef_requires_cpu;
}

/* A name the CPU cannot run, or that nobody knows, is ignored: the variable only chooses among what runs.  A
 * preference passes over wider vectors where there are others: never for scalar, and never against the variable. */
const heed_backend *heed_backend_choose(uint32_t cpu, uint32_t preferences, const char *env)
{
    const int32_t widest = preferences & HEED_CPU_PREFERS_256 ? 256 / 32 : INT32_MAX;
    const heed_backend *best = NULL, *preferred = NULL;
    for (int i = 0; heed_backends[i]; i++) {
        const heed_backend *backend = heed_backends[i];
        if (!heed_backend_usable(backend, cpu))
            continue;
        if (env && strcmp(env, heed_isa_name(backend->isa)) == 0)
            return backend;
        if (!best)
            best = backend;
        if (!preferred && backend->lanes > 1 && backend->lanes <= widest)
            preferred = backend;
    }
    return preferred ? preferred : best;
}

static const heed_backend *default_backend(void)
{
    static _Atomic(const heed_backend *) cache;
    const heed_backend *backend = atomic_load_explicit(&cache, memory_order_acquire);
    if (!backend) {
#if defined(__GLIBC__)
        const char *env = secure_getenv("HEED_ISA");
#else
        const char *env = getenv("HEED_ISA");
#endif
        backend = heed_backend_choose(heed_cpu(), heed_cpu_detect_preferences(), env);
        atomic_store_explicit(&cache, backend, memory_order_release);
    }
    return backend;
}

const heed_backend *heed_backend_find(heed_isa isa)
{
    if (isa == HEED_ISA_AUTO)
        return default_backend();
    for (int i = 0; heed_backends[i]; i++)
        if (heed_backends[i]->isa == isa)
            return heed_backends[i];
    return NULL;
}

const char *heed_isa_name(heed_isa isa)
{
    const size_t at = (size_t)isa;
    return at < sizeof isa_names / sizeof isa_names[0] ? isa_names[at] : "unknown";
}

int heed_isa_compiled(heed_isa isa)
{
    return heed_backend_find(isa) != NULL;
}

int heed_isa_usable(heed_isa isa)
{
    const heed_backend *backend = heed_backend_find(isa);
    return backend && heed_backend_usable(backend, heed_cpu());
}

heed_isa heed_isa_default(void)
{
    return default_backend()->isa;
}

int heed_sleef_usable(heed_isa isa)
{
    const heed_backend *backend = heed_backend_find(isa);
    return backend && heed_backend_sleef_usable(backend, heed_cpu());
}

int32_t heed_cpu_preferred_bits(void)
{
    return heed_cpu_detect_preferences() & HEED_CPU_PREFERS_256 ? 256 : 0;
}

size_t heed_cpu_features(char *text, size_t size)
{
    const uint32_t features = heed_cpu();
    size_t length = 0;
    if (size)
        text[0] = '\0';
    for (int i = 0; i < HEED_CPU_COUNT; i++) {
        if (!(features >> i & 1))
            continue;
        for (const char *c = length ? " " : ""; *c; c++, length++)
            if (length + 1 < size)
                text[length] = *c;
        for (const char *c = heed_cpu_feature_name(UINT32_C(1) << i); *c; c++, length++)
            if (length + 1 < size)
                text[length] = *c;
    }
    if (size)
        text[length < size ? length : size - 1] = '\0';
    return length;
}

const char *heed_version(void)
{
#define HEED_TEXT2(x) #x
#define HEED_TEXT(x) HEED_TEXT2(x)
    return HEED_TEXT(HEED_VERSION_MAJOR) "." HEED_TEXT(HEED_VERSION_MINOR) "." HEED_TEXT(HEED_VERSION_PATCH);
}

const char *heed_status_string(heed_status status)
{
    switch (status) {
    case HEED_OK: return "success";
    case HEED_ERROR_INVALID: return "invalid argument";
    case HEED_ERROR_UNSUPPORTED: return "not supported by this CPU or build";
    case HEED_ERROR_OVERFLOW: return "size does not fit the address space";
    case HEED_ERROR_WORKSPACE: return "workspace too small";
    case HEED_ERROR_OUT_OF_MEMORY: return "out of memory";
    }
    return "unknown status";
}
