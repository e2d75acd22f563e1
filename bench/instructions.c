/* heed_instructions: makes one call of one of a fixed set of works, for bench/instructions to count under callgrind.
 * May know: shapes, works.  Must not know: how instructions are counted.
 * Only what happens inside heed_counted is counted: making the data ready is not. */
#include "work.h"

#include <stdio.h>
#include <string.h>

typedef struct counted {
    const char *name;
    bench_shape shape;
} counted;

static const counted set[] = {
    { "qk_tile", { SHAPE_QK_TILE, "", { [SHAPE_ROWS] = 96, [SHAPE_DIM] = 64 } } },
    { "softmax_tile", { SHAPE_SOFTMAX_TILE, "", { [SHAPE_ROWS] = 96 } } },
    { "pv_tile", { SHAPE_PV_TILE, "", { [SHAPE_ROWS] = 96, [SHAPE_DIM] = 64 } } },
    { "gemm_tile", { SHAPE_GEMM_TILE, "", { [SHAPE_ROWS] = 192, [SHAPE_IN] = 256 } } },
    { "attention_128x128x64", { SHAPE_ATTENTION, "", { 1, 1, 1, 128, 128, 128, 64, 64, [SHAPE_CAUSAL] = 0 } } },
    { "attention_causal_128x128x64", { SHAPE_ATTENTION, "", { 1, 1, 1, 128, 128, 128, 64, 64, [SHAPE_CAUSAL] = 1 } } },
    { "linear_16x64x64", { SHAPE_LINEAR, "", { [SHAPE_ROWS] = 16, [SHAPE_IN] = 64, [SHAPE_OUT] = 64 } } },
};

enum { SET_SIZE = sizeof set / sizeof set[0] };

heed_status heed_counted(bench_work *work, heed_error *error);

/* The name that callgrind switches counting on and off by. */
heed_status heed_counted(bench_work *work, heed_error *error)
{
    return work->run(work, error);
}

static int find_isa(const char *name)
{
    for (int isa = HEED_ISA_SCALAR; isa <= HEED_ISA_NEON; isa++)
        if (strcmp(name, heed_isa_name((heed_isa)isa)) == 0 && heed_isa_usable((heed_isa)isa))
            return isa;
    return 0;
}

static int count(const char *isa_name, const char *name)
{
    /* Called through a pointer that the compiler cannot see through: it must stay a function. */
    heed_status (*volatile call)(bench_work *, heed_error *) = heed_counted;
    const int isa = find_isa(isa_name);
    heed_error error;
    if (!isa) {
        fprintf(stderr, "heed_instructions: backend '%s' cannot run here\n", isa_name);
        return 2;
    }
    for (int i = 0; i < SET_SIZE; i++) {
        if (strcmp(name, set[i].name) != 0)
            continue;
        const work_options options = { (heed_isa)isa, 1, 1 };
        bench_work *work = work_create(&set[i].shape, &options, &error);
        const int ok = work && call(work, &error) == HEED_OK;
        if (!ok)
            fprintf(stderr, "heed_instructions: %s: %s\n", name, error.message);
        work_destroy(work);
        return ok ? 0 : 1;
    }
    fprintf(stderr, "heed_instructions: '%s' is not in the set\n", name);
    return 2;
}

/* What instruction counts depend on beside the source. */
static void print_key(void)
{
#if defined(__x86_64__)
    const char *machine = "x86-64";
#elif defined(__aarch64__)
    const char *machine = "aarch64";
#else
    const char *machine = "other";
#endif
    const char *flags = HEED_BENCH_FLAGS;
    printf("%s, %s, %s%s%s\n", HEED_BENCH_COMPILER, machine, HEED_BENCH_BUILD_TYPE, *flags ? ", " : "", flags);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--key") == 0) {
        print_key();
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (int i = 0; i < SET_SIZE; i++)
            puts(set[i].name);
        return 0;
    }
    if (argc == 3)
        return count(argv[1], argv[2]);
    fprintf(stderr, "usage: heed_instructions BACKEND NAME | --list | --key\n");
    return 2;
}
