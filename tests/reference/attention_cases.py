# The attention cases' inputs and what PyTorch answers to them in f64, one sequence pair at a time.
# It may know: PyTorch, the meaning of heed's parameters.
# It must not know: heed's sources, the file's format.
"""Every answer is computed here by hand from the definition, and again by what others made of it: torch's own
scaled_dot_product_attention, flex_attention, the attention of GPT-OSS in transformers (sinks), ONNX Runtime's operators.
They must agree, or nothing is written."""
import math

import numpy as np
import onnx_operators
import torch
import torch.nn.functional as F
from attention_table import CAUSAL, PLAIN
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward as gpt_oss_attention


def broadcast_shape(letters, p):
    return tuple(p[key] if letter in letters else 1 for letter, key in zip("bhqk", ("batch", "heads", "lq", "lk")))


def values(rng, p, spread=1.0, integers=0, shift=0.0):
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


def inputs(rng, p, extra):
    """q, k, v and what the case has of bias, mask, block_mask, slopes, sinks; mask and bias as [b][h][q][k]."""
    t = values(rng, p, **{n: extra[n] for n in ("spread", "integers", "shift") if n in extra})
    hide = extra.get("hidden", 0.3)
    if "mask" in extra:
        t["mask"] = (rng.random(broadcast_shape(extra["mask"], p)) >= hide).astype("u1")
        if "row" in extra:
            t["mask"][:, :, extra["row"]] = 0
    if "bias" in extra:
        t["bias"] = rng.standard_normal(broadcast_shape(extra["bias"], p)).astype("<f4")
        if "hidden" in extra:
            t["bias"][rng.random(t["bias"].shape) < hide] = -np.inf
        if "row" in extra and "mask" not in extra:
            t["bias"][:, :, extra["row"]] = -np.inf
    if "blocks" in extra:
        shape = -(-p["lq"] // p["block_q"]), -(-p["lk"] // p["block_kv"])
        t["block_mask"] = (rng.random(shape) >= extra["blocks"]).astype("u1")
    for name in ("slopes", "sinks"):
        if name in extra:
            t[name] = np.array(extra[name], "<f4")
    return t


def sequences(p, extra):
    """(queries, keys) of each batch entry."""
    lq = extra.get("lengths_q", [p["lq"]] * p["batch"])
    lk = extra.get("lengths_kv", [p["lk"]] * p["batch"])
    return list(zip(lq, lk))


def rules(p, t, lengths):
    """What keys every query sees, and what is added to its scores: [batch][heads][lq][lk] of bool and f64."""
    size = p["batch"], p["heads"], p["lq"], p["lk"]
    i, j = torch.meshgrid(torch.arange(p["lq"]), torch.arange(p["lk"]), indexing="ij")
    seen, added = torch.zeros(size, dtype=torch.bool), torch.zeros(size, dtype=torch.float64)
    for b, (lq, lk) in enumerate(lengths):
        offset = {"top_left": 0, "offset": p["offset"]}.get(p["causal"], lk - lq)
        position = i + offset
        seen[b] = (i < lq) & (j < lk)
        if p["causal"] != "none":
            seen[b] &= j <= position
        if p["window_left"] >= 0:
            seen[b] &= j >= position - p["window_left"]
        if p["window_right"] >= 0:
            seen[b] &= j <= position + p["window_right"]
        if "slopes" in t:
            added[b] += torch.from_numpy(t["slopes"]).double()[:, None, None] * (j - position)
    if "block_mask" in t:
        blocks = torch.from_numpy(t["block_mask"]).bool()
        seen &= blocks.repeat_interleave(p["block_q"], 0).repeat_interleave(p["block_kv"], 1)[: p["lq"], : p["lk"]]
    if "mask" in t:
        seen &= torch.from_numpy(t["mask"]).bool()
    if "bias" in t:
        seen &= torch.from_numpy(t["bias"]) != -math.inf
        added = added + torch.from_numpy(t["bias"]).double()
    return seen, added.masked_fill(~seen, 0.0)


def by_definition(q, k, v, p, t, seen, added):
    """out, lse, weights in the type of q."""
    group = p["heads"] // p["kv_heads"]
    kx, vx = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    scores = (p["scale"] or 1 / math.sqrt(p["dk"])) * (q @ kx.transpose(2, 3))
    if p["softcap"]:
        scores = p["softcap"] * torch.tanh(scores / p["softcap"])
    scores = (scores + added.to(q.dtype)).masked_fill(~seen, -math.inf)
    keys = scores.shape[-1]
    if "sinks" in t:  # one more key, which every row sees, without a value
        sinks = torch.from_numpy(t["sinks"]).to(q.dtype)[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, sinks], dim=-1)
    weights = torch.softmax(scores, dim=-1)[..., :keys].masked_fill(~seen, 0.0)  # rows of -inf alone are NaN in torch
    return weights @ vx, torch.logsumexp(scores, dim=-1), weights


def by_torch_operator(q, k, v, p, seen, added):
    """torch's own operator; its own is_causal where that is all that the case hides."""
    arguments = dict(enable_gqa=p["heads"] != p["kv_heads"], scale=p["scale"] or None)
    size = q.shape[2], k.shape[2]
    plain = not added.any()
    with sdpa_kernel(SDPBackend.MATH):  # the plain three steps, not a fused kernel
        if plain and p["causal"] == "top_left" and (seen == torch.ones(size, dtype=torch.bool).tril()).all():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True, **arguments)
        mask = seen if plain else added.to(q.dtype).masked_fill(~seen, -math.inf)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None if seen.all() and plain else mask, **arguments)


def by_flex_attention(q, k, v, p, seen, added):
    """out and lse; flex_attention runs its own formula, uncompiled, in f64."""

    def score(s, b, h, i, j):
        s = p["softcap"] * torch.tanh(s / p["softcap"]) if p["softcap"] else s
        return s + added[b, h, i, j]

    torch._dynamo.reset()  # every case is one of its own to it
    mask = create_block_mask(lambda b, h, i, j: seen[b, h, i, j], *q.shape[:3], k.shape[2], device="cpu")
    arguments = dict(enable_gqa=p["heads"] != p["kv_heads"], scale=p["scale"] or None, return_lse=True)
    return flex_attention(q, k, v, score_mod=score, block_mask=mask, **arguments)


class SinkModule(torch.nn.Module):
    def __init__(self, p, t):
        super().__init__()
        self.num_key_value_groups = p["heads"] // p["kv_heads"]
        self.sinks = torch.from_numpy(t["sinks"]).double()


def check_others(q, k, v, p, t, seen, added, out, lse):
    """The same answer from implementations that others wrote, all in f64."""
    if not q.numel() or not k.numel():
        return

    def near(a, b, who):
        a, b = (x.nan_to_num(nan=7e7, neginf=-1e9) for x in (a, b))
        assert (a - b).abs().max() < 1e-12, f"{who} disagrees by {(a - b).abs().max()}"

    if "sinks" in t:
        if not p["softcap"]:
            mask = added.masked_fill(~seen, -math.inf)
            scaling = p["scale"] or 1 / math.sqrt(p["dk"])
            near(gpt_oss_attention(SinkModule(p, t), q, k, v, mask, scaling)[0].transpose(1, 2), out, "GPT-OSS")
        return
    if not p["softcap"]:
        near(by_torch_operator(q, k, v, p, seen, added), out, "scaled_dot_product_attention")
    flex_out, flex_lse = by_flex_attention(q, k, v, p, seen, added)
    near(flex_out, out, "flex_attention")
    near(flex_lse, lse, "flex_attention's lse")


def error(got, out, v):
    return ((got.double() - out).abs().max() / np.abs(v).max()).item() if out.numel() and v.size else 0.0


def solve(p, t, lengths, operator):
    """A problem without varlen: out, lse, weights, magnitude, and the errors of torch and ONNX Runtime in f32."""
    q, k, v = (torch.from_numpy(t[n]) for n in "qkv")
    seen, added = rules(p, t, lengths)
    wide = q.double(), k.double(), v.double()
    out, lse, weights = by_definition(*wide, p, t, seen, added)
    check_others(*wide, p, t, seen, added, out, lse)
    scale = abs(p["scale"] or 1 / math.sqrt(p["dk"]))
    products = scale * (wide[0].abs() @ wide[1].abs().repeat_interleave(p["heads"] // p["kv_heads"], 1).transpose(2, 3))
    magnitude = (products + added.abs()).masked_fill(~seen, 0.0).max().item() if seen.numel() else 0.0
    if p["softcap"] or "sinks" in t:
        by_torch = by_definition(q, k, v, p, t, seen, added)[0]
    else:
        by_torch = by_torch_operator(q, k, v, p, seen, added)
    by_ort = onnx_operators.attention(operator, p, t, lengths, seen, added)
    errors = [error(by_torch, out, t["v"]), math.nan if by_ort is None else error(by_ort, out, t["v"])]
    for e in errors:
        assert not e > 1e-6 * (6 + magnitude), f"another implementation in f32 is off by {e}"
    return out, lse, weights, magnitude, errors


def pack(p, t, lengths, solved):
    """Sequences behind one another: q and out [rows][heads][dim], lse [heads][rows], weights still per batch entry."""
    packed = {n: np.concatenate([s[0][n][0].transpose(1, 0, 2) for s in solved]) for n in "qkv"}
    packed |= {n: t[n] for n in ("mask", "bias", "block_mask", "slopes", "sinks") if n in t}
    out = torch.cat([s[1][0][0].transpose(0, 1) for s in solved])
    lse = torch.cat([s[1][1][0] for s in solved], dim=-1)
    weights = torch.zeros(p["batch"], p["heads"], p["lq"], p["lk"], dtype=torch.float64)
    for b, (lq, lk) in enumerate(lengths):
        weights[b, :, :lq, :lk] = solved[b][1][2][0]
    for n, which in (("offsets_q", 0), ("offsets_kv", 1)):
        packed[n] = np.cumsum([0] + [pair[which] for pair in lengths]).astype("<i4")
    return packed, out, lse, weights


def sequence_of(p, t, b, lq, lk):
    """Batch entry b of a varlen problem as a problem of its own."""

    def cut(x, heads_and_rows):
        return x[min(b, x.shape[0] - 1) :][:1][heads_and_rows]

    one = {"q": cut(t["q"], np.s_[:, :, :lq]), "k": cut(t["k"], np.s_[:, :, :lk]), "v": cut(t["v"], np.s_[:, :, :lk])}
    one |= {n: cut(t[n], np.s_[:, :, :lq, :lk]) for n in ("mask", "bias") if n in t}
    one |= {n: t[n] for n in ("slopes", "sinks") if n in t}
    return p | {"batch": 1, "lq": lq, "lk": lk, "varlen": 0}, one


def solve_varlen(p, t, lengths):
    solved = []
    for b, (lq, lk) in enumerate(lengths):
        p_one, t_one = sequence_of(p, t, b, lq, lk)
        solved.append((t_one, solve(p_one, t_one, [(lq, lk)], None)))
    magnitude = max(s[1][3] for s in solved)
    errors = [max(s[1][4][0] for s in solved), math.nan]
    return *pack(p, t, lengths, solved), magnitude, errors


def store(p, t, out, lse, weights, lengths, extra):
    """The tensors of the file, in the case's layout."""
    tensors = dict(t)
    for n in ("mask", "bias"):
        if n in t and p["transposed"]:
            tensors[n] = t[n].transpose(0, 1, 3, 2)
    if not p["varlen"]:
        order = (0, 2, 1, 3) if p["bshd"] else (0, 1, 2, 3)
        tensors |= {n: t[n].transpose(order) for n in "qkv"}
        tensors |= {n: np.array(extra[n], "<i4") for n in ("lengths_q", "lengths_kv") if n in extra}
        out = out.permute(order)
    tensors |= {"out": out, "lse": lse}
    return tensors | ({"weights": weights} if extra.get("weights") else {})


def write(writer, index, name, changes, extra):
    p = PLAIN | changes
    t = inputs(np.random.default_rng([2024, index]), p, extra)
    lengths = sequences(p, extra)
    if p["varlen"]:
        t, out, lse, weights, magnitude, errors = solve_varlen(p, t, lengths)
    else:
        out, lse, weights, magnitude, errors = solve(p, t, lengths, extra.get("ort", "attention"))
    print(f"attention {name:26} magnitude {magnitude:9.2f}  torch f32 {errors[0]:.1e}  onnxruntime f32 {errors[1]:.1e}")
    parameters = p | {"causal": CAUSAL[p["causal"]], "magnitude": 0.0 if "integers" in extra else magnitude}
    parameters |= {"torch_f32": f"{errors[0]:.2e}", "onnxruntime_f32": f"{errors[1]:.2e}"}
    writer.case("attention", name, parameters, store(p, t, out, lse, weights, lengths, extra))
