# Whole attention layers: torch.nn.MultiheadAttention and the layers of models in transformers, in f64.
# It may know: PyTorch, transformers, the meaning of heed's parameters.
# It must not know: heed's sources, the file's format.
import math

import numpy as np
import rope_cases
import torch
import torch.nn.functional as F
from attention_table import CAUSAL
from transformers import CohereConfig, Gemma2Config, GPTJConfig, LlamaConfig, MistralConfig, Qwen2Config, T5Config
from transformers.models.cohere.modeling_cohere import CohereAttention
from transformers.models.gemma2.modeling_gemma2 import Gemma2Attention
from transformers.models.gptj.modeling_gptj import GPTJAttention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.mistral.modeling_mistral import MistralAttention
from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention
from transformers.models.t5.modeling_t5 import T5Attention

PLAIN = {  # what every layer case starts from; all of it is written to the file
    "batch": 1,
    "length": 8,
    "width": 16,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 4,
    "scale": 0.0,
    "causal": "none",
    "window_left": -1,
    "softcap": 0.0,
    "pairs": 0,  # heed_rope_pairs
    "first": 0,  # position of the first row
}


def magnitude(t, heads, kv_heads):
    """The largest sum of absolute products on the way to one element of y, taking every weight for 1."""
    x, wv, wo = (torch.from_numpy(t[n]).double().abs() for n in ("x", "wv", "wo"))
    values = F.linear(x, wv, torch.from_numpy(t["bv"]).double().abs() if "bv" in t else None).max()
    return (wo.sum(dim=1).max() * values).item()


def weights_of(rng, p, biases):
    q, kv, width = p["heads"] * p["head_dim"], p["kv_heads"] * p["head_dim"], p["width"]
    t = {"x": rng.standard_normal((p["batch"], p["length"], width)).astype("<f4")}
    for name, rows, cols in (("q", q, width), ("k", kv, width), ("v", kv, width), ("o", width, q)):
        t["w" + name] = (rng.standard_normal((rows, cols)) / math.sqrt(cols)).astype("<f4")
        if name in biases:
            t["b" + name] = (rng.standard_normal(rows) * 0.2).astype("<f4")
    return t


# ---- torch.nn.MultiheadAttention -------------------------------------------------------------------------------------


def write_multihead(writer, index, name, batch, length, width, heads, causal=False, lengths=None):
    p = PLAIN | dict(batch=batch, length=length, width=width, heads=heads, kv_heads=heads, head_dim=width // heads)
    p["causal"] = "top_left" if causal else "none"
    rng = np.random.default_rng([2027, index])
    module = torch.nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64).eval()
    t = weights_of(rng, p, "qkvo")
    x = torch.from_numpy(t["x"]).double()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.from_numpy(np.concatenate([t["w" + n] for n in "qkv"])))
        module.in_proj_bias.copy_(torch.from_numpy(np.concatenate([t["b" + n] for n in "qkv"])))
        module.out_proj.weight.copy_(torch.from_numpy(t["wo"]))
        module.out_proj.bias.copy_(torch.from_numpy(t["bo"]))
        mask = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
        padding = None if lengths is None else torch.arange(length)[None] >= torch.tensor(lengths)[:, None]
        y, weights = module(x, x, x, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False)
    # torch computes the padding's queries too; they mean nothing, heed answers the bias and no weights.
    for b, end in enumerate(lengths or []):
        y[b, end:], weights[b, :, end:] = module.out_proj.bias.detach(), 0.0
    t |= {"y": y, "weights": weights}
    if lengths is not None:
        t["lengths"] = np.array(lengths, "<i4")
    store(writer, name, p, {}, t)


# ---- Models of transformers ------------------------------------------------------------------------------------------


def config_of(kind, p, rope, **more):
    arguments = dict(hidden_size=p["width"], num_attention_heads=p["heads"], num_key_value_heads=p["kv_heads"])
    if rope:
        arguments["rope_parameters"] = dict(dict(rope_type="default", rope_theta=10000.0), **rope)
    return kind(**arguments, head_dim=p["head_dim"], num_hidden_layers=1, attn_implementation="eager", **more)


def llama(p, rope):
    return LlamaAttention(config_of(LlamaConfig, p, rope), 0)


def qwen2(p, rope):
    return Qwen2Attention(config_of(Qwen2Config, p, rope), 0)


def mistral(p, rope):
    return MistralAttention(config_of(MistralConfig, p, rope, sliding_window=p["window_left"] + 1), 0)


def gemma2(p, rope):
    more = dict(query_pre_attn_scalar=round(p["scale"] ** -2), attn_logit_softcapping=p["softcap"])
    more |= dict(sliding_window=p["window_left"] + 1, layer_types=["sliding_attention"], attention_bias=False)
    return Gemma2Attention(config_of(Gemma2Config, p, rope, **more), 0)


def cohere(p, rope):
    return CohereAttention(config_of(CohereConfig, p, rope), 0)


def gptj(p, rope):
    config = GPTJConfig(n_embd=p["width"], n_head=p["heads"], rotary_dim=4, n_positions=64, attn_implementation="eager")
    return GPTJAttention(config, 0)


def t5(p, rope):
    arguments = dict(d_model=p["width"], d_kv=p["head_dim"], num_heads=p["heads"], relative_attention_num_buckets=8)
    config = T5Config(**arguments, relative_attention_max_distance=6, attn_implementation="eager")
    return T5Attention(config, has_relative_attention_bias=True)


LLAMA3 = dict(rope_cases.LLAMA3, factor=8.0, rope_theta=100.0, original_max_position_embeddings=32)
YARN = dict(rope_cases.QWEN, rope_theta=1000.0, original_max_position_embeddings=64)
SCALE = 0.25  # a power of two: Gemma's query_pre_attn_scalar is its inverse square

# name, maker, differences from PLAIN, projections with biases, transformers' rope_parameters, rotated elements
MODELS = [
    ("llama", llama, dict(batch=2, length=6, causal="top_left", pairs=1), "", LLAMA3, 4),
    ("llama_chunk", llama, dict(causal="top_left", pairs=1, first=4000), "", dict(rope_theta=500000.0), 4),
    ("qwen2", qwen2, dict(causal="top_left", pairs=1, heads=6, kv_heads=1), "qkv", YARN, 4),
    ("mistral", mistral, dict(causal="top_left", pairs=1, window_left=3), "", dict(rope_theta=10000.0), 4),
    ("gemma2", gemma2, dict(causal="top_left", pairs=1, window_left=4, softcap=1.5, scale=SCALE), "",
        dict(rope_theta=10000.0), 4),
    ("cohere", cohere, dict(causal="top_left", pairs=2), "", dict(rope_theta=10000.0), 4),
    ("gptj", gptj, dict(causal="top_left", pairs=2, width=24, head_dim=6, kv_heads=4), "", dict(rope_theta=10000.0), 4),
    ("t5", t5, dict(kv_heads=4, scale=1.0), "", {}, 0),
]  # fmt: skip


def projections(module):
    """The four matrices in the order q, k, v, o, whatever the model calls them."""
    names = ("q_proj", "k_proj", "v_proj"), ("q", "k", "v")
    first = names[0] if hasattr(module, "q_proj") else names[1]
    last = next(n for n in ("o_proj", "out_proj", "o") if hasattr(module, n))
    return [getattr(module, n) for n in (*first, last)]


def set_weights(module, t):
    with torch.no_grad():
        for name, linear in zip("qkvo", projections(module)):
            linear.weight.copy_(torch.from_numpy(t["w" + name]))
            assert (linear.bias is not None) == ("b" + name in t), f"b{name}"
            if linear.bias is not None:
                linear.bias.copy_(torch.from_numpy(t["b" + name]))


def position_tables(p, rope, dim):
    """What each kind of model wants as position_embeddings, in f64."""
    cosines, sines = rope_cases.table(dim, rope, p["first"], p["length"])
    if p["pairs"] == 1:
        return tuple(torch.cat([x, x], dim=-1)[None] for x in (cosines, sines))
    return tuple(x.repeat_interleave(2, -1)[None] for x in (cosines, sines))


def hidden_mask(p):
    i, j = torch.meshgrid(torch.arange(p["length"]), torch.arange(p["length"]), indexing="ij")
    seen = j <= i if p["causal"] == "top_left" else torch.ones_like(i, dtype=torch.bool)
    if p["window_left"] >= 0:
        seen = seen & (j >= i - p["window_left"])
    return torch.zeros(p["length"], p["length"], dtype=torch.float64).masked_fill(~seen, -math.inf)[None, None]


def run_model(module, maker, p, rope, dim, x):
    """y and weights of the layer, softmax included in f64."""
    mask = hidden_mask(p).expand(p["batch"], 1, -1, -1)
    with torch.no_grad(), rope_cases.wide(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        if maker is t5:
            y, bias, weights = module(x)
            return y, weights, bias
        tables = position_tables(p, rope, dim)
        if maker is gptj:  # takes the sines first, and tables without the repetition
            tables = tuple(t[..., ::2] for t in reversed(tables))
        with rope_cases.mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
            y, weights = module(x, position_embeddings=tables, attention_mask=mask)[:2]
    return y, weights, None


def write_model(writer, index, name, maker, changes, biases, rope, dim):
    p = PLAIN | changes
    rng = np.random.default_rng([2030, index])
    t = weights_of(rng, p, biases)
    module = maker(p, rope).double().eval()
    set_weights(module, t)
    if maker is t5:
        with torch.no_grad():
            module.relative_attention_bias.weight.copy_(torch.from_numpy(rng.standard_normal((8, 4)).astype("<f4")))
    y, weights, bias = run_model(module, maker, p, rope, dim, torch.from_numpy(t["x"]).double())
    assert y.dtype == torch.float64 and (weights.sum(dim=-1) - 1).abs().max() < 1e-14, f"{name}: not all in f64"
    t |= {"y": y, "weights": weights} if name in ("llama", "gemma2", "t5") else {"y": y}
    if bias is not None:
        t["bias"] = bias[0].float()
    store(writer, name, p, rope_cases.description(dim, rope) if p["pairs"] else {}, t)


def store(writer, name, p, rope, t):
    size = magnitude(t, p["heads"], p["kv_heads"])
    print(f"layer {name:30} magnitude {size:9.2f}")
    writer.case("layer", name, p | rope | {"causal": CAUSAL[p["causal"]], "magnitude": size}, t)


def write(writer):
    write_multihead(writer, 0, "layer", 1, 11, 24, 4)
    write_multihead(writer, 1, "layer_lengths", 3, 7, 20, 2, lengths=[7, 3, 5])
    write_multihead(writer, 2, "layer_causal", 2, 9, 21, 3, causal=True)
    for index, model in enumerate(MODELS):
        write_model(writer, index, *model)
