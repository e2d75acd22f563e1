/* Loading the shared library: it must load on any CPU, run no code of its own, leave the floating-point state alone.
 * May know: dlopen, the names of the public functions.
 * Must not know: anything under src/.
 * usage: test_load LIBRARY.  Linked to nothing of heed, so that what dlopen does happens here and now. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <xmmintrin.h>
#endif

static int failures;

/* Rounding, flush-to-zero, denormals-are-zero and exception masks; the sticky exception flags may change. */
static uint64_t float_control(void)
{
#if defined(__x86_64__) || defined(__i386__)
    return _mm_getcsr() & ~0x3fu;
#elif defined(__aarch64__)
    uint64_t value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return value;
#else
#error "say how this machine's floating-point control word is read"
#endif
}

/* A product that is flushed to zero if anything set that. */
static int keeps_subnormals(void)
{
    volatile float small = 0x1p-126f, half = 0.5f;
    return small * half == 0x1p-127f;
}

static void expect(int good, const char *what)
{
    printf("%s: %s\n", good ? "ok" : "FAIL", what);
    failures += !good;
}

typedef struct state {
    uint64_t control;
    int subnormals;
} state;

static void *state_of_thread(void *argument)
{
    state *mine = argument;
    mine->control = float_control();
    mine->subnormals = keeps_subnormals();
    return NULL;
}

static void expect_thread(uint64_t before, const char *what)
{
    state other = { 0, 0 };
    pthread_t thread;
    if (pthread_create(&thread, NULL, state_of_thread, &other) == 0)
        pthread_join(thread, NULL);
    expect(other.control == before && other.subnormals, what);
}

/* dlsym returns an object pointer; POSIX promises that its bits are the function's address. */
static int find(void *library, const char *name, void *function)
{
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static void call(void *library, uint64_t before)
{
    const char *(*version)(void);
    size_t (*features)(char *, size_t);
    int (*softmax)(int64_t, int64_t, const float *, int64_t, float *, int64_t, const int32_t *, const void *, void *);
    if (!find(library, "heed_version", &version) || !find(library, "heed_cpu_features", &features) ||
        !find(library, "heed_softmax", &softmax)) {
        expect(0, "the functions are there");
        return;
    }
    char text[256];
    float x[40], y[40];
    for (int i = 0; i < 40; i++)
        x[i] = (float)i;
    features(text, sizeof text);
    printf("version %s, features: %s\n", version(), text);
    const int status = softmax(1, 40, x, 40, y, 40, NULL, NULL, NULL);
    expect(status == 0 && y[39] > 0.63f && y[39] < 0.64f, "heed_softmax computes");
    expect(float_control() == before && keeps_subnormals(), "the control word after a call");
    expect_thread(before, "the control word of a thread after a call");
}

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

/* Loads, calls and unloads.  The call is large enough for several threads, which must not run on in code that is gone. */
static int load_once(const char *path)
{
    enum { ROWS = 512, COLS = 1024 };
    static float values[ROWS * COLS];
    int (*softmax)(int64_t, int64_t, const float *, int64_t, float *, int64_t, const int32_t *, const void *, void *);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int good = library && find(library, "heed_softmax", &softmax) &&
               softmax(ROWS, COLS, values, COLS, values, COLS, NULL, NULL, NULL) == 0;
    return library && dlclose(library) == 0 && good;
}

/* A host that loads a plugin again and again. */
static void load_often(const char *path)
{
    enum { ROUNDS = 1000, QUICK = 20 };
    const char *quick = getenv("HEED_TEST_QUICK");
    const int rounds = quick && *quick && *quick != '0' ? QUICK : ROUNDS;
    int good = 1;
    long before = 0;
    for (int n = 0; n < rounds && good; n++) {
        if (n == rounds / 10)
            before = resident_kib();
        good = load_once(path);
    }
    const long after = resident_kib();
    printf("%d times loaded and unloaded: %ld KiB after %d, %ld KiB at the end\n", rounds, before, rounds / 10, after);
    expect(good, "loading, calling, unloading");
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    puts("a sanitizer keeps what was freed: growth is not judged");
#else
    expect(before > 0 && after - before < 1024, "memory does not grow");
#endif
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_load LIBRARY\n");
        return 2;
    }
    const uint64_t before = float_control();
    expect(keeps_subnormals(), "subnormal numbers before loading");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "FAIL: %s\n", dlerror());
        return 1;
    }
    expect(float_control() == before, "the control word after loading");
    expect(keeps_subnormals(), "subnormal numbers after loading");
    expect_thread(before, "the control word of a thread after loading");
    call(library, before);
    dlclose(library);
    load_often(argv[1]);
    expect(float_control() == before && keeps_subnormals(), "the control word at the end");
    printf("%d failed\n", failures);
    return failures != 0;
}
