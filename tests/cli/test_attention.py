"""heed run --q --k --v: results against plain Python doubles, and equal bits on every backend.

May know: heedtest.py, the documented options.
Must not know: anything of the program's sources."""

import os

from heedtest import (DATA, attention, check, close, isas, json, main, math, randoms, read_npy, run, run_ok, swap_heads,
                      write_npy)

OUTPUTS = ["-o", "out.npy", "--lse", "lse.npy", "--attention", "weights.npy"]


def compute(*options):
    """Runs on q.npy, k.npy, v.npy; the three outputs as shapes and values."""
    run_ok("run", "--q", "q.npy", "--k", "k.npy", "--v", "v.npy", *OUTPUTS, "--quiet", *options)
    return read_npy("out.npy"), read_npy("lse.npy"), read_npy("weights.npy")


def write_inputs(sizes, seed=1, **how):
    batch, heads, kv_heads, lq, lk, d, dv = sizes
    tensors = []
    for number, (name, shape) in enumerate([("q", [batch, heads, lq, d]), ("k", [batch, kv_heads, lk, d]),
                                            ("v", [batch, kv_heads, lk, dv])]):
        tensors.append(randoms(seed + 10 * number, shape))
        write_npy(name + ".npy", shape, tensors[-1], **how)
    return tensors


def compare(name, sizes, got, want):
    batch, heads, _, lq, lk, _, dv = sizes
    shapes = [[batch, heads, lq, dv], [batch, heads, lq], [batch, heads, lq, lk]]
    for part, (shape, values), wanted, wanted_shape in zip(["out", "lse", "weights"], got, want, shapes):
        check(shape == wanted_shape, name, part, "shape", shape)
        close(name + " " + part, values, wanted)


def test_plain():
    for sizes in [(2, 3, 3, 4, 5, 6, 6), (1, 4, 2, 7, 3, 5, 2), (2, 4, 1, 1, 9, 3, 4), (1, 1, 1, 1, 1, 1, 1),
                  (1, 2, 1, 3, 300, 8, 8)]:
        want = attention(*write_inputs(sizes), sizes)
        compare("plain %s" % (sizes,), sizes, compute(), want)


def test_options():
    sizes = (3, 2, 1, 4, 6, 5, 3)
    tensors = write_inputs(sizes)
    cases = [
        (["--causal"], dict(causal="bottom-right")),
        (["--causal=bottom-right"], dict(causal="bottom-right")),
        (["--causal=top-left"], dict(causal="top-left")),
        (["--causal=1"], dict(causal=1)),
        (["--causal=-2"], dict(causal=-2)),
        (["--scale", "0.25"], dict(scale=0.25)),
        (["--scale=-1"], dict(scale=-1.0)),
        (["--scale=0"], dict()),
        (["--lengths", "6,0,3"], dict(lengths=[6, 0, 3])),
        (["--lengths-q", "1,4,0"], dict(lengths_q=[1, 4, 0])),
        (["--causal", "--lengths=5,4,2", "--lengths-q=4,2,3"],
         dict(causal="bottom-right", lengths=[5, 4, 2], lengths_q=[4, 2, 3])),
    ]
    for options, meaning in cases:
        compare(" ".join(options), sizes, compute(*options), attention(*tensors, sizes, **meaning))


def test_ranks():
    """[H,L,D] and [L,D] are a batch of one, and one head."""
    q, k, v = randoms(1, [2, 3, 4]), randoms(2, [1, 5, 4]), randoms(3, [1, 5, 2])
    for name, shape, values in [("q", [2, 3, 4], q), ("k", [1, 5, 4], k), ("v", [1, 5, 2], v)]:
        write_npy(name + ".npy", shape, values)
    want = attention(q, k, v, (1, 2, 1, 3, 5, 4, 2))
    got = compute()
    check([shape for shape, _ in got] == [[2, 3, 2], [2, 3], [2, 3, 5]], "shapes", [shape for shape, _ in got])
    for (_, values), wanted in zip(got, want):
        close("three dimensions", values, wanted)
    for name, shape, values in [("q", [3, 4], q[:12]), ("k", [5, 4], k), ("v", [5, 2], v)]:
        write_npy(name + ".npy", shape, values)
    for layout in ["bhsd", "bshd"]:
        got = compute("--layout", layout)
        check([shape for shape, _ in got] == [[3, 2], [3], [3, 5]], "shapes", [shape for shape, _ in got])
        for (_, values), wanted in zip(got, attention(q[:12], k, v, (1, 1, 1, 3, 5, 4, 2))):
            close("two dimensions", values, wanted)


def test_layout():
    sizes = (2, 4, 2, 3, 5, 6, 2)
    batch, heads, kv_heads, lq, lk, d, dv = sizes
    q, k, v = write_inputs(sizes)
    want = attention(q, k, v, sizes)
    write_npy("q.npy", [batch, lq, heads, d], swap_heads(q, batch, heads, lq, d))
    write_npy("k.npy", [batch, lk, kv_heads, d], swap_heads(k, batch, kv_heads, lk, d))
    write_npy("v.npy", [batch, lk, kv_heads, dv], swap_heads(v, batch, kv_heads, lk, dv))
    got = compute("--layout=bshd")
    check(got[0][0] == [batch, lq, heads, dv], "bshd out shape", got[0][0])
    close("bshd out", got[0][1], swap_heads(want[0], batch, heads, lq, dv))
    check(got[1][0] == [batch, heads, lq] and got[2][0] == [batch, heads, lq, lk], "bshd lse, weights shape")
    close("bshd lse", got[1][1], want[1])
    close("bshd weights", got[2][1], want[2])


def test_file_kinds():
    """The same values in every dtype, order and version give the same bits."""
    sizes = (1, 2, 2, 3, 4, 5, 5)
    write_inputs(sizes)
    want = compute()
    for how in [dict(kind="e"), dict(kind="d"), dict(order=">"), dict(kind="e", order=">"), dict(kind="d", order=">"),
                dict(fortran=True), dict(fortran=True, kind="d", version=3), dict(version=2)]:
        write_inputs(sizes, **how)
        check(compute() == want, "differs:", how)


def test_bits():
    """Every usable backend, thread count and exp: the same bits where the contract says so."""
    sizes = (2, 4, 2, 9, 37, 7, 5)
    write_inputs(sizes)
    facts = json.loads(run("info", "--json").stdout)
    sleef = {entry["name"]: entry["sleef"] for entry in facts["backends"]}
    first = compute("--isa", "scalar", "--threads", "1", "--exp", "builtin")
    first_sleef = compute("--isa", "scalar", "--exp", "sleef") if sleef["scalar"] else None
    for isa in isas() + ["auto"]:
        for threads in ["1", "2", "5"]:
            check(compute("--isa", isa, "--threads", threads) == first, isa, threads, "differs from scalar")
        if first_sleef and sleef.get(isa, False):
            check(compute("--isa", isa, "--exp=sleef") == first_sleef, isa, "with SLEEF differs from scalar")
        text, _ = run_ok("run", "--q=q.npy", "--k=k.npy", "--v=v.npy", *OUTPUTS, "--isa", isa)
        check("backend: " + (facts["chosen"] if isa == "auto" else isa) in text, isa, "is not in the summary:", text)
    text, _ = run_ok("run", "--q=q.npy", "--k=k.npy", "--v=v.npy", *OUTPUTS, env={"HEED_ISA": "scalar"})
    check("backend: scalar" in text, "HEED_ISA is not obeyed:", text)


def test_nothing():
    """Batches, heads, queries and keys of 0 are no error."""
    for sizes in [(0, 2, 1, 3, 4, 5, 5), (2, 0, 1, 3, 4, 5, 5), (2, 2, 1, 0, 4, 5, 5), (2, 2, 1, 3, 0, 5, 5)]:
        want = attention(*write_inputs(sizes), sizes)
        compare("empty %s" % (sizes,), sizes, compute(), want)


def test_special_values():
    """A NaN among the keys is the row's own affair; hidden keys change nothing."""
    sizes = (1, 1, 1, 3, 4, 2, 2)
    q, k, v = write_inputs(sizes)
    want = compute("--causal=top-left")
    bad = k[:6] + [math.nan, math.inf]
    write_npy("k.npy", [1, 1, 4, 2], bad)
    write_npy("v.npy", [1, 1, 4, 2], v[:6] + [math.nan, -math.inf])
    check(compute("--causal=top-left") == want, "a hidden key changes the result")
    out, lse, _ = compute("--causal=1")
    check(all(math.isnan(value) for value in out[1][4:]) and math.isnan(lse[1][2]), "row 2 sees the NaN", out, lse)
    check(all(math.isfinite(value) for value in out[1][:4]), "rows 0 and 1 do not", out)


def test_cats():
    """The worked example: scores (0, 1, 0) times sqrt(2)."""
    cats = os.path.join(DATA, "cats")
    arguments = [value for name in "qkv" for value in ("--" + name, os.path.join(cats, name + ".npy"))]
    run_ok("run", *arguments, "--scale", "1.41421356", *OUTPUTS)
    weights = read_npy("weights.npy")[1]
    close("cats", weights[:3], [0.16360, 0.67280, 0.16360], 1e-4)
    close("cats weights", weights, read_npy(os.path.join(cats, "expected-weights.npy"))[1])
    close("cats out", read_npy("out.npy")[1], read_npy(os.path.join(cats, "expected.npy"))[1])


main(test_plain, test_options, test_ranks, test_layout, test_file_kinds, test_bits, test_nothing, test_special_values,
     test_cats)
