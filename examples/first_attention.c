/* The smallest complete program: three tokens attend to each other.
 * May know: heed/heed.h.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <math.h>
#include <stdio.h>

int main(void)
{
    /* "cats chase mice", one row of two numbers per token; the nouns ask for their verb, the verb for its subject. */
    const float q[] = { 1, 0, 0, 1, 1, 0 }, k[] = { 0, 1, 1, 0, 0, -1 }, v[] = { 1, 0, 0, 1, 1, 1 };
    float out[6], weights[9];

    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = attention.num_heads = attention.num_kv_heads = 1;
    attention.seq_len_q = attention.seq_len_kv = 3;
    attention.head_dim = 2;
    attention.scale = 1.41421356f; /* left at 0 it would be 1/sqrt(head_dim) */
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k;
    tensors.v = v;
    tensors.out = out;
    tensors.weights = weights;

    heed_error error;
    if (heed_attend(&attention, &tensors, NULL, &error) != HEED_OK) {
        fprintf(stderr, "heed: %s\n", error.message);
        return 1;
    }
    printf(
        "cats looks at cats %.3f, chase %.3f, mice %.3f\n", (double)weights[0], (double)weights[1], (double)weights[2]);
    /* softmax(0, sqrt(2), 0) */
    return fabsf(weights[0] - 0.16358f) < 1e-5f && fabsf(weights[1] - 0.67284f) < 1e-5f ? 0 : 1;
}
