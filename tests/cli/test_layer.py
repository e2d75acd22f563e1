"""heed run --x --weights: whole layers against plain Python doubles, and the real layer of the examples.

May know: heedtest.py, the documented options, the names BERT and Llama give their tensors.
Must not know: anything of the program's sources."""

import json
import math
import os
import re
import shlex
import shutil

from heedtest import (DATA, attention, check, close, isas, main, project, randoms, read_npy, rotate, run, run_ok,
                      run_refused, swap_heads, write_npy, write_safetensors)

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

    def compute(self, x, batch, length, rope=None, **meaning):
        """Flat y, lse, weights in doubles; rope: the options of rotate(), None for none."""
        parts = []
        for part, heads, width in [(0, self.heads, self.d), (1, self.kv_heads, self.d), (2, self.kv_heads, self.dv)]:
            flat = project(x, batch * length, self.width, self.weights[part], self.biases[part])
            if part < 2 and rope is not None:
                entry = len(flat) // batch
                flat = [value for b in range(batch)
                        for value in rotate(flat[b * entry:(b + 1) * entry], length, heads, width, **rope)]
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
        (["--window=1,0"], dict(window=(1, 0))),
        (["--window=-1,1", "--causal=2"], dict(window=(-1, 1), causal=2)),
        (["--softcap=0.5"], dict(softcap=0.5)),
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


def llama(layer, number, more=()):
    tensors = layer.tensors([name.format(number) for name in LLAMA])
    tensors.update(more)
    write_safetensors("model", tensors)


def test_llama():
    """GQA without biases, head_dim other than width / heads, a wider output; RoPE is what the names imply."""
    layer = Layer((6, 10, 4, 2, 4, 5), 1, biases=False)
    x = randoms(99, [2, 7, 6])
    write_npy("x.npy", [2, 7, 6], x)
    llama(layer, 12)
    want = layer.compute(x, 2, 7, rope={}, causal="bottom-right", scale=0.125)
    options = ["--causal", "--scale=0.125"]
    for more in [[], ["--kv-heads", "2"]]:
        got, errors = compute(layer, 12, *options, *more, notes=1)
        check("RoPE with base 10000 and no scaling" in errors, "the note:", errors)
        compare("llama", layer, 2, 7, got, want)
    explicit, _ = compute(layer, 12, *options, "--rope=halves")
    check(explicit == got, "--rope=halves differs from the default")
    none, _ = compute(layer, 12, *options, "--rope=none")
    compare("llama without rope", layer, 2, 7, none,
            layer.compute(x, 2, 7, causal="bottom-right", scale=0.125))
    check(none != got, "--rope changes nothing")
    llama(layer, 12, {"model.layers.12.self_attn.q_norm.weight": ("F32", [3], [1.0, 1.0, 1.0])})
    _, errors = compute(layer, 12, notes=2)
    check("q_norm" in errors, "the note:", errors)


def llama3(factor, low, high, original):
    """As Meta's code does it, by wavelengths."""
    def frequency(plain, _):
        wavelength = 2 * math.pi / plain
        if wavelength < original / high:
            return plain
        if wavelength > original / low:
            return plain / factor
        smooth = (original / wavelength - low) / (high - low)
        return (1 - smooth) * plain / factor + smooth * plain
    return frequency


def yarn(factor, original, base, dim):
    """By the indices that make 32 turns and 1 turn."""
    def index(turns):
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    low, high = max(math.floor(index(32)), 0), min(math.ceil(index(1)), dim - 1)

    def frequency(plain, i):
        interpolated = min(max((i - low) / (high - low), 0.0), 1.0)
        return plain / factor * interpolated + plain * (1 - interpolated)
    return frequency


def test_rope():
    """Every option, with Llama's and with BERT's names."""
    layer = Layer((6, 6, 4, 2, 16, 4), 1)
    x = randoms(99, [2, 5, 6])
    write_npy("x.npy", [2, 5, 6], x)
    for names, model in [(LLAMA, "llama"), (BERT, "bert")]:
        write_safetensors("model", layer.tensors([name.format(0) for name in names]))
        plain, _ = compute(layer, 0, "--scale=0.0625", "--rope=none")
        for options, meaning in [
            (["--rope=interleaved"], dict(pairs="interleaved")),
            (["--rope=halves", "--rope-base=500"], dict(base=500.0)),
            (["--rope=halves", "--rope-dim=6"], dict(dim=6)),
            (["--rope=interleaved", "--rope-dim=16", "--rope-base=2.5e3"], dict(pairs="interleaved", base=2500.0)),
            (["--rope=halves", "--rope-scaling=linear:4"], dict(frequency=lambda plain, _: plain / 4)),
            (["--rope=halves", "--rope-scaling", "llama3:8,1,4,64"], dict(frequency=llama3(8.0, 1.0, 4.0, 64))),
            (["--rope=interleaved", "--rope-scaling=yarn:4,4096"],
             dict(pairs="interleaved", frequency=yarn(4.0, 4096, 10000.0, 16), magnitude=1 + 0.1 * math.log(4.0))),
            (["--rope=halves", "--rope-scaling=yarn:2.5,900", "--rope-base=300", "--rope-dim=12"],
             dict(frequency=yarn(2.5, 900, 300.0, 12), magnitude=1 + 0.1 * math.log(2.5), base=300.0, dim=12)),
        ]:
            got, _ = compute(layer, 0, "--scale=0.0625", *options)
            compare("%s %s" % (model, options), layer, 2, 5, got,
                    layer.compute(x, 2, 5, rope=meaning, scale=0.0625))
            check(got != plain, model, options, "rotate nothing")
        if model == "llama":
            for options in [["--rope-base=500"], ["--rope-scaling=linear:4"]]:
                got, _ = compute(layer, 0, *options)
                check(got == compute(layer, 0, "--rope=halves", *options)[0], options, "without --rope differs")


def test_rope_offset():
    """Scores depend on differences of positions, so only the rounding may differ; that it does shows the offset."""
    layer = Layer((6, 6, 2, 1, 4, 4), 1)
    x = randoms(99, [1, 5, 6])
    write_npy("x.npy", [1, 5, 6], x)
    write_safetensors("model", layer.tensors([name.format(0) for name in BERT]))
    first, _ = compute(layer, 0, "--rope=halves", "--scale=0.1")
    for offset in [1, 1000, 100000]:
        got, _ = compute(layer, 0, "--rope=halves", "--scale=0.1", "--rope-offset=%d" % offset)
        compare("offset %d" % offset, layer, 1, 5, got, layer.compute(x, 1, 5, rope=dict(first=offset), scale=0.1))
        check(got != first, "offset", offset, "changes nothing")


def test_rope_summary():
    layer = Layer((6, 6, 2, 1, 4, 4), 1, biases=False)
    write_npy("x.npy", [5, 6], randoms(99, [5, 6]))
    arguments = ["run", "--x", "x.npy", "--weights", "model", "--layer", "0", "--heads", "2", "-o", "o"]
    llama(layer, 0)
    for options, line in [
        (["--rope=none"], "rope: none\n"),
        (["--rope-base=500000", "--rope-scaling=llama3:8,1,4,8192"],
         "rope: halves, base 500000, 4 of 4 elements of a head, scaled as Llama 3 by 8, positions from 0\n"),
        (["--rope=interleaved", "--rope-dim=2", "--rope-offset=7"],
         "rope: interleaved, base 10000, 2 of 4 elements of a head, not scaled, positions from 7\n"),
    ]:
        text, _ = run_ok(*arguments, *options)
        check(line in text, "summary of", options, text)


def test_rope_refused():
    arguments = ["run", "--x", "x.npy", "--weights", "model", "--layer", "0", "--heads", "2", "-o", "o"]
    write_npy("x.npy", [3, 6], randoms(99, [3, 6]))
    even, odd = Layer((6, 6, 2, 1, 4, 4), 1), Layer((6, 6, 2, 1, 3, 4), 1)
    for options in [["--rope-base=500"], ["--rope-dim=2"], ["--rope-scaling=linear:2"], ["--rope-offset=1"]]:
        option = options[0].partition("=")[0]
        write_safetensors("model", even.tensors([name.format(0) for name in BERT]))
        run_refused(option + ": nothing is rotated without --rope", *arguments, *options)
        llama(even, 0)
        run_refused(option + ": nothing is rotated without --rope", *arguments, "--rope=none", *options)
    run_refused("--rope-dim: 6, but head_dim is 4", *arguments, "--rope-dim=6")
    llama(odd, 0)
    run_refused("--rope: head_dim 3 is odd: give --rope-dim, or --rope none", *arguments)
    for options in [["--rope=none"], ["--rope-dim=2", "--rope-base=10000"]]:
        run_ok(*arguments, *options)


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


def test_readme():
    """The commands that the README of the example data shows, in its folder."""
    shutil.copytree(DATA, "data")
    os.chdir("data")
    with open("README.md") as file:
        text = file.read()
    commands = [shlex.split(line.strip("`")) for line in re.findall(r"^heed .*$|`heed [^`]*`", text, re.M)]
    check(len(commands) >= 3, "commands of the README:", commands)
    pictures = json.loads(run("info", "--json").stdout)["options"]["png"] == "on"
    folder = os.getcwd()
    for words in commands:
        os.chdir("cats" if "q.npy" in words else folder)
        if words[1] == "run" or pictures:
            run_ok(*words[1:])
        os.chdir(folder)
    for place in [".", "cats"]:
        got, want = [read_npy(os.path.join(place, name)) for name in ["weights.npy", "expected-weights.npy"]]
        check(got[0] == want[0], place, "shape", got[0])
        close(place, got[1], want[1])


main(test_bert, test_options, test_two_dimensions, test_llama, test_rope, test_rope_offset, test_rope_summary,
     test_rope_refused, test_dtypes, test_names, test_real_layer, test_readme)
