/* The captions under a map: what a reader must know about how it was drawn.
 * May know: the request.
 * Must not know: pictures, terminals. */
#include "command.h"
#include "show.h"

#include <inttypes.h>
#include <stdarg.h>

static void caption(show_captions *list, const char *format, ...)
{
    if (list->count == CAPTION_LINES)
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(list->lines[list->count++], CAPTION_SIZE, format, values);
    va_end(values);
}

void show_captions_write(show_captions *list, const show_request *request, int64_t row_step, int64_t col_step)
{
    const weights_facts *facts = &request->facts;
    list->count = 0;
    caption(list, "rows: queries, columns: keys");
    if (row_step > 1 || col_step > 1)
        caption(list, "a cell is the %s of %" PRId64 " x %" PRId64 " weights", reduce_name(request->reduce), row_step,
            col_step);
    if (request->maximum > 0.0f && facts->maximum > request->maximum)
        caption(list, "weights beyond the scale have its last colour");
    if (facts->num_negative > 0)
        caption(list, "weights below 0, drawn as 0: %" PRId64, facts->num_negative);
    if (facts->num_infinite > 0)
        caption(list, "infinite weights: %" PRId64, facts->num_infinite);
    if (facts->num_nan > 0)
        caption(list, "weights that are NaN, drawn %s: %" PRId64, request->ascii ? "as ?" : "red", facts->num_nan);
}
