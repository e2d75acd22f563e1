# The attention cases: what each differs in from a plain small problem.
# It may know: the meaning of heed's parameters.
# It must not know: how a case is computed or stored.

CAUSAL = {"none": 0, "bottom_right": 1, "top_left": 2, "offset": 3}  # heed_causal

PLAIN = {  # what every attention case starts from; all of it is written to the file
    "batch": 1,
    "heads": 2,
    "kv_heads": 2,
    "lq": 9,
    "lk": 9,
    "dk": 12,
    "dv": 12,
    "scale": 0.0,  # 0: 1/sqrt(dk)
    "causal": "none",
    "offset": 0,
    "bshd": 0,
    "window_left": -1,
    "window_right": -1,
    "softcap": 0.0,
    "block_q": 0,
    "block_kv": 0,
    "varlen": 0,
    "transposed": 0,  # bias and mask are stored with queries innermost
}

SMALL = dict(lq=6, lk=18, dk=5, dv=3)
GROUPED = dict(heads=4, lq=6, lk=18, dk=8, dv=8, causal="bottom_right")  # ONNX Runtime wants head_dim % 8 == 0
LONG = dict(heads=1, kv_heads=1, lq=4, lk=530, dk=2, dv=1)  # three blocks of keys

# name, differences from PLAIN, and what is not a number:
#   spread, integers, shift   values of q and k
#   lengths_q, lengths_kv     per batch entry; with varlen, the sequences' own lengths
#   weights                   they are stored too
#   bias, mask                the dimensions that are not broadcast, of "bhqk"
#   hidden                    the share of a mask's zeros, or of a bias's -inf
#   row                       a query that the mask or the bias hides from every key
#   slopes, sinks             one value per head
#   blocks                    the share of zeros of the block mask
#   ort                       the ONNX Runtime operator that must give the same: attention (default), gqa, mha, past, nonpad
CASES = [
    ("mha", dict(batch=2, lq=13, lk=13, dk=8, dv=8), dict(weights=True)),
    ("mha_bshd", dict(batch=2, heads=3, kv_heads=3, lq=6, lk=11, dk=12, dv=12, bshd=1), {}),
    ("gqa", dict(heads=8, kv_heads=2, lq=7, lk=19, dk=8, dv=8), dict(weights=True)),
    ("mqa", dict(heads=6, kv_heads=1, lq=5, lk=19, dk=8, dv=8), {}),
    ("gqa_decode", dict(batch=2, heads=8, kv_heads=2, lq=1, lk=33, dk=8, dv=8, causal="bottom_right"), {}),
    ("cross_wide_values", dict(lq=3, lk=13, dk=24, dv=40), {}),
    ("cross_narrow_values", dict(lq=20, lk=4, dk=40, dv=7), {}),
    ("causal_top_left_wide", dict(lq=7, lk=13, causal="top_left"), dict(weights=True)),
    ("causal_top_left_tall", dict(lq=13, lk=7, causal="top_left"), dict(weights=True)),
    ("causal_bottom_right_wide", dict(lq=7, lk=13, causal="bottom_right"), dict(weights=True)),
    ("causal_bottom_right_tall", dict(lq=13, lk=7, causal="bottom_right"), dict(weights=True)),
    ("causal_square_gqa", dict(heads=4, kv_heads=2, lq=24, lk=24, dk=4, dv=6, causal="top_left"), {}),
    ("causal_offset", dict(lq=8, lk=12, causal="offset", offset=2), {}),
    ("causal_offset_negative", dict(lq=8, lk=12, causal="offset", offset=-3), dict(weights=True)),
    ("lengths_kv", dict(batch=4, lq=5, lk=13, dk=8, dv=8), dict(lengths_kv=[13, 6, 1, 0], weights=True)),
    ("lengths_both_causal", dict(batch=3, lq=9, lk=14, dk=8, dv=8, causal="bottom_right"),
        dict(lengths_q=[9, 4, 6], lengths_kv=[14, 11, 3])),
    ("head_dim_1", dict(lq=5, lk=12, dk=1, dv=1), {}),
    ("head_dim_3", dict(lq=5, lk=12, dk=3, dv=3), {}),
    ("head_dim_37", dict(heads=1, kv_heads=1, lq=7, lk=18, dk=37, dv=37), {}),
    ("head_dim_80", dict(heads=1, kv_heads=1, lq=4, lk=9, dk=80, dv=80), {}),
    ("head_dim_128", dict(heads=1, kv_heads=1, lq=3, lk=5, dk=128, dv=128), {}),
    ("many_keys", dict(heads=1, kv_heads=1, lq=3, lk=530, dk=2, dv=2), {}),
    ("many_keys_causal", dict(heads=1, kv_heads=1, lq=5, lk=300, dk=3, dv=3, causal="bottom_right"), {}),
    ("scale", dict(lk=15, scale=0.30000001192092896), {}),
    ("scale_negative", dict(lk=15, scale=-0.5), {}),
    ("large_logits", dict(lk=33), dict(spread=5.0)),
    ("large_logits_exact", dict(lk=33, scale=1.0 / 64), dict(integers=30)),
    ("huge_logits_exact", dict(lk=33, scale=1.0), dict(integers=100)),
    ("far_below_zero", dict(lk=12, scale=1.0), dict(integers=3, shift=-4000.0)),
    # Windows.
    ("window_left", dict(SMALL, lq=18, window_left=4), dict(weights=True)),
    ("window_both", dict(SMALL, window_left=3, window_right=2), {}),
    ("window_both_bshd", dict(SMALL, batch=2, window_left=3, window_right=2, bshd=1), {}),
    ("window_right_tall", dict(lq=13, lk=7, dk=5, dv=3, window_right=1), {}),
    ("window_zero", dict(SMALL, lq=9, lk=9, window_left=0, window_right=0), {}),
    ("window_causal_gqa", dict(GROUPED, window_left=5), dict(weights=True, ort="gqa")),
    ("window_causal_top_left", dict(SMALL, causal="top_left", window_left=2), {}),
    ("window_causal_offset", dict(SMALL, causal="offset", offset=-3, window_left=2), dict(weights=True)),
    ("window_causal_wins", dict(SMALL, causal="bottom_right", window_left=3, window_right=4), {}),
    ("window_lengths", dict(SMALL, batch=3, causal="bottom_right", window_left=2),
        dict(lengths_q=[6, 3, 5], lengths_kv=[18, 11, 2])),
    ("window_many_keys", dict(LONG, causal="bottom_right", window_left=100), {}),
    ("window_many_keys_middle", dict(LONG, lq=3, causal="offset", offset=300, window_left=60), {}),
    # Boolean masks.
    ("mask_full", dict(SMALL, batch=2), dict(mask="bhqk", row=3, weights=True)),
    ("mask_batch_key", dict(SMALL, batch=3), dict(mask="bk")),
    ("mask_query_key_causal", GROUPED, dict(mask="qk", row=2)),
    ("mask_head_query", dict(SMALL, heads=4), dict(mask="hq")),
    ("mask_head", dict(SMALL, heads=4), dict(mask="h", hidden=0.5)),
    ("mask_transposed", dict(SMALL, transposed=1), dict(mask="hqk", row=5)),
    ("mask_many_keys", LONG, dict(mask="qk", hidden=0.97, row=1)),
    ("mask_lengths_window", dict(SMALL, batch=2, window_left=6, window_right=3),
        dict(mask="bqk", lengths_kv=[18, 9])),
    # Biases.
    ("bias_full", dict(SMALL, batch=2), dict(bias="bhqk", weights=True, ort="mha")),
    ("bias_head_query_key", dict(SMALL, batch=2), dict(bias="hqk", ort="mha")),
    ("bias_batch_query_key", dict(SMALL, batch=2), dict(bias="bqk", ort="mha")),
    ("bias_batch_key", dict(SMALL, batch=3), dict(bias="bk")),
    ("bias_query", SMALL, dict(bias="q")),  # moves the lse alone
    ("bias_head", dict(SMALL, heads=4), dict(bias="h")),
    ("bias_transposed", dict(SMALL, transposed=1), dict(bias="bhqk")),
    ("bias_transposed_gqa", dict(GROUPED, transposed=1), dict(bias="qk", ort="gqa")),
    ("bias_hides", dict(SMALL, batch=2), dict(bias="bhqk", hidden=0.3, row=5, weights=True)),
    ("bias_causal_window_mask", dict(GROUPED, window_left=7), dict(bias="hqk", mask="bk", weights=True)),
    ("bias_many_keys", LONG, dict(bias="k", hidden=0.5)),
    ("bias_lengths", dict(SMALL, batch=3), dict(bias="hqk", lengths_kv=[18, 1, 12], ort="mha")),
    # ALiBi.
    ("alibi_causal_gqa", GROUPED, dict(slopes=[0.5, 0.25, 0.125, 0.0625])),
    ("alibi_both_ways", SMALL, dict(slopes=[0.5, -0.375])),  # a key ahead gains what a key behind loses
    ("alibi_top_left_tall", dict(lq=13, lk=7, dk=5, dv=3, causal="top_left"), dict(slopes=[0.25, 2.0])),
    ("alibi_offset", dict(SMALL, causal="offset", offset=5), dict(slopes=[1.0, 0.0])),
    ("alibi_lengths", dict(SMALL, batch=2, causal="bottom_right"),
        dict(slopes=[0.5, 0.25], lengths_q=[6, 4], lengths_kv=[13, 8])),
    ("alibi_many_keys", dict(LONG, causal="bottom_right"), dict(slopes=[0.00390625])),
    # Softcap.
    ("softcap", dict(SMALL, softcap=50.0), dict(spread=4.0, weights=True)),
    ("softcap_saturated", dict(SMALL, softcap=1.0), dict(spread=5.0)),
    ("softcap_small_scores", dict(SMALL, softcap=30.0), dict(spread=0.3)),
    ("softcap_mask_causal", dict(GROUPED, softcap=2.0), dict(spread=3.0, mask="qk")),
    ("softcap_causal_window", dict(GROUPED, softcap=5.0, window_left=6), dict(spread=3.0, ort="gqa")),
    ("softcap_alibi_bias", dict(SMALL, softcap=5.0), dict(spread=3.0, bias="hqk", slopes=[0.5, 0.25])),
    # Sinks.
    ("sinks", SMALL, dict(sinks=[0.5, -1.25], weights=True)),
    ("sinks_causal_gqa", GROUPED, dict(sinks=[0.5, -1.25, 3.0, 0.0], ort="gqa")),
    ("sinks_window", dict(GROUPED, window_left=3), dict(sinks=[1.5, -0.25, 0.125, 2.0], ort="gqa")),
    ("sinks_softcap_bias", dict(GROUPED, softcap=4.0),
        dict(sinks=[1.5, -0.25, 0.125, 2.0], bias="hqk", spread=3.0, ort="gqa")),
    ("sinks_hidden_rows", dict(SMALL, causal="offset", offset=-3), dict(sinks=[0.5, -2.0], weights=True)),
    ("sinks_strong_and_weak", SMALL, dict(sinks=[60.0, -200.0])),
    ("sinks_many_keys", LONG, dict(sinks=[2.0])),
    # Packed sequences.
    ("varlen_causal", dict(SMALL, batch=4, causal="bottom_right", varlen=1, bshd=1),
        dict(lengths_q=[5, 0, 6, 3], lengths_kv=[11, 4, 6, 1])),
    ("varlen_top_left", dict(SMALL, batch=2, heads=4, causal="top_left", varlen=1, bshd=1),
        dict(lengths_q=[6, 4], lengths_kv=[3, 9], weights=True)),
    ("varlen_cross", dict(SMALL, batch=3, varlen=1, bshd=1), dict(lengths_q=[6, 1, 4], lengths_kv=[2, 0, 18])),
    ("varlen_window_gqa", dict(GROUPED, batch=3, varlen=1, bshd=1, window_left=2),
        dict(lengths_q=[6, 2, 5], lengths_kv=[9, 14, 5])),
    ("varlen_everything", dict(GROUPED, batch=2, varlen=1, bshd=1, window_left=6, softcap=6.0),
        dict(lengths_q=[6, 5], lengths_kv=[12, 18], mask="bqk", bias="bhqk", slopes=[0.5, 0.25, 0.125, 1.0],
            sinks=[0.5, -1.0, 0.0, 2.0], weights=True)),
    ("varlen_many_keys", dict(LONG, batch=2, lk=300, causal="bottom_right", varlen=1, bshd=1),
        dict(lengths_q=[4, 2], lengths_kv=[270, 300])),
    # Blocks of keys that blocks of queries skip.
    ("blocks", dict(SMALL, lq=11, block_q=3, block_kv=4), dict(blocks=0.4, weights=True)),
    ("blocks_causal_gqa", dict(GROUPED, block_q=2, block_kv=5), dict(blocks=0.4)),
    ("blocks_many_keys", dict(LONG, block_q=2, block_kv=64), dict(blocks=0.5)),
    # ONNX's own ways to say it: a cache given as past, and padding given as nonpad_kv_seqlen.
    ("onnx_past", dict(SMALL, causal="offset", offset=12), dict(ort="past")),
    ("onnx_nonpad_causal", dict(SMALL, batch=3, causal="bottom_right"), dict(lengths_kv=[18, 9, 4], ort="nonpad")),
    # All of it.
    ("everything", dict(GROUPED, batch=2, window_left=9, window_right=1, softcap=8.0, block_q=3, block_kv=5),
        dict(lengths_q=[6, 5], lengths_kv=[17, 12], mask="hk", bias="bqk", hidden=0.15, blocks=0.2, spread=2.0,
            slopes=[0.5, 0.25, 0.125, 1.0], sinks=[0.5, -1.0, 0.0, 2.0], weights=True)),
]  # fmt: skip
