/* The functions of docs/from-onnx.md, included as the document has them, on problems whose answer is known without computing
 * attention: with queries of 0 a row is the mean of the values it sees, and value j is j.
 * May know: the public header, check.h.
 * Must not know: anything under src/. */
#include "from-onnx.c"

#include "check.h"

#include <math.h>
#include <string.h>

static const float zero[64];
static heed_error error;

static void check_means(heed_status status, const float *got, const double *want, int count)
{
    CHECK(status == HEED_OK, "%s", error.message);
    for (int i = 0; i < count; i++)
        CHECK(fabs((double)got[i] - want[i]) < 1e-5, "element %d is %g, not %g", i, (double)got[i], want[i]);
}

/* 2 queries, caches of 8 of which 6 and 3 are filled; the mask takes key 0 out of the second row. */
static void external_cache(void)
{
    const float v[2 * 8] = { 0, 1, 2, 3, 4, 5, NAN, NAN, 0, 1, 2, NAN, NAN, NAN, NAN, NAN };
    float mask[2 * 8] = { 0 };
    mask[8] = -INFINITY;
    const int32_t nonpad[] = { 6, 3 };
    const double want[] = { 2, 3, 0.5, 1.5 };
    float y[4];
    check_means(attention_24(2, 1, 1, 2, 8, 1, zero, zero, v, mask, nonpad, 0.0f, y, &error), y, want, 4);
}

static void without_cache(void)
{
    const float v[] = { 0, 1, 2, 3, 4 };
    const double want[] = { 0, 0.5 };
    float y[2];
    check_means(attention_23(1, 1, 2, 5, 1, zero, zero, v, y, &error), y, want, 2);
}

/* 2 tokens after 4 in a cache of 8; heads 0, 1 read kv head 0 and heads 2, 3 kv head 1.  A window of 3 keys. */
static void group_query(void)
{
    const float v[2 * 8] = { 0, 1, 2, 3, 4, 5, NAN, NAN, 10, 11, 12, 13, 14, 15, NAN, NAN };
    const int32_t lengths[] = { 6 };
    const double want[] = { 3, 3, 13, 13, 4, 4, 14, 14 }, all[] = { 2, 2, 12, 12, 2.5, 2.5, 12.5, 12.5 };
    float y[8];
    check_means(group_query_attention(1, 4, 2, 2, 8, 1, 3, zero, zero, v, lengths, NULL, y, &error), y, want, 8);
    check_means(group_query_attention(1, 4, 2, 2, 8, 1, -1, zero, zero, v, lengths, NULL, y, &error), y, all, 8);
    const float sinks[4] = { 0 };
    double sunk[8]; /* one more key without a value: 3 of 4 */
    for (int i = 0; i < 8; i++)
        sunk[i] = want[i] * 0.75;
    check_means(group_query_attention(1, 4, 2, 2, 8, 1, 3, zero, zero, v, lengths, sinks, y, &error), y, sunk, 8);
}

/* 2 tokens behind 4 of the first sequence and 1 of the second, one kv head; values are exact in f16. */
static void present(void)
{
    const float keys[] = { 5, 6, 7, 8 }, values[] = { 4, 5, 1, 2 };
    const int32_t past[] = { 4, 1 }, lengths[] = { 6, 3 };
    float k[2 * 8] = { 0 }, v[2 * 8] = { 0, 1, 2, 3, NAN, NAN, NAN, NAN, 0, NAN, NAN, NAN, NAN, NAN, NAN, NAN };
    uint16_t half_k[2 * 8] = { 0 }, half_v[2 * 8] = { 0 };
    const double want[] = { 2, 2.5, 0.5, 1 };
    float y[4];
    heed_status status = append_to_present(2, 1, 2, 8, 1, keys, values, past, HEED_TYPE_F32, k, v, &error);
    CHECK(status == HEED_OK, "%s", error.message);
    CHECK(k[4] == 5 && k[5] == 6 && k[9] == 7 && k[10] == 8 && k[3] == 0 && k[6] == 0 && k[11] == 0, "keys");
    memset(k, 0, sizeof k);
    check_means(group_query_attention(2, 1, 1, 2, 8, 1, -1, zero, k, v, lengths, NULL, y, &error), y, want, 4);
    status = append_to_present(2, 1, 2, 8, 1, keys, values, past, HEED_TYPE_F16, half_k, half_v, &error);
    CHECK(status == HEED_OK, "%s", error.message);
    CHECK(half_v[4] == 0x4400 && half_v[5] == 0x4500 && half_v[9] == 0x3C00 && half_v[10] == 0x4000, "f16 values");
}

/* Two heads, 2 queries, 3 keys of which 2 count; the bias makes the second key of head 1 three times as heavy. */
static void multi_head(void)
{
    const float v[] = { 0, 10, 1, 11, NAN, NAN };
    float bias[2 * 2 * 3] = { 0 };
    bias[7] = bias[10] = (float)log(3.0);
    const int32_t lengths[] = { 2 };
    const double want[] = { 0.5, 10.75, 0.5, 10.75 };
    float y[4];
    check_means(multi_head_attention(1, 2, 2, 3, 1, zero, zero, v, lengths, bias, y, &error), y, want, 4);
}

/* A quarter turn of the first pair, none of the second; the fifth element is not rotated. */
static void rotary(void)
{
    const float cosines[] = { 9, 9, 0, 1 }, sines[] = { 9, 9, 1, 0 };
    float halves[] = { 1, 2, 3, 4, 5 }, pairs[] = { 1, 2, 3, 4, 5 };
    const double want_halves[] = { -3, 2, 1, 4, 5 }, want_pairs[] = { -2, 1, 3, 4, 5 };
    check_means(rotary_embedding(1, 1, 1, 5, 4, 0, halves, cosines, sines, 1, &error), halves, want_halves, 5);
    check_means(rotary_embedding(1, 1, 1, 5, 4, 1, pairs, cosines, sines, 1, &error), pairs, want_pairs, 5);
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "attention_24", external_cache }, { "attention_23", without_cache },
        { "group_query_attention", group_query }, { "append_to_present", present },
        { "multi_head_attention", multi_head }, { "rotary_embedding", rotary } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
