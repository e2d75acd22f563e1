#!/usr/bin/env python3
# Makes tests/reference/cases.bin: inputs and what PyTorch answers to them in f64.
# It may know: PyTorch, ONNX Runtime, the meaning of heed's parameters.
# It must not know: heed's sources.  Nothing here is needed to build, test or use heed.
"""Writes cases.bin and prints, for each case, how far f32 PyTorch and f32 ONNX Runtime are from f64 PyTorch.

Requirements: torch, numpy, onnx, onnxruntime (their versions stand in the second line of cases.bin).

    python3 tests/reference/generate.py [--out tests/reference/cases.bin]

The file is text lines, each tensor line followed by that tensor's little-endian values:

    heed-reference 1
    versions torch ... numpy ... onnxruntime ...
    case KIND NAME key=value ...
    tensor NAME f32|f64|i32 NDIM d0 d1 ...
    <values>
    end

Every case carries `magnitude`, the largest |scale| * sum_d |q_d k_d| of a visible pair: what the rounding of a score in
f32 is proportional to; 0 where all scores are exact in f32.
"""
import argparse
import math
import pathlib

import numpy as np
import onnx
import onnxruntime
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

CAUSAL = {"none": 0, "bottom_right": 1, "top_left": 2, "offset": 3}  # heed_causal
DTYPES = {np.dtype("<f4"): "f32", np.dtype("<f8"): "f64", np.dtype("<i4"): "i32"}


class Writer:
    def __init__(self, file):
        self.file = file
        versions = f"torch {torch.__version__} numpy {np.__version__} onnxruntime {onnxruntime.__version__}"
        self.line("heed-reference 1")
        self.line("versions " + versions)

    def line(self, text):
        self.file.write(text.encode("ascii") + b"\n")

    def case(self, kind, name, parameters, tensors):
        self.line(f"case {kind} {name} " + " ".join(f"{key}={value}" for key, value in parameters.items()))
        for key, tensor in tensors.items():
            array = np.ascontiguousarray(tensor.detach().numpy() if torch.is_tensor(tensor) else tensor)
            array = array.astype(array.dtype.newbyteorder("<"))
            shape = " ".join(str(size) for size in array.shape)
            self.line(f"tensor {key} {DTYPES[array.dtype]} {array.ndim} {shape}")
            self.file.write(array.tobytes() + b"\n")
        self.line("end")


# ---- Attention -------------------------------------------------------------------------------------------------------

ATTENTION = {  # what every attention case starts from
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
}


def attention_cases():
    """name, differences from ATTENTION, and what is not a number: values, lengths, whether weights are stored."""
    return [
        ("mha", dict(batch=2, lq=17, lk=17, dk=8, dv=8), dict(weights=True)),
        ("mha_bshd", dict(batch=2, heads=3, kv_heads=3, lq=6, lk=11, dk=12, dv=12, bshd=1), {}),
        ("gqa", dict(heads=8, kv_heads=2, lq=7, lk=19, dk=8, dv=8), dict(weights=True)),
        ("mqa", dict(heads=6, kv_heads=1, lq=5, lk=19, dk=8, dv=8), {}),
        ("gqa_decode", dict(batch=2, heads=8, kv_heads=2, lq=1, lk=33, dk=12, dv=12, causal="bottom_right"), {}),
        ("cross_wide_values", dict(lq=3, lk=31, dk=24, dv=40), {}),
        ("cross_narrow_values", dict(lq=20, lk=4, dk=40, dv=7), {}),
        ("causal_top_left_wide", dict(lq=7, lk=13, causal="top_left"), dict(weights=True)),
        ("causal_top_left_tall", dict(lq=13, lk=7, causal="top_left"), dict(weights=True)),
        ("causal_bottom_right_wide", dict(lq=7, lk=13, causal="bottom_right"), dict(weights=True)),
        ("causal_bottom_right_tall", dict(lq=13, lk=7, causal="bottom_right"), dict(weights=True)),
        ("causal_square_gqa", dict(heads=4, kv_heads=2, lq=40, lk=40, dk=4, dv=6, causal="top_left"), {}),
        ("causal_offset", dict(lq=8, lk=12, causal="offset", offset=2), {}),
        ("causal_offset_negative", dict(lq=8, lk=12, causal="offset", offset=-3), dict(weights=True)),
        ("lengths_kv", dict(batch=4, lq=5, lk=13, dk=8, dv=8), dict(lengths_kv=[13, 6, 1, 0], weights=True)),
        ("lengths_both_causal", dict(batch=3, lq=9, lk=14, dk=8, dv=8, causal="bottom_right"),
            dict(lengths_q=[9, 4, 6], lengths_kv=[14, 11, 3])),
        ("head_dim_1", dict(lq=5, lk=12, dk=1, dv=1), {}),
        ("head_dim_3", dict(lq=5, lk=12, dk=3, dv=3), {}),
        ("head_dim_37", dict(heads=1, kv_heads=1, lq=7, lk=18, dk=37, dv=37), {}),
        ("head_dim_80", dict(heads=1, kv_heads=1, lq=7, lk=15, dk=80, dv=80), {}),
        ("head_dim_128", dict(heads=1, kv_heads=1, lq=3, lk=17, dk=128, dv=128), {}),
        ("many_keys", dict(heads=1, kv_heads=1, lq=3, lk=530, dk=4, dv=4), {}),
        ("many_keys_causal", dict(heads=1, kv_heads=1, lq=5, lk=300, dk=4, dv=4, causal="bottom_right"), {}),
        ("scale", dict(lk=15, scale=float(np.float32(0.3))), {}),
        ("scale_negative", dict(lk=15, scale=-0.5), {}),
        ("large_logits", dict(lk=33), dict(spread=5.0)),
        ("large_logits_exact", dict(lk=33, scale=1.0 / 64), dict(integers=30)),
        ("huge_logits_exact", dict(lk=33, scale=1.0), dict(integers=100)),
        ("far_below_zero", dict(lk=12, scale=1.0), dict(integers=3, shift=-4000.0)),
    ]  # fmt: skip


def visible(p, lengths_q, lengths_kv):
    """Boolean [batch, 1, lq, lk]; queries beyond their length see nothing."""
    mask = torch.zeros(p["batch"], 1, p["lq"], p["lk"], dtype=torch.bool)
    i, j = torch.meshgrid(torch.arange(p["lq"]), torch.arange(p["lk"]), indexing="ij")
    for b in range(p["batch"]):
        lq = p["lq"] if lengths_q is None else lengths_q[b]
        lk = p["lk"] if lengths_kv is None else lengths_kv[b]
        offset = {"none": p["lk"], "top_left": 0, "bottom_right": lk - lq, "offset": p["offset"]}[p["causal"]]
        mask[b, 0] = (i < lq) & (j < lk) & (j <= i + offset)
    return mask


def attention_inputs(rng, p, spread=1.0, integers=0, shift=0.0):
    shapes = {
        "q": (p["batch"], p["heads"], p["lq"], p["dk"]),
        "k": (p["batch"], p["kv_heads"], p["lk"], p["dk"]),
        "v": (p["batch"], p["kv_heads"], p["lk"], p["dv"]),
    }
    if not integers:
        return {n: (rng.standard_normal(s) * (1 if n == "v" else spread)).astype("<f4") for n, s in shapes.items()}
    # Integers: every product and sum is exact in f32, so are scores times a power of two.
    tensors = {n: rng.integers(-integers, integers + 1, s).astype("<f4") for n, s in shapes.items()}
    tensors["v"] = rng.standard_normal(shapes["v"]).astype("<f4")
    if shift:  # one more dimension's worth of the same amount in every score
        tensors["q"][..., 0], tensors["k"][..., 0] = 1, shift
    return tensors


def scaled_dot_product(q, k, v, p, mask):
    """torch's own operator; its own is_causal where that is what the case means."""
    own = p["causal"] == "top_left"
    arguments = dict(enable_gqa=p["heads"] != p["kv_heads"], scale=p["scale"] or None)
    with sdpa_kernel(SDPBackend.MATH):  # the plain three steps, not a fused kernel
        if own:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, **arguments)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask.all() else mask, **arguments)


def onnxruntime_attention(t, p, mask):
    """ONNX's Attention operator (opset 23) with the mask spelled out; f32.  It refuses a negative scale: -q has it."""
    helper, proto = onnx.helper, onnx.TensorProto
    scale = p["scale"] or 1 / math.sqrt(p["dk"])
    t = t | {"q": t["q"] * np.float32(math.copysign(1.0, scale))}
    node = helper.make_node("Attention", ["q", "k", "v", "m"], ["y"], scale=abs(scale))
    inputs = [helper.make_tensor_value_info(n, proto.FLOAT, t[n].shape) for n in "qkv"]
    inputs.append(helper.make_tensor_value_info("m", proto.BOOL, mask.shape))
    outputs = [helper.make_tensor_value_info("y", proto.FLOAT, t["q"].shape[:3] + t["v"].shape[3:])]
    graph = helper.make_graph([node], "attention", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feed = {n: np.ascontiguousarray(t[n], dtype=np.float32) for n in "qkv"}
    return torch.from_numpy(session.run(None, feed | {"m": mask.numpy()})[0])


def reference_attention(t, p, mask):
    """out, lse, weights in f64, and the case's magnitude."""
    q, k, v = (torch.from_numpy(t[n]).double() for n in "qkv")
    kx, vx = (x.repeat_interleave(p["heads"] // p["kv_heads"], dim=1) for x in (k, v))
    scale = p["scale"] or 1 / math.sqrt(p["dk"])
    scores = (scale * (q @ kx.transpose(2, 3))).masked_fill(~mask, -math.inf)
    weights = torch.softmax(scores, dim=-1).masked_fill(~mask, 0.0)  # a row of nothing but -inf is NaN in torch
    magnitude = (abs(scale) * (q.abs() @ kx.abs().transpose(2, 3))).masked_fill(~mask, 0.0).max().item()
    out = scaled_dot_product(q, k, v, p, mask)
    # The operator and the three steps must mean the same: a row that sees no key is 0 in both.
    assert (out - weights @ vx).abs().max() < 1e-12, "torch's operator disagrees with softmax(scores) v"
    return out, torch.logsumexp(scores, dim=-1), weights, magnitude


def error(got, out, v):
    return ((got.double() - out).abs().max() / np.abs(v).max()).item()


def write_attention(writer, index, name, changes, extra):
    p = ATTENTION | changes
    lengths = {n: extra[n] for n in ("lengths_q", "lengths_kv") if n in extra}
    values = {n: extra[n] for n in ("spread", "integers", "shift") if n in extra}
    t = attention_inputs(np.random.default_rng([2024, index]), p, **values)
    mask = visible(p, lengths.get("lengths_q"), lengths.get("lengths_kv"))
    out, lse, weights, magnitude = reference_attention(t, p, mask)
    q, k, v = (torch.from_numpy(t[n]) for n in "qkv")
    by_torch = error(scaled_dot_product(q, k, v, p, mask), out, t["v"])
    by_ort = error(onnxruntime_attention(t, p, mask), out, t["v"])
    print(f"attention {name:26} magnitude {magnitude:9.2f}  torch f32 {by_torch:.1e}  onnxruntime f32 {by_ort:.1e}")

    order = (0, 2, 1, 3) if p["bshd"] else (0, 1, 2, 3)
    tensors = {n: t[n].transpose(order) for n in "qkv"} | {"out": out.permute(order), "lse": lse}
    tensors |= {n: np.array(l, "<i4") for n, l in lengths.items()}
    if extra.get("weights"):
        tensors["weights"] = weights
    parameters = p | {"causal": CAUSAL[p["causal"]], "magnitude": 0.0 if "integers" in extra else magnitude}
    parameters |= {"torch_f32": f"{by_torch:.2e}", "onnxruntime_f32": f"{by_ort:.2e}"}
    writer.case("attention", name, parameters, tensors)


# ---- Softmax, linear, layer ------------------------------------------------------------------------------------------


def write_softmax(writer, index, name, rows, cols, spread, lengths=None, hide=0.0):
    rng = np.random.default_rng([2025, index])
    x = (rng.standard_normal((rows, cols)) * spread).astype("<f4")
    x[rng.random(x.shape) < hide] = -np.inf
    x[:, 0] = 1.0  # no row of nothing but -inf: torch answers NaN, heed 0
    truth = np.zeros(x.shape)
    for r in range(rows):
        end = cols if lengths is None else lengths[r]
        truth[r, :end] = torch.softmax(torch.from_numpy(x[r, :end]).double(), dim=0).numpy()
    tensors = {"x": x, "y": truth}
    if lengths is not None:
        tensors["lengths"] = np.array(lengths, "<i4")
    writer.case("softmax", name, {"rows": rows, "cols": cols}, tensors)


def write_linear(writer, index, name, m, k, n, bias):
    rng = np.random.default_rng([2026, index])
    tensors = {"x": rng.standard_normal((m, k)).astype("<f4"), "w": rng.standard_normal((n, k)).astype("<f4")}
    if bias:
        tensors["b"] = rng.standard_normal(n).astype("<f4")
    x, w = (torch.from_numpy(tensors[t]).double() for t in "xw")
    b = torch.from_numpy(tensors["b"]).double() if bias else None
    magnitude = F.linear(x.abs(), w.abs(), b.abs() if bias else None).max().item()
    writer.case("linear", name, {"m": m, "k": k, "n": n, "magnitude": magnitude}, tensors | {"y": F.linear(x, w, b)})


def write_layer(writer, index, name, batch, length, width, heads, causal=False, lengths=None):
    """torch.nn.MultiheadAttention with weights of a trained layer's size."""
    rng = np.random.default_rng([2027, index])
    module = torch.nn.MultiheadAttention(width, heads, batch_first=True, dtype=torch.float64).eval()
    t = {"x": rng.standard_normal((batch, length, width)).astype("<f4")}
    for p in "qkvo":
        t["w" + p] = (rng.standard_normal((width, width)) / math.sqrt(width)).astype("<f4")
        t["b" + p] = (rng.standard_normal(width) * 0.2).astype("<f4")
    x = torch.from_numpy(t["x"]).double()
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.from_numpy(np.concatenate([t["w" + p] for p in "qkv"])))
        module.in_proj_bias.copy_(torch.from_numpy(np.concatenate([t["b" + p] for p in "qkv"])))
        module.out_proj.weight.copy_(torch.from_numpy(t["wo"]))
        module.out_proj.bias.copy_(torch.from_numpy(t["bo"]))
        mask = torch.ones(length, length, dtype=torch.bool).triu(1) if causal else None
        padding = None if lengths is None else torch.arange(length)[None] >= torch.tensor(lengths)[:, None]
        y, weights = module(x, x, x, key_padding_mask=padding, attn_mask=mask, average_attn_weights=False)
    # torch computes the padding's queries too; they mean nothing, heed answers the bias and no weights.
    for b, end in enumerate(lengths or []):
        y[b, end:], weights[b, :, end:] = module.out_proj.bias.detach(), 0.0
    # The largest sum of absolute products on the way to one element of y, taking every weight for 1.
    values = F.linear(x.abs(), torch.from_numpy(t["wv"]).double().abs(), torch.from_numpy(t["bv"]).double().abs()).max()
    magnitude = (np.abs(t["wo"]).sum(axis=1).max() * values).item()
    parameters = {"batch": batch, "length": length, "width": width, "heads": heads, "magnitude": magnitude}
    parameters["causal"] = CAUSAL["top_left" if causal else "none"]
    t |= {"y": y, "weights": weights}
    if lengths is not None:
        t["lengths"] = np.array(lengths, "<i4")
    writer.case("layer", name, parameters, t)


def main():
    parser = argparse.ArgumentParser(description="Makes the reference values of heed's tests.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "cases.bin")
    path = parser.parse_args().out
    with open(path, "wb") as file:
        writer = Writer(file)
        for index, (name, changes, extra) in enumerate(attention_cases()):
            write_attention(writer, index, name, changes, extra)
        write_softmax(writer, 0, "softmax", 9, 37, 3.0)
        write_softmax(writer, 1, "softmax_lengths", 8, 20, 3.0, lengths=[1, 2, 7, 8, 9, 16, 17, 20])
        write_softmax(writer, 2, "softmax_hidden", 6, 33, 10.0, hide=0.4)
        write_softmax(writer, 3, "softmax_long", 1, 600, 1.0)
        write_linear(writer, 0, "linear", 7, 37, 21, bias=True)
        write_linear(writer, 1, "linear_no_bias", 13, 64, 9, bias=False)
        write_linear(writer, 2, "linear_one_row", 1, 100, 25, bias=True)
        write_layer(writer, 0, "layer", 1, 11, 24, 4)
        write_layer(writer, 1, "layer_lengths", 3, 7, 20, 2, lengths=[7, 3, 5])
        write_layer(writer, 2, "layer_causal", 2, 9, 21, 3, causal=True)
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
