/* The libFuzzer entry of caches: bytes become a problem whose keys and values are appended to a cache of any types, pages and
 * layout; in pieces and at once they must give the same bytes, and attention over them on every usable backend the bits of
 * plain tensors that hold the same numbers.  Or positions, lengths, offsets and page tables of any value.
 * May know: the public header, masked.h, store.h, cached.h, problem.h.
 * Must not know: anything under src/. */
#include "cached.h"
#include "problem.h"

#include <math.h>
#include <string.h>

/* How a problem is kept and run. */
typedef struct choice {
    heed_type type_k, type_v;
    int64_t page_size;
    heed_layout layout; /* of the cache */
    int32_t threads;
    cached_run run;
    bool any_scales; /* int8 with scales that are no powers of two: the numbers of no f32 tensor */
} choice;

static choice next_choice(source *s)
{
    static const int64_t page_sizes[] = { 0, 16, 32, 64, 128 };
    const uint8_t types = next_byte(s), rows = next_byte(s), way = next_byte(s);
    const choice c = { .type_k = (heed_type)(types % 4),
        .type_v = (heed_type)(types / 4 % 4),
        .page_size = page_sizes[next_below(s, 5)],
        .layout = (heed_layout)(way % 3),
        .threads = 1 + way / 3 % 8,
        .run = { (heed_type)(rows % 3), (heed_type)(rows / 3 % 3), rows / 9 % 2 != 0, rows / 18 % 2 != 0,
            rows / 36 % 2 != 0 },
        .any_scales = types / 16 % 4 == 0 };
    return c;
}

/* One to sixteen queries; keys around pages, strips and sometimes blocks. */
static masked next_sizes(source *s, check_rng *rng)
{
    static const int64_t dims[] = { 1, 2, 4, 7, 8, 15, 16, 17 };
    static const int64_t keys[] = { 63, 64, 65, 100, 128, 255, 257, 300 };
    const uint8_t heads = next_byte(s), dim = next_byte(s), many = next_byte(s);
    const int64_t kv_heads = 1 + heads % 2, group = 1 + heads / 2 % 4, batch = 1 + heads / 8 % (4 - kv_heads);
    if (many >= 0xf0) /* more than one block of keys */
        return masked_make(rng, 1, group, 1, 1 + dim % 3, keys[many % 8], 1 + dim / 8 % 4, 1 + dim / 32 % 4);
    return masked_make(rng, batch, kv_heads * group, kv_heads, 1 + next_below(s, 16) / (group * batch), 1 + many % 40,
        dims[dim % 8], dims[dim / 8 % 8]);
}

/* ---- What storage holds ---- */

static bool all_finite(const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

/* Integers up to 127, one of them reached, times a power of two: what int8 holds exactly.  NaN takes a whole token. */
static void make_steps(float *x, int64_t n, float unit)
{
    const bool finite = all_finite(x, n);
    int64_t most = 0;
    for (int64_t i = 1; i < n; i++)
        most = fabsf(x[i]) > fabsf(x[most]) ? i : most;
    const double size = fabs((double)x[most]);
    for (int64_t i = 0; i < n; i++)
        x[i] = !finite ? NAN : size == 0.0 ? 0.0f : (float)nearbyint((double)x[i] / size * 127.0) * unit;
}

static void read_back(heed_type type, float *x, int64_t n)
{
    double values[32];
    const bool lost = type == HEED_TYPE_I8 && !all_finite(x, n);
    store_token(type, x, n, values);
    for (int64_t i = 0; i < n; i++)
        x[i] = lost ? NAN : (float)values[i];
}

/* Makes the tensor what storage can hold, and *held a copy as it comes back.  Units: scores of about 1 for keys; at least 1 for
 * values, so that a weight times a scale is exact even where it is subnormal. */
static float *hold(float *x, int64_t tokens, int64_t dim, heed_type type, bool steps, check_rng *rng, bool values)
{
    float *held = check_floats((size_t)(tokens * dim));
    for (int64_t t = 0; t < tokens; t++) {
        const int exponent = (int)(values ? check_between(rng, 0, 2) : check_between(rng, -8, -6));
        if (steps)
            make_steps(x + t * dim, dim, ldexpf(1.0f, exponent));
        memcpy(held + t * dim, x + t * dim, (size_t)dim * sizeof *x);
        read_back(type, held + t * dim, dim);
    }
    return held;
}

/* ---- Comparison ---- */

static store make_store(const masked *m, const choice *c, check_rng *rng)
{
    const heed_attention *a = &m->shape;
    const store_shape shape = { a->batch, a->num_kv_heads, a->head_dim, a->head_dim_v, a->seq_len_kv, c->type_k,
        c->type_v, c->page_size, c->layout };
    return store_make(&shape, rng);
}

static heed_kv_tokens tokens_of(const masked *m)
{
    heed_kv_tokens t = HEED_KV_TOKENS_INIT;
    t.seq_len = m->shape.seq_len_kv;
    t.k = m->k;
    t.v = m->v;
    t.lengths = m->lengths_kv;
    return t;
}

static void same_bytes(const store *a, const store *b)
{
    const size_t scales = store_count_scales(a) * sizeof(float);
    require(memcmp(a->cache.k, b->cache.k, store_bytes_k(a)) == 0);
    require(memcmp(a->cache.v, b->cache.v, store_bytes_v(a)) == 0);
    require(!a->cache.scales_k || memcmp(a->cache.scales_k, b->cache.scales_k, scales) == 0);
    require(!a->cache.scales_v || memcmp(a->cache.scales_v, b->cache.scales_v, scales) == 0);
}

/* Appended in pieces and at once. */
static store fill_store(const masked *m, const choice *c, check_rng *rng)
{
    check_rng again = *rng;
    store s = make_store(m, c, rng), once = make_store(m, c, &again);
    const heed_kv_tokens all = tokens_of(m);
    store_fill(&s, m->k, m->v, m->shape.seq_len_kv, m->lengths_kv, rng);
    require(heed_kv_append(&once.cache, &all, NULL) == HEED_OK);
    same_bytes(&s, &once);
    return s;
}

static masked_result run_cached(const masked *m, const store *s, const cached_run *run, heed_isa isa, int32_t threads)
{
    heed_error error = { "" };
    const cached c = cached_place(m, s, run);
    const heed_status status = cached_attend(&c, isa, threads, &error);
    require(CHECK(status == HEED_OK, "attention over the cache: %d %s", (int)status, error.message));
    return cached_take(&c);
}

/* The greatest error of a score before any arithmetic where keys are rounded to f32 once more: 2^-24 of each product, and of
 * their sum by the scale outside. */
static double near_score(const masked *held)
{
    const heed_attention *a = &held->shape;
    double q = 0.0, k = 0.0;
    for (int64_t i = 0; i < masked_rows(held) * a->head_dim; i++)
        q = isfinite(held->q[i]) ? fmax(q, fabs((double)held->q[i])) : q;
    for (int64_t i = 0; i < a->batch * a->num_kv_heads * a->seq_len_kv * a->head_dim; i++)
        k = isfinite(held->k[i]) ? fmax(k, fabs((double)held->k[i])) : k;
    return 3.0 * 0x1p-24 * (double)a->head_dim * q * k * fmax(1.0, fabs((double)a->scale));
}

/* The bits that all runs must have.  They are those of plain tensors wherever the numbers are; else of a contiguous cache, which
 * the oracle judges as long as few keys leave room for the rounding of values in the bound of their sum. */
static masked_result base_result(const masked *m, const masked *held, const choice *c, check_rng *rng, contents in)
{
    const masked_run plain = masked_plain(HEED_ISA_SCALAR);
    const bool int8 = c->type_k == HEED_TYPE_I8 || c->type_v == HEED_TYPE_I8;
    if (!int8 || (!c->any_scales && !in.wild)) {
        masked_result base = masked_execute(held, &plain);
        require_oracle(held, &base, in, 0.0);
        return base;
    }
    choice contiguous = *c;
    contiguous.page_size = 0;
    contiguous.layout = HEED_LAYOUT_BHSD;
    const cached_run run = { HEED_TYPE_F32, HEED_TYPE_F32, false, false, false };
    const store s = fill_store(m, &contiguous, rng);
    masked_result base = run_cached(held, &s, &run, HEED_ISA_SCALAR, 1);
    if (m->shape.seq_len_kv <= 200)
        require_oracle(held, &base, in, near_score(held));
    return base;
}

static void check_everywhere(const masked *m, const masked *held, const choice *c, check_rng *rng, contents in)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    masked_result base = base_result(m, held, c, rng, in);
    for (int64_t i = 0; i < masked_rows(m) * m->shape.head_dim_v; i++)
        base.out[i] = store_round(c->run.type_out, base.out[i]);
    const store s = fill_store(m, c, rng);
    for (size_t i = 0; i < count; i++) {
        masked_result result = run_cached(held, &s, &c->run, list[i], i == 0 ? 1 : c->threads);
        require(masked_same(m, &result, &base));
        masked_free_result(&result);
    }
    masked_free_result(&base);
    check_free_all();
    require(check_failures() == 0);
}

static void keep_and_check(source *s, masked *m, const choice *c, check_rng *rng)
{
    const heed_attention *a = &m->shape;
    const int64_t tokens = a->batch * a->num_kv_heads * a->seq_len_kv;
    const bool steps_k = c->type_k == HEED_TYPE_I8 && !c->any_scales,
               steps_v = c->type_v == HEED_TYPE_I8 && !c->any_scales;
    const contents in = next_contents(s, m);
    for (int64_t i = 0; i < masked_rows(m) * a->head_dim; i++) {
        m->q[i] = store_round(c->run.type_q, m->q[i]);
        if (steps_k && fabsf(m->q[i]) < 0x1p-60f)
            m->q[i] = 0.0f; /* a subnormal score is rounded before the scale in one problem, behind it in the other */
    }
    masked held = *m;
    held.k = hold(m->k, tokens, a->head_dim, c->type_k, steps_k, rng, false);
    held.v = hold(m->v, tokens, a->head_dim_v, c->type_v, steps_v, rng, true);
    check_everywhere(m, &held, c, rng, in);
    free(held.k);
    free(held.v);
}

/* ---- Numbers of any value where the library counts ---- */

static int32_t next_int(source *s)
{
    static const int32_t far[] = { INT32_MAX, INT32_MIN, 1 << 20, -(1 << 20), 255, 256, 1 << 30, -129 };
    const uint8_t b = next_byte(s);
    return b < 0xe0 ? (int32_t)b % 56 - 4 : far[b % 8];
}

/* [count] in guarded memory: those of from (zeros if NULL), some of them changed.  Up to most: rows that offsets may name are the
 * caller's word, which nothing checks. */
static const int32_t *next_ints(source *s, const int32_t *from, size_t count, int32_t most)
{
    int32_t *ints = check_alloc(count * sizeof *ints, CHECK_GUARD_BEHIND);
    for (size_t i = 0; i < count; i++)
        ints[i] = from ? from[i] : 0;
    for (int64_t changes = next_below(s, 4); changes > 0; changes--) {
        const size_t at = (size_t)next_byte(s) % count;
        const int32_t value = next_int(s);
        ints[at] = value > most ? -value : value;
    }
    return ints;
}

/* An append that is refused writes nothing; one that is not stays within the cache. */
static void append_anything(source *in, const masked *m, store *s)
{
    const uint8_t which = next_byte(in);
    const size_t batch = (size_t)m->shape.batch;
    heed_kv_tokens t = tokens_of(m);
    if (which & 16) { /* the same memory holds more of narrower elements; others are refused */
        t.type_k = (heed_type)(next_byte(in) % 5);
        t.type_v = (heed_type)(next_byte(in) % 5);
    }
    t.positions = which & 1 ? next_ints(in, NULL, batch, INT32_MAX) : NULL;
    t.lengths = which & 2 ? next_ints(in, m->lengths_kv, batch, INT32_MAX) : t.lengths;
    if (which & 4) {
        int32_t offsets[8] = { 0 };
        for (size_t b = 1; b <= batch; b++)
            offsets[b] = (int32_t)((int64_t)b * t.seq_len);
        t.offsets = next_ints(in, offsets, batch + 1, offsets[batch]);
        t.layout = HEED_LAYOUT_BSHD;
        t.lengths = which & 2 ? t.lengths : NULL;
    }
    if (which & 8 && s->cache.page_size)
        s->table[(size_t)next_byte(in) % (batch * (size_t)s->cache.page_table_stride)] = next_int(in);
    heed_error error = { "" };
    const heed_status status = heed_kv_append(&s->cache, &t, &error);
    require(status == HEED_OK || status == HEED_ERROR_INVALID || status == HEED_ERROR_OVERFLOW);
    require((status == HEED_OK) == (error.message[0] == '\0'));
    if (status == HEED_OK)
        return;
    check_untouched_bytes(s->cache.k, store_bytes_k(s), "k");
    check_untouched_bytes(s->cache.v, store_bytes_v(s), "v");
}

static void attend_anything(source *in, const masked *m, const store *s, const choice *c)
{
    const uint8_t which = next_byte(in);
    const size_t batch = (size_t)m->shape.batch;
    cached run = cached_place(m, s, &c->run);
    heed_tensors *t = &run.tensors;
    if (which & 1)
        t->lengths_kv = next_ints(in, t->lengths_kv, batch, INT32_MAX);
    if (which & 2)
        t->lengths_q = next_ints(in, t->lengths_q, batch, INT32_MAX);
    if (which & 4)
        t->offsets_q = next_ints(in, t->offsets_q, batch + 1, t->offsets_q ? t->offsets_q[batch] : 0);
    if (which & 8 && s->cache.page_size)
        s->table[(size_t)next_byte(in) % (batch * (size_t)s->cache.page_table_stride)] = next_int(in);
    heed_error error = { "" };
    heed_isa list[CHECK_MAX_BACKENDS];
    const heed_isa isa = list[next_byte(in) % check_backends(list)];
    const heed_status status = cached_attend(&run, isa, c->threads, &error);
    require(status == HEED_OK || status == HEED_ERROR_INVALID || status == HEED_ERROR_OVERFLOW);
    require((status == HEED_OK) == (error.message[0] == '\0'));
    if (status != HEED_OK)
        cached_untouched(&run);
}

static void count_anything(source *in, const masked *m, const choice *c, check_rng *rng)
{
    store s = make_store(m, c, rng), full = fill_store(m, c, rng);
    append_anything(in, m, &s);
    attend_anything(in, m, &full, c);
    check_free_all();
    require(check_failures() == 0);
}

/* The bytes as the structs themselves, without memory: refused unless there is nothing to do. */
static void append_nothing(const source *in)
{
    heed_kv_cache c = HEED_KV_CACHE_INIT;
    heed_kv_tokens t = HEED_KV_TOKENS_INIT;
    const size_t given = (size_t)(in->end - in->at), most = offsetof(heed_kv_cache, k) - sizeof c.struct_size;
    memcpy((char *)&c + sizeof c.struct_size, in->at, given < most ? given : most);
    if (given > most) {
        const size_t rest = given - most, room = offsetof(heed_kv_tokens, k) - sizeof t.struct_size;
        memcpy((char *)&t + sizeof t.struct_size, in->at + most, rest < room ? rest : room);
    }
    heed_error error = { "" };
    const heed_status status = heed_kv_append(&c, &t, &error);
    require((status == HEED_OK) == (error.message[0] == '\0'));
    require(status != HEED_OK || c.batch == 0 || t.seq_len == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    source s = { bytes, bytes + size };
    const uint8_t kind = next_byte(&s);
    if (kind >= 0xf0) {
        append_nothing(&s);
        return 0;
    }
    check_rng rng = next_rng(&s);
    const choice c = next_choice(&s);
    masked m = next_sizes(&s, &rng);
    next_options(&s, &rng, &m);
    if (kind >= 0xc0)
        count_anything(&s, &m, &c, &rng);
    else
        keep_and_check(&s, &m, &c, &rng);
    masked_free(&m);
    return 0;
}
