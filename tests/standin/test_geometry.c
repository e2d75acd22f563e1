/* The library under test holds the stand-ins it was built for, and plans run on them: without this the suite could pass on none.
 * May know: src/backend.h, the public header, check.h; what to expect comes from the command line as name:lanes:rows:vectors.
 * Must not know: what a kernel computes. */
#include "backend.h"
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = CHECK_MAX_BACKENDS };

static struct {
    char name[16];
    int lanes, rows, vectors;
} expected[MOST];
static size_t count;

static heed_isa isa_of(const char *name)
{
    for (int i = HEED_ISA_SCALAR; i <= HEED_ISA_NEON; i++)
        if (strcmp(heed_isa_name((heed_isa)i), name) == 0)
            return (heed_isa)i;
    return HEED_ISA_AUTO;
}

static void tables(void)
{
    size_t listed = 0;
    while (heed_backends[listed])
        listed++;
    CHECK(listed == count + 1, "%zu backends are listed, want %zu and scalar", listed, count);
    for (size_t i = 0; i < count; i++) {
        check_case("%s", expected[i].name);
        const heed_backend *b = heed_backend_find(isa_of(expected[i].name));
        if (!CHECK(b && b->isa != HEED_ISA_AUTO, "not in the library"))
            continue;
        CHECK(heed_backend_usable(b, 0), "not usable without CPU features");
        CHECK(b->lanes == expected[i].lanes && b->mr == expected[i].rows &&
                  b->nr == expected[i].lanes * expected[i].vectors,
            "%d lanes, tile %d x %d", (int)b->lanes, (int)b->mr, (int)b->nr);
    }
}

static void plans(void)
{
    for (size_t i = 0; i < count; i++) {
        check_case("%s", expected[i].name);
        heed_attention a = HEED_ATTENTION_INIT;
        a.batch = a.num_heads = a.num_kv_heads = 1;
        a.seq_len_q = a.seq_len_kv = a.head_dim = 9;
        const heed_options options = check_options(isa_of(expected[i].name), HEED_EXP_DEFAULT, 1);
        heed_plan *plan = NULL;
        heed_error error = { "" };
        if (!CHECK(heed_plan_create(&plan, &a, &options, &error) == HEED_OK, "%s", error.message))
            continue;
        char text[1024], want[64];
        heed_plan_describe(plan, text, sizeof text);
        snprintf(want, sizeof want, "tile: %d rows x %d columns\n", expected[i].rows,
            expected[i].lanes * expected[i].vectors);
        CHECK(strstr(text, want), "the plan says\n%s", text);
        heed_plan_destroy(plan);
    }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "tables", tables }, { "plans", plans } };
    for (int i = 1; i < argc && count < MOST; i++, count++)
        if (sscanf(argv[i], "%15[^:]:%d:%d:%d", expected[count].name, &expected[count].lanes, &expected[count].rows,
                &expected[count].vectors) != 4)
            check_fatal("an argument is not name:lanes:rows:vectors");
    return check_main(1, argv, tests, sizeof tests / sizeof tests[0]);
}
