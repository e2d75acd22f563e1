/* A whole self-attention layer: made once, run on a padded batch, compared with the same computed plainly in double.
 * May know: heed/heed.h.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 2, LENGTH = 5, WIDTH = 12, HEADS = 3, HEAD_DIM = WIDTH / HEADS };

/* Weights are [out][in] as PyTorch and safetensors store them. */
typedef struct projection {
    float weight[WIDTH * WIDTH], bias[WIDTH];
} projection;

static void fill(float *values, size_t count, float size, float seed)
{
    for (size_t i = 0; i < count; i++)
        values[i] = size * sinf(seed + 1.7f * (float)i);
}

static void fill_projection(projection *p, float seed)
{
    fill(p->weight, WIDTH * WIDTH, 0.4f, seed);
    fill(p->bias, WIDTH, 0.2f, seed + 0.5f);
}

/* ---- The same in double, as the formulas say ---- */

static double project(const projection *p, const double *x, int o)
{
    double sum = (double)p->bias[o];
    for (int i = 0; i < WIDTH; i++)
        sum += x[i] * (double)p->weight[o * WIDTH + i];
    return sum;
}

/* One query of one head: softmax(q K^T / sqrt(HEAD_DIM)) V over the first `keys` rows. */
static void attend_row(const double *q, double k[][WIDTH], double v[][WIDTH], int keys, double *out)
{
    double weights[LENGTH], sum = 0.0;
    for (int j = 0; j < keys; j++) {
        double score = 0.0;
        for (int d = 0; d < HEAD_DIM; d++)
            score += q[d] * k[j][d];
        weights[j] = exp(score / sqrt((double)HEAD_DIM));
        sum += weights[j];
    }
    for (int d = 0; d < HEAD_DIM; d++) {
        out[d] = 0.0;
        for (int j = 0; j < keys; j++)
            out[d] += weights[j] / sum * v[j][d];
    }
}

static double largest_error(const projection p[4], const float *x, const float *y, int length)
{
    double rows[3][LENGTH][WIDTH] = { { { 0.0 } } }, worst = 0.0;
    for (int i = 0; i < length; i++) {
        double xi[WIDTH];
        for (int c = 0; c < WIDTH; c++)
            xi[c] = (double)x[i * WIDTH + c];
        for (int t = 0; t < 3; t++)
            for (int c = 0; c < WIDTH; c++)
                rows[t][i][c] = project(&p[t], xi, c);
    }
    for (int i = 0; i < length; i++) {
        double context[WIDTH];
        for (int h = 0; h < WIDTH; h += HEAD_DIM) {
            double k[LENGTH][WIDTH] = { { 0.0 } }, v[LENGTH][WIDTH] = { { 0.0 } };
            for (int j = 0; j < length; j++) {
                for (int d = 0; d < HEAD_DIM; d++) {
                    k[j][d] = rows[1][j][h + d];
                    v[j][d] = rows[2][j][h + d];
                }
            }
            attend_row(rows[0][i] + h, k, v, length, context + h);
        }
        for (int c = 0; c < WIDTH; c++)
            worst = fmax(worst, fabs((double)y[i * WIDTH + c] - project(&p[3], context, c)));
    }
    return worst;
}

/* ---- With heed ---- */

static heed_status run(const projection p[4], const float *x, float *y, const int32_t *lengths, heed_error *error)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = WIDTH;
    desc.num_heads = desc.num_kv_heads = HEADS;
    desc.head_dim = HEAD_DIM;
    desc.weight_q = p[0].weight;
    desc.weight_k = p[1].weight;
    desc.weight_v = p[2].weight;
    desc.weight_o = p[3].weight;
    desc.bias_q = p[0].bias;
    desc.bias_k = p[1].bias;
    desc.bias_v = p[2].bias;
    desc.bias_o = p[3].bias;

    /* Packs the weights; they are not needed afterwards. */
    heed_layer *layer = NULL;
    heed_status status = heed_layer_create(&layer, &desc, NULL, error);
    if (status != HEED_OK)
        return status;

    /* The workspace is the caller's: one for each thread that runs the layer at the same time. */
    size_t size = 0;
    status = heed_layer_workspace_size(layer, BATCH, LENGTH, &size, error);
    if (status == HEED_OK) {
        void *workspace = malloc(size);
        heed_layer_tensors tensors = HEED_LAYER_TENSORS_INIT;
        tensors.x = x;
        tensors.y = y;
        tensors.lengths = lengths;
        status = heed_layer_run(layer, BATCH, LENGTH, &tensors, workspace, workspace ? size : 0, error);
        free(workspace);
    }
    heed_layer_destroy(layer);
    return status;
}

int main(void)
{
    projection p[4]; /* q, k, v, output */
    float x[BATCH * LENGTH * WIDTH], y[BATCH * LENGTH * WIDTH];
    const int32_t lengths[BATCH] = { LENGTH, 3 }; /* the second sequence is padded */
    for (int t = 0; t < 4; t++)
        fill_projection(&p[t], (float)t);
    fill(x, sizeof x / sizeof *x, 1.0f, 0.25f);

    heed_error error = { "" };
    if (run(p, x, y, lengths, &error) != HEED_OK) {
        fprintf(stderr, "heed: %s\n", error.message);
        return 1;
    }
    double worst = 0.0;
    for (int b = 0; b < BATCH; b++)
        worst = fmax(worst, largest_error(p, x + b * LENGTH * WIDTH, y + b * LENGTH * WIDTH, lengths[b]));
    printf("layer: %d sequences, %d heads, largest error against double %.2e\n", BATCH, HEADS, worst);
    return worst < 1e-5 ? 0 : 1;
}
