/* What values must and must not do: shifts, permutations, V = 1, NaN and infinities in hidden and in visible places.
 * May know: the public header, masked.h, check.h, mask_oracle.h.
 * Must not know: anything under src/. */
#include "masked.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int rounds(int many)
{
    return check_quick() ? (many + 9) / 10 : many;
}

static masked problem(check_rng *rng, int round)
{
    return masked_random(rng, round % 12 == 7);
}

/* Runs on every backend; each result goes to expect with the plain one. */
static void each_backend(const masked *m, const masked *clean,
    void (*expect)(const masked *m, const masked_result *got, const masked_result *clean))
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++) {
        const masked_run run = masked_plain(list[i]);
        masked_result want = masked_execute(clean, &run), got = masked_execute(m, &run);
        expect(m, &got, &want);
        masked_free_result(&want);
        masked_free_result(&got);
    }
}

/* ---- Finite values ---- */

/* Values of 1: the output is 1 but for roundings, 0 in rows that see nothing. */
static void expect_ones(const masked *m, const masked_result *got, const masked_result *clean)
{
    (void)clean;
    masked_check_oracle(m, got, NULL);
    for (int64_t i = 0; i < masked_rows(m) * m->shape.head_dim_v; i++) {
        const double want = got->lse[i / m->shape.head_dim_v] == -INFINITY ? 0.0 : 1.0;
        if (!(fabs((double)got->out[i] - want) <= 300.0 * 0x1p-24 * want)) {
            CHECK(false, "out[%lld] is %.9g", (long long)i, (double)got->out[i]);
            return;
        }
    }
}

static void values_of_one(void)
{
    check_rng rng = check_rng_named("values of one");
    for (int n = 0; n < rounds(60); n++) {
        masked m = problem(&rng, n);
        free(m.sinks);
        m.sinks = NULL;
        const int64_t count = m.shape.batch * m.shape.num_kv_heads * m.shape.seq_len_kv * m.shape.head_dim_v;
        for (int64_t i = 0; i < count; i++)
            m.v[i] = 1.0f;
        each_backend(&m, &m, expect_ones);
        masked_free(&m);
    }
}

/* Queries and keys of small integers and a scale of 2^-2: all scores are multiples of 2^-8 below 2^9, with slopes and
 * bias. */
static masked exact_scores(check_rng *rng, int round)
{
    masked m = problem(rng, round);
    const int64_t d = m.shape.head_dim, keys = m.shape.batch * m.shape.num_kv_heads * m.shape.seq_len_kv;
    for (int64_t i = 0; i < masked_rows(&m) * d; i++)
        m.q[i] = (float)check_between(rng, -2, 2);
    for (int64_t i = 0; i < keys * d; i++)
        m.k[i] = (float)check_between(rng, -2, 2);
    for (int64_t h = 0; m.slopes && h < m.shape.num_heads; h++)
        m.slopes[h] = (float)check_between(rng, -16, 16) * 0x1p-4f;
    for (int64_t h = 0; m.sinks && h < m.shape.num_heads; h++)
        m.sinks[h] = (float)check_between(rng, -16, 16);
    masked_full_bias(&m);
    for (size_t i = 0; i < m.bias_count; i++)
        m.bias[i] = check_between(rng, 0, 9) ? (float)check_between(rng, -512, 512) * 0x1p-8f : -INFINITY;
    m.shape.softcap = 0.0f;
    m.shape.scale = 0.25f;
    return m;
}

static const float SHIFT = 1024.0f;

static void expect_shifted(const masked *m, const masked_result *got, const masked_result *clean)
{
    masked_result same = { got->out, clean->lse, got->weights };
    masked_same(m, &same, clean);
    for (int64_t row = 0; row < masked_rows(m); row++) {
        const double want = (double)clean->lse[row] + (double)SHIFT, got_lse = (double)got->lse[row];
        if (got_lse != want && !(fabs(got_lse - want) <= 0x1p-24 * (fabs(want) + fabs((double)clean->lse[row])))) {
            CHECK(false, "lse[%lld] is %.9g, want %.9g", (long long)row, got_lse, want);
            return;
        }
    }
}

/* A constant added to all scores of a row, sink included, changes no weight. */
static void shifted_scores(void)
{
    check_rng rng = check_rng_named("shifted scores");
    for (int n = 0; n < rounds(60); n++) {
        masked m = exact_scores(&rng, n), c = masked_copy(&m);
        for (size_t i = 0; i < c.bias_count; i++)
            c.bias[i] += SHIFT;
        for (int64_t h = 0; c.sinks && h < c.shape.num_heads; h++)
            c.sinks[h] += SHIFT;
        each_backend(&c, &m, expect_shifted);
        masked_free(&c);
        masked_free(&m);
    }
}

static void swap_rows(float *values, int64_t a, int64_t b, int64_t width)
{
    for (int64_t i = 0; i < width; i++) {
        const float swap = values[a * width + i];
        values[a * width + i] = values[b * width + i];
        values[b * width + i] = swap;
    }
}

/* Keys in another order, with their values and bias: the same but for roundings. */
static void permuted_keys(void)
{
    check_rng rng = check_rng_named("permuted keys");
    for (int n = 0; n < rounds(60); n++) {
        masked m = exact_scores(&rng, n);
        free(m.mask);
        free(m.blocks);
        free(m.slopes);
        free(m.lengths_kv);
        m.mask = m.blocks = NULL;
        m.slopes = NULL;
        m.lengths_kv = NULL;
        m.weights = false;
        m.shape.causal = HEED_CAUSAL_NONE;
        m.shape.window_left = m.shape.window_right = -1;
        masked c = masked_copy(&m);
        const int64_t keys = m.shape.seq_len_kv, heads = m.shape.batch * m.shape.num_kv_heads;
        for (int64_t j = keys - 1; j > 0; j--) {
            const int64_t other = check_between(&rng, 0, j);
            for (int64_t h = 0; h < heads; h++) {
                swap_rows(c.k + h * keys * m.shape.head_dim, j, other, m.shape.head_dim);
                swap_rows(c.v + h * keys * m.shape.head_dim_v, j, other, m.shape.head_dim_v);
            }
            for (int64_t row = 0; row < masked_rows(&m); row++)
                swap_rows(c.bias + row * keys, j, other, 1);
        }
        const masked_run run = masked_plain(HEED_ISA_AUTO);
        masked_result r = masked_execute(&c, &run);
        masked_check_oracle(&m, &r, NULL);
        masked_free_result(&r);
        masked_free(&c);
        masked_free(&m);
    }
}

/* ---- Hidden keys ---- */

/* Whether any row that reads key j of this kv head sees it. */
static bool seen_by_any(const masked *m, int64_t b, int64_t kv_head, int64_t j)
{
    const int64_t group = m->shape.num_heads / m->shape.num_kv_heads;
    for (int64_t h = kv_head * group; h < (kv_head + 1) * group; h++)
        for (int64_t i = 0; i < m->shape.seq_len_q; i++)
            if (masked_sees(m, b, h, i, j))
                return true;
    return false;
}

static bool sees_any(const masked *m, int64_t row)
{
    const heed_attention *a = &m->shape;
    for (int64_t j = 0; j < a->seq_len_kv; j++)
        if (masked_sees(m, row / a->seq_len_q / a->num_heads, row / a->seq_len_q % a->num_heads, row % a->seq_len_q, j))
            return true;
    return false;
}

/* Everything in keys that nothing sees, and in queries that see nothing, becomes NaN or infinite; returns how many
 * keys. */
static int64_t poison_hidden(masked *m, check_rng *rng)
{
    static const float poisons[] = { NAN, INFINITY, -INFINITY, 3e38f };
    const heed_attention *a = &m->shape;
    int64_t hidden = 0;
    for (int64_t n = 0; n < a->batch * a->num_kv_heads * a->seq_len_kv; n++) {
        const int64_t row = n / a->seq_len_kv;
        if (seen_by_any(m, row / a->num_kv_heads, row % a->num_kv_heads, n % a->seq_len_kv))
            continue;
        hidden++;
        for (int64_t d = 0; d < a->head_dim; d++)
            m->k[n * a->head_dim + d] = poisons[check_between(rng, 0, 3)];
        for (int64_t d = 0; d < a->head_dim_v; d++)
            m->v[n * a->head_dim_v + d] = poisons[check_between(rng, 0, 3)];
    }
    for (int64_t row = 0; row < masked_rows(m); row++)
        for (int64_t d = 0; d < a->head_dim && !sees_any(m, row); d++)
            m->q[row * a->head_dim + d] = poisons[check_between(rng, 0, 2)];
    const size_t full = (size_t)(masked_rows(m) * a->seq_len_kv);
    for (int64_t n = 0; m->bias && m->bias_count == full && a->strides_bias.key == 1 && n < (int64_t)full; n++) {
        const int64_t row = n / a->seq_len_kv, b = row / a->seq_len_q / a->num_heads,
                      h = row / a->seq_len_q % a->num_heads;
        float *bias = m->bias + masked_at(&a->strides_bias, b, h, row % a->seq_len_q, n % a->seq_len_kv);
        if (*bias != -INFINITY && !masked_sees(m, b, h, row % a->seq_len_q, n % a->seq_len_kv))
            *bias = n % 2 ? NAN : INFINITY;
    }
    return hidden;
}

static void expect_same(const masked *m, const masked_result *got, const masked_result *clean)
{
    masked_same(m, got, clean);
}

static void add_hiding(masked *m, check_rng *rng, int kind)
{
    const int64_t keys = m->shape.seq_len_kv;
    switch (kind) {
    case 0: masked_add_lengths(m, rng, true, true); break;
    case 1:
        m->shape.causal = HEED_CAUSAL_OFFSET;
        m->shape.causal_offset = check_between(rng, -5, keys);
        break;
    case 2: m->shape.window_left = check_between(rng, 0, 20); break;
    case 3: m->shape.window_left = m->shape.window_right = check_between(rng, 0, 5); break;
    case 4: masked_add_mask(m, rng, 12 + 2 * (unsigned)check_between(rng, 0, 1)); break;
    case 5: masked_add_blocks(m, rng, m->shape.seq_len_q, check_between(rng, 1, 30)); break;
    case 6: masked_add_bias(m, rng, 14); break;
    case 7: m->shape.causal = HEED_CAUSAL_TOP_LEFT; break;
    default: break;
    }
}

/* Each kind of hiding alone, then all at random; bias 14: one row for all. */
static void hidden_keys(void)
{
    check_rng rng = check_rng_named("hidden keys");
    int64_t hidden[10] = { 0 };
    for (int n = 0; n < (check_quick() ? 10 : 160); n++) {
        const int kind = n % 10;
        masked m = kind > 7 ? problem(&rng, n / 10)
                            : masked_make(&rng, 1 + n / 10 % 2, 2, 1, 3 + n / 10, 30 + n * 4, 1 + n / 10, 9);
        add_hiding(&m, &rng, kind);
        m.weights = n % 2;
        masked c = masked_copy(&m);
        hidden[kind] += poison_hidden(&c, &rng);
        each_backend(&c, &m, expect_same);
        masked_free(&c);
        masked_free(&m);
    }
    for (int kind = 0; kind < 10; kind++)
        CHECK(hidden[kind] > 0 || check_quick(), "kind %d of hiding hid no key from all rows", kind);
}

/* ---- Visible NaN and infinities ---- */

typedef enum poison_kind { POISON_KEY, POISON_VALUE, POISON_INFINITE_VALUE, POISON_BIAS, POISON_KINDS } poison_kind;

static struct {
    poison_kind kind;
    int64_t batch, kv_head, key, column, row; /* of the poison; row only for a bias */
} spoiled;

static bool touches(const masked *m, int64_t row)
{
    const heed_attention *a = &m->shape;
    const int64_t i = row % a->seq_len_q, h = row / a->seq_len_q % a->num_heads, b = row / a->seq_len_q / a->num_heads;
    if (spoiled.kind == POISON_BIAS)
        return row == spoiled.row;
    return b == spoiled.batch && h / (a->num_heads / a->num_kv_heads) == spoiled.kv_head &&
           masked_sees(m, b, h, i, spoiled.key);
}

/* A score of NaN or +inf: nothing of the row is left but the weights of hidden keys. */
static void expect_nan_row(const masked *m, const masked_result *got, int64_t row)
{
    const heed_attention *a = &m->shape;
    const int64_t i = row % a->seq_len_q, h = row / a->seq_len_q % a->num_heads, b = row / a->seq_len_q / a->num_heads;
    for (int64_t d = 0; d < a->head_dim_v; d++)
        CHECK(isnan(got->out[row * a->head_dim_v + d]), "out[%lld][%lld] is %g", (long long)row, (long long)d,
            (double)got->out[row * a->head_dim_v + d]);
    CHECK(isnan(got->lse[row]), "lse[%lld] is %g", (long long)row, (double)got->lse[row]);
    for (int64_t j = 0; got->weights && j < a->seq_len_kv; j++) {
        const float w = got->weights[row * a->seq_len_kv + j];
        CHECK(masked_sees(m, b, h, i, j) ? isnan(w) : w == 0.0f, "weight %lld of row %lld is %g", (long long)j,
            (long long)row, (double)w);
    }
}

static void expect_spoiled(const masked *m, const masked_result *got, const masked_result *clean)
{
    const int64_t dv = m->shape.head_dim_v;
    for (int64_t row = 0; row < masked_rows(m); row++) {
        if (!touches(m, row)) {
            masked_same_row(m, got, clean, row);
        } else if (spoiled.kind == POISON_KEY || spoiled.kind == POISON_BIAS) {
            expect_nan_row(m, got, row);
        } else {
            float *bad = got->out + row * dv + spoiled.column;
            CHECK(spoiled.kind == POISON_VALUE ? isnan(*bad) : !isfinite(*bad), "out[%lld] is %g", (long long)row,
                (double)*bad);
            *bad = clean->out[row * dv + spoiled.column]; /* the other columns do not know of it */
            masked_same_row(m, got, clean, row);
        }
    }
}

/* One value of what some row sees becomes NaN (or +inf in a bias or value); false when there is none such. */
static bool spoil(masked *m, check_rng *rng, int n)
{
    const heed_attention *a = &m->shape;
    spoiled.kind = (poison_kind)(n % POISON_KINDS);
    spoiled.row = check_between(rng, 0, masked_rows(m) - 1);
    spoiled.key = check_between(rng, 0, a->seq_len_kv - 1);
    spoiled.column = check_between(rng, 0, a->head_dim_v - 1);
    const int64_t i = spoiled.row % a->seq_len_q, h = spoiled.row / a->seq_len_q % a->num_heads;
    spoiled.batch = spoiled.row / a->seq_len_q / a->num_heads;
    spoiled.kv_head = h / (a->num_heads / a->num_kv_heads);
    const int64_t key = (spoiled.batch * a->num_kv_heads + spoiled.kv_head) * a->seq_len_kv + spoiled.key;
    if (!masked_sees(m, spoiled.batch, h, i, spoiled.key))
        return false;
    if (spoiled.kind == POISON_KEY)
        m->k[key * a->head_dim + check_between(rng, 0, a->head_dim - 1)] = NAN;
    else if (spoiled.kind == POISON_BIAS)
        m->bias[masked_place(m, spoiled.batch, h, i, spoiled.key)] = n % 3 ? NAN : INFINITY;
    else
        m->v[key * a->head_dim_v + spoiled.column] = spoiled.kind == POISON_VALUE ? NAN : n % 3 ? INFINITY : -INFINITY;
    return true;
}

static void visible_nan(void)
{
    check_rng rng = check_rng_named("visible NaN");
    int done = 0;
    for (int n = 0; n < (check_quick() ? 16 : 240); n++) {
        masked m = n % 5 ? masked_random(&rng, n % 24 == 7) : exact_scores(&rng, n);
        masked_full_bias(&m);
        for (int64_t i = 0; i < masked_rows(&m) * m.shape.head_dim && n % 4 == 3; i++)
            m.q[i] *= 300.0f; /* weights of exactly 0, which make nothing of a NaN either */
        masked c = masked_copy(&m);
        if (spoil(&c, &rng, n / 2)) {
            each_backend(&c, &m, expect_spoiled);
            done++;
        }
        masked_free(&c);
        masked_free(&m);
    }
    CHECK(done > (check_quick() ? 1 : 40), "only %d problems had a visible key to spoil", done);
}

/* Scores of exactly -inf weigh nothing, whatever else the row holds; a row of nothing else is like one that sees no
 * key. */
static void expect_oracle(const masked *m, const masked_result *got, const masked_result *clean)
{
    (void)clean;
    masked_check_oracle(m, got, NULL);
}

static void infinite_scores(void)
{
    check_rng rng = check_rng_named("infinite scores");
    for (int n = 0; n < rounds(60); n++) {
        masked m = problem(&rng, n);
        const int64_t d = m.shape.head_dim, keys = m.shape.batch * m.shape.num_kv_heads * m.shape.seq_len_kv;
        m.shape.softcap = 0.0f; /* turns -inf into a finite score */
        for (int64_t row = 0; row < masked_rows(&m); row++)
            m.q[row * d] = m.shape.scale < 0.0f ? -1.0f : 1.0f;
        for (int64_t j = 0; j < keys; j++)
            if (check_between(&rng, 0, 2 + n % 3) > 1 || n % 4 == 0)
                m.k[j * d] = n % 7 == 3 && j % 5 == 0 ? NAN : -INFINITY;
        each_backend(&m, &m, expect_oracle);
        masked_free(&m);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "values_of_one", values_of_one }, { "shifted_scores", shifted_scores },
        { "permuted_keys", permuted_keys }, { "hidden_keys", hidden_keys }, { "visible_nan", visible_nan },
        { "infinite_scores", infinite_scores } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
