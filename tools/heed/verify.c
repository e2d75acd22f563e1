/* heed verify: fixed cases on every usable backend; their bits against each other, against f64, against a file.
 * May know: verify.h, command.h.
 * Must not know: what the cases are, how they are run. */
#include "verify.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

enum { QUICK, ISA, WRITE, CHECK, JSON, OPTIONS };

static const option_spec specs[OPTIONS + 1] = {
    [QUICK] = { "quick", 0, OPTION_FLAG },
    [ISA] = { "isa", 0, OPTION_VALUE },
    [WRITE] = { "write", 0, OPTION_VALUE },
    [CHECK] = { "check", 0, OPTION_VALUE },
    [JSON] = { "json", 0, OPTION_FLAG },
};

typedef struct verify_state {
    const char *write, *check;
    bool quick, json;
    heed_isa isa;
    verify_case *cases;
    verify_result *results;
    verify_expected *expected;
    verify_unknown unknown;
    int64_t count;
} verify_state;

static bool read_isa(const char *name, heed_isa *isa, char *message)
{
    *isa = HEED_ISA_AUTO;
    if (!name)
        return true;
    static const heed_isa all[VERIFY_BACKENDS] = { HEED_ISA_SCALAR, HEED_ISA_AVX2, HEED_ISA_AVX512, HEED_ISA_NEON };
    for (int i = 0; i < VERIFY_BACKENDS; i++)
        if (strcmp(name, heed_isa_name(all[i])) == 0)
            *isa = all[i];
    if (*isa == HEED_ISA_AUTO)
        return complain(message, MESSAGE_SIZE, "--isa: '%.64s' is none of scalar, avx2, avx512, neon", name);
    if (!heed_isa_usable(*isa))
        return complain(message, MESSAGE_SIZE, "--isa: %s %s", name,
            heed_isa_compiled(*isa) ? "cannot run on this CPU" : "is not in this build");
    return true;
}

static double run_cases(verify_state *state, const verify_backends *backends)
{
    double start = seconds_now();
    for (int64_t i = 0; i < state->count; i++) {
        progress_show("verifying", i, state->count);
        if (!state->quick || state->cases[i].quick) {
            verify_run(&state->cases[i], backends, &state->results[i]);
            continue;
        }
        state->results[i] = (verify_result){ .skipped = true };
        complain(state->results[i].detail, VERIFY_DETAIL_SIZE, "left out by --quick");
    }
    progress_clear();
    return seconds_now() - start;
}

/* Before the long work: cases, memory, and the file to compare with. */
static int prepare(verify_state *state)
{
    char message[MESSAGE_SIZE];
    state->cases = verify_cases_create(&state->count);
    state->results = state->cases ? allocate_array(state->count, sizeof *state->results) : NULL;
    state->expected = state->cases ? allocate_array(state->count, sizeof *state->expected) : NULL;
    if (!state->results || !state->expected)
        return fail("verify", NULL, "out of memory");
    if (state->write && !output_check(state->write, message, sizeof message))
        return fail("verify", state->write, "%s", message);
    if (state->check && !verify_file_read(state->check, state->cases, state->count, state->expected, &state->unknown,
                            message, sizeof message))
        return fail("verify", state->check, "%s", message);
    return EXIT_OK;
}

static int write_file(const verify_state *state)
{
    char message[MESSAGE_SIZE];
    outputs set = { 0 };
    int failed; /* there is but one file */
    FILE *file = outputs_open(&set, state->write, message, sizeof message);
    if (file)
        verify_file_write(file, state->cases, state->results, state->count);
    bool written = file && outputs_commit(&set, &failed, message, sizeof message);
    outputs_discard(&set);
    return written ? EXIT_OK : fail("verify", state->write, "%s", message);
}

static int run(verify_state *state)
{
    int code = prepare(state);
    if (code != EXIT_OK)
        return code;
    verify_backends backends = verify_backends_find(state->isa);
    verify_report report = {
        .cases = state->cases,
        .results = state->results,
        .expected = state->check ? state->expected : NULL,
        .count = state->count,
        .backends = &backends,
        .unknown = state->check ? &state->unknown : NULL,
    };
    report.seconds = run_cases(state, &backends);
    bool agree = state->json ? verify_print_json(&report) : verify_print_table(&report);
    if (!agree)
        return EXIT_CHECK_FAILED; /* what does not agree here is no reference for others: nothing is written */
    return state->write ? write_file(state) : EXIT_OK;
}

int command_verify(int argc, char **argv)
{
    arguments given;
    int code;
    char message[MESSAGE_SIZE];
    if (!arguments_parse(argc, argv, specs, 0, &given, &code))
        return code;
    verify_state state = {
        .write = given.values[WRITE],
        .check = given.values[CHECK],
        .quick = given.values[QUICK] != NULL,
        .json = given.values[JSON] != NULL,
    };
    if (!read_isa(given.values[ISA], &state.isa, message))
        return fail("verify", NULL, "%s", message);
    code = run(&state);
    free(state.cases);
    free(state.results);
    free(state.expected);
    return code;
}
