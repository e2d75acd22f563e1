/* heed_layer on every backend: equal to its parts run alone bit for bit, bits against scalar, accuracy against the oracle.
 * May know: the public header, check.h, oracle.h.
 * Must not know: anything under src/. */
#include "check.h"
#include "oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct layer_case {
    int64_t batch, seq, model, out, heads, kv_heads, dim, dim_v; /* out, dim_v as the oracle has them: never 0 */
    heed_causal causal;
    int64_t offset;
    float scale;
    bool in_out, biases, with_lengths, lse, weights;
} layer_case;

/* 0 x, 1-4 weights q k v o, 5-8 biases q k v o. */
enum { PARTS = 9 };
typedef struct layer_data {
    float *part[PARTS];
    size_t size[PARTS];
    int32_t lengths[8];
} layer_data;

typedef struct layer_result {
    float *y, *lse, *weights;
} layer_result;

static size_t size_y(const layer_case *c)
{
    return (size_t)(c->batch * c->seq * c->out);
}

static size_t size_lse(const layer_case *c)
{
    return (size_t)(c->batch * c->heads * c->seq);
}

/* Weights of variance 1/inputs, so that all sizes stay around 1. */
static layer_data fill(const layer_case *c, check_rng *rng)
{
    int64_t q = c->heads * c->dim, k = c->kv_heads * c->dim, v = c->kv_heads * c->dim_v, o = c->heads * c->dim_v;
    const int64_t sizes[PARTS] = { c->batch * c->seq * c->model, c->model * q, c->model * k, c->model * v, o * c->out,
        q, k, v, c->out };
    layer_data d = { .lengths = { 0 } };
    for (size_t i = 0; i < PARTS; i++) {
        d.size[i] = (size_t)sizes[i];
        d.part[i] = check_floats(d.size[i]);
        check_fill(rng, d.part[i], 1, d.size[i], CHECK_NORMAL);
        for (size_t j = 0; j < d.size[i] && i >= 1 && i <= 4; j++)
            d.part[i][j] /= sqrtf((float)(i == 4 ? o : c->model));
    }
    for (int64_t b = 0; b < c->batch; b++)
        d.lengths[b] = (int32_t)(b == 0 ? c->seq : check_between(rng, 0, c->seq));
    return d;
}

static void free_data(layer_data *d)
{
    for (size_t i = 0; i < PARTS; i++)
        free(d->part[i]);
}

static void free_result(layer_result *r)
{
    free(r->y);
    free(r->lse);
    free(r->weights);
}

static const float *given(const layer_data *d, size_t part)
{
    return check_input(d->part[part], d->size[part], CHECK_GUARD_BEHIND);
}

static heed_layer *create(const layer_case *c, const layer_data *d, const heed_options *options)
{
    heed_layer_desc desc = HEED_LAYER_DESC_INIT;
    desc.model_dim = c->model;
    desc.out_dim = c->out == c->model ? 0 : c->out;
    desc.num_heads = c->heads;
    desc.num_kv_heads = c->kv_heads;
    desc.head_dim = c->dim;
    desc.head_dim_v = c->dim_v == c->dim ? 0 : c->dim_v;
    desc.scale = c->scale;
    desc.causal = c->causal;
    desc.causal_offset = c->offset;
    desc.weight_layout = c->in_out ? HEED_WEIGHT_IN_OUT : HEED_WEIGHT_OUT_IN;
    desc.weight_q = given(d, 1);
    desc.weight_k = given(d, 2);
    desc.weight_v = given(d, 3);
    desc.weight_o = given(d, 4);
    if (c->biases) {
        desc.bias_q = given(d, 5);
        desc.bias_k = given(d, 6);
        desc.bias_v = given(d, 7);
        desc.bias_o = given(d, 8);
    }
    heed_layer *layer = NULL;
    heed_error error = { "" };
    heed_status status = heed_layer_create(&layer, &desc, options, &error);
    CHECK(status == HEED_OK && layer, "heed_layer_create: %d %s", (int)status, error.message);
    check_free_all(); /* the caller's weights are not kept */
    return layer;
}

static layer_result run(const layer_case *c, const layer_data *d, const heed_options *options)
{
    check_case(
        "batch %lld seq %lld model %lld out %lld heads %lld/%lld dim %lld/%lld causal %d%+lld scale %g in_out %d "
        "biases %d lengths %d %s threads %d",
        (long long)c->batch, (long long)c->seq, (long long)c->model, (long long)c->out, (long long)c->heads,
        (long long)c->kv_heads, (long long)c->dim, (long long)c->dim_v, (int)c->causal, (long long)c->offset,
        (double)c->scale, c->in_out, c->biases, c->with_lengths, heed_isa_name(options->isa),
        (int)options->num_threads);
    size_t size_w = size_lse(c) * (size_t)c->seq, size = 0;
    layer_result result = { check_floats(size_y(c)), NULL, NULL };
    result.lse = c->lse ? check_floats(size_lse(c)) : NULL;
    result.weights = c->weights ? check_floats(size_w) : NULL;
    heed_layer *layer = create(c, d, options);
    heed_layer_tensors t = HEED_LAYER_TENSORS_INIT;
    t.x = given(d, 0);
    t.y = check_output(size_y(c), CHECK_GUARD_BEHIND);
    t.lse = c->lse ? check_output(size_lse(c), CHECK_GUARD_BEFORE) : NULL;
    t.weights = c->weights ? check_output(size_w, CHECK_GUARD_BEHIND) : NULL;
    t.lengths = c->with_lengths ? check_lengths(d->lengths, (size_t)c->batch) : NULL;
    heed_error error = { "" };
    heed_status status = heed_layer_workspace_size(layer, c->batch, c->seq, &size, &error);
    CHECK(status == HEED_OK, "heed_layer_workspace_size: %d %s", (int)status, error.message);
    status = heed_layer_run(layer, c->batch, c->seq, &t, check_alloc(size, CHECK_GUARD_BEHIND), size, &error);
    CHECK(status == HEED_OK, "heed_layer_run: %d %s", (int)status, error.message);
    heed_layer_destroy(layer);
    check_take(t.y, result.y, size_y(c));
    if (c->lse)
        check_take(t.lse, result.lse, size_lse(c));
    if (c->weights)
        check_take(t.weights, result.weights, size_w);
    check_free_all();
    return result;
}

static void same(const layer_case *c, const layer_result *got, const layer_result *want)
{
    check_same(got->y, want->y, size_y(c), "y");
    if (c->lse)
        check_same(got->lse, want->lse, size_lse(c), "lse");
    if (c->weights)
        check_same(got->weights, want->weights, size_lse(c) * (size_t)c->seq, "weights");
}

/* ---- The parts alone ---- */

static float *project(const layer_case *c, const float *x, int64_t in, int64_t out, const float *weight,
    const float *bias, const heed_options *options)
{
    heed_linear_desc desc = { sizeof desc, in, out, weight, c->in_out ? out : 1, c->in_out ? 1 : in,
        c->biases ? bias : NULL };
    heed_linear *linear = NULL;
    int64_t rows = c->batch * c->seq;
    float *y = check_floats((size_t)(rows * out));
    CHECK(heed_linear_create(&linear, &desc, options, NULL) == HEED_OK, "heed_linear_create");
    size_t size = heed_linear_workspace_size(linear, rows);
    void *workspace = check_malloc(size);
    CHECK(heed_linear_run(linear, rows, x, in, y, out, workspace, size, NULL) == HEED_OK, "heed_linear_run");
    free(workspace);
    heed_linear_destroy(linear);
    return y;
}

/* Three projections, heed_attend in BSHD, one projection. */
static layer_result run_parts(const layer_case *c, const layer_data *d, const heed_options *options)
{
    float *const *p = d->part;
    float *q = project(c, p[0], c->model, c->heads * c->dim, p[1], p[5], options);
    float *k = project(c, p[0], c->model, c->kv_heads * c->dim, p[2], p[6], options);
    float *v = project(c, p[0], c->model, c->kv_heads * c->dim_v, p[3], p[7], options);
    heed_attention a = HEED_ATTENTION_INIT;
    a.batch = c->batch;
    a.num_heads = c->heads;
    a.num_kv_heads = c->kv_heads;
    a.seq_len_q = a.seq_len_kv = c->seq;
    a.head_dim = c->dim;
    a.head_dim_v = c->dim_v;
    a.scale = c->scale;
    a.causal = c->causal;
    a.causal_offset = c->offset;
    a.layout = HEED_LAYOUT_BSHD;
    layer_result r = { NULL, c->lse ? check_floats(size_lse(c)) : NULL,
        c->weights ? check_floats(size_lse(c) * (size_t)c->seq) : NULL };
    heed_tensors t = HEED_TENSORS_INIT;
    float *attended = check_floats(size_lse(c) * (size_t)c->dim_v);
    t.q = q;
    t.k = k;
    t.v = v;
    t.out = attended;
    t.lse = r.lse;
    t.weights = r.weights;
    t.lengths_q = t.lengths_kv = c->with_lengths ? d->lengths : NULL;
    heed_error error = { "" };
    CHECK(heed_attend(&a, &t, options, &error) == HEED_OK, "heed_attend: %s", error.message);
    r.y = project(c, attended, c->heads * c->dim_v, c->out, p[4], p[8], options);
    float *const done[] = { q, k, v, attended };
    for (size_t i = 0; i < 4; i++)
        free(done[i]);
    return r;
}

/* ---- Accuracy ---- */

static oracle_layer oracle_of(const layer_case *c, const layer_data *d)
{
    oracle_layer l = { c->batch, c->seq, c->model, c->out, c->heads, c->kv_heads, c->dim, c->dim_v, (double)c->scale,
        c->causal == HEED_CAUSAL_BOTTOM_RIGHT ? ORACLE_BOTTOM_RIGHT
        : c->causal == HEED_CAUSAL_TOP_LEFT   ? ORACLE_TOP_LEFT
        : c->causal == HEED_CAUSAL_OFFSET     ? ORACLE_OFFSET
                                              : ORACLE_SEE_ALL,
        c->offset, c->in_out, d->part[0], d->part[1], d->part[2], d->part[3], d->part[4], c->biases ? d->part[5] : NULL,
        c->biases ? d->part[6] : NULL, c->biases ? d->part[7] : NULL, c->biases ? d->part[8] : NULL,
        c->with_lengths ? d->lengths : NULL };
    return l;
}

static float *naive_project(
    const layer_case *c, const float *x, int64_t in, int64_t out, const float *w, const float *bias)
{
    float *y = check_floats((size_t)(c->batch * c->seq * out));
    for (int64_t r = 0; r < c->batch * c->seq; r++)
        for (int64_t o = 0; o < out; o++) {
            float sum = bias ? bias[o] : 0.0f;
            for (int64_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[c->in_out ? i * out + o : o * in + i];
            y[r * out + o] = sum;
        }
    return y;
}

/* The layer in plain f32: the yardstick. */
static float *naive(const layer_case *c, const layer_data *d)
{
    oracle_layer l = oracle_of(c, d);
    int64_t wq = c->heads * c->dim, wk = c->kv_heads * c->dim, wv = c->kv_heads * c->dim_v, wo = c->heads * c->dim_v;
    float *q = naive_project(c, l.x, c->model, wq, l.weight_q, l.bias_q);
    float *k = naive_project(c, l.x, c->model, wk, l.weight_k, l.bias_k);
    float *v = naive_project(c, l.x, c->model, wv, l.weight_v, l.bias_v);
    oracle_attention p = { c->batch, c->heads, c->kv_heads, c->seq, c->seq, c->dim, c->dim_v, l.scale, l.causal,
        l.causal_offset, q, k, v, { c->seq * wq, c->dim, wq }, { c->seq * wk, c->dim, wk },
        { c->seq * wv, c->dim_v, wv }, l.lengths, l.lengths };
    float *bhsd = check_floats(size_lse(c) * (size_t)c->dim_v), *bshd = check_floats(size_lse(c) * (size_t)c->dim_v);
    if (!oracle_three_pass(&p, bhsd))
        check_fatal("no memory for the oracle");
    for (int64_t row = 0; row < (int64_t)size_lse(c); row++) {
        int64_t i = row % c->seq, h = row / c->seq % c->heads, b = row / c->seq / c->heads;
        memcpy(bshd + ((b * c->seq + i) * c->heads + h) * c->dim_v, bhsd + row * c->dim_v,
            (size_t)c->dim_v * sizeof(float));
    }
    float *y = naive_project(c, bshd, wo, c->out, l.weight_o, l.bias_o);
    float *const done[] = { q, k, v, bhsd, bshd };
    for (size_t i = 0; i < 5; i++)
        free(done[i]);
    return y;
}

/* Errors of two computations of the same length in the same precision: over hundreds of values their root mean squares
 * cannot differ by a factor of 2 by chance.  Few values may, so they are held to a factor of 10 only. */
static void against_oracle(const layer_case *c, const layer_data *d, const layer_result *got, double squares[2])
{
    oracle_layer l = oracle_of(c, d);
    double *y = check_malloc(size_y(c) * sizeof *y);
    if (!oracle_run_layer(&l, y, NULL, NULL))
        check_fatal("no memory for the oracle");
    float *plain = naive(c, d);
    check_error ours = check_errors(got->y, y, size_y(c)), other = check_errors(plain, y, size_y(c));
    double factor = size_y(c) >= 256 ? 2.0 : 10.0;
    CHECK(!ours.mismatch && sqrt(ours.square) <= factor * sqrt(other.square),
        "root of squared errors %.3g, plain f32 %.3g, largest error %.3g", sqrt(ours.square), sqrt(other.square),
        ours.max_abs);
    squares[0] += ours.square;
    squares[1] += other.square;
    free(plain);
    free(y);
}

static const layer_case cases[] = {
    { 1, 17, 384, 384, 12, 12, 32, 32, HEED_CAUSAL_NONE, 0, 0, false, true, false, true, true },
    { 2, 33, 64, 64, 4, 2, 16, 16, HEED_CAUSAL_BOTTOM_RIGHT, 0, 0, true, false, true, true, true },
    { 3, 5, 40, 24, 6, 1, 7, 9, HEED_CAUSAL_NONE, 0, 0.3f, false, true, true, true, false },
    { 1, 1, 128, 128, 2, 2, 64, 64, HEED_CAUSAL_TOP_LEFT, 0, 0, true, true, false, false, true },
    { 2, 270, 32, 33, 2, 1, 8, 8, HEED_CAUSAL_TOP_LEFT, 0, -0.5f, false, false, true, true, true },
    { 1, 7, 1, 1, 1, 1, 1, 1, HEED_CAUSAL_NONE, 0, 0, false, true, false, true, true },
    { 4, 9, 13, 300, 3, 3, 5, 17, HEED_CAUSAL_OFFSET, 2, 1.0f, true, true, false, true, true },
    { 1, 129, 256, 256, 4, 4, 64, 64, HEED_CAUSAL_BOTTOM_RIGHT, 0, 0, false, true, false, false, false },
    { 2, 40, 96, 96, 13, 13, 37, 37, HEED_CAUSAL_OFFSET, -3, 0, false, true, true, true, false },
    { 1, 300, 48, 16, 8, 2, 24, 40, HEED_CAUSAL_NONE, 0, 0, true, true, false, true, false },
};
enum { CASES = sizeof cases / sizeof cases[0] };

static void accuracy_and_bits(void)
{
    check_rng rng = check_rng_named("layer");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    double squares[2] = { 0.0, 0.0 };
    for (size_t n = 0; n < CASES; n++) {
        layer_data d = fill(&cases[n], &rng);
        heed_options options = check_options(HEED_ISA_SCALAR, HEED_EXP_DEFAULT, 1);
        layer_result scalar = run(&cases[n], &d, &options);
        against_oracle(&cases[n], &d, &scalar, squares);
        for (size_t i = 0; i < count; i++) {
            options = check_options(list[i], HEED_EXP_DEFAULT, 2);
            layer_result other = run(&cases[n], &d, &options), parts = run_parts(&cases[n], &d, &options);
            same(&cases[n], &other, &scalar);
            same(&cases[n], &parts, &scalar);
            free_result(&other);
            free_result(&parts);
        }
        free_result(&scalar);
        free_data(&d);
    }
    check_note("sum of squared errors %.3g, plain f32 %.3g", squares[0], squares[1]);
    CHECK(squares[0] <= squares[1], "less accurate than plain f32");
}

/* Thread counts, repeated runs of one layer at several sizes, and each batch entry alone. */
static void contract(void)
{
    check_rng rng = check_rng_named("layer contract");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t n = 0; n < CASES; n++)
        for (size_t i = 0; i < count && check_keep(n, 5); i++) {
            layer_case single = cases[n];
            single.batch = 1;
            single.with_lengths = false;
            layer_case c = cases[n];
            c.with_lengths = false;
            layer_data d = fill(&c, &rng);
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            layer_result one = run(&c, &d, &options);
            for (int32_t threads = 0; threads <= 16; threads += threads < 4 ? 1 : 6) {
                options.num_threads = threads;
                layer_result r = run(&c, &d, &options);
                same(&c, &r, &one);
                free_result(&r);
            }
            for (int64_t b = 0; b < c.batch; b++) {
                layer_data row = d;
                row.part[0] = d.part[0] + b * c.seq * c.model;
                row.size[0] = d.size[0] / (size_t)c.batch;
                layer_result r = run(&single, &row, &options);
                check_same(r.y, one.y + (size_t)b * size_y(&single), size_y(&single), "a batch entry alone");
                free_result(&r);
            }
            free_result(&one);
            free_data(&d);
        }
}

/* Rows beyond a length are the output bias alone, whatever x holds there; the other rows do not notice. */
static void padding(void)
{
    check_rng rng = check_rng_named("layer padding");
    heed_isa list[CHECK_MAX_BACKENDS];
    size_t count = check_backends(list);
    for (size_t i = 0; i < count; i++)
        for (int biases = 0; biases < 2; biases++) {
            layer_case c = cases[1], tight = c;
            c.biases = tight.biases = biases != 0;
            layer_data d = fill(&c, &rng);
            heed_options options = check_options(list[i], HEED_EXP_DEFAULT, 1);
            d.lengths[1] = 20;
            for (int64_t j = 20 * c.model; j < c.seq * c.model; j++)
                d.part[0][c.seq * c.model + j] = j % 2 ? NAN : INFINITY;
            layer_result r = run(&c, &d, &options);
            const float *second = r.y + c.seq * c.out;
            for (int64_t row = 20; row < c.seq; row++)
                for (int64_t o = 0; o < c.out; o++)
                    if (!check_equal_bits(second[row * c.out + o], biases ? d.part[8][o] : 0.0f))
                        CHECK(false, "padding row %lld column %lld", (long long)row, (long long)o);
            tight.batch = 1;
            tight.seq = 20;
            tight.with_lengths = false;
            layer_data own = d;
            own.part[0] = d.part[0] + c.seq * c.model;
            own.size[0] = (size_t)(20 * c.model);
            layer_result t = run(&tight, &own, &options);
            check_same(second, t.y, size_y(&tight), "rows within the length");
            free_result(&r);
            free_result(&t);
            free_data(&d);
        }
}

int main(int argc, char **argv)
{
    static const check_test tests[] = { { "accuracy_and_bits", accuracy_and_bits }, { "contract", contract },
        { "padding", padding } };
    return check_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
