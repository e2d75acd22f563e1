/* Two halves of the keys computed apart, as two devices or two machines would, and merged by their LSE.
 * May know: heed/heed.h.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { HEADS = 2, QUERIES = 300, KEYS = 512, HALF = KEYS / 2, DIM = 32, ROWS = HEADS * QUERIES };

static float q[ROWS * DIM], k[HEADS * KEYS * DIM], v[HEADS * KEYS * DIM];

typedef struct partial {
    float out[ROWS * DIM], lse[ROWS];
} partial;

/* Keys first .. first + count - 1, causal.  Query i stands at key i + KEYS - QUERIES of the whole, which is so many keys after
 * the first of this part: rows before it see nothing here, their output is 0 and their LSE -inf. */
static heed_status attend(int first, int count, heed_isa isa, partial *to)
{
    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = 1;
    attention.num_heads = attention.num_kv_heads = HEADS;
    attention.seq_len_q = QUERIES;
    attention.seq_len_kv = count;
    attention.head_dim = DIM;
    attention.causal = HEED_CAUSAL_OFFSET;
    attention.causal_offset = KEYS - QUERIES - first;
    attention.layout = HEED_LAYOUT_STRIDED; /* the part lies within the whole */
    const heed_strides keys = { HEADS * KEYS * DIM, KEYS * DIM, DIM }, rows = { ROWS * DIM, QUERIES * DIM, DIM };
    attention.strides_k = attention.strides_v = keys;
    attention.strides_q = attention.strides_out = rows;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k + first * DIM;
    tensors.v = v + first * DIM;
    tensors.out = to->out;
    tensors.lse = to->lse;
    heed_options options = HEED_OPTIONS_INIT;
    options.isa = isa;
    heed_error error;
    heed_status status = heed_attend(&attention, &tensors, &options, &error);
    if (status != HEED_OK)
        fprintf(stderr, "heed: %s\n", error.message);
    return status;
}

static heed_status merge(const partial *a, const partial *b, partial *to)
{
    const float *outs[] = { a->out, b->out }, *lses[] = { a->lse, b->lse };
    heed_error error;
    heed_status status = heed_merge(2, ROWS, DIM, outs, DIM, lses, to->out, DIM, to->lse, NULL, &error);
    if (status != HEED_OK)
        fprintf(stderr, "heed: %s\n", error.message);
    return status;
}

int main(void)
{
    static partial whole, left, right, merged, right_scalar, merged_again;
    for (size_t i = 0; i < sizeof q / sizeof *q; i++)
        q[i] = sinf(0.37f * (float)i);
    for (size_t i = 0; i < sizeof k / sizeof *k; i++) {
        k[i] = sinf(0.73f * (float)i);
        v[i] = sinf(1.31f * (float)i);
    }
    if (attend(0, KEYS, HEED_ISA_AUTO, &whole) || attend(0, HALF, HEED_ISA_AUTO, &left) ||
        attend(HALF, HALF, HEED_ISA_AUTO, &right) || merge(&left, &right, &merged))
        return 1;
    /* The other half may come from any other machine: the bits are the same. */
    if (attend(HALF, HALF, HEED_ISA_SCALAR, &right_scalar) || merge(&left, &right_scalar, &merged_again))
        return 1;
    int same = memcmp(&merged, &merged_again, sizeof merged) == 0;

    /* Merged, a row is rounded otherwise than in one piece; one that sees keys of one half only is that half's row, bit for bit. */
    double worst = 0.0;
    for (size_t i = 0; i < sizeof whole.out / sizeof *whole.out; i++)
        worst = fmax(worst, fabs((double)whole.out[i] - (double)merged.out[i]));
    int one_half = 0;
    for (int row = 0; row < ROWS; row++)
        if (row % QUERIES + KEYS - QUERIES < HALF) {
            one_half++;
            same = same && memcmp(whole.out + row * DIM, merged.out + row * DIM, DIM * sizeof(float)) == 0 &&
                   whole.lse[row] == merged.lse[row];
        }
    printf("merge: two halves differ from the whole by at most %.1e; bits are %s on every backend and in %d rows of "
           "one half\n",
        worst, same ? "the same" : "DIFFERENT", one_half);
    return same && worst < 1e-6 ? 0 : 1;
}
