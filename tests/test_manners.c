/* What programs rely on around the calls: names, versions, descriptions, struct sizes, alignment, untouched process state.
 * May know: the public header, check.h, POSIX.
 * Must not know: anything under src/. */
#include "check.h"

#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const float numbers[8192];

/* Where programs compiled against the first header find the fields (LP64).  Structs grow at their end, so these stay. */
static void struct_offsets(void)
{
    static const struct {
        const char *name;
        size_t got, want;
    } fields[] = { { "heed_options.allocator", offsetof(heed_options, allocator), 32 },
        { "heed_executor.parallel_for", offsetof(heed_executor, parallel_for), 16 },
        { "heed_allocator.release", offsetof(heed_allocator, release), 16 },
        { "heed_strides", sizeof(heed_strides), 24 }, { "heed_attention.scale", offsetof(heed_attention, scale), 64 },
        { "heed_attention.layout", offsetof(heed_attention, layout), 80 },
        { "heed_attention.strides_out", offsetof(heed_attention, strides_out), 160 },
        { "heed_tensors.out", offsetof(heed_tensors, out), 32 },
        { "heed_tensors.lengths_kv", offsetof(heed_tensors, lengths_kv), 64 },
        { "heed_linear_desc.bias", offsetof(heed_linear_desc, bias), 48 },
        { "heed_layer_desc.bias_o", offsetof(heed_layer_desc, bias_o), 136 },
        { "heed_layer_tensors.lengths", offsetof(heed_layer_tensors, lengths), 40 },
        { "heed_error", sizeof(heed_error), 192 } };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && sizeof(void *) == 8; i++)
        CHECK(fields[i].got == fields[i].want, "%s: %zu, programs have %zu", fields[i].name, fields[i].got,
            fields[i].want);
    const heed_attention attention = HEED_ATTENTION_INIT;
    const heed_tensors tensors = HEED_TENSORS_INIT;
    const heed_options options = HEED_OPTIONS_INIT;
    const heed_linear_desc linear = HEED_LINEAR_DESC_INIT;
    const heed_layer_desc layer = HEED_LAYER_DESC_INIT;
    const heed_layer_tensors layer_tensors = HEED_LAYER_TENSORS_INIT;
    CHECK(attention.struct_size == sizeof attention && tensors.struct_size == sizeof tensors &&
              options.struct_size == sizeof options && linear.struct_size == sizeof linear &&
              layer.struct_size == sizeof layer && layer_tensors.struct_size == sizeof layer_tensors,
        "an INIT macro sets another struct_size");
}

static heed_attention small_problem(void)
{
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = a.num_heads = a.num_kv_heads = 1;
    a.seq_len_q = a.seq_len_kv = 9;
    a.head_dim = 46;
    return a;
}

/* A program built with an older, shorter struct: what it does not know about keeps its default. */
static void older_structs(void)
{
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
    options.struct_size = offsetof(heed_options, executor);
    options.executor = (const heed_executor *)(uintptr_t)16; /* beyond the size: garbage */
    options.allocator = (const heed_allocator *)(uintptr_t)16;
    heed_attention a = small_problem();
    a.struct_size = offsetof(heed_attention, layout);
    a.layout = (heed_layout)99;
    heed_tensors t = HEED_TENSORS_INIT;
    float out[9 * 46];
    t.struct_size = offsetof(heed_tensors, lse);
    t.q = t.k = t.v = numbers;
    t.out = out;
    t.lse = (float *)(uintptr_t)16;
    heed_error error = { "" };
    CHECK(heed_attend(&a, &t, &options, &error) == HEED_OK, "%s", error.message);
    CHECK(out[9 * 46 - 1] == 0.0f, "computed");
}

static void names(void)
{
    char text[64];
    snprintf(text, sizeof text, "%d.%d.%d", HEED_VERSION_MAJOR, HEED_VERSION_MINOR, HEED_VERSION_PATCH);
    CHECK(strcmp(heed_version(), text) == 0, "heed_version is %s, the header says %s", heed_version(), text);
    static const char *const isas[] = { "auto", "scalar", "avx2", "avx512", "neon" };
    for (int i = -1; i <= 5; i++) {
        const char *want = i < 0 || i > 4 ? "unknown" : isas[i];
        CHECK(strcmp(heed_isa_name((heed_isa)i), want) == 0, "%d is %s", i, heed_isa_name((heed_isa)i));
    }
    for (int i = 0; i <= 6; i++) {
        const char *one = heed_status_string((heed_status)i);
        CHECK(one && *one, "status %d has no text", i);
        for (int j = 0; j < i && i <= HEED_ERROR_OUT_OF_MEMORY; j++)
            CHECK(strcmp(one, heed_status_string((heed_status)j)) != 0, "statuses %d and %d share a text", i, j);
    }
    CHECK(heed_status_string((heed_status)-1) != NULL, "status -1");
}

static void backends(void)
{
    CHECK(heed_isa_usable(HEED_ISA_SCALAR), "scalar is always usable");
    for (int i = HEED_ISA_SCALAR; i <= HEED_ISA_NEON; i++) {
        heed_isa isa = (heed_isa)i;
        CHECK(!heed_isa_usable(isa) || heed_isa_compiled(isa), "%s is usable but not compiled", heed_isa_name(isa));
        CHECK(!heed_sleef_usable(isa) || heed_isa_usable(isa), "SLEEF on an unusable %s", heed_isa_name(isa));
    }
    CHECK(!heed_isa_usable((heed_isa)99) && !heed_isa_compiled((heed_isa)99) && !heed_sleef_usable((heed_isa)99),
        "an unknown backend");
    heed_isa chosen = heed_isa_default();
    CHECK(chosen != HEED_ISA_AUTO && heed_isa_usable(chosen), "the default is %s", heed_isa_name(chosen));
    heed_attention a = small_problem();
    heed_plan *plan = NULL;
    CHECK(heed_plan_create(&plan, &a, NULL, NULL) == HEED_OK && heed_plan_isa(plan) == chosen,
        "a plan takes the default");
    heed_plan_destroy(plan);
    CHECK(heed_has_openmp() == 0 || heed_has_openmp() == 1, "heed_has_openmp");
}

/* Texts cut to any size are terminated, never longer than asked, and their full length is returned. */
static size_t plan_text(const heed_plan *plan, char *text, size_t size)
{
    return plan ? heed_plan_describe(plan, text, size) : heed_cpu_features(text, size);
}

static void texts(void)
{
    heed_attention a = small_problem();
    heed_plan *plan = NULL;
    CHECK(heed_plan_create(&plan, &a, NULL, NULL) == HEED_OK, "plan");
    for (int which = 0; which < 2; which++) {
        const heed_plan *p = which ? plan : NULL;
        size_t length = plan_text(p, NULL, 0);
        char *whole = check_alloc(length + 1, CHECK_GUARD_BEHIND);
        CHECK(plan_text(p, whole, length + 1) == length && strlen(whole) == length, "length %zu", length);
        for (size_t size = 0; size <= length + 1; size++) {
            char *text = check_alloc(size, CHECK_GUARD_BEHIND);
            CHECK(plan_text(p, text, size) == length, "size %zu returns another length", size);
            if (size)
                CHECK(strlen(text) == size - 1 && memcmp(text, whole, size - 1) == 0, "cut to %zu: \"%s\"", size, text);
        }
        char word[64];
        snprintf(word, sizeof word, "workspace: %zu", heed_plan_workspace_size(plan));
        CHECK(!which || (strstr(whole, word) && strstr(whole, heed_isa_name(heed_plan_isa(plan)))),
            "the description lacks \"%s\" or the backend:\n%s", word, whole);
        CHECK(which || !strstr(whole, "  "), "features are separated by one space: \"%s\"", whole);
    }
    heed_plan_destroy(plan);
    check_free_all();
}

/* One of everything, on pointers at 4 bytes past a 64-byte boundary with a row of 46 (case D14). */
static void run_all(const heed_options *options, float *memory)
{
    heed_attention a = small_problem();
    heed_tensors t = HEED_TENSORS_INIT;
    t.q = t.k = t.v = numbers + 1;
    t.out = memory + 1;
    t.lse = memory + 501;
    t.weights = memory + 601;
    CHECK(heed_attend(&a, &t, options, NULL) == HEED_OK, "heed_attend");
    a.seq_len_q = -1;
    CHECK(heed_attend(&a, &t, options, NULL) == HEED_ERROR_INVALID, "heed_attend");
    CHECK(heed_softmax(9, 46, numbers + 1, 47, memory + 1, 47, NULL, options, NULL) == HEED_OK, "heed_softmax");
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = 46;
    desc.num_heads = desc.num_kv_heads = 1;
    desc.head_dim = 46;
    desc.weight_q = desc.weight_k = desc.weight_v = desc.weight_o = numbers + 3;
    desc.bias_o = numbers + 5;
    heed_layer *layer = NULL;
    CHECK(heed_layer_create(&layer, &desc, options, NULL) == HEED_OK, "heed_layer_create");
    size_t size = 0;
    CHECK(heed_layer_workspace_size(layer, 1, 9, &size, NULL) == HEED_OK, "heed_layer_workspace_size");
    unsigned char *workspace = check_malloc(size + 1);
    heed_layer_tensors x = HEED_LAYER_TENSORS_INIT;
    x.x = numbers + 1;
    x.y = memory + 1;
    CHECK(heed_layer_run(layer, 1, 9, &x, workspace + 1, size, NULL) == HEED_OK, "heed_layer_run");
    free(workspace);
    heed_layer_destroy(layer);
    char text[256];
    heed_cpu_features(text, sizeof text);
}

static float *misaligned(void)
{
    float *memory = check_output(1024, CHECK_GUARD_BEFORE);
    return memory; /* starts at a page, so + 1 is 4 bytes past a boundary */
}

static void alignment(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++) {
        heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
        float *memory = misaligned();
        run_all(&options, memory);
        CHECK(memory[1] == 0.0f && memory[46 * 9] == 0.0f && isnan(memory[0]), "zeros give zeros, nothing before them");
        check_free_all();
    }
}

/* The stride of a dimension of size 1 is ignored, so nothing may be computed from it, an address to prefetch included (found by
 * fuzz_attention; clang's UndefinedBehaviorSanitizer sees it, gcc's does not). */
static void ignored_strides(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    const float value[3] = { 1.5f, -2.0f, 3.25f };
    const heed_strides strides = { INT64_MAX / 3, INT64_MAX / 4, INT64_MAX / 5 };
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = a.num_heads = a.num_kv_heads = a.seq_len_q = a.seq_len_kv = 1;
    a.head_dim = 3;
    a.layout = HEED_LAYOUT_STRIDED;
    a.strides_q = a.strides_k = a.strides_v = a.strides_out = strides;
    for (size_t i = 0; i < count; i++) {
        heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
        heed_tensors t = HEED_TENSORS_INIT;
        t.q = t.k = numbers;
        t.v = check_input(value, 3, CHECK_GUARD_BEHIND);
        t.out = check_output(3, CHECK_GUARD_BEHIND);
        CHECK(heed_attend(&a, &t, &options, NULL) == HEED_OK, "heed_attend");
        check_same(t.out, value, 3, "one key's value");
        check_free_all();
    }
}

static unsigned control_word(void)
{
#if defined(__x86_64__)
    return _mm_getcsr() & ~0x3fu; /* the low six bits are sticky exception flags */
#elif defined(__aarch64__) && defined(__GNUC__)
    unsigned long value;
    __asm__ volatile("mrs %0, fpcr" : "=r"(value));
    return (unsigned)value;
#else
    return (unsigned)fegetround();
#endif
}

/* errno, rounding and the FP control word are as the host left them, for every backend. */
static void process_state(void)
{
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    float *memory = misaligned();
    for (size_t i = 0; i < count; i++)
        for (int32_t threads = 0; threads < 3; threads++) {
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, threads);
            check_case("%s threads %d", heed_isa_name(list[i]), (int)threads);
            unsigned word = control_word();
            errno = 7777;
            run_all(&options, memory);
            CHECK(errno == 7777, "errno became %d", errno);
            CHECK(control_word() == word, "the control word went from %x to %x", word, control_word());
            CHECK(fegetround() == FE_TONEAREST, "the rounding mode changed");
        }
}

#if defined(__linux__)
/* Mappings of this process that have been given the advice to be of huge pages. */
static int advised_mappings(void)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[1024];
    int count = 0;
    while (maps && fgets(line, sizeof line, maps))
        count += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " hg") != NULL;
    if (maps)
        fclose(maps);
    return count;
}

/* Whether such advice shows: not where the kernel has no huge pages, nor under an emulator. */
static bool advice_shows(int before)
{
    enum { BYTES = 8 << 20 };
    void *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        check_fatal("no memory");
    const bool shows = madvise(memory, BYTES, MADV_HUGEPAGE) == 0 && advised_mappings() > before;
    munmap(memory, BYTES);
    return shows;
}

/* Large memory of heed's own asks for huge pages, of the caller's allocator for nothing; small memory asks for none.  errno stays. */
static void huge_pages(void)
{
    const int before = advised_mappings();
    const bool shows = advice_shows(before);
    heed_linear_desc desc = HEED_LINEAR_DESC_INIT;
    float *weights = check_floats(2048 * 1024);
    desc.weight = weights;
    desc.stride_in = 1;
    for (int large = 0; large < 2; large++) {
        heed_linear *linear;
        desc.in_features = large ? 2048 : 256;
        desc.out_features = large ? 1024 : 256;
        desc.stride_out = desc.in_features;
        errno = 7777;
        CHECK(heed_linear_create(&linear, &desc, NULL, NULL) == HEED_OK && errno == 7777, "errno became %d", errno);
        const int advised = advised_mappings() - before;
        if (shows)
            CHECK(large ? advised > 0 : advised == 0, "%s weights: %d mappings of huge pages",
                large ? "large" : "small", advised);
        heed_linear_destroy(linear);
    }
    free(weights);
}
#endif

#if defined(__x86_64__)
/* Flush-to-zero set by the host stays set, and the library still works. */
static void flush_to_zero(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | 0x8040);
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 1);
    run_all(&options, misaligned());
    unsigned after = _mm_getcsr();
    _mm_setcsr(before);
    CHECK((after & 0x8040) == 0x8040, "the host's flush-to-zero bits were cleared");
}
#endif

/* Bytes that arrive on a descriptor during run_all, errors included. */
static long long printed_on(int descriptor)
{
    FILE *file = tmpfile();
    const int saved = dup(descriptor);
    if (!file || saved < 0)
        check_fatal("no temporary file");
    float *memory = misaligned();
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0);
    fflush(NULL);
    dup2(fileno(file), descriptor);
    run_all(&options, memory);
    fflush(NULL);
    struct stat status = { 0 };
    fstat(descriptor, &status);
    dup2(saved, descriptor);
    close(saved);
    fclose(file);
    return (long long)status.st_size;
}

static void silence(void)
{
    const long long out = printed_on(STDOUT_FILENO), err = printed_on(STDERR_FILENO);
    CHECK(out == 0 && err == 0, "%lld bytes on stdout, %lld on stderr", out, err);
}

/* No call installs a handler or blocks a signal. */
static void signals(void)
{
    enum { MOST = 32 };
    struct sigaction before[MOST], after;
    sigset_t blocked, still_blocked;
    for (int i = 1; i < MOST; i++)
        sigaction(i, NULL, &before[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    heed_options options = check_options(HEED_ISA_AUTO, HEED_EXP_DEFAULT, 0);
    run_all(&options, misaligned());
    for (int i = 1; i < MOST; i++)
        CHECK(sigaction(i, NULL, &after) == 0 && after.sa_handler == before[i].sa_handler &&
                  after.sa_flags == before[i].sa_flags,
            "the handler of signal %d changed", i);
    pthread_sigmask(SIG_SETMASK, NULL, &still_blocked);
    for (int i = 1; i < MOST; i++)
        CHECK(sigismember(&blocked, i) == sigismember(&still_blocked, i), "signal %d: blocked or not", i);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = {
        { "struct_offsets", struct_offsets },
        { "older_structs", older_structs },
        { "names", names },
        { "backends", backends },
        { "texts", texts },
        { "alignment", alignment },
        { "ignored_strides", ignored_strides },
        { "process_state", process_state },
#if defined(__linux__)
        { "huge_pages", huge_pages },
#endif
        { "silence", silence },
        { "signals", signals },
#if defined(__x86_64__)
        { "flush_to_zero", flush_to_zero },
#endif
    };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
