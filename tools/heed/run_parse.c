/* `heed run`: its arguments.
 * May know: run.h.
 * Must not know: what is in the files. */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum {
    OPT_Q,
    OPT_K,
    OPT_V,
    OPT_X,
    OPT_WEIGHTS,
    OPT_LAYER,
    OPT_HEADS,
    OPT_KV_HEADS,
    OPT_NAMES,
    OPT_CAUSAL,
    OPT_LENGTHS,
    OPT_LENGTHS_Q,
    OPT_SCALE,
    OPT_WINDOW,
    OPT_SOFTCAP,
    OPT_BIAS,
    OPT_MASK,
    OPT_ALIBI,
    OPT_SINKS,
    OPT_ROPE,
    OPT_ROPE_BASE,
    OPT_ROPE_DIM,
    OPT_ROPE_SCALING,
    OPT_ROPE_OFFSET,
    OPT_KV_TYPE,
    OPT_PAGE_SIZE,
    OPT_DECODE_STEP,
    OPT_BF16_NPY,
    OPT_ISA,
    OPT_THREADS,
    OPT_EXP,
    OPT_LAYOUT,
    OPT_OUT,
    OPT_LSE,
    OPT_ATTENTION,
    OPT_EXPECT,
    OPT_EXPECT_ATTENTION,
    OPT_TOLERANCE,
    OPT_QUIET,
    OPT_COUNT
};

static const option_spec specs[] = {
    [OPT_Q] = { "q", 0, OPTION_VALUE },
    [OPT_K] = { "k", 0, OPTION_VALUE },
    [OPT_V] = { "v", 0, OPTION_VALUE },
    [OPT_X] = { "x", 0, OPTION_VALUE },
    [OPT_WEIGHTS] = { "weights", 0, OPTION_VALUE },
    [OPT_LAYER] = { "layer", 0, OPTION_VALUE },
    [OPT_HEADS] = { "heads", 0, OPTION_VALUE },
    [OPT_KV_HEADS] = { "kv-heads", 0, OPTION_VALUE },
    [OPT_NAMES] = { "names", 0, OPTION_VALUE },
    [OPT_CAUSAL] = { "causal", 0, OPTION_OPTIONAL },
    [OPT_LENGTHS] = { "lengths", 0, OPTION_VALUE },
    [OPT_LENGTHS_Q] = { "lengths-q", 0, OPTION_VALUE },
    [OPT_SCALE] = { "scale", 0, OPTION_VALUE },
    [OPT_WINDOW] = { "window", 0, OPTION_VALUE },
    [OPT_SOFTCAP] = { "softcap", 0, OPTION_VALUE },
    [OPT_BIAS] = { "bias", 0, OPTION_VALUE },
    [OPT_MASK] = { "mask", 0, OPTION_VALUE },
    [OPT_ALIBI] = { "alibi", 0, OPTION_VALUE },
    [OPT_SINKS] = { "sinks", 0, OPTION_VALUE },
    [OPT_ROPE] = { "rope", 0, OPTION_VALUE },
    [OPT_ROPE_BASE] = { "rope-base", 0, OPTION_VALUE },
    [OPT_ROPE_DIM] = { "rope-dim", 0, OPTION_VALUE },
    [OPT_ROPE_SCALING] = { "rope-scaling", 0, OPTION_VALUE },
    [OPT_ROPE_OFFSET] = { "rope-offset", 0, OPTION_VALUE },
    [OPT_KV_TYPE] = { "kv-type", 0, OPTION_VALUE },
    [OPT_PAGE_SIZE] = { "page-size", 0, OPTION_VALUE },
    [OPT_DECODE_STEP] = { "decode-step", 0, OPTION_OPTIONAL },
    [OPT_BF16_NPY] = { "bf16-npy", 0, OPTION_FLAG },
    [OPT_ISA] = { "isa", 0, OPTION_VALUE },
    [OPT_THREADS] = { "threads", 0, OPTION_VALUE },
    [OPT_EXP] = { "exp", 0, OPTION_VALUE },
    [OPT_LAYOUT] = { "layout", 0, OPTION_VALUE },
    [OPT_OUT] = { "output", 'o', OPTION_VALUE },
    [OPT_LSE] = { "lse", 0, OPTION_VALUE },
    [OPT_ATTENTION] = { "attention", 0, OPTION_VALUE },
    [OPT_EXPECT] = { "expect", 0, OPTION_VALUE },
    [OPT_EXPECT_ATTENTION] = { "expect-attention", 0, OPTION_VALUE },
    [OPT_TOLERANCE] = { "tolerance", 0, OPTION_VALUE },
    [OPT_QUIET] = { "quiet", 0, OPTION_FLAG },
    [OPT_COUNT] = { NULL, 0, OPTION_FLAG },
};

/* Of a comparison: some 100 times the rounding of a 32-bit float. */
static const double DEFAULT_TOLERANCE = 1e-5;

_Static_assert((int)OPT_COUNT <= (int)OPTIONS_MAX, "the parser has a place for each option");

static bool parse_modes(const char *const *values, run_request *request, char *message, size_t size)
{
    static const choice isas[] = { { "auto", HEED_ISA_AUTO }, { "scalar", HEED_ISA_SCALAR }, { "avx2", HEED_ISA_AVX2 },
        { "avx512", HEED_ISA_AVX512 }, { "neon", HEED_ISA_NEON }, { NULL, 0 } };
    static const choice exps[] = { { "default", HEED_EXP_DEFAULT }, { "builtin", HEED_EXP_BUILTIN },
        { "sleef", HEED_EXP_SLEEF }, { NULL, 0 } };
    static const choice layouts[] = { { "bhsd", HEED_LAYOUT_BHSD }, { "bshd", HEED_LAYOUT_BSHD }, { NULL, 0 } };
    int isa = HEED_ISA_AUTO;
    int exponential = HEED_EXP_DEFAULT;
    int layout = HEED_LAYOUT_BHSD;
    if (!parse_choice("isa", values[OPT_ISA], isas, &isa, message, size) ||
        !parse_choice("exp", values[OPT_EXP], exps, &exponential, message, size) ||
        !parse_choice("layout", values[OPT_LAYOUT], layouts, &layout, message, size)) {
        return false;
    }
    request->options.isa = (heed_isa)isa;
    request->options.exp = (heed_exp)exponential;
    request->layout = (heed_layout)layout;
    return true;
}

static bool parse_causal(const char *text, run_request *request, char *message, size_t size)
{
    if (!text) {
        return true;
    }
    if (*text == 0 || strcmp(text, "bottom-right") == 0) {
        request->causal = HEED_CAUSAL_BOTTOM_RIGHT;
        return true;
    }
    if (strcmp(text, "top-left") == 0) {
        request->causal = HEED_CAUSAL_TOP_LEFT;
        return true;
    }
    request->causal = HEED_CAUSAL_OFFSET;
    /* Positions are below 2^31 here: lengths are 32-bit numbers. */
    if (parse_integer("causal", text, -INT32_MAX, INT32_MAX, &request->causal_offset, message, size)) {
        return true;
    }
    return complain(message, size, "--causal: '%.64s' is not bottom-right, top-left or a whole number", text);
}

static bool parse_cache(const char *const *values, run_request *request, char *message, size_t size)
{
    static const choice types[] = { { "f32", HEED_TYPE_F32 }, { "f16", HEED_TYPE_F16 }, { "bf16", HEED_TYPE_BF16 },
        { "i8", HEED_TYPE_I8 }, { NULL, 0 } };
    static const choice sizes[] = { { "16", 16 }, { "32", 32 }, { "64", 64 }, { "128", 128 }, { NULL, 0 } };
    int type = HEED_TYPE_F32;
    int page = 0;
    if (!parse_choice("kv-type", values[OPT_KV_TYPE], types, &type, message, size) ||
        !parse_choice("page-size", values[OPT_PAGE_SIZE], sizes, &page, message, size)) {
        return false;
    }
    request->kv_type = (heed_type)type;
    request->page_size = page;
    const char *step = values[OPT_DECODE_STEP];
    if (!step) {
        return true;
    }
    request->decode_step = 1;
    if (*step && !parse_integer("decode-step", step, 1, INT32_MAX, &request->decode_step, message, size)) {
        return false;
    }
    if (values[OPT_LENGTHS_Q]) {
        return complain(
            message, size, "--lengths-q: does not go with --decode-step, which says how many queries there are");
    }
    if (values[OPT_CAUSAL] && request->causal != HEED_CAUSAL_BOTTOM_RIGHT) {
        return complain(message, size, "--causal: with --decode-step it is bottom-right");
    }
    request->causal = HEED_CAUSAL_BOTTOM_RIGHT;
    return true;
}

/* "LEFT,RIGHT". */
static bool parse_window(const char *text, run_request *request, char *message, size_t size)
{
    int32_t *sides = NULL;
    int64_t count = 0;
    if (!text) {
        return true;
    }
    if (!parse_integer_list("window", text, -1, INT32_MAX, &sides, &count, message, size)) {
        return false;
    }
    if (count == 2) {
        request->window_left = sides[0];
        request->window_right = sides[1];
    }
    free(sides);
    return count == 2 || complain(message, size, "--window: '%.64s' is not LEFT,RIGHT", text);
}

static bool parse_softcap(const char *text, run_request *request, char *message, size_t size)
{
    if (!text) {
        return true;
    }
    return parse_float("softcap", text, &request->softcap, message, size) &&
           (request->softcap >= 0.0F || complain(message, size, "--softcap: '%.64s' is below 0", text));
}

static bool parse_tolerance(const char *const *values, run_request *request, char *message, size_t size)
{
    const char *text = values[OPT_TOLERANCE];
    if (text && !request->expect && !request->expect_attention) {
        return complain(message, size, "--tolerance: needs --expect or --expect-attention");
    }
    return !text || parse_double("tolerance", text, 0.0, 1e300, &request->tolerance, message, size);
}

static bool parse_rope(const char *const *values, run_request *request, char *message, size_t size)
{
    return run_rope_parse(values[OPT_ROPE], values[OPT_ROPE_BASE], values[OPT_ROPE_DIM], values[OPT_ROPE_SCALING],
        values[OPT_ROPE_OFFSET], &request->rope, message, size);
}

/* An option's number; text NULL leaves *value alone. */
static bool parse_count(
    int option, const char *text, int64_t low, int64_t high, int64_t *value, char *message, size_t size)
{
    return !text || parse_integer(specs[option].name, text, low, high, value, message, size);
}

static bool parse_numbers(const char *const *values, run_request *request, char *message, size_t size)
{
    enum { THREADS_MAX = 1024 };
    int64_t threads = 0;
    if (!parse_count(OPT_LAYER, values[OPT_LAYER], 0, INT32_MAX, &request->layer, message, size) ||
        !parse_count(OPT_HEADS, values[OPT_HEADS], 1, INT32_MAX, &request->heads, message, size) ||
        !parse_count(OPT_KV_HEADS, values[OPT_KV_HEADS], 1, INT32_MAX, &request->kv_heads, message, size) ||
        !parse_count(OPT_THREADS, values[OPT_THREADS], 1, THREADS_MAX, &threads, message, size) ||
        !parse_causal(values[OPT_CAUSAL], request, message, size) ||
        !parse_window(values[OPT_WINDOW], request, message, size) ||
        !parse_softcap(values[OPT_SOFTCAP], request, message, size)) {
        return false;
    }
    request->options.num_threads = (int32_t)threads;
    if (values[OPT_SCALE] && !parse_float("scale", values[OPT_SCALE], &request->scale, message, size)) {
        return false;
    }
    if (values[OPT_LENGTHS] && !parse_integer_list("lengths", values[OPT_LENGTHS], 0, INT32_MAX, &request->lengths,
                                   &request->num_lengths, message, size)) {
        return false;
    }
    return !values[OPT_LENGTHS_Q] || parse_integer_list("lengths-q", values[OPT_LENGTHS_Q], 0, INT32_MAX,
                                         &request->lengths_q, &request->num_lengths_q, message, size);
}

/* The options of one way to run; the other way's are refused rather than ignored. */
static bool check_ways(const char *const *values, char *message, size_t size)
{
    static const int ready[] = { OPT_Q, OPT_K, OPT_V, OPT_LAYOUT, OPT_LENGTHS_Q, OPT_BIAS, OPT_MASK, OPT_ALIBI,
        OPT_SINKS, OPT_KV_TYPE, OPT_PAGE_SIZE, OPT_DECODE_STEP, OPT_BF16_NPY };
    static const int model[] = { OPT_X, OPT_WEIGHTS, OPT_HEADS, OPT_KV_HEADS, OPT_LAYER, OPT_NAMES, OPT_ROPE,
        OPT_ROPE_BASE, OPT_ROPE_DIM, OPT_ROPE_SCALING, OPT_ROPE_OFFSET };
    bool layer = values[OPT_X] || values[OPT_WEIGHTS];
    const int *needed = layer ? model : ready;
    const int *foreign = layer ? ready : model;
    int num_foreign = layer ? (int)(sizeof ready / sizeof ready[0]) : (int)(sizeof model / sizeof model[0]);
    for (int i = 0; i < num_foreign; i++) {
        if (values[foreign[i]]) {
            return complain(message, size, "--%s: does not go with %s", specs[foreign[i]].name,
                layer ? "--x and --weights" : "--q, --k and --v");
        }
    }
    /* The first three of each list are needed. */
    for (int i = 0; i < 3; i++) {
        if (!values[needed[i]]) {
            return complain(message, size, "--%s: is needed (give --q --k --v, or --x --weights --layer --heads)",
                specs[needed[i]].name);
        }
    }
    return values[OPT_OUT] || values[OPT_LSE] || values[OPT_ATTENTION] || values[OPT_EXPECT] ||
           values[OPT_EXPECT_ATTENTION] ||
           complain(message, size, "-o: nothing to write: give -o, --lse, --attention or --expect");
}

static void take_texts(const char *const *values, run_request *request)
{
    request->q = values[OPT_Q];
    request->k = values[OPT_K];
    request->v = values[OPT_V];
    request->x = values[OPT_X];
    request->weights = values[OPT_WEIGHTS];
    request->names = values[OPT_NAMES];
    request->out = values[OPT_OUT];
    request->lse = values[OPT_LSE];
    request->attention = values[OPT_ATTENTION];
    request->bias = values[OPT_BIAS];
    request->mask = values[OPT_MASK];
    request->alibi = values[OPT_ALIBI];
    request->sinks = values[OPT_SINKS];
    request->expect = values[OPT_EXPECT];
    request->expect_attention = values[OPT_EXPECT_ATTENTION];
    request->wants_weights = request->attention || request->expect_attention;
    request->bf16_npy = values[OPT_BF16_NPY] != NULL;
    request->quiet = values[OPT_QUIET] != NULL;
}

bool run_parse(int argc, char **argv, run_request *request, int *exit_code)
{
    arguments parsed;
    char message[MESSAGE_SIZE];
    heed_options options = HEED_OPTIONS_INIT;
    memset(request, 0, sizeof *request);
    request->layer = -1;
    request->window_left = request->window_right = -1;
    request->tolerance = DEFAULT_TOLERANCE;
    request->options = options;
    if (!arguments_parse(argc, argv, specs, 0, &parsed, exit_code)) {
        return false;
    }
    take_texts(parsed.values, request);
    if (!check_ways(parsed.values, message, sizeof message) ||
        !parse_modes(parsed.values, request, message, sizeof message) ||
        !parse_numbers(parsed.values, request, message, sizeof message) ||
        !parse_cache(parsed.values, request, message, sizeof message) ||
        !parse_tolerance(parsed.values, request, message, sizeof message) ||
        !parse_rope(parsed.values, request, message, sizeof message)) {
        *exit_code = fail("run", NULL, "%s", message);
        return false;
    }
    return true;
}

void run_request_free(run_request *request)
{
    free(request->lengths);
    free(request->lengths_q);
    request->lengths = request->lengths_q = NULL;
}
