/* OpenMP around and inside the library: nested regions, fewer threads than asked for, unchanged state, fork.
 * May know: the public header, attend.h, check.h, OpenMP, POSIX.
 * Must not know: anything under src/. */
#define _GNU_SOURCE /* sched_getaffinity */
#include "attend.h"

#include <omp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { MOST = 8 };

static attend_case large_case(void)
{
    attend_case c = check_quick() ? attend_make(2, 4, 2, 60, 300, 32, 0) : attend_make(2, 4, 2, 150, 300, 64, 0);
    c.shape.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    return c;
}

typedef struct fixture {
    attend_case c;
    attend_data data;
    attend_result want;
    float *out[MOST];
} fixture;

static fixture make_fixture(const attend_case *c)
{
    check_rng rng = check_rng_named("openmp");
    attend_run run = attend_plain(HEED_ISA_AUTO);
    fixture f = { *c, attend_fill(c, &rng, CHECK_NORMAL), { NULL, NULL, NULL }, { NULL } };
    f.want = attend_execute(c, &f.data, &run);
    for (size_t i = 0; i < MOST; i++)
        f.out[i] = check_floats(attend_size_out(c));
    return f;
}

static void free_fixture(fixture *f)
{
    attend_free_data(&f->data);
    attend_free_result(&f->want);
    for (size_t i = 0; i < MOST; i++)
        free(f->out[i]);
}

/* One call with that many threads; 1 if the result has the right bits. */
static int call(const fixture *f, int slot, int32_t threads)
{
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, threads);
    heed_tensors t = attend_tensors(f->data.q, f->data.k, f->data.v, f->out[slot]);
    size_t bytes = attend_size_out(&f->c) * sizeof(float);
    memset(t.out, 0xff, bytes);
    return heed_attend(&f->c.shape, &t, &options, NULL) == HEED_OK && memcmp(t.out, f->want.out, bytes) == 0;
}

/* Case I02: called by every thread of the host's parallel region, with and without nested regions allowed. */
static void nested(void)
{
    attend_case c = large_case();
    fixture f = make_fixture(&c);
    int before = omp_get_max_active_levels();
    for (int levels = 1; levels <= 2; levels++)
        for (int team = 1; team <= 4; team++)
            for (int32_t threads = 0; threads <= 4; threads += 2) {
                check_case("levels %d team %d threads %d", levels, team, (int)threads);
                int good = 0, granted = 0;
                omp_set_max_active_levels(levels);
#pragma omp parallel num_threads(team) reduction(+ : good, granted)
                {
                    granted++;
                    good += call(&f, omp_get_thread_num(), threads);
                }
                CHECK(granted >= 1 && good == granted, "%d of %d results are right", good, granted);
            }
    omp_set_max_active_levels(before);
    free_fixture(&f);
}

/* Case I03, second part: a thousand tiny calls from a parallel for. */
static void tiny_in_parallel_for(void)
{
    attend_case c = attend_make(1, 2, 2, 8, 8, 16, 0);
    fixture f = make_fixture(&c);
    int good = 0, calls = check_quick() ? 100 : 1000;
#pragma omp parallel for num_threads(MOST) reduction(+ : good)
    for (int n = 0; n < calls; n++)
        good += call(&f, omp_get_thread_num(), 0);
    CHECK(good == calls, "%d of %d results are right", good, calls);
    free_fixture(&f);
}

typedef struct state {
    int max_threads, dynamic, levels, limit;
    cpu_set_t affinity;
} state;

static state read_state(void)
{
    state s;
    memset(&s, 0, sizeof s);
    s.max_threads = omp_get_max_threads();
    s.dynamic = omp_get_dynamic();
    s.levels = omp_get_max_active_levels();
    s.limit = omp_get_thread_limit();
    sched_getaffinity(0, sizeof s.affinity, &s.affinity);
    return s;
}

/* Case I04: no call changes the host's OpenMP state or affinity. */
static void unchanged_state(void)
{
    attend_case c = large_case();
    fixture f = make_fixture(&c);
    int before_threads = omp_get_max_threads();
    for (int host = 1; host <= 3; host++)
        for (int32_t threads = 0; threads <= 6; threads += 2) {
            check_case("host %d threads %d", host, (int)threads);
            omp_set_num_threads(host);
            state before = read_state();
            CHECK(call(&f, 0, threads), "wrong result");
            float y[64] = { 0 };
            heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, threads);
            CHECK(heed_softmax(8, 8, y, 8, y, 8, NULL, &options, NULL) == HEED_OK, "softmax");
            state after = read_state();
            CHECK(memcmp(&before, &after, sizeof before) == 0, "threads %d -> %d, dynamic %d -> %d, levels %d -> %d",
                before.max_threads, after.max_threads, before.dynamic, after.dynamic, before.levels, after.levels);
        }
    omp_set_num_threads(before_threads);
    free_fixture(&f);
}

#if defined(__x86_64__)
/* Case C12: the FP control word of every worker stays as it was. */
static void control_words(void)
{
    attend_case c = large_case();
    fixture f = make_fixture(&c);
    int changed = 0;
    CHECK(call(&f, 0, 4), "wrong result");
#pragma omp parallel num_threads(4) reduction(+ : changed)
    changed += (_mm_getcsr() & ~0x3fu) != 0x1f80u;
    CHECK(changed == 0, "%d workers have another control word", changed);
    free_fixture(&f);
}
#endif

/* Case I06: no backend hangs or differs for any number of threads. */
static void backends_and_threads(void)
{
    check_rng rng = check_rng_named("backends and threads");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    attend_case c = large_case();
    attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
    attend_run run = attend_plain(HEED_ISA_SCALAR);
    attend_result want = attend_execute(&c, &data, &run);
    for (size_t i = 0; i < count; i++)
        for (int32_t threads = 1; threads <= 8; threads *= 2) {
            run.options = check_options(list[i], HEED_EXP_DEFAULT, threads);
            attend_result result = attend_execute(&c, &data, &run);
            attend_same(&c, &result, &want);
            attend_free_result(&result);
        }
    attend_free_result(&want);
    attend_free_data(&data);
}

/* Case J01: a workspace of exactly the stated size with a page behind it, for every number of threads. */
static void exact_workspaces(void)
{
    static const int64_t queries[] = { 1, 2, 33 };
    check_rng rng = check_rng_named("exact workspaces");
    for (size_t n = 0; n < 6; n++) {
        attend_case c = attend_make(2, 8, n % 2 ? 8 : 2, queries[n / 2], 600, 64, 0);
        attend_data data = attend_fill(&c, &rng, CHECK_NORMAL);
        attend_run run = attend_plain(HEED_ISA_AUTO);
        attend_result want = attend_execute(&c, &data, &run);
        for (int32_t threads = 1; threads <= 96; threads++) {
            if (!check_keep((size_t)threads, 16))
                continue;
            run.options.num_threads = threads;
            attend_result result = attend_execute(&c, &data, &run);
            attend_same(&c, &result, &want);
            attend_free_result(&result);
        }
        attend_free_result(&want);
        attend_free_data(&data);
    }
}

static void serial(void *context, int64_t count, void (*task)(void *, int64_t), void *argument)
{
    (void)context;
    for (int64_t i = 0; i < count; i++)
        task(argument, i);
}

/* Case I01: after the parent used several threads, a forked child works with one thread and with an executor. */
static void after_fork(void)
{
    attend_case c = large_case();
    fixture f = make_fixture(&c);
    CHECK(call(&f, 0, 4), "the parent's call");
    for (int with_executor = 0; with_executor < 2; with_executor++) {
        pid_t child = fork();
        if (child == 0) {
            if (!with_executor)
                _exit(call(&f, 1, 1) ? 0 : 1);
            heed_executor executor = { NULL, 4, serial };
            heed_options options = HEED_OPTIONS_INIT;
            options.executor = &executor;
            heed_tensors t = attend_tensors(f.data.q, f.data.k, f.data.v, f.out[1]);
            bool ok = heed_attend(&c.shape, &t, &options, NULL) == HEED_OK &&
                      memcmp(f.out[1], f.want.out, attend_size_out(&c) * sizeof(float)) == 0;
            _exit(ok ? 0 : 1);
        }
        int status = -1;
        pid_t ended = 0;
        for (int n = 0; n < 3000 && ended == 0; n++) {
            const struct timespec pause = { 0, 10000000 };
            nanosleep(&pause, NULL);
            ended = waitpid(child, &status, WNOHANG);
        }
        if (ended == 0) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
        }
        CHECK(ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child %s (executor %d)",
            ended ? "failed" : "hung", with_executor);
    }
    free_fixture(&f);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "nested", nested },
        { "tiny_in_parallel_for", tiny_in_parallel_for },
        { "unchanged_state", unchanged_state },
#if defined(__x86_64__)
        { "control_words", control_words },
#endif
        { "backends_and_threads", backends_and_threads },
        { "exact_workspaces", exact_workspaces },
        { "after_fork", after_fork }
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
