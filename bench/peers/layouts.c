/* Prints sizes and offsets of the public structures, for the test of heed_library.py.
 * May know: the public header.  Must not know: Python. */
#include <heed/heed.h>
#include <stddef.h>
#include <stdio.h>

typedef struct line {
    const char *type, *field;
    size_t value;
} line;

/* clang-format off */
#define SIZE(type) { #type, "sizeof", sizeof(type) }
#define FIELD(type, field) { #type, #field, offsetof(type, field) }
/* clang-format on */

static const line lines[] = {
    SIZE(heed_error),
    FIELD(heed_error, message),
    SIZE(heed_options),
    FIELD(heed_options, struct_size),
    FIELD(heed_options, isa),
    FIELD(heed_options, exp),
    FIELD(heed_options, num_threads),
    FIELD(heed_options, executor),
    FIELD(heed_options, allocator),
    SIZE(heed_strides),
    FIELD(heed_strides, batch),
    FIELD(heed_strides, head),
    FIELD(heed_strides, seq),
    SIZE(heed_mask_strides),
    FIELD(heed_mask_strides, batch),
    FIELD(heed_mask_strides, head),
    FIELD(heed_mask_strides, query),
    FIELD(heed_mask_strides, key),
    SIZE(heed_attention),
    FIELD(heed_attention, struct_size),
    FIELD(heed_attention, batch),
    FIELD(heed_attention, num_heads),
    FIELD(heed_attention, num_kv_heads),
    FIELD(heed_attention, seq_len_q),
    FIELD(heed_attention, seq_len_kv),
    FIELD(heed_attention, head_dim),
    FIELD(heed_attention, head_dim_v),
    FIELD(heed_attention, scale),
    FIELD(heed_attention, causal),
    FIELD(heed_attention, causal_offset),
    FIELD(heed_attention, layout),
    FIELD(heed_attention, strides_q),
    FIELD(heed_attention, strides_k),
    FIELD(heed_attention, strides_v),
    FIELD(heed_attention, strides_out),
    FIELD(heed_attention, window_left),
    FIELD(heed_attention, window_right),
    FIELD(heed_attention, softcap),
    FIELD(heed_attention, strides_bias),
    FIELD(heed_attention, strides_mask),
    FIELD(heed_attention, block_mask_q),
    FIELD(heed_attention, block_mask_kv),
    FIELD(heed_attention, varlen),
    SIZE(heed_tensors),
    FIELD(heed_tensors, struct_size),
    FIELD(heed_tensors, q),
    FIELD(heed_tensors, k),
    FIELD(heed_tensors, v),
    FIELD(heed_tensors, out),
    FIELD(heed_tensors, lse),
    FIELD(heed_tensors, weights),
    FIELD(heed_tensors, lengths_q),
    FIELD(heed_tensors, lengths_kv),
    FIELD(heed_tensors, bias),
    FIELD(heed_tensors, mask),
    FIELD(heed_tensors, alibi_slopes),
    FIELD(heed_tensors, sinks),
    FIELD(heed_tensors, block_mask),
    FIELD(heed_tensors, offsets_q),
    FIELD(heed_tensors, offsets_kv),
    SIZE(heed_linear_desc),
    FIELD(heed_linear_desc, struct_size),
    FIELD(heed_linear_desc, in_features),
    FIELD(heed_linear_desc, out_features),
    FIELD(heed_linear_desc, weight),
    FIELD(heed_linear_desc, stride_in),
    FIELD(heed_linear_desc, stride_out),
    FIELD(heed_linear_desc, bias),
};

int main(void)
{
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        printf("%s %s %zu\n", lines[i].type, lines[i].field, lines[i].value);
    return 0;
}
