"""heed run through a cache: --decode-step, --kv-type, --page-size; bfloat16 and .safetensors inputs.

May know: heedtest.py, the documented options, the rule of int8 caches.
Must not know: anything of the program's sources."""

import itertools
import struct

from heedtest import (attention, check, close, isas, main, randoms, read_npy, run_failed, run_ok, run_refused,
                      swap_heads, write_npy, write_safetensors)

OUTPUTS = ["-o", "out.npy", "--lse", "lse.npy", "--attention", "weights.npy"]
QKV = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]
TYPES = ["f32", "f16", "bf16", "i8"]
PAGES = [[], ["--page-size", "16"], ["--page-size=32"], ["--page-size=64"], ["--page-size=128"]]
SIZES = (2, 4, 2, 37, 37, 8, 5)


def shapes(sizes):
    batch, heads, kv_heads, lq, lk, d, dv = sizes
    return {"q": [batch, heads, lq, d], "k": [batch, kv_heads, lk, d], "v": [batch, kv_heads, lk, dv]}


def write_inputs(sizes=SIZES, shape=lambda sides: sides):
    tensors = []
    for number, (name, sides) in enumerate(shapes(sizes).items()):
        tensors.append(randoms(1 + number, sides, 0.5))
        write_npy(name + ".npy", shape(sides), tensors[-1])
    return tensors


def compute(*options, inputs=QKV):
    run_ok("run", *inputs, *OUTPUTS, "--quiet", *options)
    return [read_npy(name) for name in ["out.npy", "lse.npy", "weights.npy"]]


def last_rows(whole, steps):
    """Of [.., L, width], or of an LSE [.., L], the last rows."""
    cut = []
    for (shape, values), axis in zip(whole, [-2, -1, -2]):
        axis += len(shape)
        inner = 1
        for size in shape[axis + 1:]:
            inner *= size
        rows = shape[axis] * inner
        kept = [value for at in range(0, len(values), rows) for value in values[at + rows - steps * inner:at + rows]]
        cut.append((shape[:axis] + [steps] + shape[axis + 1:], kept))
    return cut


def test_last_rows():
    """Every cache that holds the values exactly gives the bits of a plain prefill's last rows."""
    for sides in [lambda s: s, lambda s: [s[0] * s[1], *s[2:]] if s[0] == 1 else s]:
        write_inputs((1, *SIZES[1:]), sides)
        whole = compute("--causal")
        for kind, pages in itertools.product(TYPES[:3], PAGES):
            check(compute("--causal", "--kv-type", kind, *pages) == whole, "prefill", kind, pages)
            for steps, option in [(1, "--decode-step"), (1, "--decode-step=1"), (5, "--decode-step=5"),
                                  (37, "--decode-step=37")]:
                got = compute(option, "--kv-type", kind, *pages)
                check(got == last_rows(whole, steps), option, kind, pages)
    write_inputs()
    whole = compute("--causal")
    for isa, threads in itertools.product(isas(), ["1", "3"]):
        got = compute("--decode-step=2", "--page-size=16", "--isa", isa, "--threads", threads)
        check(got == last_rows(whole, 2), isa, threads)


def test_fewer_queries():
    """Q holds the step's queries alone, or fewer than there are keys."""
    sizes = (2, 4, 2, 4, 50, 8, 5)
    tensors = write_inputs(sizes)
    want = attention(*tensors, sizes, causal="bottom-right")
    for name, got, wanted in zip(["out", "lse", "weights"], compute("--decode-step=4", "--page-size=32"), want):
        close("four queries " + name, got[1], wanted)
    whole = compute("--causal")
    check(compute("--decode-step=3", "--kv-type=f16") == last_rows(whole, 3), "three of four queries")
    lengths = ["--lengths=50,17"]
    whole = compute("--causal", *lengths)
    for kind, pages in itertools.product(TYPES[:3], PAGES):
        check(compute("--decode-step=4", *lengths, "--kv-type", kind, *pages) == whole, "lengths", kind, pages)


def test_layout():
    batch, heads, kv_heads, lq, lk, d, dv = SIZES
    tensors = write_inputs()
    whole = last_rows(compute("--causal"), 2)
    for name, sides, values in zip("qkv", shapes(SIZES).values(), tensors):
        write_npy(name + ".npy", [sides[0], sides[2], sides[1], sides[3]], swap_heads(values, *sides))
    for kind, pages in itertools.product(TYPES[:3], PAGES):
        got = compute("--layout=bshd", "--decode-step=2", "--kv-type", kind, *pages)
        check(got[0] == ([batch, 2, heads, dv], swap_heads(whole[0][1], batch, heads, 2, dv)), "bshd", kind, pages)
        check(got[1:] == whole[1:], "bshd lse and weights", kind, pages)


def test_scores():
    """Bias and mask are those of all queries; window, softcap, slopes and sinks combine."""
    batch, heads, _, lq, lk, _, _ = SIZES
    write_inputs()
    write_npy("b.npy", [heads, lq, lk], randoms(7, [heads, lq, lk]))
    write_npy("m.npy", [batch, 1, lq, lk], [value > -32 for value in randoms(8, [batch, 1, lq, lk], 16.0)], kind="?")
    write_npy("row.npy", [1, lk], randoms(9, [1, lk]))
    write_npy("h.npy", [heads], [0.5, 0.25, 0.125, 1.0])
    for options in [["--bias=b.npy"], ["--mask=m.npy"], ["--bias=row.npy"], ["--alibi=h.npy"], ["--sinks=h.npy"],
                    ["--window=9,-1"], ["--softcap=2", "--scale=0.75"],
                    ["--bias=b.npy", "--mask=m.npy", "--alibi=h.npy", "--sinks=h.npy", "--window=20,0", "--softcap=3"]]:
        whole = compute("--causal", *options)
        for pages in PAGES[:2]:
            check(compute("--decode-step=3", *options, *pages) == last_rows(whole, 3), options, pages)


def single(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def quantised(values, width):
    """As an int8 cache has them: scale = largest magnitude / 127, steps to nearest even."""
    kept = []
    for at in range(0, len(values), width):
        row = values[at:at + width]
        scale = single(max(abs(value) for value in row) / 127.0)
        kept += [round(single(value / scale)) * scale if scale else 0.0 for value in row]
    return kept


def test_int8():
    q, k, v = write_inputs()
    want = attention(q, quantised(k, SIZES[5]), quantised(v, SIZES[6]), SIZES, causal="bottom-right")
    whole = compute("--causal", "--kv-type=i8")
    for name, got, wanted in zip(["out", "lse", "weights"], whole, want):
        close("int8 " + name, got[1], wanted)
    check(whole != compute("--causal"), "int8 changes nothing")
    for pages in PAGES:
        check(compute("--causal", "--kv-type=i8", *pages) == whole, "int8", pages)
        check(compute("--decode-step=2", "--kv-type=i8", *pages) == last_rows(whole, 2), "int8 step", pages)


def test_expect():
    """Values of all queries, or of the step's alone; others are refused."""
    write_inputs()
    (shape, values), _, (weights_shape, weights) = whole = compute("--causal")
    step = last_rows(whole, 3)
    names = ["--expect", "e.npy", "--expect-attention", "w.npy", "--quiet", "--tolerance=0"]
    for out, attention_weights in [(whole[0], whole[2]), (step[0], step[2])]:
        write_npy("e.npy", *out)
        write_npy("w.npy", *attention_weights)
        text, _ = run_ok("run", *QKV, "--decode-step=3", *names)
        check(text.count("max abs 0.0e+00") == 2, text)
        run_ok("run", *QKV, "--decode-step=3", *names[:2], "--quiet", "--page-size=64")
    changed = list(values)
    changed[-1] += 1
    write_npy("e.npy", shape, changed)
    check("the worst is at [1, 3, 2, 4]" in run_failed("run", *QKV, "--decode-step=3", *names[:2]),
          "the place")
    two = last_rows(whole, 2)[0]
    write_npy("e.npy", *two)
    run_refused("e.npy: shape: [2, 4, 2, 5], but that of the output is [2, 4, 3, 5]", "run", *QKV,
                "--decode-step=3", "--quiet", *names[:2])


def test_summary():
    write_inputs()
    for options, line in [(["--kv-type=i8"], "cache: i8, contiguous\n"),
                          (["--page-size=16"], "cache: f32, 6 pages of 16 tokens\n"),
                          (["--decode-step"], "cache: f32, contiguous; step of 1 query\n"),
                          (["--decode-step=2", "--kv-type=bf16", "--page-size=64"],
                           "cache: bf16, 2 pages of 64 tokens; step of 2 queries\n")]:
        text, _ = run_ok("run", *QKV, "-o", "out.npy", *options)
        check(line in text, options, text)
    check("cache:" not in run_ok("run", *QKV, "-o", "out.npy")[0], "a cache without being asked for")


def test_refused():
    write_inputs()
    out = ["-o", "out.npy"]
    for option, values in {"--kv-type": ["", "f64", "F16", "int8", "q8_0"],
                           "--page-size": ["", "0", "8", "17", "256", "-16", "x"],
                           "--decode-step": ["", "0", "-1", "1.5", "x", "2147483648"]}.items():
        for value in values:
            run_refused(option + ": ", "run", *QKV, *out, option + "=" + value)
    run_refused("q.npy: shape: 37 queries, fewer than the 38 of --decode-step", "run", *QKV, *out, "--decode-step=38")
    run_refused("q.npy: shape: 37 queries: with --lengths", "run", *QKV, *out, "--decode-step=2", "--lengths=30,37")
    run_refused("--lengths-q: does not go with --decode-step", "run", *QKV, *out, "--decode-step", "--lengths-q=1,1")
    for causal in ["--causal=top-left", "--causal=3"]:
        run_refused("--causal: with --decode-step it is bottom-right", "run", *QKV, *out, "--decode-step", causal)
    for option in ["--decode-step", "--kv-type=f16", "--page-size=16", "--bf16-npy"]:
        run_refused(option.split("=")[0] + ": does not go with --x", "run", "--x", "x", "--weights", "w", "--heads",
                    "1", *out, option)
    run_ok("run", *QKV, *out, "--decode-step", "--causal", "--quiet")


def write_void(path, shape, values, name):
    """As ml_dtypes saves bfloat16."""
    write_npy(path, shape, [0.0] * len(values), kind="e")
    with open(path, "rb") as file:
        head = file.read()[:-2 * len(values)]
    with open(path, "wb") as file:
        file.write(head.replace(b"<f2", name))
        file.write(b"".join(struct.pack("<f", value)[2:] for value in values))


def test_bf16_npy():
    tensors = write_inputs()
    whole = compute("--causal")
    for name in [b"<V2", b"|V2"]:
        for file, sides, values in zip("qkv", shapes(SIZES).values(), tensors):
            write_void(file + ".npy", sides, values, name)
        run_refused("q.npy: descr: dtype '%s' may be anything: is it bfloat16?" % name.decode(), "run", *QKV, "-o",
                    "out.npy")
        check(compute("--causal", "--bf16-npy") == whole, name)
        check(compute("--bf16-npy", "--decode-step", "--kv-type=bf16") == last_rows(whole, 1), name, "step")
    write_inputs()
    check(compute("--causal", "--bf16-npy") == whole, "other dtypes with --bf16-npy")
    for name in [b"<V4", b"|V1", b">V2", b"<i2"]:
        write_void("v.npy", [1], [0.0], name)
        run_refused("v.npy: descr: dtype '%s' is not supported" % name.decode(), "run", *QKV, "-o", "out.npy",
                    "--bf16-npy")


def test_safetensors():
    """Each dtype, names given and not; hostile and wrong files."""
    sides = shapes(SIZES)
    tensors = dict(zip("qkv", write_inputs()))
    whole = compute("--causal")
    for dtype in ["F32", "F16", "BF16", "F64"]:
        write_safetensors("all.safetensors", {name: (dtype, sides[name], tensors[name]) for name in "qkv"})
        write_safetensors("own.safetensors", {"layer.0." + name: (dtype, sides[name], tensors[name]) for name in "qk"})
        write_safetensors("v.safetensors", {"values": (dtype, sides["v"], tensors["v"])})
        plain = [part for name in "qkv" for part in ["--" + name, "all.safetensors"]]
        named = ["--q=own.safetensors:layer.0.q", "--k=own.safetensors:layer.0.k", "--v=v.safetensors"]
        check(compute("--causal", inputs=plain) == whole, dtype)
        check(compute("--causal", inputs=named) == whole, dtype, "named")
        check(compute("--decode-step", "--kv-type=bf16", inputs=named) == last_rows(whole, 1), dtype, "step")
    out = ["-o", "out.npy"]
    run_refused("own.safetensors: q: no such tensor, and not just one", "run", "--q=own.safetensors", *QKV[2:], *out)
    run_refused("own.safetensors:x: x: no such tensor", "run", "--q=own.safetensors:x", *QKV[2:], *out)
    run_refused("own.safetensors:: : no such tensor", "run", "--q=own.safetensors:", *QKV[2:], *out)
    run_refused("no.safetensors: ", "run", "--q=no.safetensors", *QKV[2:], *out)
    write_safetensors("q.safetensors", {"q": ("I64", [1, 1], [1])})
    run_refused("q.safetensors: q: dtype I64 is not supported", "run", "--q=q.safetensors", *QKV[2:], *out)
    write_safetensors("q.safetensors", {"q": ("F16", [4], [1, 2, 3, 4])})
    run_refused("q.safetensors: shape: 1 dimensions", "run", "--q=q.safetensors", *QKV[2:], *out)
    with open("q.safetensors", "wb") as file:
        file.write(b"\xff" * 64)
    run_refused("q.safetensors: header length", "run", "--q=q.safetensors", *QKV[2:], *out)


def test_nothing():
    """No batch entry, no head, no key."""
    for sizes in [(0, 2, 1, 3, 4, 5, 5), (2, 0, 1, 3, 4, 5, 5), (2, 2, 1, 3, 0, 5, 5)]:
        tensors = write_inputs(sizes)
        want = attention(*tensors, (*sizes[:3], 3, *sizes[4:]), causal="bottom-right")
        for pages in PAGES[:2]:
            got = compute("--decode-step=3", *pages)
            for name, part, wanted in zip(["out", "lse", "weights"], got, want):
                close("empty %s %s" % (sizes, name), part[1], wanted)


main(test_last_rows, test_fewer_queries, test_layout, test_scores, test_int8, test_expect, test_summary, test_refused,
     test_bf16_npy, test_safetensors, test_nothing)
