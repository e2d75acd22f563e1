/* Threads: the first call from many at once, shared plans, the caller's executors, small stacks, fork, memory over time.
 * May know: the public header, attend.h, check.h, POSIX threads.
 * Must not know: anything under src/, OpenMP (test_openmp.c). */
#include "attend.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* ---- The first call of the process, made by 64 threads at once (case H14) ---- */

enum { FIRST_THREADS = 64, FIRST_CHILDREN = 40, FIRST_OUT = 2 * 70 * 9 };

static pthread_barrier_t barrier;
static float first_input[2 * 70 * 9];
static atomic_int first_bad;

static void *first_call(void *argument)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = 1;
    a.num_heads = a.num_kv_heads = 2;
    a.seq_len_q = a.seq_len_kv = 70;
    a.head_dim = 9;
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = t.k = t.v = first_input;
    t.out = argument;
    pthread_barrier_wait(&barrier);
    heed_options options = HEED_OPTIONS_INIT;
    options.num_threads = 1;
    if (heed_attend(&a, &t, &options, NULL) != HEED_OK)
        atomic_fetch_add(&first_bad, 1);
    return NULL;
}

static int first_calls_child(void)
{
    static float out[FIRST_THREADS + 1][FIRST_OUT];
    pthread_t threads[FIRST_THREADS];
    pthread_barrier_init(&barrier, NULL, FIRST_THREADS);
    for (size_t i = 0; i < FIRST_THREADS; i++)
        if (pthread_create(&threads[i], NULL, first_call, out[i]))
            return 2;
    for (size_t i = 0; i < FIRST_THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    pthread_barrier_init(&barrier, NULL, 1);
    first_call(out[FIRST_THREADS]);
    int bad = atomic_load(&first_bad);
    for (size_t i = 0; i < FIRST_THREADS; i++)
        bad += memcmp(out[i], out[FIRST_THREADS], sizeof out[i]) != 0;
    return bad ? 1 : 0;
}

static int first_failures = -1;

/* Called before anything of the library ran in this process, so that every child starts fresh. */
static void run_first_calls(void)
{
    first_failures = 0;
    for (size_t i = 0; i < FIRST_OUT; i++)
        first_input[i] = (float)((i * 2654435761u) % 1000u) / 500.0f - 1.0f;
    for (int n = 0; n < (check_quick() ? 4 : FIRST_CHILDREN); n++) {
        pid_t child = fork();
        if (child == 0)
            _exit(first_calls_child());
        int status = -1;
        waitpid(child, &status, 0);
        first_failures += !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void first_calls(void)
{
    CHECK(first_failures == 0, "%d processes had a wrong first call", first_failures);
}

/* ---- Executors ---- */

typedef struct pool {
    int mode;               /* 0 in order, 1 reversed, 2 a thread for each task, 3 two threads */
    atomic_int bad_count;   /* counts above num_threads, or not every index once */
    atomic_int bad_control; /* tasks after which the FP control word differed */
    int64_t most, calls;
    int32_t num_threads;
} pool;

typedef struct pool_task {
    pool *owner;
    void (*task)(void *, int64_t);
    void *argument;
    int64_t count;
    atomic_llong next;
    atomic_llong done;
} pool_task;

static unsigned control_word(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu;
#else
    return 0;
#endif
}

static void run_index(pool_task *p, int64_t index)
{
    unsigned word = control_word();
    p->task(p->argument, index);
    atomic_fetch_add(&p->done, 1);
    if (control_word() != word)
        atomic_fetch_add(&p->owner->bad_control, 1);
}

static void *pool_thread(void *argument)
{
    pool_task *p = argument;
    for (int64_t i; (i = atomic_fetch_add(&p->next, 1)) < p->count;)
        run_index(p, i);
    return NULL;
}

static void parallel_for(void *context, int64_t count, void (*task)(void *, int64_t), void *argument)
{
    pool *owner = context;
    pool_task p = { owner, task, argument, count, 0, 0 };
    owner->calls++;
    owner->most = count > owner->most ? count : owner->most;
    if (count < 1 || count > owner->num_threads)
        atomic_fetch_add(&owner->bad_count, 1);
    if (owner->mode < 2) {
        for (int64_t i = 0; i < count; i++)
            run_index(&p, owner->mode ? count - 1 - i : i);
    } else {
        pthread_t threads[64];
        int64_t n = owner->mode == 2 && count <= 64 ? count : 2, started = 0;
        while (started < n && !pthread_create(&threads[started], NULL, pool_thread, &p))
            started++;
        pool_thread(&p); /* the caller helps, so that no thread at all would do */
        for (int64_t i = 0; i < started; i++)
            pthread_join(threads[i], NULL);
    }
    if (atomic_load(&p.done) != count)
        atomic_fetch_add(&owner->bad_count, 1);
}

/* A case large enough to be worth 16 threads. */
static attend_case large_case(void)
{
    attend_case c = check_quick() ? attend_make(2, 4, 2, 60, 300, 32, 0) : attend_make(2, 4, 2, 150, 300, 64, 0);
    c.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    c.lse = c.weights = true;
    return c;
}

static void executors(void)
{
    check_rng rng = check_rng_named("executors");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    attend_case c = large_case();
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    for (size_t i = 0; i < count; i++) {
        attend_run run = attend_plain(list[i]);
        attend_result one = attend_execute(&c, &data, &run);
        for (int mode = 0; mode < 4; mode++)
            for (int32_t threads = 1; threads <= 48; threads = threads * 2 + (mode == 1)) {
                if (!check_keep((size_t)(mode + threads), 3))
                    continue;
                pool p = { .mode = mode, .num_threads = threads };
                heed_executor executor = { &p, threads, parallel_for };
                run.options = check_options(list[i], HEED_EXP_DEFAULT, 0);
                run.options.executor = &executor;
                attend_result result = attend_execute(&c, &data, &run);
                attend_same(&c, &result, &one);
                CHECK(!p.bad_count && !p.bad_control, "mode %d threads %d: counts %d, control words %d", mode,
                    (int)threads, p.bad_count, p.bad_control);
                CHECK(threads == 1 || threads > 16 || p.most > 1, "the executor was given no parallel work");
                attend_free_result(&result);
            }
        attend_free_result(&one);
    }
    attend_free_data(&data);
}

/* More workers than there are stretches of tasks to begin with. */
static void many_workers(void)
{
    enum { ROWS = 8192, COLS = 64, THREADS = 48 };
    check_rng rng = check_rng_named("many workers");
    float *x = check_floats(ROWS * COLS), *one = check_floats(ROWS * COLS);
    check_fill(&rng, x, ROWS, COLS, CHECK_NORMAL);
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
    CHECK(heed_softmax(ROWS, COLS, x, COLS, one, COLS, NULL, &options, NULL) == HEED_OK, "one thread");
    for (int mode = 0; mode < 4; mode++) {
        pool p = { .mode = mode, .num_threads = THREADS };
        heed_executor executor = { &p, THREADS, parallel_for };
        float *y = check_floats(ROWS * COLS);
        options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0);
        options.executor = &executor;
        CHECK(heed_softmax(ROWS, COLS, x, COLS, y, COLS, NULL, &options, NULL) == HEED_OK, "mode %d", mode);
        check_same(y, one, ROWS * COLS, "many workers");
        CHECK(!p.bad_count && p.most > 32, "mode %d: %d wrong counts, at most %lld workers", mode, p.bad_count,
            (long long)p.most);
        free(y);
    }
    free(x);
    free(one);
}

/* num_threads below the executor's own lowers it; the struct and what it points at need not outlive the call. */
static void executor_copied(void)
{
    pool p = { .mode = 0, .num_threads = 3 };
    heed_executor *executor = check_malloc(sizeof *executor);
    executor->context = &p;
    executor->num_threads = 16;
    executor->parallel_for = parallel_for;
    heed_options options = HEED_OPTIONS_INIT;
    options.executor = executor;
    options.num_threads = 3;
    attend_case c = large_case();
    c.lse = c.weights = false;
    check_rng rng = check_rng_named("copied");
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    heed_plan *plan = NULL;
    CHECK(heed_plan_create(&plan, &c.shape, &options, NULL) == HEED_OK, "plan");
    memset(executor, 0xff, sizeof *executor);
    free(executor);
    memset(&options, 0xff, sizeof options);
    heed_tensors t = attend_tensors(data.q, data.k, data.v, check_output(attend_size_out(&c), CHECK_GUARD_BEHIND));
    size_t size = heed_plan_workspace_size(plan);
    CHECK(heed_run(plan, &t, check_alloc(size, CHECK_GUARD_BEHIND), size, NULL) == HEED_OK, "run");
    CHECK(p.calls > 0 && !p.bad_count, "%lld calls, %d with a wrong count", (long long)p.calls, p.bad_count);
    heed_plan_destroy(plan);
    attend_free_data(&data);
}

/* ---- Many callers ---- */

typedef struct caller {
    const heed_plan *plan; /* NULL: heed_attend, with a plan of its own */
    attend_case c;
    attend_data data;
    const float *want;
    int runs, bad;
} caller;

static void *call_many(void *argument)
{
    caller *me = argument;
    size_t size = me->plan ? heed_plan_workspace_size(me->plan) : 0, count = attend_size_out(&me->c);
    void *workspace = malloc(size + 1);
    float *out = malloc(count * sizeof *out);
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
    heed_tensors t = attend_tensors(me->data.q, me->data.k, me->data.v, out);
    for (int n = 0; n < me->runs && workspace && out; n++) {
        memset(out, 0xff, count * sizeof *out);
        heed_status status =
            me->plan ? heed_run(me->plan, &t, workspace, size, NULL) : heed_attend(&me->c.shape, &t, &options, NULL);
        me->bad += status != HEED_OK || memcmp(out, me->want, count * sizeof *out) != 0;
    }
    me->bad += !workspace || !out;
    free(out);
    free(workspace);
    return NULL;
}

static void run_callers(const attend_case *c, bool share, int32_t threads, size_t callers, int runs)
{
    enum { MOST = 96 };
    static caller all[MOST];
    pthread_t ids[MOST];
    check_rng rng = check_rng_named("callers");
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, threads);
    heed_plan *plan = NULL;
    if (share)
        CHECK(heed_plan_create(&plan, &c->shape, &options, NULL) == HEED_OK, "plan");
    attend_result results[MOST];
    for (size_t i = 0; i < callers; i++) {
        caller me = { plan, *c, attend_fill(c, &rng, CHECK_NORMAL), NULL, runs, 0 };
        attend_run run = attend_plain(HEED_ISA_AUTO);
        results[i] = attend_execute(c, &me.data, &run);
        me.want = results[i].out;
        all[i] = me;
    }
    size_t started = 0;
    while (started < callers && !pthread_create(&ids[started], NULL, call_many, &all[started]))
        started++;
    CHECK(started == callers, "only %zu threads started", started);
    for (size_t i = 0; i < callers; i++) {
        if (i < started)
            pthread_join(ids[i], NULL);
        CHECK(all[i].bad == 0, "caller %zu: %d of %d results are wrong", i, all[i].bad, runs);
        attend_free_data(&all[i].data);
        attend_free_result(&results[i]);
    }
    heed_plan_destroy(plan);
}

static void concurrent_callers(void)
{
    attend_case c = attend_make(1, 4, 2, 33, 270, 32, 0), large = large_case();
    large.lse = large.weights = false;
    run_callers(&c, true, 1, 16, check_quick() ? 2 : 40);
    run_callers(&large, true, 4, 6, check_quick() ? 1 : 10);
}

/* Case I03: 96 threads with tiny problems of their own. */
static void tiny_callers(void)
{
    attend_case c = attend_make(1, 2, 2, 8, 8, 16, 0);
    run_callers(&c, false, 1, 96, check_quick() ? 10 : 400);
}

/* ---- Stacks (case J05) ---- */

static void on_small_stack(size_t bytes)
{
    check_case("stack of %zu bytes", bytes);
    attend_case c = attend_make(1, 2, 1, 40, 300, 512, 512);
    check_rng rng = check_rng_named("stack");
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    attend_run run = attend_plain(HEED_ISA_AUTO);
    attend_result want = attend_execute(&c, &data, &run);
    caller me = { NULL, c, data, want.out, 1, 0 };
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, bytes) == 0, "the system refuses this size");
    if (CHECK(pthread_create(&thread, &attributes, call_many, &me) == 0, "thread"))
        pthread_join(thread, NULL);
    CHECK(me.bad == 0, "wrong result");
    pthread_attr_destroy(&attributes);
    attend_free_result(&want);
    attend_free_data(&data);
}

static void small_stacks(void)
{
    on_small_stack(128 * 1024);
    if (sysconf(_SC_THREAD_STACK_MIN) <= 64 * 1024) /* 128 KiB on AArch64 */
        on_small_stack(64 * 1024);
}

/* ---- Over time ---- */

static long resident_kib(void)
{
    long pages = 0, ignored = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        if (fscanf(file, "%ld %ld", &ignored, &pages) != 2)
            pages = 0;
        fclose(file);
    }
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Case J03: thousands of short-lived threads leave nothing behind.  A sanitizer keeps freed memory aside, an emulator
 * (quick mode) its own translations: there only the results are judged, and the sanitizer searches for leaks itself. */
static void short_lived_threads(void)
{
    int rounds = check_quick() ? 200 : 5000;
    attend_case c = attend_make(1, 2, 1, 8, 40, 16, 0);
    check_rng rng = check_rng_named("short-lived");
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    attend_run run = attend_plain(HEED_ISA_AUTO);
    attend_result want = attend_execute(&c, &data, &run);
    long before = 0;
    for (int n = 0; n < rounds; n++) {
        caller me = { NULL, c, data, want.out, 1, 0 };
        pthread_t thread;
        if (n == rounds / 10)
            before = resident_kib();
        if (pthread_create(&thread, NULL, call_many, &me) == 0)
            pthread_join(thread, NULL);
        else
            me.bad++;
        if (me.bad)
            CHECK(false, "thread %d: wrong result", n);
    }
    long after = resident_kib();
    check_note("%d threads: %ld KiB after a tenth, %ld KiB at the end", rounds, before, after);
    CHECK(before > 0 && (check_sanitized() || check_quick() || after - before < 1024),
        "resident memory grew from %ld to %ld KiB", before, after);
    attend_free_result(&want);
    attend_free_data(&data);
}

int main(int argc, char **argv)
{
    run_first_calls();
    static const check_test tests[] = { { "first_calls", first_calls }, { "executors", executors },
        { "many_workers", many_workers }, { "executor_copied", executor_copied },
        { "concurrent_callers", concurrent_callers }, { "tiny_callers", tiny_callers },
        { "small_stacks", small_stacks }, { "short_lived_threads", short_lived_threads } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
