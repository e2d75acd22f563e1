/* Keys and values that no query sees are not read: their pages are taken away.  Memory stays linear in the lengths.
 * May know: the public header, check.h, POSIX.
 * Must not know: anything under src/. */
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    DIM = 16,
    BLOCK = 256,                /* keys that are read together */
    PAGE_KEYS = 4096 / 4 / DIM, /* keys of a page */
    KEYS = 8 * BLOCK
};

/* Keys lo .. hi of one head may be read, or those of a list of blocks. */
typedef struct cache {
    float *k, *v;
} cache;

typedef struct scene {
    heed_attention shape;
    heed_tensors tensors; /* but k, v, out, lse */
    int64_t readable[8][2];
    int ranges;
} scene;

static float *map_floats(size_t count)
{
    void *map = mmap(NULL, count * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        check_fatal("no memory");
    return map;
}

static cache make_cache(void)
{
    const cache c = { map_floats(KEYS * DIM), map_floats(KEYS * DIM) };
    check_rng rng = check_rng_named("cache");
    if (sysconf(_SC_PAGESIZE) != 4096)
        check_note("pages of this machine are larger than 4096 bytes: keys are protected in larger units");
    check_fill(&rng, c.k, KEYS, DIM, CHECK_NORMAL);
    check_fill(&rng, c.v, KEYS, DIM, CHECK_NORMAL);
    return c;
}

static void free_cache(cache *c)
{
    munmap(c->k, KEYS * DIM * sizeof(float));
    munmap(c->v, KEYS * DIM * sizeof(float));
}

/* Takes away what the scene may not read, in whole pages. */
static void protect(const scene *s, const cache *c)
{
    const int64_t page = (int64_t)sysconf(_SC_PAGESIZE) / 4 / DIM;
    for (int64_t first = 0; first < KEYS; first += page) {
        int readable = 0;
        for (int r = 0; r < s->ranges; r++)
            readable |= first < s->readable[r][1] && first + page > s->readable[r][0];
        for (int which = 0; which < 2 && !readable; which++)
            if (mprotect((which ? c->v : c->k) + first * DIM, (size_t)page * DIM * sizeof(float), PROT_NONE))
                check_fatal("mprotect");
    }
}

typedef struct answer {
    float *out, *lse;
    size_t rows;
} answer;

static heed_status attend(const scene *s, const cache *c, heed_isa isa, const answer *a)
{
    heed_tensors t = s->tensors;
    const heed_options options = check_options(isa, HEED_EXP_DEFAULT, 1);
    t.k = c->k;
    t.v = c->v;
    t.out = a->out;
    t.lse = a->lse;
    return heed_attend(&s->shape, &t, &options, NULL);
}

/* In a process of its own, which may die of what it reads. */
static bool survives(const scene *s, const cache *c, heed_isa isa, const answer *want)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child < 0)
        check_fatal("fork");
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        const answer got = { check_floats(want->rows * DIM), check_floats(want->rows), want->rows };
        protect(s, c);
        const bool ok = attend(s, c, isa, &got) == HEED_OK &&
                        memcmp(got.out, want->out, want->rows * DIM * sizeof(float)) == 0 &&
                        memcmp(got.lse, want->lse, want->rows * sizeof(float)) == 0;
        _exit(ok ? 0 : 3);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* The scene with its keys protected gives what it gives without, on every backend. */
static void expect_unread(const scene *s, const char *what)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    cache c = make_cache();
    const heed_attention *a = &s->shape;
    const size_t rows = (size_t)(a->batch * a->num_heads * a->seq_len_q);
    const answer want = { check_floats(rows * DIM), check_floats(rows), rows };
    for (size_t i = 0; i < count; i++) {
        check_case("%s, %lld queries, %s", what, (long long)a->seq_len_q, heed_isa_name(list[i]));
        CHECK(attend(s, &c, list[i], &want) == HEED_OK, "heed_attend");
        CHECK(survives(s, &c, list[i], &want), "read what no query sees");
    }
    free(want.out);
    free(want.lse);
    free_cache(&c);
}

/* queries of one head over all keys. */
static scene make_scene(int64_t queries)
{
    static float q[1024 * DIM];
    check_rng rng = check_rng_named("queries");
    const scene empty = { HEED_ATTENTION_INIT, HEED_TENSORS_INIT, { { 0, 0 } }, 0 };
    scene s = empty;
    check_fill(&rng, q, 1024, DIM, CHECK_NORMAL);
    s.shape.batch = s.shape.num_heads = s.shape.num_kv_heads = 1;
    s.shape.seq_len_q = queries;
    s.shape.seq_len_kv = KEYS;
    s.shape.head_dim = DIM;
    s.tensors.q = q;
    return s;
}

static void allow(scene *s, int64_t lo, int64_t hi)
{
    s->readable[s->ranges][0] = lo;
    s->readable[s->ranges][1] = hi;
    s->ranges++;
}

static int64_t block_down(int64_t key)
{
    return key / BLOCK * BLOCK;
}

static int64_t block_up(int64_t key)
{
    return (key + BLOCK - 1) / BLOCK * BLOCK;
}

/* Few queries are one task that packs its keys itself; many share packed keys.  Both are tried everywhere. */
static const int64_t sizes[] = { 1, 4, 150 };
enum { SIZES = 3 };

static void nothing_is_protected_in_vain(void)
{
    scene s = make_scene(4);
    cache c = make_cache();
    const answer want = { check_floats(4 * DIM), check_floats(4), 4 };
    CHECK(attend(&s, &c, HEED_ISA_AUTO, &want) == HEED_OK, "heed_attend");
    allow(&s, 0, KEYS - BLOCK);
    CHECK(!survives(&s, &c, HEED_ISA_AUTO, &want), "a visible key without its page was not missed");
    s.ranges = 0;
    allow(&s, 0, KEYS);
    CHECK(survives(&s, &c, HEED_ISA_AUTO, &want), "all keys are readable");
    free(want.out);
    free(want.lse);
    free_cache(&c);
}

static void windows(void)
{
    for (size_t n = 0; n < SIZES; n++)
        for (int64_t first = 900; first <= 1800; first += 900) {
            scene s = make_scene(sizes[n]);
            s.shape.causal = HEED_CAUSAL_OFFSET;
            s.shape.causal_offset = first;
            s.shape.window_left = 100;
            allow(&s, block_down(first - 100), block_up(first + sizes[n]));
            expect_unread(&s, "window and causal");
        }
    for (size_t n = 0; n < SIZES; n++) {
        scene s = make_scene(sizes[n]); /* the last positions, both sides */
        s.shape.window_left = 300;
        s.shape.window_right = 5;
        allow(&s, block_down(KEYS - sizes[n] - 300), KEYS);
        expect_unread(&s, "window");
    }
}

static void causal(void)
{
    for (size_t n = 0; n < SIZES; n++) {
        scene s = make_scene(sizes[n]);
        s.shape.causal = HEED_CAUSAL_TOP_LEFT;
        allow(&s, 0, block_up(sizes[n]));
        expect_unread(&s, "top-left");
        s.shape.causal = HEED_CAUSAL_OFFSET;
        s.shape.causal_offset = -1000;
        s.ranges = 0;
        expect_unread(&s, "no row sees a key");
    }
}

/* To the key: a block of keys ends where the sequence does. */
static void lengths(void)
{
    static const int32_t keys[] = { 0, PAGE_KEYS, BLOCK, BLOCK + 3 * PAGE_KEYS };
    static const int32_t none = 0;
    for (size_t n = 0; n < SIZES * 4; n++) {
        scene s = make_scene(sizes[n % SIZES]);
        s.tensors.lengths_kv = &keys[n / SIZES];
        allow(&s, 0, keys[n / SIZES]);
        expect_unread(&s, "length of the keys");
        s.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
        s.shape.window_left = 50;
        expect_unread(&s, "length of the keys and window");
    }
    for (size_t n = 0; n < SIZES; n++) {
        scene s = make_scene(sizes[n]);
        s.tensors.lengths_q = &none;
        expect_unread(&s, "no queries");
    }
}

/* Key blocks that the map hides from every block of queries; its blocks are those of keys read together, or parts. */
static void block_masks(void)
{
    static uint8_t map[150 * KEYS / PAGE_KEYS];
    for (size_t n = 0; n < SIZES; n++)
        for (int64_t block_kv = PAGE_KEYS; block_kv <= BLOCK; block_kv *= 4) {
            scene s = make_scene(sizes[n]);
            const int64_t columns = KEYS / block_kv, rows = (sizes[n] + 63) / 64;
            s.shape.block_mask_q = 64;
            s.shape.block_mask_kv = block_kv;
            s.tensors.block_mask = map;
            memset(map, 0, sizeof map);
            for (int64_t i = 0; i < rows; i++) { /* each block of queries sees two blocks of keys */
                map[i * columns] = 1;
                map[i * columns + columns / 2 + i] = 1;
                allow(&s, block_down((columns / 2 + i) * block_kv), block_up((columns / 2 + i + 1) * block_kv));
            }
            allow(&s, 0, BLOCK);
            expect_unread(&s, "block mask");
        }
}

static void block_mask_under_window(void)
{
    static uint8_t map[KEYS / BLOCK];
    scene s = make_scene(150);
    memset(map, 1, sizeof map);
    map[3] = 0;
    s.shape.causal = HEED_CAUSAL_OFFSET;
    s.shape.causal_offset = 1300;
    s.shape.window_left = 700;
    s.shape.block_mask_q = 150;
    s.shape.block_mask_kv = BLOCK;
    s.tensors.block_mask = map;
    allow(&s, 2 * BLOCK, 3 * BLOCK);
    allow(&s, 4 * BLOCK, block_up(1450));
    expect_unread(&s, "block mask and window");
}

/* Blocks that a boolean mask or a bias of -inf hides from every query, by one row for all and by a row each. */
static void masks_and_biases(void)
{
    static uint8_t mask[150 * KEYS];
    static float bias[150 * KEYS];
    for (size_t n = 0; n < SIZES * 4; n++) {
        scene s = make_scene(sizes[n % SIZES]);
        const int64_t rows = n / SIZES % 2 ? sizes[n % SIZES] : 1;
        for (int64_t i = 0; i < rows * KEYS; i++) { /* the last row sees one key more, in a block of its own */
            const int64_t key = i % KEYS;
            mask[i] = key < 5 || (key >= 3 * BLOCK + 7 && key < 3 * BLOCK + 20) ||
                      (i / KEYS == rows - 1 && key == 5 * BLOCK + 100);
            bias[i] = mask[i] ? 0.5f : -INFINITY;
        }
        s.shape.strides_mask.query = s.shape.strides_bias.query = rows > 1 ? KEYS : 0;
        s.shape.strides_mask.key = s.shape.strides_bias.key = 1;
        if (n / SIZES < 2)
            s.tensors.mask = mask;
        else
            s.tensors.bias = bias;
        allow(&s, 0, BLOCK);
        allow(&s, 3 * BLOCK, 4 * BLOCK);
        allow(&s, 5 * BLOCK, 6 * BLOCK);
        expect_unread(&s, n / SIZES < 2 ? "boolean mask" : "bias of -inf");
    }
}

/* ---- Memory ---- */

static size_t workspace(heed_isa isa, int64_t length, int64_t heads, int64_t kv_heads)
{
    heed_attention a = HEED_ATTENTION_INIT;
    const heed_options options = check_options(isa, HEED_EXP_DEFAULT, 1);
    heed_plan *plan = NULL;
    a.batch = 1;
    a.num_heads = heads;
    a.num_kv_heads = kv_heads;
    a.seq_len_q = a.seq_len_kv = length;
    a.head_dim = 64;
    a.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    a.window_left = 1000;
    CHECK(heed_plan_create(&plan, &a, &options, NULL) == HEED_OK, "plan of %lld", (long long)length);
    const size_t size = heed_plan_workspace_size(plan);
    heed_plan_destroy(plan);
    return size;
}

/* L06: a plan does not know whether a bias will be given, so its size holds with one.  Twice the length, at most twice
 * the memory, and far from a score for each pair; keys and values are not repeated for the heads of a group. */
static void l06_workspace(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    const size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++) {
        for (int64_t length = 1024; length <= INT64_C(1) << 22; length *= 2)
            CHECK(workspace(list[i], 2 * length, 1, 1) <= 2 * workspace(list[i], length, 1, 1), "%s: length %lld",
                heed_isa_name(list[i]), (long long)length);
        CHECK(workspace(list[i], 16384, 1, 1) < (size_t)64 << 20, "L06 asks for less than 64 MiB");
        CHECK(workspace(list[i], 8192, 8, 2) < (size_t)64 << 20, "L06 with grouped heads too");
        CHECK(
            workspace(list[i], 8192, 8, 2) <= workspace(list[i], 8192, 2, 2) + ((size_t)1 << 20), "keys are repeated");
    }
}

static size_t allocated;

static void *count_allocate(void *context, size_t size)
{
    (void)context;
    allocated += size;
    return malloc(size);
}

static void count_release(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static long peak(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* L06: causal with an additive mask, one float for each distance; the scores of all pairs would take 64 MiB. */
static void l06_run(void)
{
    enum { L = 4096, D = 64 };
    const int64_t length = heed_isa_default() == HEED_ISA_SCALAR || check_quick() ? 1024 : L;
    const heed_allocator allocator = { NULL, count_allocate, count_release };
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
    check_rng rng = check_rng_named("L06");
    float *q = check_floats(L * D), *out = check_floats(L * D), *bias = check_floats(2 * L);
    check_fill(&rng, q, L, D, CHECK_NORMAL);
    check_fill(&rng, bias, 1, 2 * L, CHECK_NORMAL);
    heed_attention a = HEED_ATTENTION_INIT;
    const heed_mask_strides by_distance = { 0, 0, 1, 1 };
    a.batch = a.num_heads = a.num_kv_heads = 1;
    a.seq_len_q = a.seq_len_kv = length;
    a.head_dim = D;
    a.causal = HEED_CAUSAL_TOP_LEFT;
    a.strides_bias = by_distance;
    options.allocator = &allocator;
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = t.k = t.v = q;
    t.out = out;
    t.bias = bias;
    allocated = 0;
    memset(out, 1, (size_t)(length * D) * sizeof *out);
    const long before = peak();
    CHECK(heed_attend(&a, &t, &options, NULL) == HEED_OK, "heed_attend");
    const long grown = peak() - before;
    CHECK(allocated > 0 && allocated < (size_t)length * 2048, "%zu bytes allocated", allocated);
    CHECK(check_sanitized() || grown < 16 * 1024, "%ld KiB more at the peak", grown);
    check_note("length %lld: %zu bytes allocated, peak grown by %ld KiB", (long long)length, allocated, grown);
    free(q);
    free(out);
    free(bias);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "nothing_is_protected_in_vain", nothing_is_protected_in_vain },
        { "windows", windows }, { "causal", causal }, { "lengths", lengths }, { "block_masks", block_masks },
        { "block_mask_under_window", block_mask_under_window }, { "masks_and_biases", masks_and_biases },
        { "L06_workspace", l06_workspace }, { "L06_run", l06_run } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
