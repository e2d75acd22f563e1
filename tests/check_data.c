/* Test support: random values and guarded memory (see check.h).
 * May know: POSIX.
 * Must not know: anything under src/, the oracle, what is being tested. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint32_t FILL = 0x7fd5a5a5u; /* a quiet NaN no arithmetic makes */
static const unsigned char CANARY = 0xc7;

/* ---- Random values ---- */

const char *check_values_name(check_values kind)
{
    static const char *const names[CHECK_VALUES_COUNT] = { "normal", "large", "heavy-tailed", "one-hot", "constant",
        "denormal" };
    return names[kind];
}

/* splitmix64 (Steele, Lea, Flood 2014): spreads a seed over the state. */
static uint64_t split_mix(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

check_rng check_rng_named(const char *name)
{
    uint64_t state = check_seed();
    for (; *name; name++)
        state = (state ^ (unsigned char)*name) * 0x100000001b3u;
    check_rng rng;
    for (size_t i = 0; i < 4; i++)
        rng.state[i] = split_mix(&state);
    return rng;
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

/* xoshiro256** (Blackman, Vigna 2018). */
uint64_t check_next(check_rng *rng)
{
    uint64_t *s = rng->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

int64_t check_between(check_rng *rng, int64_t low, int64_t high)
{
    return low + (int64_t)(check_next(rng) % (uint64_t)(high - low + 1));
}

double check_uniform(check_rng *rng)
{
    return ((double)(check_next(rng) >> 11) + 1.0) * 0x1p-53;
}

float check_normal(check_rng *rng)
{
    double radius = sqrt(-2.0 * log(check_uniform(rng)));
    return (float)(radius * cos(6.283185307179586 * check_uniform(rng)));
}

static float one_value(check_rng *rng, check_values kind)
{
    double t;
    switch (kind) {
    case CHECK_LARGE: return 50.0f * check_normal(rng);
    case CHECK_HEAVY: t = tan(3.141592653589793 * (check_uniform(rng) - 0.5)); return (float)fmax(-1e4, fmin(1e4, t));
    case CHECK_DENORMAL: return check_float((uint32_t)(check_next(rng) & 0x807fffffu));
    default: return check_normal(rng);
    }
}

void check_fill(check_rng *rng, float *values, size_t rows, size_t width, check_values kind)
{
    for (size_t r = 0; r < rows; r++) {
        float *row = values + r * width;
        if (kind == CHECK_ONE_HOT) {
            for (size_t c = 0; c < width; c++)
                row[c] = 0.0f;
            if (width)
                row[check_next(rng) % width] = 8.0f;
            continue;
        }
        float constant = kind == CHECK_CONSTANT ? check_normal(rng) : 0.0f;
        for (size_t c = 0; c < width; c++)
            row[c] = kind == CHECK_CONSTANT ? constant : one_value(rng, kind);
    }
}

double check_narrow(uint32_t bits, int exponent_bits, int fraction_bits)
{
    const uint32_t largest = (1u << exponent_bits) - 1, exponent = bits >> fraction_bits & largest;
    const double fraction = ldexp((double)(bits & ((1u << fraction_bits) - 1)), -fraction_bits);
    const double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1.0 : 1.0;
    const int bias = (int)(largest >> 1);
    if (exponent == largest)
        return fraction == 0.0 ? sign * INFINITY : NAN;
    return sign * (exponent ? ldexp(1.0 + fraction, (int)exponent - bias) : ldexp(fraction, 1 - bias));
}

/* ---- Memory ---- */

typedef struct block {
    struct block *next;
    unsigned char *map, *data;
    size_t map_bytes, page, bytes;
} block;

static block *blocks; /* what check_free_all verifies and frees */

void *check_malloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        check_fatal("no memory");
    return memory;
}

/* Pages that cannot be touched before mprotect says so.  Fuzzers, which take and free memory all the time, have malloc in their
 * place, and AddressSanitizer in that of the pages around. */
#if defined(CHECK_MALLOC)
static size_t page_size(void)
{
    return 0;
}

static void *map_pages(size_t bytes)
{
    return check_malloc(bytes);
}

static void unmap_pages(void *map, size_t bytes)
{
    (void)bytes;
    free(map);
}

static int protect(void *pages, size_t bytes, int how)
{
    (void)pages;
    (void)bytes;
    (void)how;
    return 0;
}
#else
static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *map_pages(size_t bytes)
{
    void *map = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        check_fatal("no memory");
    return map;
}

static void unmap_pages(void *map, size_t bytes)
{
    munmap(map, bytes);
}

static int protect(void *pages, size_t bytes, int how)
{
    return mprotect(pages, bytes, how);
}
#endif

float *check_floats(size_t count)
{
    return memset(check_malloc(count * sizeof(float)), 0, count * sizeof(float));
}

static block *guarded(size_t bytes, check_side side)
{
    block *b = check_malloc(sizeof *b);
    b->page = page_size();
    b->bytes = bytes;
    size_t middle = b->page ? (bytes + b->page - 1) / b->page * b->page : bytes;
    b->map_bytes = middle + 2 * b->page;
    b->map = map_pages(b->map_bytes);
    if (middle && protect(b->map + b->page, middle, PROT_READ | PROT_WRITE))
        check_fatal("no memory");
    size_t slack = middle - bytes;
    b->data = b->map + b->page + (side == CHECK_GUARD_BEHIND ? slack : 0);
    memset(side == CHECK_GUARD_BEHIND ? b->map + b->page : b->data + bytes, CANARY, slack);
    b->next = blocks;
    blocks = b;
    return b;
}

void *check_alloc(size_t bytes, check_side side)
{
    return memset(guarded(bytes, side)->data, 0xff, bytes);
}

static void *read_only(const void *values, size_t bytes, check_side side)
{
    block *b = guarded(bytes, side);
    if (bytes) {
        memcpy(b->data, values, bytes);
        protect(b->map + b->page, b->map_bytes - 2 * b->page, PROT_READ);
    }
    return b->data;
}

const void *check_copy(const void *values, size_t bytes, check_side side)
{
    return read_only(values, bytes, side);
}

float *check_input(const float *values, size_t count, check_side side)
{
    return read_only(values, count * sizeof(float), side);
}

const int32_t *check_lengths(const int32_t *values, size_t count)
{
    return values ? read_only(values, count * sizeof(int32_t), CHECK_GUARD_BEHIND) : NULL;
}

float *check_output(size_t count, check_side side)
{
    float *data = check_alloc(count * sizeof(float), side);
    for (size_t i = 0; i < count; i++)
        memcpy(data + i, &FILL, sizeof FILL);
    return data;
}

static bool slack_intact(const block *b)
{
    const unsigned char *p = b->map + b->page, *end = b->map + b->map_bytes - b->page;
    for (; p < end; p++) {
        if (p == b->data && b->bytes)
            p += b->bytes;
        if (p < end && *p != CANARY)
            return false;
    }
    return true;
}

void check_free_all(void)
{
    bool intact = true;
    while (blocks) {
        block *b = blocks;
        blocks = b->next;
        intact = slack_intact(b) && intact;
        unmap_pages(b->map, b->map_bytes);
        free(b);
    }
    CHECK(intact, "a write outside the given memory hit a canary");
}

void check_take(float *output, float *packed, size_t count)
{
    memcpy(packed, output, count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        memcpy(output + i, &FILL, sizeof FILL);
}

bool check_untouched(const float *output, size_t count, const char *what)
{
    size_t i = 0;
    while (i < count && check_bits(output[i]) == FILL)
        i++;
    return CHECK(i == count, "%s: element %zu of %zu was written (%08x)", what, i, count,
        (unsigned)(i < count ? check_bits(output[i]) : 0));
}

bool check_untouched_bytes(const void *data, size_t bytes, const char *what)
{
    const unsigned char *p = data;
    size_t i = 0;
    while (i < bytes && p[i] == 0xff)
        i++;
    return CHECK(i == bytes, "%s: byte %zu of %zu was written", what, i, bytes);
}
