/* heed show: attention weights as a picture, on the terminal, or one row as a list.
 * May know: the parts named in show.h, command.h.
 * Must not know: how anything is drawn, the library heed. */
#include "show.h"
#include "command.h"
#include "show_layout.h"
#include "terminal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT, TOKENS, TOKENS_Q, TOKENS_K, HEAD, BATCH, ROW, SORT, TOP, MAX, REDUCE, WIDTH, TITLE, ASCII, OPTIONS };

static const option_spec specs[OPTIONS + 1] = {
    [OUTPUT] = { "output", 'o', OPTION_VALUE },
    [TOKENS] = { "tokens", 0, OPTION_VALUE },
    [TOKENS_Q] = { "tokens-q", 0, OPTION_VALUE },
    [TOKENS_K] = { "tokens-k", 0, OPTION_VALUE },
    [HEAD] = { "head", 0, OPTION_VALUE },
    [BATCH] = { "batch", 0, OPTION_VALUE },
    [ROW] = { "row", 0, OPTION_VALUE },
    [SORT] = { "sort", 0, OPTION_FLAG },
    [TOP] = { "top", 0, OPTION_VALUE },
    [MAX] = { "max", 0, OPTION_VALUE },
    [REDUCE] = { "reduce", 0, OPTION_VALUE },
    [WIDTH] = { "width", 0, OPTION_VALUE },
    [TITLE] = { "title", 0, OPTION_VALUE },
    [ASCII] = { "ascii", 0, OPTION_FLAG },
};

/* Everything the command holds; all of it is released in one place. */
typedef struct show_state {
    const char *path, *output;
    npy_array array;
    token_list tokens_q, tokens_k;
    show_request request;
    int64_t head, batch, row, top; /* -1, or 0 for top: not given */
    bool sorted;
    char title[TEXT_LABEL_BYTES];
} show_state;

static bool read_number(const arguments *given, int option, int64_t low, int64_t high, int64_t *value, char *message)
{
    const char *text = given->values[option];
    return !text || parse_integer(specs[option].name, text, low, high, value, message, MESSAGE_SIZE);
}

static bool read_reduce(const char *text, reduce_kind *kind, char *message)
{
    if (text && strcmp(text, "max") != 0 && strcmp(text, "mean") != 0)
        return complain(message, MESSAGE_SIZE, "--reduce: '%.64s' is neither max nor mean", text);
    *kind = text && strcmp(text, "mean") == 0 ? REDUCE_MEAN : REDUCE_MAX;
    return true;
}

static bool read_options(show_state *state, const arguments *given, char *message)
{
    show_request *request = &state->request;
    int64_t width = 0;
    state->output = given->values[OUTPUT];
    state->head = state->batch = state->row = -1;
    state->sorted = given->values[SORT] != NULL;
    request->ascii = given->values[ASCII] != NULL;
    int64_t least = state->output ? PICTURE_MIN_WIDTH : TERMINAL_MIN_COLUMNS;
    int64_t most = state->output ? IMAGE_MAX_SIDE : TERMINAL_MAX_COLUMNS;
    if (!read_number(given, HEAD, 0, INT64_MAX, &state->head, message) ||
        !read_number(given, BATCH, 0, INT64_MAX, &state->batch, message) ||
        !read_number(given, ROW, 0, INT64_MAX, &state->row, message) ||
        !read_number(given, TOP, 1, INT64_MAX, &state->top, message) ||
        !read_number(given, WIDTH, least, most, &width, message) ||
        !read_reduce(given->values[REDUCE], &request->reduce, message))
        return false;
    request->width = (int)width;
    if (given->values[MAX] && !parse_float("max", given->values[MAX], &request->maximum, message, MESSAGE_SIZE))
        return false;
    if (given->values[MAX] && !(request->maximum > 0.0f))
        return complain(message, MESSAGE_SIZE, "--max: must be above 0");
    if (state->row < 0 && (state->sorted || state->top))
        return complain(message, MESSAGE_SIZE, "--%s: only together with --row", state->sorted ? "sort" : "top");
    if (given->values[TOKENS] && (given->values[TOKENS_Q] || given->values[TOKENS_K]))
        return complain(message, MESSAGE_SIZE, "--tokens: not together with --tokens-q or --tokens-k");
    return true;
}

/* Reads one list, checks its length, and hands it to the request.  Returns an exit code. */
static int load_tokens(const char *path, int64_t expected, const char *what, token_list *list, const token_list **use)
{
    char message[MESSAGE_SIZE];
    if (!path)
        return EXIT_OK;
    if (!token_list_read(list, path, message, sizeof message))
        return fail("show", path, "%s", message);
    if (list->count != expected)
        return fail("show", path, "lines: %" PRId64 " tokens, but the weights have %" PRId64 " %s", list->count,
            expected, what);
    *use = list;
    return EXIT_OK;
}

static int load(show_state *state, const arguments *given)
{
    char message[MESSAGE_SIZE];
    show_request *request = &state->request;
    weights_view *view = &request->view;
    if (!npy_read(state->path, &state->array, message, sizeof message) ||
        !weights_select(view, &state->array, state->head, state->batch, message, sizeof message))
        return fail("show", state->path, "%s", message);
    const char *both = given->values[TOKENS];
    const char *path_q = both ? both : given->values[TOKENS_Q], *path_k = both ? both : given->values[TOKENS_K];
    int code = load_tokens(path_q, view->rows, "queries", &state->tokens_q, &request->tokens_q);
    if (code == EXIT_OK)
        code = load_tokens(path_k, view->cols, "keys", &state->tokens_k, &request->tokens_k);
    request->facts = weights_examine(view);
    const char *name = strrchr(state->path, '/');
    const char *title = given->values[TITLE] ? given->values[TITLE] : name ? name + 1 : state->path;
    text_shorten(state->title, title, TEXT_LABEL_BYTES);
    request->title = state->title;
    return code;
}

static int write_picture(const show_state *state)
{
    char message[MESSAGE_SIZE];
    const char *path = state->output;
    image picture;
    if (!show_picture(&picture, &state->request, message, sizeof message))
        return fail("show", state->path, "%s", message);
    outputs set = { 0 };
    int failed; /* there is but one file */
    FILE *file = outputs_open(&set, path, message, sizeof message);
    const char *reason = file ? image_write_png(&picture, file) : message;
    if (!reason && !outputs_commit(&set, &failed, message, sizeof message))
        reason = message;
    outputs_discard(&set);
    if (!reason)
        printf("%s: %d x %d pixels\n", path, picture.width, picture.height);
    image_destroy(&picture);
    return reason ? fail("show", path, "%s", reason) : EXIT_OK;
}

static int answer(const show_state *state)
{
    char message[MESSAGE_SIZE];
    const show_request *request = &state->request;
    if (state->row >= 0 && !show_row(stdout, request, state->row, state->sorted, state->top, message, sizeof message))
        return fail("show", state->path, "%s", message);
    if (state->output)
        return write_picture(state);
    if (state->row < 0 && !show_terminal(stdout, request, message, sizeof message))
        return fail("show", state->path, "%s", message);
    return EXIT_OK;
}

int command_show(int argc, char **argv)
{
    arguments given;
    int code;
    char message[MESSAGE_SIZE];
    if (!arguments_parse(argc, argv, specs, 1, &given, &code))
        return code;
    if (given.num_words != 1)
        return fail("show", NULL, "weights: name one .npy file (see: heed show --help)");
    show_state state = { .path = given.words[0] };
    if (!read_options(&state, &given, message))
        return fail("show", NULL, "%s", message);
    if (state.output && !image_png_available())
        return fail("show", state.output, "--output: this program was built without libpng");
    if (state.output && !output_check(state.output, message, sizeof message))
        return fail("show", state.output, "%s", message);
    code = load(&state, &given);
    if (code == EXIT_OK)
        code = answer(&state);
    npy_free(&state.array);
    token_list_destroy(&state.tokens_q);
    token_list_destroy(&state.tokens_k);
    return code;
}
