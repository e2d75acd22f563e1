# ONNX Runtime's attention operators as they would be called for one of heed's problems; f32.
# It may know: ONNX, ONNX Runtime, the meaning of heed's parameters.
# It must not know: heed's sources, the file's format.
import math

import numpy as np
import onnx
import onnxruntime
import torch

ELEMENT = {np.dtype(d): t for d, t in (("f4", 1), ("i4", 6), ("i8", 7), ("?", 9))}  # of onnx.TensorProto
INPUTS = {
    "Attention": "q k v mask past_key past_value nonpad",
    "MultiHeadAttention": "q k v bias padding attention_bias",
    "GroupQueryAttention": "q k v past_key past_value seqlens total cos sin positions attention_bias sink",
    "RotaryEmbedding": "q positions cos sin",
}


def run(operator, feed, outputs=1, opset=23, **attributes):
    """The first output of a model of this one operator."""
    helper, domain = onnx.helper, "" if operator == "Attention" else "com.microsoft"
    names = [n if n in feed else "" for n in INPUTS[operator].split()]
    while not names[-1]:
        names.pop()
    results = ["y", "present_key", "present_value"][:outputs]
    node = helper.make_node(operator, names, results, domain=domain, **attributes)
    inputs = [helper.make_tensor_value_info(n, ELEMENT[x.dtype], x.shape) for n, x in feed.items()]
    graph = helper.make_graph([node], operator, inputs, [helper.make_tensor_value_info(n, 1, None) for n in results])
    versions = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    model = helper.make_model(graph, opset_imports=versions, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return torch.from_numpy(session.run(None, {n: np.ascontiguousarray(x) for n, x in feed.items()})[0])


def rows(x):
    """[b][h][s][d] as [b][s][h * d]."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


def heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(1, 2)


def standard(p, t, seen, added):
    """Attention of opset 23 with everything that hides spelled out as a mask.  It refuses a negative scale: -q has it."""
    scale = p["scale"] or 1 / math.sqrt(p["dk"])
    feed = {"q": t["q"] * np.float32(math.copysign(1.0, scale)), "k": t["k"], "v": t["v"]}
    feed["mask"] = (added.float().masked_fill(~seen, -math.inf) if added.any() else seen).numpy()
    return run("Attention", feed, scale=abs(scale), softcap=p["softcap"])


def with_past(p, t):
    """is_causal with a cache: all but the last lk - offset keys are past."""
    past = p["offset"]
    feed = {"q": t["q"], "k": t["k"][:, :, past:], "v": t["v"][:, :, past:]}
    feed |= {"past_key": t["k"][:, :, :past], "past_value": t["v"][:, :, :past]}
    return run("Attention", feed, outputs=3, is_causal=1)


def with_nonpad(t, lengths):
    feed = {n: t[n] for n in "qkv"} | {"nonpad": np.array([lk for _, lk in lengths], "i8")}
    return run("Attention", feed, opset=24, is_causal=1)


def multi_head(p, t, lengths):
    """MultiHeadAttention: the bias as attention_bias, the key lengths as key_padding_mask."""
    feed = {n: rows(t[n]) for n in "qkv"} | {"attention_bias": t["bias"]}
    if any(lk != p["lk"] for _, lk in lengths):
        feed["padding"] = np.array([lk for _, lk in lengths], "i4")
    shape = t["bias"].shape
    feed["attention_bias"] = np.broadcast_to(t["bias"], shape[:2] + (p["lq"], p["lk"]))
    return heads(run("MultiHeadAttention", feed, num_heads=p["heads"]), p["heads"])


def group_query(p, t, rotary=None):
    """GroupQueryAttention with the last lq keys as the new ones.  Its window counts the query's own key, heed's does not.
    rotary: the unrotated q, k, v and tables; t["k"] has the rotated keys, which is what a cache holds."""
    past = p["lk"] - p["lq"]
    fresh = rotary or t
    feed = {"q": rows(fresh["q"]), "k": rows(fresh["k"][:, :, past:]), "v": rows(t["v"][:, :, past:])}
    feed |= {"past_key": t["k"][:, :, :past], "past_value": t["v"][:, :, :past]} if past else {}
    feed |= {"seqlens": np.full(p["batch"], p["lk"] - 1, "i4"), "total": np.array(p["lk"], "i4")}
    if "bias" in t:
        shape = t["bias"].shape[:2] + (p["lq"], p["lk"])
        feed["attention_bias"] = np.broadcast_to(t["bias"], shape)
    if "sinks" in t:
        feed["sink"] = t["sinks"]
    attributes = dict(num_heads=p["heads"], kv_num_heads=p["kv_heads"], softcap=p["softcap"])
    attributes["local_window_size"] = p["window_left"] + 1 if p["window_left"] >= 0 else -1
    if rotary:
        feed |= {"cos": rotary["cos"], "sin": rotary["sin"]}
        attributes |= dict(do_rotary=1, rotary_interleaved=int(rotary["interleaved"]))
    return heads(run("GroupQueryAttention", feed, outputs=3, **attributes), p["heads"])


def attention(operator, p, t, lengths, seen, added):
    """out [b][h][q][d], or None where no operator can say it."""
    if operator == "gqa":
        return group_query(p, t)
    if operator == "mha":
        return multi_head(p, t, lengths)
    if operator == "past":
        return with_past(p, t)
    if operator == "nonpad":
        return with_nonpad(t, lengths)
    if operator is None or "sinks" in t:
        return None
    return standard(p, t, seen, added)
