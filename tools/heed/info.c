/* `heed info`: the machine, the backends, the build.
 * May know: heed.h, choice.h, system.h, the definitions of the build (HEED_BUILD_*).
 * Must not know: anything of the other commands. */
#include "command.h"

#include "choice.h"
#include "system.h"

#include "heed/heed.h"

#include <stdlib.h>
#include <string.h>

enum { OPT_JSON, OPT_COUNT };

static const option_spec specs[] = {
    [OPT_JSON] = { "json", 0, OPTION_FLAG },
    [OPT_COUNT] = { NULL, 0, OPTION_FLAG },
};

static const heed_isa isas[] = { HEED_ISA_SCALAR, HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_NEON };

enum { ISAS = sizeof isas / sizeof isas[0], REASON_SIZE = 160, FEATURES_SIZE = 512 };

/* One name and value of the build. */
typedef struct build_fact {
    const char *name, *value;
} build_fact;

static const build_fact build_facts[] = {
    { "build type", HEED_BUILD_TYPE },
    { "backends", HEED_BUILD_BACKENDS },
    { "openmp", HEED_BUILD_OPENMP },
    { "sleef", HEED_BUILD_SLEEF },
    { "shared library", HEED_BUILD_SHARED },
#ifdef HEED_HAVE_PNG
    { "png", "on" },
#else
    { "png", "off" },
#endif
};

enum { BUILD_FACTS = sizeof build_facts / sizeof build_facts[0] };

/* Why the default backend is the default.  Wider vectors than a CPU prefers are AVX-512's, so far. */
static void explain_choice(char *reason)
{
    const bool passed_over = heed_isa_usable(HEED_ISA_AVX512) && heed_isa_default() != HEED_ISA_AVX512;
    const choice_facts facts = { .chosen = heed_isa_name(heed_isa_default()),
        .wanted = getenv("HEED_ISA"),
        .preferred_bits = passed_over ? heed_cpu_preferred_bits() : 0 };
    choice_explain(reason, REASON_SIZE, &facts);
}

static void text_backends(void)
{
    char reason[REASON_SIZE];
    explain_choice(reason);
    for (int i = 0; i < ISAS; i++) {
        bool compiled = heed_isa_compiled(isas[i]) != 0;
        bool usable = heed_isa_usable(isas[i]) != 0;
        printf("%-10s %-7s %s%s", i ? "" : "backends", heed_isa_name(isas[i]), compiled ? "compiled" : "not compiled",
            usable     ? ", usable"
            : compiled ? ", not usable on this CPU"
                       : "");
        if (isas[i] == heed_isa_default()) {
            fputs(", chosen: ", stdout);
            print_clean(stdout, reason);
        }
        fputc('\n', stdout);
    }
    const char *between = "sleef      ";
    for (int i = 0; i < ISAS; i++) {
        if (heed_isa_compiled(isas[i])) {
            printf("%s%s: %s", between, heed_isa_name(isas[i]), heed_sleef_usable(isas[i]) ? "usable" : "not usable");
            between = ", ";
        }
    }
    fputc('\n', stdout);
}

static void text_machine(const system_facts *facts)
{
    char features[FEATURES_SIZE];
    heed_cpu_features(features, sizeof features);
    fputs("cpu        ", stdout);
    print_clean(stdout, facts->vendor);
    fputs(", ", stdout);
    print_clean(stdout, facts->model);
    printf("\nfeatures   %s\n", features[0] ? features : "none that heed knows");
    if (heed_cpu_preferred_bits() > 0) {
        printf("           prefers %d-bit vectors\n", (int)heed_cpu_preferred_bits());
    }
}

static void text_caches(const system_facts *facts)
{
    for (int i = 0; i < facts->num_caches; i++) {
        const system_cache *cache = &facts->caches[i];
        printf("%-10s L%d %s, %lld KiB", i ? "" : "caches", cache->level, cache->type, (long long)cache->bytes / 1024);
        if (cache->shared_by[0]) {
            fputs(", CPUs ", stdout);
            print_clean(stdout, cache->shared_by);
        }
        fputc('\n', stdout);
    }
    if (facts->num_caches == 0) {
        puts("caches     unknown: the system does not say");
    }
}

static void print_text(const system_facts *facts)
{
    const char *limit = getenv("OMP_NUM_THREADS");
    printf("heed       %s\n", heed_version());
    text_machine(facts);
    text_backends();
    text_caches(facts);
    printf("threads    %lld CPUs online; OpenMP: %s; OMP_NUM_THREADS ", (long long)facts->online_cpus,
        heed_has_openmp() ? "yes" : "no");
    print_clean(stdout, limit ? limit : "not set");
    printf("\ncompiler   %s\n", HEED_BUILD_COMPILER);
    for (int i = 0; i < BUILD_FACTS; i++) {
        printf("%-10s %s: %s\n", i ? "" : "options", build_facts[i].name, build_facts[i].value);
    }
}

/* A JSON string; bytes that are no printable ASCII are replaced, since the system may name things in any encoding. */
static void json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text < 0x20 || *text > 0x7E ? '?' : *text);
    }
    putchar('"');
}

static void json_field(const char *name, const char *value, const char *after)
{
    json_text(name);
    fputs(": ", stdout);
    json_text(value);
    fputs(after, stdout);
}

static const char *truth(int value)
{
    return value ? "true" : "false";
}

static void json_backends(void)
{
    char reason[REASON_SIZE];
    explain_choice(reason);
    fputs("  \"backends\": [\n", stdout);
    for (int i = 0; i < ISAS; i++) {
        printf("    {\"name\": \"%s\", \"compiled\": %s, \"usable\": %s, \"chosen\": %s, \"sleef\": %s}%s\n",
            heed_isa_name(isas[i]), truth(heed_isa_compiled(isas[i])), truth(heed_isa_usable(isas[i])),
            truth(isas[i] == heed_isa_default()), truth(heed_sleef_usable(isas[i])), i + 1 < ISAS ? "," : "");
    }
    fputs("  ],\n  ", stdout);
    json_field("chosen", heed_isa_name(heed_isa_default()), ",\n  ");
    json_field("reason", reason, ",\n");
}

static void json_caches(const system_facts *facts)
{
    fputs("  \"caches\": [", stdout);
    for (int i = 0; i < facts->num_caches; i++) {
        const system_cache *cache = &facts->caches[i];
        printf("%s\n    {\"level\": %d, \"bytes\": %lld, ", i ? "," : "", cache->level, (long long)cache->bytes);
        json_field("type", cache->type, ", ");
        json_field("cpus", cache->shared_by, "}");
    }
    fputs("\n  ],\n", stdout);
}

static void print_json(const system_facts *facts)
{
    char features[FEATURES_SIZE];
    const char *limit = getenv("OMP_NUM_THREADS");
    heed_cpu_features(features, sizeof features);
    fputs("{\n  ", stdout);
    json_field("version", heed_version(), ",\n  ");
    json_field("cpu_vendor", facts->vendor, ",\n  ");
    json_field("cpu_model", facts->model, ",\n  ");
    json_field("cpu_features", features, ",\n");
    printf("  \"preferred_vector_bits\": %d,\n", (int)heed_cpu_preferred_bits());
    json_backends();
    json_caches(facts);
    printf("  \"online_cpus\": %lld,\n  \"openmp\": %s,\n  ", (long long)facts->online_cpus, truth(heed_has_openmp()));
    if (limit) {
        json_field("omp_num_threads", limit, ",\n  ");
    } else {
        fputs("\"omp_num_threads\": null,\n  ", stdout);
    }
    json_field("compiler", HEED_BUILD_COMPILER, ",\n  \"options\": {\n");
    for (int i = 0; i < BUILD_FACTS; i++) {
        fputs("    ", stdout);
        json_field(build_facts[i].name, build_facts[i].value, i + 1 < BUILD_FACTS ? ",\n" : "\n");
    }
    fputs("  }\n}\n", stdout);
}

int command_info(int argc, char **argv)
{
    arguments parsed;
    int exit_code = EXIT_OK;
    if (!arguments_parse(argc, argv, specs, 0, &parsed, &exit_code)) {
        return exit_code;
    }
    system_facts facts = system_examine();
    if (parsed.values[OPT_JSON]) {
        print_json(&facts);
    } else {
        print_text(&facts);
    }
    return EXIT_OK;
}
