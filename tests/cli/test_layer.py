"""heed run --x --weights: whole layers against plain Python doubles, and the real layer of the examples.

May know: heedtest.py, the documented options, the names BERT and Llama give their tensors.
Must not know: anything of the program's sources."""

import os
import re

from heedtest import (DATA, attention, check, close, isas, main, project, randoms, read_npy, run_ok, swap_heads,
                      write_npy, write_safetensors)

OUTPUTS = ["-o", "out.npy", "--lse", "lse.npy", "--attention", "weights.npy"]
BERT = ["encoder.layer.{}.attention.self.query", "encoder.layer.{}.attention.self.key",
        "encoder.layer.{}.attention.self.value", "encoder.layer.{}.attention.output.dense"]
LLAMA = ["model.layers.{}.self_attn.%s_proj" % part for part in "qkvo"]


class Layer:
    """Weights [out][in] and biases of one layer; sizes: width, out, heads, kv_heads, d, dv."""

    def __init__(self, sizes, seed, biases=True):
        self.width, self.out, self.heads, self.kv_heads, self.d, self.dv = sizes
        rows = [self.heads * self.d, self.kv_heads * self.d, self.kv_heads * self.dv, self.out]
        columns = [self.width] * 3 + [self.heads * self.dv]
        self.shapes = [list(pair) for pair in zip(rows, columns)]
        self.weights = [randoms(seed + i, shape, 0.25) for i, shape in enumerate(self.shapes)]
        self.biases = [randoms(seed + 10 + i, [row]) if biases else None for i, row in enumerate(rows)]

    def tensors(self, names, dtype="F32"):
        found = {}
        for name, shape, weight, bias in zip(names, self.shapes, self.weights, self.biases):
            found[name + ".weight"] = (dtype, shape, weight)
            if bias:
                found[name + ".bias"] = (dtype, [len(bias)], bias)
        return found

    def compute(self, x, batch, length, **meaning):
        """Flat y, lse, weights in doubles."""
        parts = []
        for part, heads, width in [(0, self.heads, self.d), (1, self.kv_heads, self.d), (2, self.kv_heads, self.dv)]:
            flat = project(x, batch * length, self.width, self.weights[part], self.biases[part])
            parts.append(swap_heads(flat, batch, length, heads, width))
        sizes = (batch, self.heads, self.kv_heads, length, length, self.d, self.dv)
        out, lse, weights = attention(*parts, sizes, **meaning)
        joined = swap_heads(out, batch, self.heads, length, self.dv)
        y = project(joined, batch * length, self.heads * self.dv, self.weights[3], self.biases[3])
        return y, lse, weights


def compute(layer, number, *options, notes=0):
    _, errors = run_ok("run", "--x", "x.npy", "--weights", "model", "--layer", str(number), "--heads", str(layer.heads),
                       "--quiet", *OUTPUTS, *options, notes=notes)
    return [read_npy("out.npy"), read_npy("lse.npy"), read_npy("weights.npy")], errors


def compare(name, layer, batch, length, got, want):
    shapes = [[batch, length, layer.out], [batch, layer.heads, length], [batch, layer.heads, length, length]]
    for part, (shape, values), wanted, wanted_shape in zip(["out", "lse", "weights"], got, want, shapes):
        check(shape == wanted_shape, name, part, "shape", shape)
        close(name + " " + part, values, wanted, 2e-5)


def test_bert():
    """Two layers in one file, four prefixes, with biases."""
    layers = [Layer((8, 8, 2, 2, 4, 4), 1), Layer((8, 8, 2, 2, 4, 4), 50)]
    x = randoms(99, [2, 5, 8])
    write_npy("x.npy", [2, 5, 8], x)
    for prefix in ["", "bert.", "roberta.", "0.auto_model."]:
        tensors = {"other": ("I64", [3], [1, 2, 3])}
        for number, layer in enumerate(layers):
            tensors.update(layer.tensors([prefix + name.format(number) for name in BERT]))
        write_safetensors("model", tensors)
        for number, layer in enumerate(layers):
            got, _ = compute(layer, number)
            compare("bert %d" % number, layer, 2, 5, got, layer.compute(x, 2, 5))


def test_options():
    layer = Layer((6, 6, 3, 3, 2, 2), 1)
    x = randoms(99, [2, 4, 6])
    write_npy("x.npy", [2, 4, 6], x)
    write_safetensors("model", layer.tensors([name.format(7) for name in BERT]))
    cases = [
        (["--causal"], dict(causal="bottom-right")),
        (["--causal=top-left"], dict(causal="top-left")),
        (["--causal=-1"], dict(causal=-1)),
        (["--scale=0.5"], dict(scale=0.5)),
        (["--lengths=4,2"], dict(lengths=[4, 2], lengths_q=[4, 2])),
        (["--lengths=0,3", "--causal"], dict(lengths=[0, 3], lengths_q=[0, 3], causal="bottom-right")),
    ]
    for options, meaning in cases:
        got, _ = compute(layer, 7, *options)
        compare(" ".join(options), layer, 2, 4, got, layer.compute(x, 2, 4, **meaning))


def test_two_dimensions():
    layer = Layer((6, 6, 3, 3, 2, 2), 1)
    x = randoms(99, [4, 6])
    write_npy("x.npy", [4, 6], x)
    write_safetensors("model", layer.tensors([name.format(0) for name in BERT]))
    got, _ = compute(layer, 0)
    check([shape for shape, _ in got] == [[4, 6], [3, 4], [3, 4, 4]], "shapes", [shape for shape, _ in got])
    for (_, values), wanted in zip(got, layer.compute(x, 1, 4)):
        close("two dimensions", values, wanted, 2e-5)


def test_llama():
    """GQA without biases, head_dim other than width / heads, a wider output; one note about RoPE."""
    layer = Layer((6, 10, 4, 2, 3, 5), 1, biases=False)
    x = randoms(99, [1, 7, 6])
    write_npy("x.npy", [1, 7, 6], x)
    tensors = layer.tensors([name.format(12) for name in LLAMA])
    write_safetensors("model", tensors)
    for more in [[], ["--kv-heads", "2"]]:
        got, errors = compute(layer, 12, "--causal", *more, notes=1)
        check("no RoPE yet" in errors, "the note:", errors)
        compare("llama", layer, 1, 7, got, layer.compute(x, 1, 7, causal="bottom-right"))
    tensors["model.layers.12.self_attn.q_norm.weight"] = ("F32", [3], [1.0, 1.0, 1.0])
    write_safetensors("model", tensors)
    _, errors = compute(layer, 12, notes=2)
    check("q_norm" in errors, "the note:", errors)


def test_dtypes():
    layer = Layer((4, 4, 2, 1, 2, 2), 1)
    write_npy("x.npy", [1, 3, 4], randoms(99, [1, 3, 4]))
    results = []
    for dtype in ["F32", "F16", "BF16", "F64"]:
        write_safetensors("model", layer.tensors([name.format(0) for name in BERT], dtype))
        results.append(compute(layer, 0)[0])
    check(all(result == results[0] for result in results), "the dtypes differ")


def test_names():
    layer = Layer((4, 4, 2, 2, 2, 2), 1)
    x = randoms(99, [1, 3, 4])
    write_npy("x.npy", [1, 3, 4], x)
    tensors = {}
    for part, shape, weight, bias in zip("qkvo", layer.shapes, layer.weights, layer.biases):
        tensors["h.3.w%s" % part] = ("F32", shape, weight)
        tensors["h.3.%s.b" % part] = ("F32", [len(bias)], bias)
    write_safetensors("model", tensors)
    names = ",".join("%s=h.{layer}.w%s" % (part, part) for part in "qkvo")
    biases = ",".join("b%s=h.{layer}.%s.b" % (part, part) for part in "qkvo")
    got, _ = compute(layer, 3, "--names", names + "," + biases)
    compare("names", layer, 1, 3, got, layer.compute(x, 1, 3))
    layer.biases = [None] * 4
    got, _ = compute(layer, 3, "--names", names)
    compare("names without biases", layer, 1, 3, got, layer.compute(x, 1, 3))
    run_ok("run", "--x", "x.npy", "--weights", "model", "--heads", "2", "-o", "again.npy", "--quiet", "--names",
           names.replace("{layer}", "3"))
    check(read_npy("again.npy") == got[0], "without --layer the result differs")


def test_real_layer():
    """The shipped layer of a real model against the expected output, with the same bits on every backend."""
    results = []
    model = os.path.join(DATA, "minilm-layer.safetensors")
    with open(model, "rb") as file:
        layer = re.search(rb"layer\.(\d+)\.", file.read(200)).group(1).decode()
    for isa in isas():
        text, _ = run_ok("run", "--x", os.path.join(DATA, "hidden.npy"), "--weights", model, "--layer", layer,
                         "--heads", "12", *OUTPUTS, "--isa", isa)
        check("BERT names" in text and "backend: " + isa in text, "summary:", text)
        results.append((read_npy("out.npy"), read_npy("lse.npy"), read_npy("weights.npy")))
    check(all(result == results[0] for result in results), "the backends differ")
    for got, name in [(results[0][0], "expected.npy"), (results[0][2], "expected-weights.npy")]:
        shape, want = read_npy(os.path.join(DATA, name))
        check(got[0] == shape, name, "shape", got[0])
        close(name, got[1], want, 2e-6)


main(test_bert, test_options, test_two_dimensions, test_llama, test_dtypes, test_names, test_real_layer)
