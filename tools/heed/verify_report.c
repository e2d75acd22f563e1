/* The result of a verification for people and for programs.
 * May know: verify.h.
 * Must not know: how cases are run or files are read. */
#include "verify.h"

#include <inttypes.h>
#include <string.h>

static const char *const verdict_words[VERDICT_COUNT] = {
    [VERDICT_SAME] = "same",
    [VERDICT_NOT_RUN] = "NOT RUN",
    [VERDICT_SKIPPED] = "LEFT OUT",
    [VERDICT_UNCHECKED] = "same, NOT CHECKED",
    [VERDICT_DIFFERENT] = "DIFFERENT",
    [VERDICT_WRONG] = "WRONG",
    [VERDICT_CHANGED] = "CHANGED",
    [VERDICT_MISSING] = "NOT IN FILE",
};

verify_verdict verify_judge(const verify_report *report, int64_t index)
{
    const verify_result *result = &report->results[index];
    const verify_expected *expected = report->expected ? &report->expected[index] : NULL;
    if (result->ran && !result->same)
        return VERDICT_DIFFERENT;
    if (result->ran && !result->accurate)
        return VERDICT_WRONG;
    if (expected && !expected->present)
        return VERDICT_MISSING;
    if (!result->ran)
        return result->skipped ? VERDICT_SKIPPED : VERDICT_NOT_RUN;
    if (expected && !expected->ran)
        return VERDICT_UNCHECKED;
    return expected && expected->fingerprint != result->fingerprint ? VERDICT_CHANGED : VERDICT_SAME;
}

typedef struct totals {
    int64_t of[VERDICT_COUNT];
    bool agree;
} totals;

static totals add_up(const verify_report *report)
{
    totals sums = { .agree = true };
    for (int64_t i = 0; i < report->count; i++)
        sums.of[verify_judge(report, i)]++;
    for (int verdict = VERDICT_DIFFERENT; verdict < VERDICT_COUNT; verdict++)
        sums.agree = sums.agree && sums.of[verdict] == 0;
    sums.agree = sums.agree && (!report->unknown || report->unknown->count == 0);
    /* A run in which nothing could be compared has not shown anything. */
    sums.agree = sums.agree && sums.of[VERDICT_SAME] + sums.of[VERDICT_UNCHECKED] > 0;
    return sums;
}

static const char *threads_text(void)
{
    return heed_has_openmp() ? "1 and 3 (OpenMP)" : "1 and an executor of 3 (no OpenMP in this build)";
}

static void print_details(const verify_report *report)
{
    for (int64_t i = 0; i < report->count; i++) {
        const verify_result *result = &report->results[i];
        verify_verdict verdict = verify_judge(report, i);
        if (verdict == VERDICT_CHANGED)
            printf("%s: %s: %016" PRIx64 " here, %016" PRIx64 " in the file\n", report->cases[i].name,
                verdict_words[verdict], result->fingerprint, report->expected[i].fingerprint);
        else if (verdict == VERDICT_DIFFERENT || verdict == VERDICT_WRONG)
            printf("%s: %s: %s\n", report->cases[i].name, verdict_words[verdict], result->detail);
        else if (verdict == VERDICT_MISSING)
            printf("%s: the file does not have this case\n", report->cases[i].name);
    }
    const verify_unknown *unknown = report->unknown;
    int64_t shown = (int64_t)(sizeof unknown->names / sizeof unknown->names[0]);
    for (int64_t i = 0; unknown && i < unknown->count && i < shown; i++)
        printf("only in the file: %s\n", unknown->names[i]);
    if (unknown && unknown->count > shown)
        printf("only in the file: %" PRId64 " more\n", unknown->count - shown);
}

static void print_summary(const verify_report *report, const totals *sums)
{
    printf("%" PRId64 " cases in %.1f s: %" PRId64 " same", report->count, report->seconds, sums->of[VERDICT_SAME]);
    static const struct {
        verify_verdict verdict;
        const char *words;
    } others[] = {
        { VERDICT_DIFFERENT, "different between runs" },
        { VERDICT_WRONG, "wrong against f64" },
        { VERDICT_CHANGED, "different from the file" },
        { VERDICT_MISSING, "not in the file" },
        { VERDICT_UNCHECKED, "same here but NOT CHECKED, as the file has no value" },
        { VERDICT_NOT_RUN, "NOT RUN" },
        { VERDICT_SKIPPED, "left out" },
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (sums->of[others[i].verdict] > 0)
            printf(", %" PRId64 " %s", sums->of[others[i].verdict], others[i].words);
    if (report->unknown && report->unknown->count > 0)
        printf(", %" PRId64 " only in the file", report->unknown->count);
    printf(".  %s\n", sums->agree ? "All that was run agrees." : "THERE ARE DIFFERENCES.");
}

static void print_case(const verify_report *report, int64_t index)
{
    const verify_result *result = &report->results[index];
    const char *name = report->cases[index].name;
    verify_verdict verdict = verify_judge(report, index);
    if (verdict == VERDICT_SKIPPED)
        return; /* counted in the summary */
    if (result->ran)
        printf("%-36s %10.1f %10.1e  %016" PRIx64 "  %s\n", name, result->ulp, result->relative, result->fingerprint,
            verdict_words[verdict]);
    else
        printf("%-36s %10s %10s  %-16s  %s: %s\n", name, "-", "-", "-", verdict_words[verdict], result->detail);
}

bool verify_print_table(const verify_report *report)
{
    fputs("backends:", stdout);
    for (int b = 0; b < report->backends->count; b++)
        printf(" %s%s", heed_isa_name(report->backends->list[b]),
            heed_sleef_usable(report->backends->list[b]) ? "" : " (without SLEEF)");
    printf("; threads: %s\n\n%-36s %10s %10s  %-16s  %s\n", threads_text(), "case", "max ULP", "max error",
        "fingerprint", "result");
    for (int64_t i = 0; i < report->count; i++)
        print_case(report, i);
    fputs("\nAgainst f64 (r).  Error: largest |v - r| of an output over its largest |r|.  ULP: units in the last place "
          "of\n"
          "each r; large where a sum cancels.\n\n",
        stdout);
    totals sums = add_up(report);
    print_details(report);
    print_summary(report, &sums);
    return sums.agree;
}

/* Names and details hold no character that JSON would want escaped but the quote of an error message. */
static void print_json_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < 0x20 ? ' ' : *text);
    }
    putchar('"');
}

bool verify_print_json(const verify_report *report)
{
    totals sums = add_up(report);
    fputs("{\n  \"backends\": [", stdout);
    for (int b = 0; b < report->backends->count; b++)
        printf("%s\"%s\"", b ? ", " : "", heed_isa_name(report->backends->list[b]));
    printf("],\n  \"agree\": %s,\n  \"seconds\": %.3f,\n  \"only_in_file\": %" PRId64 ",\n  \"cases\": [\n",
        sums.agree ? "true" : "false", report->seconds, report->unknown ? report->unknown->count : 0);
    for (int64_t i = 0; i < report->count; i++) {
        const verify_result *result = &report->results[i];
        printf(
            "    {\"name\": \"%s\", \"result\": \"%s\"", report->cases[i].name, verdict_words[verify_judge(report, i)]);
        if (result->ran)
            printf(", \"fingerprint\": \"%016" PRIx64 "\", \"max_ulp\": %.17g, \"max_error\": %.17g",
                result->fingerprint, result->ulp, result->relative);
        if (result->detail[0]) {
            fputs(", \"detail\": ", stdout);
            print_json_text(result->detail);
        }
        printf("}%s\n", i + 1 < report->count ? "," : "");
    }
    fputs("  ]\n}\n", stdout);
    return sums.agree;
}
