/* The test support tested: guard pages fault, canaries are seen, comparisons see what they must, the oracle gives hand-worked values.
 * May know: check.h, oracle.h, POSIX.
 * Must not know: anything under src/. */
#include "check.h"
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Memory: whatever breaks the rules must end a child process ---- */

typedef void misdeed(void);

static volatile char sink;

static void read_behind(void)
{
    const char *p = check_alloc(12, CHECK_GUARD_BEHIND);
    sink = p[12];
}

static void read_before(void)
{
    const char *p = check_alloc(12, CHECK_GUARD_BEFORE);
    sink = p[-1];
}

static void write_input(void)
{
    float value = 1.0f;
    const float *p = check_input(&value, 1, CHECK_GUARD_BEHIND);
    *(volatile float *)(uintptr_t)p = 2.0f;
}

static void read_empty(void)
{
    const char *p = check_alloc(0, CHECK_GUARD_BEHIND);
    sink = p[0];
}

/* 1 when the deed ended the child by a signal or a sanitizer's exit. */
static int punished(misdeed *deed)
{
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stdout);
        (void)!freopen("/dev/null", "w", stderr);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        deed();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return child > 0 && !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void guards(void)
{
    CHECK(punished(read_behind), "a read behind the end was not punished");
    CHECK(punished(read_before), "a read before the start was not punished");
    CHECK(punished(write_input), "a write to an input was not punished");
    CHECK(punished(read_empty), "a read of an empty block was not punished");
    float *odd = check_output(3, CHECK_GUARD_BEHIND);
    CHECK(((uintptr_t)odd + 12) % 4096 == 0, "the end is not at the page");
    CHECK(check_bits(odd[2]) == check_bits(odd[0]) && isnan(odd[0]), "outputs start as NaN");
    odd[1] = 5.0f;
    float value = 0.0f;
    check_take(odd + 1, &value, 1);
    CHECK(value == 5.0f && isnan(odd[1]), "check_take moves the value out");
    check_untouched(odd, 3, "after check_take");
}

/* The failing direction of the checks that count by themselves, in a child whose counters do not matter. */
static int child_result(bool (*checks)(void))
{
    pid_t child = fork();
    if (child == 0) {
        (void)!freopen("/dev/null", "w", stdout);
        _exit(checks() ? 0 : 7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool one_bit_apart(void)
{
    float a[2] = { 1.0f, 1.0f }, b[2] = { 1.0f, 1.0f + FLT_EPSILON };
    return check_same(a, b, 2, "apart");
}

static bool nan_against_number(void)
{
    float got = NAN;
    double want = 1.0;
    return check_close(&got, &want, 1, 1e30, "NaN");
}

static bool just_outside(void)
{
    float got = 1.25f;
    double want = 1.0;
    return check_close(&got, &want, 1, 0.2, "outside");
}

static bool touched(void)
{
    float *p = check_output(4, CHECK_GUARD_BEHIND);
    p[2] = NAN;
    return check_untouched(p, 4, "touched");
}

/* check_free_all returns nothing, so its verdict is read off the exit code of check_main. */
static void damage_canary(void)
{
    char *p = check_alloc(12, CHECK_GUARD_BEFORE);
    CHECK(true, "a check");
    p[12] = 0;
}

static bool canary_hit(void)
{
    static const check_test tests[] = { { "canary", damage_canary } };
    char name[] = "child", *arguments[] = { name, NULL };
    return check_main(1, arguments, tests, 1) == 0;
}

static void verdicts(void)
{
    float same[3] = { NAN, 0.0f, 1.0f }, other[3] = { -NAN, -0.0f, 1.0f };
    check_same(same, other, 3, "NaN and signed zeros");
    CHECK(child_result(one_bit_apart) == 7, "one bit apart was not seen");
    CHECK(child_result(nan_against_number) == 7, "NaN against a number was not seen");
    CHECK(child_result(just_outside) == 7, "an error above the bound was not seen");
    CHECK(child_result(touched) == 7, "a NaN of another kind in a gap was not seen");
    CHECK(child_result(canary_hit) == 7, "a damaged canary was not seen");
    CHECK(check_ulp(1.0 + 0x1p-23, 1.0) == 1.0, "ULP above 1");
    CHECK(check_ulp(1.0 - 0x1p-24, 1.0) == 0.5, "half an ULP below 1");
    CHECK(check_ulp(0x1p-149, 0.0) == 1.0, "ULP at 0");
    float got[2] = { 3.0f, -4.5f };
    double want[2] = { 3.0, -4.0 };
    check_error e = check_errors(got, want, 2);
    CHECK(e.max_abs == 0.5 && e.relative == 0.125 && e.worst == 1 && e.square == 0.25, "error metrics");
}

static void random_values(void)
{
    check_rng a = check_rng_named("a"), again = check_rng_named("a"), b = check_rng_named("b");
    uint64_t first = check_next(&a);
    CHECK(first == check_next(&again), "one name, one sequence");
    CHECK(first != check_next(&b), "another name, another sequence");
    double sum = 0.0, square = 0.0;
    for (int i = 0; i < 100000; i++) {
        double x = (double)check_normal(&a);
        sum += x;
        square += x * x;
    }
    CHECK(fabs(sum / 1e5) < 0.02 && fabs(square / 1e5 - 1.0) < 0.03, "mean %g, variance %g", sum / 1e5, square / 1e5);
    for (int i = 0; i < 1000; i++) {
        int64_t n = check_between(&a, -3, 3);
        if (n < -3 || n > 3)
            CHECK(false, "out of range");
    }
}

/* ---- The oracle against values worked by hand ---- */

/* "cats chase mice": scores 0, sqrt 2, 0 give weights 1 / (2 + e^sqrt 2) = 0.163, 0.673, 0.163. */
static void oracle_cats(void)
{
    const float q[2] = { 1.0f, 1.0f }, k[6] = { 0, 0, 2, 0, 0, 0 }, v[3] = { 1, 10, 100 };
    oracle_attention p = { .batch = 1,
        .num_heads = 1,
        .num_kv_heads = 1,
        .seq_len_q = 1,
        .seq_len_kv = 3,
        .head_dim = 2,
        .head_dim_v = 1,
        .q = q,
        .k = k,
        .v = v };
    oracle_set_packed(&p);
    double out, lse, w[3], small = 1.0 / (2.0 + exp(sqrt(2.0)));
    CHECK(oracle_attend(&p, &out, &lse, w), "memory");
    CHECK(fabs(w[0] - small) < 1e-15 && fabs(w[2] - small) < 1e-15 && fabs(w[1] - (1 - 2 * small)) < 1e-15, "weights");
    CHECK(fabs(w[0] - 0.163) < 1e-3 && fabs(w[1] - 0.673) < 1e-3, "weights %g %g", w[0], w[1]);
    CHECK(fabs(out - (101 * small + 10 * (1 - 2 * small))) < 1e-13, "out %g", out);
    CHECK(fabs(lse - log(2.0 + exp(sqrt(2.0)))) < 1e-15, "lse %g", lse);
    float narrow;
    CHECK(oracle_three_pass(&p, &narrow) && fabs((double)narrow - out) < 1e-5, "three passes %g", (double)narrow);
}

/* q = 0 makes all weights equal, so with v[j] = j the output is (n - 1) / 2 for n visible keys. */
static void oracle_masks(void)
{
    enum { LQ = 4, LK = 6 };
    static const struct {
        oracle_causal causal;
        int64_t offset;
        int32_t queries, keys;
        int visible[LQ];
    } cases[] = { { ORACLE_SEE_ALL, 0, 4, 6, { 6, 6, 6, 6 } }, { ORACLE_BOTTOM_RIGHT, 0, 4, 6, { 3, 4, 5, 6 } },
        { ORACLE_TOP_LEFT, 0, 4, 6, { 1, 2, 3, 4 } }, { ORACLE_OFFSET, -2, 4, 6, { 0, 0, 1, 2 } },
        { ORACLE_OFFSET, 4, 4, 6, { 5, 6, 6, 6 } }, { ORACLE_BOTTOM_RIGHT, 0, 4, 3, { 0, 1, 2, 3 } },
        { ORACLE_BOTTOM_RIGHT, 0, 3, 5, { 3, 4, 5, 0 } }, { ORACLE_SEE_ALL, 0, 2, 0, { 0, 0, 0, 0 } } };
    for (size_t n = 0; n < sizeof cases / sizeof cases[0]; n++) {
        float q[LQ] = { 0 }, k[LK] = { 0 }, v[LK];
        for (int j = 0; j < LK; j++)
            v[j] = k[j] = j < cases[n].keys ? (float)j : NAN;
        oracle_attention p = { .batch = 1,
            .num_heads = 1,
            .num_kv_heads = 1,
            .seq_len_q = LQ,
            .seq_len_kv = LK,
            .head_dim = 1,
            .head_dim_v = 1,
            .scale = 1.0,
            .causal = cases[n].causal,
            .causal_offset = cases[n].offset,
            .q = q,
            .k = k,
            .v = v,
            .lengths_q = &cases[n].queries,
            .lengths_kv = &cases[n].keys };
        oracle_set_packed(&p);
        double out[LQ], lse[LQ], w[LQ * LK];
        CHECK(oracle_attend(&p, out, lse, w), "memory");
        for (int i = 0; i < LQ; i++) {
            int seen = cases[n].visible[i];
            check_case("case %zu row %d", n, i);
            CHECK(fabs(out[i] - (seen ? (seen - 1) / 2.0 : 0.0)) < 1e-14, "out %g, %d keys", out[i], seen);
            CHECK(seen ? fabs(lse[i] - log(seen)) < 1e-14 : lse[i] == -INFINITY, "lse %g", lse[i]);
            for (int j = 0; j < LK; j++)
                CHECK(w[i * LK + j] == (j < seen ? 1.0 / seen : 0.0), "weight %d: %g", j, w[i * LK + j]);
        }
    }
}

static void oracle_invalid(void)
{
    static const struct {
        float logits[3];
        double weights[3];
    } rows[] = { { { INFINITY, 1, 2 }, { NAN, NAN, NAN } }, { { NAN, 1, 2 }, { NAN, NAN, NAN } },
        { { -INFINITY, 0, 0 }, { 0, 0.5, 0.5 } }, { { -INFINITY, -INFINITY, -INFINITY }, { 0, 0, 0 } },
        { { 700, 700, -700 }, { 0.5, 0.5, 0 } } };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double y[3];
        oracle_softmax(1, 3, rows[r].logits, 3, NULL, y);
        for (int c = 0; c < 3; c++)
            CHECK(y[c] == rows[r].weights[c] || (isnan(y[c]) && isnan(rows[r].weights[c])), "row %zu: %g", r, y[c]);
    }
    double y[3];
    int32_t length = 2;
    oracle_softmax(1, 3, rows[0].logits + 1, 3, &length, y);
    CHECK(fabs(y[0] - 1 / (1 + exp(1))) < 1e-15 && fabs(y[0] + y[1] - 1) < 1e-15 && y[2] == 0, "length");
}

/* GQA: query heads 0, 1, 2 use key/value head 0, heads 3, 4, 5 head 1 (case E01). */
static void oracle_groups(void)
{
    float q[6] = { 0 }, k[2] = { 0 }, v[2] = { 1, 2 };
    oracle_attention p = { .batch = 1,
        .num_heads = 6,
        .num_kv_heads = 2,
        .seq_len_q = 1,
        .seq_len_kv = 1,
        .head_dim = 1,
        .head_dim_v = 1,
        .q = q,
        .k = k,
        .v = v };
    oracle_set_packed(&p);
    double out[6];
    CHECK(oracle_attend(&p, out, NULL, NULL), "memory");
    for (int h = 0; h < 6; h++)
        CHECK(out[h] == (h < 3 ? 1.0 : 2.0), "head %d: %g", h, out[h]);
}

/* Identity projections: the layer is attention with q = k = v = x; the output projection doubles and adds 1. */
static void oracle_layers(void)
{
    const float x[4] = { 1, 2, 3, 4 }, one[4] = { 1, 0, 0, 1 }, two[4] = { 2, 0, 0, 2 }, bias[2] = { 1, 1 };
    oracle_layer layer = { .batch = 1,
        .seq_len = 2,
        .model_dim = 2,
        .out_dim = 2,
        .num_heads = 1,
        .num_kv_heads = 1,
        .head_dim = 2,
        .head_dim_v = 2,
        .scale = 1.0,
        .causal = ORACLE_BOTTOM_RIGHT,
        .x = x,
        .weight_q = one,
        .weight_k = one,
        .weight_v = one,
        .weight_o = two,
        .bias_o = bias };
    double y[4], w = 1 / (1 + exp(11 - 25)); /* row 1: scores 3 + 8 and 9 + 16 */
    CHECK(oracle_run_layer(&layer, y, NULL, NULL), "memory");
    CHECK(y[0] == 3 && y[1] == 5, "row 0 sees itself: %g %g", y[0], y[1]);
    CHECK(fabs(y[2] - (2 * ((1 - w) * 1 + w * 3) + 1)) < 1e-14 && fabs(y[3] - (2 * ((1 - w) * 2 + w * 4) + 1)) < 1e-14,
        "row 1: %g %g", y[2], y[3]);
    const float a[4] = { 1, 2, 3, 4 }, b[4] = { 5, 7, 6, 8 };
    oracle_linear linear = { 2, 2, b, 2, 1, NULL };
    oracle_project(&linear, 2, a, 2, y);
    CHECK(y[0] == 17 && y[1] == 23 && y[2] == 39 && y[3] == 53, "[[1,2],[3,4]] times [[5,7],[6,8]]");
    linear.stride_in = 1;
    linear.stride_out = 2;
    oracle_project(&linear, 2, a, 2, y);
    CHECK(y[0] == 19 && y[1] == 22 && y[2] == 43 && y[3] == 50, "the same transposed");
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "guards", guards }, { "verdicts", verdicts },
        { "random_values", random_values }, { "oracle_cats", oracle_cats }, { "oracle_masks", oracle_masks },
        { "oracle_invalid", oracle_invalid }, { "oracle_groups", oracle_groups }, { "oracle_layers", oracle_layers } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
