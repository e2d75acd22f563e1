/* Both exps: every float of the domain against a double, 1 ULP, monotone at the seams, exact ends; the same bits on every backend.
 * May know: src/backend.h, check.h, oracle.h, POSIX threads.
 * Must not know: how exp is computed. */
#include "kernels.h"
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 4096, MOST_THREADS = 2 };
static const uint32_t MINUS_ZERO = 0x80000000u;
static const float CUTOFF = -87.33654f; /* the smallest argument with a normal result; below it the built-in exp is 0 */

static const heed_backend *const *usable; /* scalar first */
static const heed_backend *best;

static int has_kind(const heed_backend *b, int kind)
{
    return kind == HEED_KERNEL_BUILTIN || heed_backend_sleef_usable(b, heed_cpu());
}

/* ---- Every float ---- */

typedef struct sweep {
    const heed_backend *backend;
    int kind;
    uint32_t first, last, step; /* bits of the arguments, growing away from -0 */
    double worst;               /* ULP */
    float worst_at;
    uint32_t checked, not_monotone, above_one;
} sweep;

/* |got - want| in units of the last place of a normal want, without the calls of check_ulp: a billion times. */
static double fast_ulp(float got, double want)
{
    uint64_t bits;
    memcpy(&bits, &want, sizeof bits);
    bits = (bits & 0x7ff0000000000000u) - (UINT64_C(23) << 52);
    double unit;
    memcpy(&unit, &bits, sizeof unit);
    return fabs((double)got - want) / unit;
}

/* Where the argument's multiple of ln 2 changes, within what rounding in f32 can shift that place. */
static int at_seam(float x)
{
    const double turns = -(double)x / 0.69314718055994531;
    return fabs(turns - floor(turns) - 0.5) < 2e-5;
}

/* Results must not rise with a falling argument at a seam, nor anywhere by more than one unit in the last place: within 1 ULP of
 * the truth two neighbours may round apart. */
static int rises(float x, float y, float previous)
{
    if (y <= previous)
        return 0;
    return at_seam(x) || !(y <= nextafterf(previous, INFINITY));
}

static void *run_sweep(void *argument)
{
    sweep *s = argument;
    float x[CHUNK], y[CHUNK], previous = 1.0f;
    for (uint64_t at = s->first; at <= s->last;) {
        size_t n = 0;
        for (; n < CHUNK && at <= s->last; n++, at += s->step)
            x[n] = check_float((uint32_t)at);
        s->backend->exp[s->kind](y, x, n);
        for (size_t i = 0; i < n; i++) {
            double error = fast_ulp(y[i], oracle_exp(x[i]));
            if (!(error <= s->worst)) {
                s->worst = error;
                s->worst_at = x[i];
            }
            s->not_monotone += (uint32_t)rises(x[i], y[i], previous);
            s->above_one += !(y[i] <= 1.0f);
            previous = y[i];
        }
        s->checked += (uint32_t)n;
    }
    return NULL;
}

static void sweep_kind(int kind, const char *name)
{
    sweep parts[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    uint32_t last = check_bits(CUTOFF), step = check_quick() ? 10007 : 1, size = (last - MINUS_ZERO) / MOST_THREADS;
    for (uint32_t t = 0; t < MOST_THREADS; t++) {
        sweep part = { best, kind, MINUS_ZERO + t * size, t + 1 < MOST_THREADS ? MINUS_ZERO + (t + 1) * size : last,
            step, 0.0, 0.0f, 0, 0, 0 };
        parts[t] = part; /* the parts share their border, so that it is compared too */
        CHECK(pthread_create(&threads[t], NULL, run_sweep, &parts[t]) == 0, "thread");
    }
    for (size_t t = 0; t < MOST_THREADS; t++) {
        pthread_join(threads[t], NULL);
        check_note("%s on %s: %u floats, worst %.4f ULP at %.9g", name, heed_isa_name(best->isa), parts[t].checked,
            parts[t].worst, (double)parts[t].worst_at);
        CHECK(parts[t].worst <= 1.0, "%s: %g ULP at %.9g", name, parts[t].worst, (double)parts[t].worst_at);
        CHECK(parts[t].not_monotone == 0, "%s rises with falling argument at %u places", name, parts[t].not_monotone);
        CHECK(parts[t].above_one == 0 && parts[t].checked > 50000, "%u results above 1", parts[t].above_one);
    }
}

static void every_float(void)
{
    sweep_kind(HEED_KERNEL_BUILTIN, "built-in");
    if (has_kind(best, HEED_KERNEL_SLEEF))
        sweep_kind(HEED_KERNEL_SLEEF, "SLEEF");
}

/* ---- The same bits everywhere ---- */

static void same_bits(void)
{
    float *x = check_floats(CHUNK), *first = check_floats(CHUNK), *y = check_floats(CHUNK);
    for (int kind = 0; kind < HEED_EXP_KINDS; kind++) {
        /* built-in: [-1e38, -0] and NaNs of both signs; SLEEF: every kind of float */
        uint64_t from = kind == HEED_KERNEL_BUILTIN ? MINUS_ZERO : 0, step = check_quick() ? 700001 : 1009, count = 0;
        for (uint64_t at = from; at <= UINT32_MAX;) {
            size_t n = 0;
            for (; n < CHUNK && at <= UINT32_MAX; n++, at += step)
                x[n] = check_float((uint32_t)at);
            bool compared = false;
            for (size_t i = 0; usable[i]; i++) {
                if (!has_kind(usable[i], kind))
                    continue;
                usable[i]->exp[kind](compared ? y : first, x, n);
                for (size_t j = 0; j < n && compared; j++)
                    if (!check_equal_bits(y[j], first[j]))
                        CHECK(false, "%s exp %d of %.9g: %08x, %s has %08x", heed_isa_name(usable[i]->isa), kind,
                            (double)x[j], check_bits(y[j]), heed_isa_name(usable[0]->isa), check_bits(first[j]));
                compared = true;
            }
            count += n;
        }
        check_note("exp %d: %llu floats on every backend", kind, (unsigned long long)count);
        CHECK(count > 1000, "floats compared");
    }
    free(x);
    free(first);
    free(y);
}

/* ---- Ends and special values (case C08), for every number of elements ---- */

typedef struct value {
    float x, builtin, sleef; /* what each must give, exactly; the last place of a normal result may differ by 1 */
} value;

static void special_values(void)
{
    const float below = nextafterf(CUTOFF, -INFINITY), nan = NAN, inf = INFINITY;
    const value values[] = { { 0.0f, 1.0f, 1.0f }, { -0.0f, 1.0f, 1.0f }, { -1e-30f, 1.0f, 1.0f },
        { -FLT_TRUE_MIN, 1.0f, 1.0f }, { CUTOFF, (float)exp(-87.33654022216797), (float)exp(-87.33654022216797) },
        { below, 0.0f, (float)exp((double)below) }, { -88.0f, 0.0f, 6.0546e-39f }, { -100.0f, 0.0f, 3.7835e-44f },
        { -103.97f, 0.0f, FLT_TRUE_MIN }, { -104.0f, 0.0f, 0.0f }, { -1e30f, 0.0f, 0.0f }, { -FLT_MAX, 0.0f, 0.0f },
        { -inf, 0.0f, 0.0f }, { nan, nan, nan }, { -nan, nan, nan } };
    enum { COUNT = sizeof values / sizeof values[0] };
    for (size_t i = 0; usable[i]; i++)
        for (int kind = 0; kind < HEED_EXP_KINDS; kind++)
            for (size_t n = 1; n <= 70 && has_kind(usable[i], kind); n++) {
                check_case("%s exp %d n %zu", heed_isa_name(usable[i]->isa), kind, n);
                float x[70], *y = check_output(n, CHECK_GUARD_BEHIND);
                for (size_t j = 0; j < n; j++)
                    x[j] = values[(j + n) % COUNT].x;
                usable[i]->exp[kind](y, check_input(x, n, CHECK_GUARD_BEHIND), n);
                for (size_t j = 0; j < n; j++) {
                    const value *v = &values[(j + n) % COUNT];
                    float want = kind == HEED_KERNEL_SLEEF ? v->sleef : v->builtin;
                    bool near = want > 0.0f && want < 1.0f && fabsf(y[j] - want) <= fmaxf(want * 2e-5f, FLT_TRUE_MIN);
                    if (!check_equal_bits(y[j], want) && !near)
                        CHECK(false, "exp(%.9g) = %.9g, want %.9g", (double)v->x, (double)y[j], (double)want);
                }
                check_free_all();
            }
}

/* SLEEF's above 0, where it must neither stop early nor late. */
static void above_zero(void)
{
    const float x[4] = { 88.7228f, 88.8f, INFINITY, 1.0f };
    for (size_t i = 0; usable[i]; i++) {
        float y[4];
        if (!has_kind(usable[i], HEED_KERNEL_SLEEF))
            continue;
        usable[i]->exp[HEED_KERNEL_SLEEF](y, x, 4);
        CHECK(check_ulp((double)y[0], exp((double)x[0])) <= 1.0 && isfinite(y[0]), "exp(88.7228) = %g", (double)y[0]);
        CHECK(y[1] == INFINITY && y[2] == INFINITY, "exp(88.8) = %g, exp(inf) = %g", (double)y[1], (double)y[2]);
        CHECK(check_ulp((double)y[3], exp(1.0)) <= 1.0, "exp(1) = %g", (double)y[3]);
    }
}

int main(int argc, char **argv)
{
    const kernel_tables all = kernels_usable();
    usable = all.list;
    best = heed_backend_find(heed_isa_default());
    check_test tests[4] = { { "special_values", special_values }, { "same_bits", same_bits },
        { "every_float", every_float } };
    size_t count = 3;
    if (has_kind(best, HEED_KERNEL_SLEEF)) {
        const check_test last = { "above_zero", above_zero };
        tests[count++] = last;
    }
    return check_main(argc, argv, tests, count);
}
