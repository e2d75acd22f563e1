/* The products of one to four rows with keys and values where they are stored: bits against a chain written here, on every backend,
 * for every storage type, at the edges of pages.
 * May know: src/backend.h, kernels.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES = 4, MOST_N = HEED_STRIP_KV, MOST_UNITS = HEED_FEW_UNITS };
_Static_assert(MOST_UNITS *HEED_LANES >= MOST_N, "a strip has more units than heed_few");

static const heed_backend *const *usable; /* scalar first */

/* Rows of a few query rows: queries or weights. */
typedef struct few_rows {
    size_t m, width, ld;
    float *values;
} few_rows;

static few_rows make_rows(check_rng *rng, size_t m, size_t width)
{
    const few_rows r = { m, width, width + check_next(rng) % 4, NULL };
    few_rows made = r;
    made.values = kernels_random(rng, m * r.ld);
    for (size_t i = 0; i < m; i++)
        for (size_t c = width; c < r.ld; c++)
            made.values[i * r.ld + c] = NAN;
    return made;
}

static const float *rows_input(const few_rows *r)
{
    return check_input(r->values, (r->m - 1) * r->ld + r->width, CHECK_GUARD_BEHIND);
}

/* Sums of a few rows where kernels put them; what is no sum must stay as it was. */
typedef struct few_sums {
    size_t m, width, ld;
    float *at;
} few_sums;

static few_sums make_sums(size_t m, size_t width, size_t gap)
{
    const few_sums s = { m, width, width + gap, check_output((m - 1) * (width + gap) + width, CHECK_GUARD_BEHIND) };
    return s;
}

static void check_sums(const few_sums *s, const float *want, size_t n, const char *what)
{
    for (size_t i = 0; i < s->m; i++) {
        check_same(s->at + i * s->ld, want + i * n, n, what);
        if (i + 1 < s->m)
            check_untouched(s->at + i * s->ld + s->width, s->ld - s->width, "between rows");
    }
}

/* ---- Keys ---- */

/* One chain from +0, ascending, then the scale: the definition.  key(j, p) is keys[j * key + p * dim]. */
static void define_scores(
    float *to, const few_rows *q, const float *keys, size_t key, size_t dim, size_t n, size_t d, float scale)
{
    for (size_t i = 0; i < q->m; i++)
        for (size_t j = 0; j < n; j++) {
            float sum = 0.0f;
            for (size_t p = 0; p < d; p++)
                sum = fmaf(q->values[i * q->ld + p], keys[j * key + p * dim], sum);
            to[i * n + j] = scale * sum;
        }
}

static void keys_as_rows(check_rng *rng, heed_type type, size_t m, size_t n, size_t d)
{
    static const size_t sizes[TYPES] = { 4, 2, 2, 1 };
    const size_t ld = d + check_next(rng) % 3, size = sizes[type];
    const int reversed = check_next(rng) % 4 == 0;
    const float scale = check_normal(rng);
    const few_rows q = make_rows(rng, m, d);
    kernel_stored k = kernels_stored(rng, type, (n - 1) * ld + d);
    for (size_t j = 0; j + 1 < n; j++)
        for (size_t c = d; c < ld; c++)
            kernels_stored_set(&k, j * ld + c, 0);
    float *want = check_floats(m * n);
    define_scores(want, &q, k.values, ld, 1, n, d, scale);
    for (size_t i = 0; i < m && reversed; i++)
        for (size_t j = 0; j < n / 2; j++) {
            const float swap = want[i * n + j];
            want[i * n + j] = want[i * n + n - 1 - j];
            want[i * n + n - 1 - j] = swap;
        }
    for (size_t i = 0; usable[i]; i++) {
        check_case("%s %s m %zu n %zu d %zu ld %zu reversed %d", heed_isa_name(usable[i]->isa), kernels_type_name(type),
            m, n, d, ld, reversed);
        const few_sums s = make_sums(m, kernels_up(n, HEED_LANES), i);
        const void *first = kernels_stored_input(&k, 0, (n - 1) * ld + d);
        const heed_few t = { .to = s.at,
            .ld_to = s.ld,
            .rows = rows_input(&q),
            .ld_rows = q.ld,
            .m = m,
            .n = n,
            .d = d,
            .room = check_output(2 * heed_deal_bytes(d, size) / sizeof(float), CHECK_GUARD_BEHIND),
            .from = reversed ? (const char *)first + (n - 1) * ld * size : first,
            .ld = reversed ? -(ptrdiff_t)ld : (ptrdiff_t)ld,
            .ahead = n % 2 ? 8192 : 0,
            .scale = scale };
        usable[i]->qk_few(type, &t);
        check_sums(&s, want, n, "qk_few");
        check_free_all();
    }
    kernels_stored_free(&k);
    free(q.values);
    free(want);
}

static void keys(void)
{
    check_rng rng = check_rng_named("few keys");
    for (int type = 0; type < TYPES; type++)
        for (size_t m = 1; m <= HEED_FEW; m += m < 8 ? 1 : 3)
            for (size_t n = 1; n <= MOST_N; n++)
                for (size_t d = 1 + n % 7; d <= 130; d += 7 + (m + n) % 9)
                    if (check_keep(n * 130 + d, 29))
                        keys_as_rows(&rng, (heed_type)type, m, n, d);
}

/* Units of 16 keys from pages of their own: [dimension][page_size], of which a unit is 16 columns. */
static void keys_in_units(check_rng *rng, heed_type type, size_t m, size_t n, size_t d, size_t page)
{
    const size_t units = kernels_up(n, HEED_LANES) / HEED_LANES, size = (d - 1) * page + HEED_LANES;
    const float scale = check_normal(rng);
    const few_rows q = make_rows(rng, m, d);
    kernel_stored k[MOST_UNITS];
    float *want = check_floats(m * n), *part = check_floats(m * HEED_LANES);
    for (size_t u = 0; u < units; u++) {
        const size_t first = u * HEED_LANES, count = n - first < HEED_LANES ? n - first : HEED_LANES;
        k[u] = kernels_stored(rng, type, size);
        for (size_t p = 0; p < d; p++)
            for (size_t j = count; j < HEED_LANES; j++)
                kernels_stored_set(&k[u], p * page + j, 0); /* readable, no key */
        define_scores(part, &q, k[u].values, 1, page, count, d, scale);
        for (size_t i = 0; i < m; i++)
            memcpy(want + i * n + first, part + i * count, count * sizeof(float));
    }
    for (size_t i = 0; usable[i]; i++) {
        check_case(
            "%s %s m %zu n %zu d %zu page %zu", heed_isa_name(usable[i]->isa), kernels_type_name(type), m, n, d, page);
        const few_sums s = make_sums(m, units * HEED_LANES, i);
        heed_few t = { .to = s.at,
            .ld_to = s.ld,
            .rows = rows_input(&q),
            .ld_rows = q.ld,
            .m = m,
            .n = n,
            .d = d,
            .ld = (ptrdiff_t)page,
            .scale = scale };
        for (size_t u = 0; u < units; u++) {
            t.units[u] = kernels_stored_input(&k[u], 0, size);
            t.units_ahead[u] = u % 2 ? 4096 : 0;
        }
        usable[i]->qk_few_t(type, &t);
        check_sums(&s, want, n, "qk_few_t");
        check_free_all();
    }
    for (size_t u = 0; u < units; u++)
        kernels_stored_free(&k[u]);
    free(q.values);
    free(want);
    free(part);
}

static void transposed_keys(void)
{
    check_rng rng = check_rng_named("few transposed keys");
    for (int type = 0; type < TYPES; type++)
        for (size_t m = 1; m <= HEED_FEW; m += 1 + m / 4)
            for (size_t n = 1; n <= MOST_N; n++) {
                const size_t page = (size_t)HEED_LANES << check_next(&rng) % 4;
                const size_t d = 1 + check_next(&rng) % (n % 8 ? 20 : 130);
                if (check_keep(n, 11))
                    keys_in_units(&rng, (heed_type)type, m, n, d, page);
            }
}

/* ---- Values ---- */

static void values_case(check_rng *rng, heed_type type, size_t m, size_t n, size_t d)
{
    const size_t ld = d + check_next(rng) % 5;
    const few_rows w = make_rows(rng, m, n);
    kernel_stored v = kernels_stored(rng, type, (n - 1) * ld + d);
    for (size_t j = 0; j + 1 < n; j++)
        for (size_t c = d; c < ld; c++)
            kernels_stored_set(&v, j * ld + c, 0);
    if (n % 5 == 0)
        kernels_stored_set(&v, check_next(rng) % n * ld + check_next(rng) % d, check_next(rng) % 4);
    float *start = kernels_random(rng, m * d), *want = check_floats(m * d);
    for (size_t i = 0; i < m; i++)
        for (size_t c = 0; c < d; c++) {
            float sum = start[i * d + c];
            for (size_t j = 0; j < n; j++)
                sum = fmaf(w.values[i * w.ld + j], v.values[j * ld + c], sum);
            want[i * d + c] = sum;
        }
    for (size_t i = 0; usable[i]; i++) {
        check_case(
            "%s %s m %zu n %zu d %zu ld %zu", heed_isa_name(usable[i]->isa), kernels_type_name(type), m, n, d, ld);
        const few_sums s = make_sums(m, kernels_up(d, (size_t)usable[i]->lanes), i);
        for (size_t row = 0; row < m; row++)
            memcpy(s.at + row * s.ld, start + row * d, d * sizeof(float));
        const heed_few t = { .to = s.at,
            .ld_to = s.ld,
            .rows = rows_input(&w),
            .ld_rows = w.ld,
            .m = m,
            .n = n,
            .d = d,
            .from = kernels_stored_input(&v, 0, (n - 1) * ld + d),
            .ld = (ptrdiff_t)ld,
            .ahead = n % 2 ? 8192 : 0 };
        usable[i]->pv_few(type, &t);
        check_sums(&s, want, d, "pv_few");
        check_free_all();
    }
    kernels_stored_free(&v);
    free(w.values);
    free(start);
    free(want);
}

static void values(void)
{
    check_rng rng = check_rng_named("few values");
    for (int type = 0; type < TYPES; type++)
        for (size_t m = 1; m <= HEED_FEW; m += 1 + m / 4)
            for (size_t n = 1; n <= MOST_N; n += 1 + n % 3)
                for (size_t d = 1 + n % 11; d <= 150; d += 11 + (m + n) % 13)
                    if (check_keep(n * 150 + d, 29))
                        values_case(&rng, (heed_type)type, m, n, d);
}

int main(int argc, char **argv)
{
    const kernel_tables all = kernels_usable();
    usable = all.list;
    static const check_test tests[] = { { "keys", keys }, { "transposed_keys", transposed_keys },
        { "values", values } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
