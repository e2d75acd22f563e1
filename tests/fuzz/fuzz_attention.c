/* The libFuzzer entry of attention: bytes become a whole problem with any options and contents, which every usable backend
 * computes in storage of its own choice; all must have scalar's bits, and those must be within the oracle's bounds.
 * May know: the public header, masked.h, check.h, mask_oracle.h.
 * Must not know: anything under src/. */
#include "../masks/masked.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

typedef struct source {
    const uint8_t *at, *end;
} source;

/* 0 beyond the end. */
static uint8_t next_byte(source *s)
{
    return s->at < s->end ? *s->at++ : 0;
}

static int64_t next_below(source *s, int64_t count)
{
    return next_byte(s) % count;
}

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* ---- A problem ---- */

/* Small: every edge of a vector and a tile, and quick. */
static masked next_small(source *s, check_rng *rng)
{
    static const int64_t dims[] = { 1, 2, 3, 5, 8, 15, 16, 17 };
    const int64_t kv_heads = 1 + next_below(s, 2), group = 1 + next_below(s, 2), batch = 1 + next_below(s, 2);
    const int64_t queries = 1 + next_below(s, 8), keys = next_below(s, 20);
    const int64_t dim = dims[next_below(s, 8)], dim_v = dims[next_below(s, 8)];
    return masked_make(rng, batch, kv_heads * group, kv_heads, queries, keys, dim, dim_v);
}

/* More than one block of keys, or more than one task. */
static masked next_large(source *s, check_rng *rng)
{
    static const int64_t keys[] = { 255, 256, 257, 300, 513, 33, 47, 60 };
    const int64_t group = 1 + next_below(s, 3), last = keys[next_below(s, 8)];
    const int64_t queries = last < 64 ? 97 + next_below(s, 8) : 1 + next_below(s, 7);
    return masked_make(rng, 1, group, 1, queries, last, 1 + next_below(s, 9), 1 + next_below(s, 9));
}

static int64_t next_window(source *s)
{
    const int64_t b = next_byte(s);
    return b < 128 ? -1 : b - 128;
}

static void next_options(source *s, check_rng *rng, masked *m)
{
    heed_attention *a = &m->shape;
    const unsigned steps = next_byte(s);
    a->scale = (float)((int)next_byte(s) - 128) / 64.0f; /* 0: the default */
    a->causal = (heed_causal)next_below(s, 4);
    a->causal_offset = (int)next_byte(s) - 128;
    a->window_left = next_window(s);
    a->window_right = next_window(s);
    a->softcap = (float)(next_byte(s) & 0x7f) / 8.0f;
    if (steps & 1 && a->seq_len_kv)
        masked_add_bias(m, rng, next_byte(s) & 15u);
    if (steps & 2 && a->seq_len_kv)
        masked_add_mask(m, rng, next_byte(s) & 15u);
    if (steps & 4) {
        const int64_t q = 1 + next_below(s, 20), kv = 1 + next_byte(s);
        masked_add_blocks(m, rng, q, kv);
    }
    if (steps & 8)
        masked_add_slopes(m, rng);
    if (steps & 16)
        masked_add_sinks(m, rng);
    if (steps & 96)
        masked_add_lengths(m, rng, (steps & 32) != 0, (steps & 64) != 0);
    m->weights = (steps & 128) != 0;
}

/* ---- Contents ---- */

/* What f32 and f64 see alike: products and sums of these neither overflow nor hide one another. */
static float plain_value(uint8_t b)
{
    static const float special[] = { 0.0f, -0.0f, 1.0f, FLT_MIN, 0x1p-149f, -0x1p-140f, 16.0f, -16.0f };
    return b < 8 ? special[b] : (float)((int)b - 128) / 16.0f;
}

static float wild_value(uint8_t b)
{
    static const float special[] = { FLT_MAX, -FLT_MAX, 1e30f, -1e30f, 1e-30f, 0x1p63f, 65504.0f, -1e9f };
    return special[b % 8];
}

static float not_finite(uint8_t b)
{
    return b % 3 == 0 ? NAN : b % 3 == 1 ? INFINITY : -INFINITY;
}

/* What is in a problem beside plain numbers. */
typedef struct contents {
    bool wild;     /* a number so large that f64 is no measure */
    bool infinite; /* NaN or an infinity in a value */
} contents;

/* Each change is four bytes: tensor and kind, place, value. */
static contents next_contents(source *s, masked *m)
{
    const heed_attention *a = &m->shape;
    const size_t rows_kv = (size_t)(a->batch * a->num_kv_heads * a->seq_len_kv);
    const struct {
        float *values;
        size_t count;
        bool special; /* may hold NaN and infinities */
    } tensors[] = { { m->q, (size_t)(masked_rows(m) * a->head_dim), true },
        { m->k, rows_kv * (size_t)a->head_dim, true }, { m->v, rows_kv * (size_t)a->head_dim_v, true },
        { m->bias, m->bias ? m->bias_count : 0, true }, { m->slopes, m->slopes ? (size_t)a->num_heads : 0, false },
        { m->sinks, m->sinks ? (size_t)a->num_heads : 0, false } };
    contents in = { false, false };
    while (s->at < s->end) {
        const uint8_t b = next_byte(s);
        const size_t which = b % 6u, place = (size_t)next_byte(s) * 256u + next_byte(s);
        const unsigned kind = b / 6u % 4u;
        const uint8_t value = next_byte(s);
        if (tensors[which].count == 0)
            continue;
        float *to = tensors[which].values + place % tensors[which].count;
        *to = kind == 3 && tensors[which].special ? not_finite(value)
              : kind == 2                         ? wild_value(value)
                                                  : plain_value(value);
        in.wild = in.wild || kind == 2;
        in.infinite = in.infinite || (kind == 3 && which == 2);
    }
    return in;
}

/* ---- Comparison ---- */

/* A value that is not finite times a weight that only f64 can hold: no measure either. */
static bool values_are_finite(const masked *m, int64_t batch, int64_t head, int64_t query)
{
    const heed_attention *a = &m->shape;
    const int64_t kv_head = head / (a->num_heads / a->num_kv_heads), dim = a->head_dim_v;
    for (int64_t j = 0; j < a->seq_len_kv; j++) {
        const float *v = m->v + ((batch * a->num_kv_heads + kv_head) * a->seq_len_kv + j) * dim;
        if (!masked_sees(m, batch, head, query, j))
            continue;
        for (int64_t d = 0; d < dim; d++)
            if (!isfinite(v[d]))
                return false;
    }
    return true;
}

static bool values_within(const float *got, const double *want, const double *bound, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double g = (double)got[i];
        if (!(isnan(want[i]) ? isnan(g) : isinf(want[i]) ? g == want[i] : fabs(g - want[i]) <= bound[i]))
            return false;
    }
    return true;
}

static void require_oracle(const masked *m, const masked_result *got, bool finite)
{
    const heed_attention *a = &m->shape;
    const mask_oracle p = masked_oracle(m);
    const int64_t dim = a->head_dim_v, keys = a->seq_len_kv;
    mask_oracle_result want;
    require(mask_oracle_run(&p, &want));
    for (int64_t row = 0; row < masked_rows(m); row++) {
        const int64_t query = row % a->seq_len_q, head = row / a->seq_len_q % a->num_heads;
        const int64_t batch = row / a->seq_len_q / a->num_heads;
        if (finite || values_are_finite(m, batch, head, query))
            require(values_within(got->out + row * dim, want.out + row * dim, want.out_bound + row * dim, dim));
        require(values_within(got->lse + row, want.lse + row, want.lse_bound + row, 1));
        if (got->weights)
            require(values_within(
                got->weights + row * keys, want.weights + row * keys, want.weights_bound + row * keys, keys));
    }
    mask_oracle_free(&want);
}

static void run_everywhere(const masked *m, check_rng *rng, heed_exp exp, contents in)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    masked_run plain = masked_plain(HEED_ISA_SCALAR);
    plain.exp = heed_sleef_usable(HEED_ISA_SCALAR) ? exp : HEED_EXP_BUILTIN;
    masked_result scalar = masked_execute(m, &plain);
    if (!in.wild)
        require_oracle(m, &scalar, !in.infinite);
    for (size_t i = 0; i < count; i++) {
        const masked_run run = masked_random_run(rng, m, list[i], plain.exp, (int32_t)check_between(rng, 1, 3));
        masked_result result = masked_execute(m, &run);
        require(masked_same(m, &result, &scalar));
        masked_free_result(&result);
    }
    masked_free_result(&scalar);
    require(check_failures() == 0);
}

/* ---- Fields of any value ---- */

/* The bytes as the struct itself: a plan, or an error that says why; whatever the fields hold. */
static void plan_anything(const source *s)
{
    heed_attention a = HEED_ATTENTION_INIT;
    const size_t given = (size_t)(s->end - s->at), most = sizeof a - sizeof a.struct_size;
    memcpy((char *)&a + sizeof a.struct_size, s->at, given < most ? given : most);
    heed_plan *plan = NULL;
    heed_error error = { "" };
    const heed_status status = heed_plan_create(&plan, &a, NULL, &error);
    require((status == HEED_OK) == (plan != NULL) && (status == HEED_OK) == (error.message[0] == '\0'));
    char text[64];
    if (plan)
        require(heed_plan_describe(plan, text, sizeof text) >= sizeof text && strlen(text) == sizeof text - 1);
    heed_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    source s = { bytes, bytes + size };
    const uint8_t kind = next_byte(&s);
    if (kind >= 0xf0) {
        plan_anything(&s);
        return 0;
    }
    char seed[] = "fuzz 0";
    seed[5] = (char)(1 + next_byte(&s) % 127);
    check_rng rng = check_rng_named(seed);
    masked m = kind < 0xe8 ? next_small(&s, &rng) : next_large(&s, &rng);
    next_options(&s, &rng, &m);
    const contents in = next_contents(&s, &m);
    run_everywhere(&m, &rng, kind % 2 ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN, in);
    masked_free(&m);
    return 0;
}
