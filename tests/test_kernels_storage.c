/* Packing and unpacking of every storage type on every backend: each element where it belongs, nothing read or written beside.
 * May know: src/backend.h, kernels.h, check.h.
 * Must not know: plans, problems, how a kernel is written. */
#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES = 4, AHEAD = 4096 };

static const heed_backend *const *usable; /* scalar first */

/* Elements are moved, not computed: their bits, -0 too; any NaN is any NaN. */
static bool same_element(float got, float want)
{
    return check_bits(got) == check_bits(want) || (isnan(got) && isnan(want));
}

/* n rows of d elements, ld apart.  What lies between them is NaN, which none may take. */
typedef struct matrix {
    kernel_stored data;
    size_t n, d, ld;
} matrix;

static matrix make_matrix(check_rng *rng, heed_type type, size_t n, size_t d, size_t ld)
{
    matrix x = { kernels_stored(rng, type, (n - 1) * ld + d), n, d, ld };
    for (size_t j = 0; j + 1 < n; j++)
        for (size_t c = d; c < ld; c++)
            kernels_stored_set(&x.data, j * ld + c, 0);
    return x;
}

static float at(const matrix *x, size_t j, size_t c)
{
    return x->data.values[j * x->ld + c];
}

static const char *matrix_input(const matrix *x)
{
    return kernels_stored_input(&x->data, 0, (x->n - 1) * x->ld + x->d);
}

/* The same rows from the last to the first. */
static const char *reversed_input(const matrix *x)
{
    return matrix_input(x) + (x->n - 1) * x->ld * x->data.size;
}

/* ---- Packing ---- */

static void check_pack_k(const heed_backend *b, const matrix *x, int reversed)
{
    const size_t nr = (size_t)b->nr, n = x->n, d = x->d;
    float *panels = check_output(kernels_up(n, nr) * d, CHECK_GUARD_BEHIND);
    const ptrdiff_t ld = (ptrdiff_t)x->ld;
    b->pack_k(x->data.type, panels, reversed ? reversed_input(x) : matrix_input(x), reversed ? -ld : ld, n, d, AHEAD);
    for (size_t j = 0; j < kernels_up(n, nr); j++)
        for (size_t p = 0; p < d; p++) {
            const float got = panels[j / nr * nr * d + p * nr + j % nr];
            const float want = j >= n ? 0.0f : at(x, reversed ? n - 1 - j : j, p);
            if (!same_element(got, want))
                CHECK(false, "pack_k: key %zu dimension %zu: %g, want %g", j, p, (double)got, (double)want);
        }
    check_free_all();
}

/* more: keys that the panels have room for beyond n. */
static void check_pack_v(const heed_backend *b, const matrix *x, size_t more, int finite, int reversed)
{
    const size_t nr = (size_t)b->nr, n = x->n, d = x->d, ld_panels = n + more, columns = kernels_up(d, nr);
    float *panels = check_output(columns * ld_panels - more * nr, CHECK_GUARD_BEHIND);
    const ptrdiff_t ld = (ptrdiff_t)x->ld;
    const int got_finite = b->pack_v(x->data.type, panels, ld_panels, reversed ? reversed_input(x) : matrix_input(x),
        reversed ? -ld : ld, n, d, AHEAD);
    CHECK(got_finite == finite, "pack_v: finite: %d, want %d", got_finite, finite);
    for (size_t c = 0; c < columns; c++)
        for (size_t j = 0; j < n; j++) {
            const float got = panels[c / nr * nr * ld_panels + j * nr + c % nr];
            const float want = c >= d ? 0.0f : at(x, reversed ? n - 1 - j : j, c);
            if (!same_element(got, want))
                CHECK(false, "pack_v: key %zu dimension %zu: %g, want %g", j, c, (double)got, (double)want);
        }
    for (size_t c = nr; c < columns; c += nr)
        check_untouched(panels + c * ld_panels - more * nr, more * nr, "pack_v: between panels");
    check_free_all();
}

/* Rows: all values finite, then one that is not, or is as large as can be. */
static void rows_of(check_rng *rng, heed_type type, size_t n, size_t d)
{
    matrix x = make_matrix(rng, type, n, d, d + n % 4);
    const size_t which = check_next(rng) % 4, j = check_next(rng) % n, c = check_next(rng) % d;
    for (int spoilt = 0; spoilt < 2; spoilt++) {
        const int finite = !spoilt || which == 3 || type == HEED_TYPE_I8, reversed = (int)(n + d) % 2;
        for (size_t i = 0; usable[i]; i++) {
            check_case("%s %s n %zu d %zu which %zu", heed_isa_name(usable[i]->isa), kernels_type_name(type), n, d,
                spoilt ? which : 3);
            check_pack_k(usable[i], &x, reversed);
            check_pack_v(usable[i], &x, (n * d) % 3 * 5, finite, reversed);
        }
        kernels_stored_set(&x.data, j * x.ld + c, which);
    }
    kernels_stored_free(&x.data);
}

static void rows(void)
{
    check_rng rng = check_rng_named("stored rows");
    for (size_t n = 1; n <= 70; n++)
        for (size_t d = 1 + n % 5; d <= 70; d += 5 + n % 3)
            for (int type = 0; type < TYPES; type++)
                if (check_keep(n * 70 + d, 13))
                    rows_of(&rng, (heed_type)type, n, d);
    rows_of(&rng, HEED_TYPE_F16, 256, 131);
}

/* ---- Keys stored transposed ---- */

/* n keys of page-wide rows become columns j .. j + width of panels `columns` wide, beside which nothing is written. */
static void check_pack_kt(const heed_backend *b, const matrix *x, size_t n, size_t j, size_t width, size_t columns)
{
    const size_t nr = (size_t)b->nr, d = x->n, all = kernels_up(columns, nr);
    float *panels = check_output(all * d, CHECK_GUARD_BEHIND);
    b->pack_kt(
        x->data.type, panels, j, width, kernels_stored_input(&x->data, 0, (d - 1) * x->ld + n), x->ld, n, d, AHEAD);
    for (size_t column = 0; column < all; column++)
        for (size_t p = 0; p < d; p++) {
            const float *got = panels + column / nr * nr * d + p * nr + column % nr;
            if (column < j || column >= j + width) {
                check_untouched(got, 1, "pack_kt: other columns");
                continue;
            }
            const float want = column - j < n ? at(x, p, column - j) : 0.0f;
            if (!same_element(*got, want))
                CHECK(false, "pack_kt: column %zu dimension %zu: %g, want %g", column, p, (double)*got, (double)want);
        }
    check_free_all();
}

static void transposed(void)
{
    check_rng rng = check_rng_named("stored transposed");
    for (size_t page = 16; page <= 128; page *= 2)
        for (int type = 0; type < TYPES; type++)
            for (size_t n = 1; n <= page; n += 1 + n % 4) {
                const size_t d = 1 + check_next(&rng) % 33, j = check_next(&rng) % 5 * HEED_LANES;
                const size_t width = kernels_up(n, HEED_LANES) + check_next(&rng) % 3 * HEED_LANES;
                if (!check_keep(n, 7))
                    continue;
                matrix x = make_matrix(&rng, (heed_type)type, d, page, page);
                for (size_t i = 0; usable[i]; i++) {
                    check_case("%s %s page %zu n %zu d %zu column %zu width %zu", heed_isa_name(usable[i]->isa),
                        kernels_type_name((heed_type)type), page, n, d, j, width);
                    check_pack_kt(usable[i], &x, n, j, width, j + width);
                }
                kernels_stored_free(&x.data);
            }
}

int main(int argc, char **argv)
{
    const kernel_tables all = kernels_usable();
    usable = all.list;
    static const check_test tests[] = { { "rows", rows }, { "transposed", transposed } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
