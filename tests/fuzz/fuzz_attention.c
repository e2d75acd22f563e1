/* The libFuzzer entry of attention: bytes become a whole problem with any options and contents, which every usable backend
 * computes in storage of its own choice; all must have scalar's bits, and those must be within the oracle's bounds.
 * May know: the public header, masked.h, check.h, problem.h.
 * Must not know: anything under src/. */
#include "problem.h"

#include <string.h>

/* ---- A problem ---- */

/* Small: every edge of a vector and a tile, and quick. */
static masked next_small(source *s, check_rng *rng)
{
    static const int64_t dims[] = { 1, 2, 3, 5, 8, 15, 16, 17 };
    const int64_t kv_heads = 1 + next_below(s, 2), group = 1 + next_below(s, 2);
    const int64_t batch = kv_heads * group < 4 ? 1 + next_below(s, 2) : 1;
    const int64_t queries = 1 + next_below(s, 5), keys = next_below(s, 20);
    const int64_t dim = dims[next_below(s, 8)], dim_v = dims[next_below(s, 8)];
    return masked_make(rng, batch, kv_heads * group, kv_heads, queries, keys, dim, dim_v);
}

/* More than one block of keys, or more than one task. */
static masked next_large(source *s, check_rng *rng)
{
    static const int64_t keys[] = { 255, 256, 257, 513, 1, 3, 6, 17 };
    const int64_t last = keys[next_below(s, 8)], few = 1 + next_below(s, 2);
    const int64_t queries = last < 64 ? 97 + next_below(s, 4) : few, group = last < 64 || last > 300 ? 1 : few;
    return masked_make(rng, 1, group, 1, last > 300 ? 1 : queries, last, 1 + next_below(s, 4), 1 + next_below(s, 4));
}

static void run_everywhere(const masked *m, check_rng *rng, heed_exp exp, contents in)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    masked_run plain = masked_plain(HEED_ISA_SCALAR);
    plain.exp = heed_sleef_usable(HEED_ISA_SCALAR) ? exp : HEED_EXP_BUILTIN;
    masked_result scalar = masked_execute(m, &plain);
    require_oracle(m, &scalar, in, 0.0);
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
    check_rng rng = next_rng(&s);
    masked m = kind < 0xe8 ? next_small(&s, &rng) : next_large(&s, &rng);
    next_options(&s, &rng, &m);
    const contents in = next_contents(&s, &m);
    run_everywhere(&m, &rng, kind % 2 ? HEED_EXP_SLEEF : HEED_EXP_BUILTIN, in);
    masked_free(&m);
    return 0;
}
