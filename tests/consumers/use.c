/* What a user of the installed library compiles: C99 and C++98 at once.
 * May know: the public header.
 * Must not know: where it lies. */
#include <heed/heed.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    const float q[] = { 1, 0 }, k[] = { 0, 1, 1, 0, 0, -1 }, v[] = { 1, 0, 0, 1, 2, 2 }, scores[] = { 1, 1 };
    float out[2], weights[2];
    char version[32];
    heed_attention a = HEED_ATTENTION_INIT;
    heed_tensors t = HEED_TENSORS_INIT;
    heed_error error;
    a.batch = a.num_heads = a.num_kv_heads = a.seq_len_q = 1;
    a.seq_len_kv = 3;
    a.head_dim = 2;
    t.q = q;
    t.k = k;
    t.v = v;
    t.out = out;
    if (heed_attend(&a, &t, NULL, &error) != HEED_OK ||
        heed_softmax(1, 2, scores, 2, weights, 2, NULL, NULL, &error) != HEED_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    sprintf(version, "%d.%d.%d", HEED_VERSION_MAJOR, HEED_VERSION_MINOR, HEED_VERSION_PATCH);
    printf("%g %g %g %s openmp %d sleef %d\n", (double)out[0], (double)out[1], (double)weights[0], heed_version(),
        heed_has_openmp(), heed_sleef_usable(HEED_ISA_SCALAR));
    return strcmp(version, heed_version()) == 0 && weights[0] == 0.5f && out[1] > 0.9999f && out[1] < 1.0001f ? 0 : 1;
}
