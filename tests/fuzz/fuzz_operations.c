/* The libFuzzer entry of the operations beside attention: bytes become a projection, a row softmax, a merge, a rotation or a layer,
 * run by every usable backend: scalar's bits, within the oracle's bounds.  Or arguments of any value, which are refused or run.
 * May know: the public header, the *_case.h, check.h, problem.h.
 * Must not know: anything under src/. */
#include "linear_case.h"
#include "softmax_case.h"

#include "../masks/layer_case.h"
#include "../masks/merge_case.h"
#include "../masks/rope_case.h"
#include "anything.h"
#include "problem.h"

#include <math.h>
#include <string.h>

/* Half of all numbers are small and each size up to a few vectors comes up; `most` at most. */
static int64_t next_size(source *s, int64_t most)
{
    const int64_t b = next_byte(s);
    return 1 + (b < 128 ? b % 9 : b) % most;
}

/* The rest of the bytes, three each: value and place.  True if all numbers are such that f64 is a measure. */
static bool next_values(source *s, float *values, size_t count)
{
    bool plain = true;
    while (s->at < s->end && count) {
        const uint8_t b = next_byte(s);
        const size_t place = (size_t)(b / 4) * 256u + next_byte(s);
        values[place % count] = next_value(s, b % 4);
        plain = plain && b % 4 < 2;
    }
    return plain;
}

/* ---- Projections ---- */

static void check_linear(source *s, check_rng *rng)
{
    const uint8_t way = next_byte(s);
    linear_case c = { next_size(s, 20), next_size(s, 70), next_size(s, 70), 0, 0, way % 2 != 0, way / 2 % 2 != 0,
        way / 4 % 4 };
    c.stride_x = way / 16 % 4 ? c.in + way / 16 % 4 - 1 : 0;
    c.stride_y = c.out + way / 64;
    const int32_t threads = 1 + next_byte(s) % 4;
    linear_data d = linear_fill(&c, rng, CHECK_NORMAL);
    const bool plain = next_values(s, next_byte(s) % 2 ? d.x : d.bias, (size_t)(c.out < c.in ? c.out : c.in));
    heed_isa list[CHECK_MAX_BACKENDS];
    heed_options options = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
    float *scalar = linear_run(&c, &d, &options, CHECK_GUARD_BEHIND);
    if (plain)
        linear_check_oracle(&c, &d, scalar);
    for (size_t i = check_backends(list); i-- > 0;) {
        options = check_options(list[i], HEED_EXP_DEFAULT, threads);
        float *y = linear_run(&c, &d, &options, CHECK_GUARD_BEFORE);
        check_same(y, scalar, (size_t)(c.rows * c.out), "y against scalar");
        free(y);
    }
    free(scalar);
    linear_free(&d);
}

/* ---- Row softmax ---- */

static void check_softmax(source *s, check_rng *rng)
{
    const uint8_t way = next_byte(s);
    int32_t lengths[8];
    softmax_case c = { next_size(s, 8), next_size(s, 200), 0, 0, way % 2 != 0, way / 2 % 2 ? lengths : NULL };
    c.stride_x = c.cols + way / 4 % 4;
    c.stride_y = c.cols + way / 16 % 4;
    for (int64_t r = 0; r < c.rows && c.lengths; r++)
        lengths[r] = (int32_t)(next_byte(s) % (c.cols + 1));
    const size_t count = softmax_span(c.rows, c.stride_x, c.cols);
    float *x = check_floats(count);
    check_fill(rng, x, 1, count, (check_values)(way / 64));
    next_values(s, x, count);
    softmax_verify(&c, x, (heed_exp)(next_byte(s) % 3), CHECK_GUARD_BEHIND);
    free(x);
}

/* ---- Merging ---- */

static void check_merge(source *s, check_rng *rng)
{
    const uint8_t way = next_byte(s);
    const int64_t dim = next_size(s, 40);
    merge_parts p = merge_make_parts(next_size(s, way < 250 ? 6 : 64), next_size(s, 6), dim, dim + way % 3);
    const heed_exp exp = way / 3 % 2 && heed_sleef_usable(HEED_ISA_SCALAR) ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN;
    const float spread = way / 6 % 2 ? 3.0f : 60.0f;
    for (int64_t i = 0; i < p.count; i++)
        for (int64_t row = 0; row < p.rows; row++) {
            check_fill(rng, p.out[i] + row * p.stride, 1, (size_t)dim, CHECK_NORMAL);
            p.lse[i][row] = check_next(rng) % 5 ? spread * check_normal(rng) : -INFINITY;
        }
    const int64_t part = next_byte(s) % p.count;
    const bool of_lse = next_byte(s) % 2 != 0;
    const size_t count = (size_t)(of_lse ? p.rows : (p.rows - 1) * p.stride + dim);
    const bool plain = next_values(s, of_lse ? p.lse[part] : p.out[part], count);
    heed_isa list[CHECK_MAX_BACKENDS];
    merged scalar = merge_run(&p, HEED_ISA_SCALAR, exp, 0);
    for (int64_t row = 0; row < p.rows; row++)
        if (plain ||
            (!of_lse && p.lse[part][row] == -INFINITY)) /* what a part that saw nothing holds does not matter */
            merge_check_row(&p, &scalar, row);
    for (size_t i = check_backends(list); i-- > 0;) {
        merged other = merge_run(&p, list[i], exp, way % 3);
        check_same(other.out, scalar.out, (size_t)(p.rows * p.dim), heed_isa_name(list[i]));
        check_same(other.lse, scalar.lse, (size_t)p.rows, "lse");
        merge_free(&other);
    }
    merge_free(&scalar);
    merge_free_parts(&p);
}

/* ---- Rotary embedding ---- */

static void check_rope(source *s, check_rng *rng)
{
    static const double bases[] = { 0.0, 10000.0, 500000.0, 2.0, 1e6, 1e300, 1.0001, 100.0 };
    const uint8_t way = next_byte(s);
    const heed_rope_desc d = { .struct_size = sizeof d,
        .dim = 2 * next_size(s, 40),
        .base = bases[way % 8],
        .scaling = (heed_rope_scaling)(way / 8 % 4),
        .factor = 1.0 + next_byte(s) / 4.0,
        .low_freq_factor = 1.0 + next_byte(s) % 4,
        .high_freq_factor = 5.0 + next_byte(s) % 4,
        .beta_slow = next_byte(s) / 16.0,
        .beta_fast = next_byte(s),
        .attention_factor = next_byte(s) / 32.0,
        .original_positions = 1 + 37 * next_byte(s) };
    const int64_t first = (int64_t)next_byte(s) << next_byte(s) % 23;
    rope_check_table(&d, first, 1 + way / 64);
    const rope_rotation r = rope_random(rng);
    rope_check_rotation(&r, rng);
}

/* ---- Layers ---- */

static void check_layer(source *s, check_rng *rng)
{
    const uint8_t way = next_byte(s), rope = next_byte(s), causal = next_byte(s);
    const int64_t kv_heads = 1 + way % 2, heads = kv_heads * (1 + way / 2 % 2);
    layer_case c = { 1 + way / 4 % 2, next_size(s, 12), next_size(s, 20), next_size(s, 20), heads, kv_heads,
        next_size(s, 9), next_size(s, 9), (heed_causal)(causal % 3), HEED_ROPE_NONE, 0, causal / 3 % 4 - 1,
        causal / 12 % 4 - 1, (float)(causal / 48), 0, way / 8 % 2 != 0, way / 16 % 2 != 0 };
    c.bias_heads = way / 32 % 3 == 0 ? 0 : way / 32 % 3 == 1 ? 1 : heads;
    if (rope % 3) {
        c.rope = (heed_rope_pairs)(rope % 3);
        c.dim += c.dim % 2;
        c.rope_dim = rope / 3 % 2 ? 2 * (1 + rope / 6 % (c.dim / 2)) : 0;
    }
    layer_data d = layer_fill(&c, rng);
    const size_t part = next_byte(s) % LAYER_BO;
    const bool plain = s->at == s->end;
    next_values(s, d.part[part], d.size[part]);
    heed_isa list[CHECK_MAX_BACKENDS];
    heed_options options = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
    layer_result scalar = layer_run(&c, &d, &options), parts = layer_run_parts(&c, &d, &options);
    layer_same(&c, &parts, &scalar);
    if (plain) /* its bound is for numbers of about 1 */
        layer_check_oracle(&c, &d, &scalar);
    for (size_t i = check_backends(list); i-- > 1;) {
        options = check_options(list[i], HEED_EXP_DEFAULT, 1 + way / 64);
        layer_result other = layer_run(&c, &d, &options);
        layer_same(&c, &other, &scalar);
        layer_free_result(&other);
    }
    layer_free_result(&parts);
    layer_free_result(&scalar);
    layer_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static void (*const checks[])(
        source *, check_rng *) = { check_linear, check_softmax, check_merge, check_rope, check_layer };
    static void (*const calls[])(
        source *) = { linear_of_anything, softmax_of_anything, merge_of_anything, rope_of_anything, layer_of_anything };
    source s = { bytes, bytes + size };
    const uint8_t kind = next_byte(&s);
    if (kind >= 0xc0) {
        calls[kind % 5](&s);
        return 0;
    }
    check_rng rng = next_rng(&s);
    checks[kind % 5](&s, &rng);
    require(check_failures() == 0);
    return 0;
}
