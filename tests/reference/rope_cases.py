# Rotary position embedding: tables, their application, and attention behind it.
# It may know: PyTorch, transformers, ONNX Runtime, the meaning of heed's parameters.
# It must not know: heed's sources, the file's format.
"""Frequencies are transformers' own (ROPE_INIT_FUNCTIONS), run in f64: its functions say torch.float and torch.float32
where they mean "the usual type", which is f64 while they run here.  They are compared with its f32 answer too."""
import math
from unittest import mock

import numpy as np
import onnx_operators
import torch
from attention_cases import by_definition, error
from attention_table import PLAIN
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as rotate_interleaved
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as rotate_halves

SCALING = {"default": 0, "linear": 1, "llama3": 2, "yarn": 3}  # heed_rope_scaling
PAIRS = {"halves": 1, "interleaved": 2}  # heed_rope_pairs
ROTATE = {"halves": rotate_halves, "interleaved": rotate_interleaved}
KEYS = {  # transformers' names of heed_rope_desc's fields
    "base": "rope_theta",
    "factor": "factor",
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "beta_slow": "beta_slow",
    "beta_fast": "beta_fast",
    "attention_factor": "attention_factor",
    "original": "original_max_position_embeddings",
}
LLAMA3 = dict(rope_type="llama3", low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192)
QWEN = dict(rope_type="yarn", rope_theta=1e6, factor=4.0, original_max_position_embeddings=32768)

# name, dim, first of two positions, transformers' rope_parameters
POSITIONS = 2
TABLES = [
    ("plain", 64, 0, {}),
    ("plain_far", 64, 131070, dict(rope_theta=500000.0)),
    ("plain_odd_dim", 20, 8190, {}),
    ("plain_one_pair", 2, 0, {}),
    ("linear", 32, 4095, dict(rope_type="linear", factor=4.0)),
    ("llama3_8b", 64, 8191, dict(LLAMA3, rope_theta=500000.0, factor=8.0)),
    ("llama3_1b", 64, 131070, dict(LLAMA3, rope_theta=500000.0, factor=32.0)),
    ("yarn_qwen", 128, 32767, QWEN),
    ("yarn_far", 64, 131070, dict(QWEN, rope_theta=150000.0, factor=32.0, original_max_position_embeddings=4096)),
    ("yarn_betas", 48, 500, dict(QWEN, rope_theta=10000.0, beta_fast=16.0, beta_slow=2.0, factor=2.5)),
    ("yarn_attention_factor", 32, 500, dict(QWEN, attention_factor=1.375)),
    ("yarn_deepseek", 64, 163839, dict(QWEN, rope_theta=10000.0, factor=40.0, original_max_position_embeddings=4096,
        mscale=1.0, mscale_all_dim=0.707)),
    ("yarn_factor_1", 16, 3, dict(QWEN, factor=1.0)),
    ("yarn_small", 8, 3, dict(QWEN, rope_theta=100.0, original_max_position_embeddings=16)),
]  # fmt: skip


def wide():
    """torch.float means f64 inside."""
    return mock.patch.multiple(torch, float=torch.float64, float32=torch.float64)


def frequencies(dim, rope):
    """Inverse frequencies in f64 and the factor of the tables."""
    rope = dict(dict(rope_type="default", rope_theta=10000.0), **rope)
    config = LlamaConfig(hidden_size=4 * dim, num_attention_heads=4, head_dim=dim, rope_parameters=rope)
    init = ROPE_INIT_FUNCTIONS.get(rope["rope_type"], LlamaRotaryEmbedding.compute_default_rope_parameters)
    narrow, _ = init(config)
    with wide():
        result, factor = init(config)
    assert result.dtype == torch.float64 and narrow.dtype == torch.float32
    assert ((result - narrow) / result).abs().max() < 3e-6, "transformers disagrees with itself"
    return result, factor


def table(dim, rope, first, positions):
    """Cosines and sines in f64 of shape [positions][dim / 2]."""
    frequency, factor = frequencies(dim, rope)
    angles = torch.arange(first, first + positions, dtype=torch.float64)[:, None] * frequency
    return angles.cos() * factor, angles.sin() * factor


def description(dim, rope):
    """heed_rope_desc as numbers of a case."""
    p = {"dim": dim, "scaling": SCALING[rope.get("rope_type", "default")]}
    p |= {ours: rope.get(theirs, 0) for ours, theirs in KEYS.items()}
    if "mscale" in rope:
        p["attention_factor"] = frequencies(dim, rope)[1]
    return p


def write_tables(writer):
    for name, dim, first, rope in TABLES:
        cosines, sines = table(dim, rope, first, POSITIONS)
        print(f"rope_table {name}")
        parameters = description(dim, rope) | {"first": first, "positions": POSITIONS}
        writer.case("rope_table", name, parameters, {"cosines": cosines, "sines": sines})


def rotate(x, pairs, cosines, sines):
    """x [b][h][s][d] with its first dimensions rotated, by transformers' function of this kind of model."""
    dim = 2 * cosines.shape[-1]
    spread = [torch.cat([c, c], dim=-1) if pairs == "halves" else c.repeat_interleave(2, -1) for c in (cosines, sines)]
    if pairs == "halves":
        rotated = ROTATE[pairs](x[..., :dim], x[..., :dim], *(c[None] for c in spread))[0]
    else:
        with mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
            rotated = ROTATE[pairs](x[..., :dim], x[..., :dim], *(c[None] for c in spread))[0]
    return torch.cat([rotated.to(x.dtype), x[..., dim:]], dim=-1)


def f32_table(dim, positions):
    return tuple(x.float() for x in table(dim, dict(rope_theta=10000.0), 0, positions))


def check_onnx_rotary(x, pairs, cosines, sines, row, want):
    """RotaryEmbedding of com.microsoft takes one start position."""
    arguments = dict(interleaved=int(pairs == "interleaved"))
    if 2 * cosines.shape[-1] != x.shape[-1]:
        arguments |= dict(rotary_embedding_dim=2 * cosines.shape[-1], num_heads=x.shape[1])
    feed = {"q": x, "positions": np.arange(row, row + x.shape[2], dtype="i8")[None].repeat(x.shape[0], 0)}
    got = onnx_operators.run("RotaryEmbedding", feed | {"cos": cosines.numpy(), "sin": sines.numpy()}, **arguments)
    assert (got.double() - want).abs().max() < 1e-6, "ONNX Runtime's RotaryEmbedding disagrees"


def write_rotations(writer):
    for index, (pairs, dim, head_dim) in enumerate(
        (pairs, dim, head_dim) for pairs in PAIRS for dim, head_dim in ((6, 6), (4, 11), (16, 16))
    ):
        rng = np.random.default_rng([2028, index])
        cosines, sines = f32_table(dim, 8)
        x, row = rng.standard_normal((2, 2, 4, head_dim)).astype("<f4"), index % 4
        part = cosines[row : row + 4].double(), sines[row : row + 4].double()
        y = rotate(torch.from_numpy(x).double(), pairs, *part)
        check_onnx_rotary(x, pairs, cosines, sines, row, y)
        p = {"pairs": PAIRS[pairs], "dim": dim, "batch": 2, "heads": 2, "length": 4, "head_dim": head_dim, "row": row}
        writer.case("rope", f"{pairs}_{dim}_of_{head_dim}", p, {"x": x, "cosines": cosines, "sines": sines, "y": y})


def write_attention(writer, index, pairs, changes):
    """Queries are the last lq positions, as when a cache holds the others; rotated, then causal attention."""
    p = PLAIN | dict(heads=4, lq=3, lk=13, dk=16, dv=16, causal="bottom_right") | changes
    rng = np.random.default_rng([2029, index])
    shapes = {"q": (p["heads"], p["lq"]), "k": (p["kv_heads"], p["lk"]), "v": (p["kv_heads"], p["lk"])}
    t = {n: rng.standard_normal((1, *s, p["dk"])).astype("<f4") for n, s in shapes.items()}
    cosines, sines = f32_table(p["dk"], p["lk"])
    past = p["lk"] - p["lq"]
    q, k, v = (torch.from_numpy(t[n]).double() for n in "qkv")
    q = rotate(q, pairs, cosines[past:].double(), sines[past:].double())
    k = rotate(k, pairs, cosines.double(), sines.double())
    i, j = torch.meshgrid(torch.arange(p["lq"]), torch.arange(p["lk"]), indexing="ij")
    seen = ((j <= i + past) & ((p["window_left"] < 0) | (j >= i + past - p["window_left"])))[None, None]
    out, lse, _ = by_definition(q, k, v, p, {}, seen, torch.zeros(1, 1, p["lq"], p["lk"], dtype=torch.float64))
    rotary = t | {"cos": cosines.numpy(), "sin": sines.numpy(), "interleaved": pairs == "interleaved"}
    by_ort = onnx_operators.group_query(p, {"k": k.float().numpy(), "v": t["v"]}, rotary)
    off = error(by_ort, out, t["v"])
    products = q.abs() @ k.abs().repeat_interleave(p["heads"] // p["kv_heads"], 1).transpose(2, 3) / math.sqrt(p["dk"])
    magnitude = products.masked_fill(~seen, 0.0).max().item()
    assert off < 1e-6 * (6 + magnitude), "ONNX Runtime's GroupQueryAttention disagrees"
    name = f"{pairs}{'_window' if p['window_left'] >= 0 else ''}"
    print(f"rope_attention {name:21} magnitude {magnitude:9.2f}                     onnxruntime f32 {off:.1e}")
    parameters = p | {"causal": 1, "pairs": PAIRS[pairs], "magnitude": magnitude, "onnxruntime_f32": f"{off:.2e}"}
    tensors = t | {"cosines": cosines, "sines": sines, "out": out, "lse": lse}
    writer.case("rope_attention", name, parameters, tensors)


def write(writer):
    write_tables(writer)
    write_rotations(writer)
    write_attention(writer, 0, "halves", {})
    write_attention(writer, 1, "interleaved", {})
    write_attention(writer, 2, "halves", dict(window_left=6))
