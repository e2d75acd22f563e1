/* Which tensors of a weights file are the projections of one attention layer.
 * May know: the names that models use, safetensors.h.
 * Must not know: the numbers in the tensors, the library heed. */
#ifndef HEED_TOOL_NAMES_H
#define HEED_TOOL_NAMES_H

#include "safetensors.h"

typedef enum projection { PROJECTION_Q, PROJECTION_K, PROJECTION_V, PROJECTION_O, PROJECTIONS } projection;

typedef struct layer_names {
    const tensor_info *weight[PROJECTIONS]; /* never NULL */
    const tensor_info *bias[PROJECTIONS];   /* NULL where there is none */
    const char *family;                     /* "BERT", "Llama", or "--names" */
    bool rotary;                            /* the model turns queries and keys by their position (RoPE) */
    bool normed;                            /* the model normalises queries and keys */
} layer_names;

/* templates NULL: looks for BERT's and Llama's names, behind any prefix; two layers that fit are refused.  Else it is
 * the value of --names: "q=NAME,k=NAME,v=NAME,o=NAME" and perhaps bq, bk, bv, bo, where {layer} in a name stands for
 * the number.  layer < 0: none was given. */
bool names_find(
    const safetensors *file, int64_t layer, const char *templates, layer_names *found, char *message, size_t size);

/* "q", "k", "v", "o". */
const char *projection_name(projection which);

#endif
