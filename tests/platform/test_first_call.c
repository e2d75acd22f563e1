/* The first call of a process: many threads making it at once, and what HEED_ISA makes of it.
 * May know: the public header, check.h, POSIX threads and processes.
 * Must not know: anything under src/.
 * The library caches what it found on the first call, so every case is a process of its own, forked before this one has
 * made any call: check_main, which calls the library, comes after them all. */
#include "check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 200, QUICK_STARTS = 12, THREADS = 32, VALUES = 9, LIMIT_SECONDS = 60 };
enum { HEADS = 2, QUERIES = 5, KEYS = 40, DIM = 24, COLUMNS = 100 };
enum { SIZE_Q = HEADS * QUERIES * DIM, SIZE_K = HEADS * KEYS * DIM };

/* What one thread saw. */
typedef struct seen {
    uint64_t bits; /* of attention and softmax */
    int32_t isa, done, failed;
} seen;

typedef struct start {
    seen threads[THREADS];
    int32_t ended_well;
} start;

/* What a child with one value of HEED_ISA saw. */
typedef struct lowered {
    int32_t isa, plan_isa, best_plan_isa, ended_well;
    uint64_t bits;
} lowered;

typedef struct results {
    start starts[STARTS];
    lowered values[VALUES];
} results;

static const char *const isa_values[VALUES] = { NULL, "scalar", "avx2", "avx512", "neon", "AVX2", "garbage", "auto",
    "" };
static results *shared;
static size_t start_count;
static float q[SIZE_Q], k[SIZE_K], v[SIZE_K], logits[COLUMNS];
static pthread_barrier_t barrier;

static void fill(float *values, size_t count, uint32_t state)
{
    for (size_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = (float)(state >> 8) * 0x1p-22f - 2.0f;
    }
}

static heed_attention problem(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = 1;
    a.num_heads = a.num_kv_heads = HEADS;
    a.seq_len_q = QUERIES;
    a.seq_len_kv = KEYS;
    a.head_dim = DIM;
    return a;
}

static uint64_t mix(uint64_t hash, const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ check_bits(values[i])) * UINT64_C(0x100000001b3);
    return hash;
}

/* One attention and one softmax; 0 as *failed when both succeeded. */
static uint64_t compute(int32_t *failed)
{
    float out[SIZE_Q], weights[COLUMNS];
    const heed_attention a = problem();
    heed_options options = HEED_OPTIONS_INIT;
    options.num_threads = 1;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k;
    tensors.v = v;
    tensors.out = out;
    *failed = heed_attend(&a, &tensors, &options, NULL) != HEED_OK;
    *failed |= heed_softmax(1, COLUMNS, logits, COLUMNS, weights, COLUMNS, NULL, &options, NULL) != HEED_OK;
    return *failed ? 0 : mix(mix(UINT64_C(0xcbf29ce484222325), out, SIZE_Q), weights, COLUMNS);
}

static int32_t plan_isa(heed_isa isa)
{
    const heed_attention a = problem();
    const heed_options options = check_options(isa, HEED_EXP_DEFAULT, 1);
    heed_plan *plan;
    if (heed_plan_create(&plan, &a, &options, NULL) != HEED_OK)
        return -1;
    const heed_isa got = heed_plan_isa(plan);
    heed_plan_destroy(plan);
    return (int32_t)got;
}

/* Threads differ in which function they call first. */
static void *first_call(void *argument)
{
    seen *mine = argument;
    char features[256];
    const long number = mine->isa;
    pthread_barrier_wait(&barrier);
    switch (number % 4) {
    case 0: mine->isa = (int32_t)heed_isa_default(); break;
    case 1: mine->isa = plan_isa(HEED_ISA_AUTO); break;
    case 2: heed_cpu_features(features, sizeof features); break;
    default: break;
    }
    mine->bits = compute(&mine->failed);
    if (number % 4 > 1)
        mine->isa = (int32_t)heed_isa_default();
    mine->done = 1;
    return NULL;
}

static void race(void *argument)
{
    start *mine = argument;
    pthread_t threads[THREADS];
    if (pthread_barrier_init(&barrier, NULL, THREADS) != 0)
        return;
    for (int i = 0; i < THREADS; i++) {
        mine->threads[i].isa = i;
        if (pthread_create(&threads[i], NULL, first_call, &mine->threads[i]) != 0)
            return; /* the others wait for ever: the process ends with this return */
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void look(void *argument)
{
    lowered *mine = argument;
    int32_t failed;
    mine->isa = (int32_t)heed_isa_default();
    mine->plan_isa = plan_isa(HEED_ISA_AUTO);
    /* The best one asked for by name, whatever the variable says. */
    static const heed_isa order[] = { HEED_ISA_AVX512, HEED_ISA_AVX2, HEED_ISA_NEON, HEED_ISA_SCALAR };
    size_t i = 0;
    while (!heed_isa_usable(order[i]))
        i++;
    mine->best_plan_isa = plan_isa(order[i]);
    mine->bits = compute(&failed);
}

/* Runs work in a child; 1 if it ended by itself. */
static int32_t in_child(void (*work)(void *), void *argument, const char *isa_value)
{
    const pid_t child = fork();
    if (child == 0) {
        alarm(LIMIT_SECONDS);
        if (isa_value)
            setenv("HEED_ISA", isa_value, 1);
        else
            unsetenv("HEED_ISA");
        work(argument);
        _exit(0);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void run_children(void)
{
    fill(q, SIZE_Q, 1);
    fill(k, SIZE_K, 2);
    fill(v, SIZE_K, 3);
    fill(logits, COLUMNS, 4);
    start_count = check_quick() ? QUICK_STARTS : STARTS;
    for (size_t i = 0; i < start_count; i++)
        shared->starts[i].ended_well = in_child(race, &shared->starts[i], NULL);
    for (size_t i = 0; i < VALUES; i++)
        shared->values[i].ended_well = in_child(look, &shared->values[i], isa_values[i]);
}

/* ---- What they saw, judged by calls of this process ---- */

static heed_isa best_usable(void)
{
    static const heed_isa order[] = { HEED_ISA_AVX512, HEED_ISA_AVX2, HEED_ISA_NEON, HEED_ISA_SCALAR };
    size_t i = 0;
    while (!heed_isa_usable(order[i]))
        i++;
    return order[i];
}

static void race_results(void)
{
    int32_t failed;
    const uint64_t want = compute(&failed);
    CHECK(!failed, "the serial call");
    for (size_t s = 0; s < start_count; s++) {
        check_case("start %zu of %zu", s, start_count);
        CHECK(shared->starts[s].ended_well, "a signal, or no end within %d s", LIMIT_SECONDS);
        for (int t = 0; t < THREADS; t++) {
            const seen *one = &shared->starts[s].threads[t];
            CHECK(one->done && !one->failed, "thread %d: %s", t, one->done ? "an error" : "not done");
            CHECK(one->bits == want, "thread %d: other bits than a serial call", t);
            CHECK(one->isa == (int32_t)best_usable(), "thread %d: on %s", t, heed_isa_name((heed_isa)one->isa));
        }
    }
    check_note("%zu process starts with %d threads", start_count, THREADS);
}

static void environment(void)
{
    int32_t failed;
    const uint64_t want_bits = compute(&failed);
    for (size_t i = 0; i < VALUES; i++) {
        const lowered *got = &shared->values[i];
        heed_isa want = best_usable();
        for (int isa = HEED_ISA_SCALAR; isa <= HEED_ISA_NEON; isa++)
            if (isa_values[i] && strcmp(isa_values[i], heed_isa_name((heed_isa)isa)) == 0 &&
                heed_isa_usable((heed_isa)isa))
                want = (heed_isa)isa;
        check_case("HEED_ISA=%s", isa_values[i] ? isa_values[i] : "(unset)");
        CHECK(got->ended_well, "a signal, or no end");
        CHECK(got->isa == (int32_t)want, "chose %s, want %s", heed_isa_name((heed_isa)got->isa), heed_isa_name(want));
        CHECK(got->plan_isa == (int32_t)want, "a plan runs on %s", heed_isa_name((heed_isa)got->plan_isa));
        CHECK(got->best_plan_isa == (int32_t)best_usable(), "options.isa does not come before the variable");
        /* Softmax with SLEEF exists on all or none of the backends of a machine with FMA. */
        CHECK(heed_sleef_usable(want) != heed_sleef_usable(best_usable()) || got->bits == want_bits, "other bits");
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "race_results", race_results }, { "environment", environment } };
    unsetenv("HEED_ISA");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    run_children();
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
