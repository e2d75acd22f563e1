/* What the tests against cases.bin share (see reference_test.h).
 * May know: the public header, check.h, reference_file.h.
 * Must not know: anything under src/, what a kind of case means. */
#include "reference_test.h"

#include <math.h>
#include <string.h>

reference_file reference;

double largest(const float *values, size_t count)
{
    double result = 0.0;
    for (size_t i = 0; i < count; i++)
        result = fmax(result, fabs((double)values[i]));
    return result;
}

void each_run(const char *kind, reference_visit *visit)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t b = 0; b < count; b++) {
        for (size_t i = 0; i < reference.num_cases; i++) {
            const reference_case *c = &reference.cases[i];
            if (strcmp(c->kind, kind) != 0)
                continue;
            for (int e = HEED_EXP_BUILTIN; e <= (heed_sleef_usable(list[b]) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN); e++) {
                heed_options options = check_options(list[b], (heed_exp)e, 1 + (int32_t)(i % 3));
                check_case("%s %s exp %d", c->name, heed_isa_name(list[b]), e);
                visit(c, &options);
                check_free_all();
            }
        }
    }
    check_case("%s", "");
}

void each_case(const char *kind, void (*visit)(const reference_case *c))
{
    for (size_t i = 0; i < reference.num_cases; i++) {
        const reference_case *c = &reference.cases[i];
        if (strcmp(c->kind, kind) != 0)
            continue;
        check_case("%s", c->name);
        visit(c);
        check_free_all();
    }
    check_case("%s", "");
}

const float *input(const reference_case *c, const char *name)
{
    return check_input(reference_f32(c, name), reference_find(c, name)->count, CHECK_GUARD_BEHIND);
}

const float *input_or_null(const reference_case *c, const char *name)
{
    return reference_find(c, name) ? input(c, name) : NULL;
}

const uint8_t *input_bytes(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    if (!t || !t->u8)
        return NULL;
    uint8_t *bytes = check_alloc(t->count, CHECK_GUARD_BEHIND);
    memcpy(bytes, t->u8, t->count);
    return bytes;
}

const int32_t *input_lengths(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return t ? check_lengths(t->i32, t->count) : NULL;
}

float *output(const reference_case *c, const char *name)
{
    const reference_tensor *t = reference_find(c, name);
    return t ? check_output(t->count, CHECK_GUARD_BEHIND) : NULL;
}

double compare(const reference_case *c, const char *name, const float *got, double bound)
{
    if (!got)
        return 0.0;
    size_t count = reference_find(c, name)->count;
    check_close(got, reference_f64(c, name), count, bound, name);
    return check_errors(got, reference_f64(c, name), count).max_abs / bound;
}
