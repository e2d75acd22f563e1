"""heed run --q --k --v with what changes or hides scores: window, softcap, bias, mask, ALiBi, sinks.

May know: heedtest.py, the documented options.
Must not know: anything of the program's sources."""

import itertools
import math

from heedtest import (attention, check, close, isas, main, randoms, read_npy, run_ok, run_refused, swap_heads,
                      write_npy)

OUTPUTS = ["-o", "out.npy", "--lse", "lse.npy", "--attention", "weights.npy"]
QKV = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]
SIZES = (2, 4, 2, 3, 5, 4, 3)
SHAPE = [2, 4, 3, 5]


def compute(*options):
    run_ok("run", *QKV, *OUTPUTS, "--quiet", *options)
    return [read_npy(name)[1] for name in ["out.npy", "lse.npy", "weights.npy"]]


def write_inputs(sizes=SIZES):
    batch, heads, kv_heads, lq, lk, d, dv = sizes
    tensors = []
    for number, (name, shape) in enumerate([("q", [batch, heads, lq, d]), ("k", [batch, kv_heads, lk, d]),
                                            ("v", [batch, kv_heads, lk, dv])]):
        tensors.append(randoms(1 + number, shape, 0.5))
        write_npy(name + ".npy", shape, tensors[-1])
    return tensors


def compare(name, got, want):
    for part, values, wanted in zip(["out", "lse", "weights"], got, want):
        close("%s %s" % (name, part), values, wanted)


def reach(shape, values):
    """values of this shape as a function of batch entry, head, query, key: sizes 1 and missing ones stand for all."""
    def at(*index):
        place = 0
        for size, now in zip(shape, index[4 - len(shape):]):
            place = place * size + (now if size > 1 else 0)
        return values[place]
    return at


def test_window():
    tensors = write_inputs()
    for sides in [(0, 0), (1, 0), (2, 1), (-1, 0), (0, -1), (-1, -1), (-1, 1), (100, 2147483647)]:
        for options, meaning in [([], {}), (["--causal"], dict(causal="bottom-right")),
                                 (["--causal=top-left"], dict(causal="top-left")), (["--causal=1"], dict(causal=1)),
                                 (["--lengths=5,2", "--lengths-q=2,3"], dict(lengths=[5, 2], lengths_q=[2, 3]))]:
            compare("window %d,%d %s" % (*sides, options), compute("--window", "%d,%d" % sides, *options),
                    attention(*tensors, SIZES, window=sides, **meaning))


def test_softcap():
    tensors = write_inputs()
    for cap in [0.25, 2.0, 50.0, 0]:
        compare("softcap %g" % cap, compute("--softcap=%g" % cap), attention(*tensors, SIZES, softcap=cap))
    check(compute("--softcap=2") != compute(), "--softcap changes nothing")


def test_bias():
    """Every way to broadcast."""
    tensors = write_inputs()
    shapes = [list(shape) for shape in itertools.product(*[(1, size) for size in SHAPE])]
    shapes += [SHAPE[start:] for start in range(1, 5)] + [[1, 5], [3, 1]]
    for number, shape in enumerate(shapes):
        values = randoms(100 + number, shape)
        values = [-math.inf if value < -3.5 else value for value in values]
        write_npy("bias.npy", shape, values, kind="d" if number % 2 else "f", fortran=number % 3 == 0)
        compare("bias %s" % shape, compute("--bias", "bias.npy"),
                attention(*tensors, SIZES, bias=reach(shape, values)))


def test_mask():
    tensors = write_inputs()
    for number, shape in enumerate([SHAPE, [4, 3, 5], [3, 5], [5], [2, 1, 1, 5], [1, 4, 1, 1], [1, 1, 3, 1], [1], []]):
        kind = "?B"[number % 2]
        values = [value > -1.0 for value in randoms(200 + number, shape)]
        # Any number but 0 is True.
        stored = values if kind == "?" else [255 - i % 255 if value else 0 for i, value in enumerate(values)]
        write_npy("mask.npy", shape, stored, kind=kind, fortran=number % 3 == 0, version=1 + number % 3)
        compare("mask %s" % shape, compute("--mask", "mask.npy"),
                attention(*tensors, SIZES, mask=reach(shape, values)))
    write_npy("mask.npy", [], [False], kind="?")
    out, lse, weights = compute("--mask=mask.npy")
    check(set(out) == {0.0} and set(lse) == {-math.inf} and set(weights) == {0.0}, "all is hidden", out, lse)


def test_mask_is_minus_infinity():
    """A mask, a bias of -inf and a window that hide the same keys give the same bits."""
    write_inputs()
    seen = [j <= i + 2 and j >= i + 1 for i in range(3) for j in range(5)]
    write_npy("mask.npy", [3, 5], seen, kind="?")
    write_npy("bias.npy", [3, 5], [0.0 if value else -math.inf for value in seen])
    want = compute("--window=1,0")
    check(compute("--mask=mask.npy") == want, "the mask differs from the window")
    check(compute("--bias=bias.npy") == want, "the bias differs from the window")
    check(want != compute(), "they hide nothing")


def test_alibi_and_sinks():
    tensors = write_inputs()
    slopes, sinks = [0.5, 0.25, 0.0, -1.0], [1.5, -math.inf, -2.0, 40.0]
    write_npy("alibi.npy", [4], slopes)
    write_npy("sinks.npy", [4], sinks, kind="d")
    for options, meaning in [([], {}), (["--causal=top-left"], dict(causal="top-left")),
                             (["--causal=-4"], dict(causal=-4)), (["--lengths=5,2"], dict(lengths=[5, 2]))]:
        compare("alibi %s" % options, compute("--alibi", "alibi.npy", *options),
                attention(*tensors, SIZES, slopes=slopes, **meaning))
        compare("sinks %s" % options, compute("--sinks", "sinks.npy", *options),
                attention(*tensors, SIZES, sinks=sinks, **meaning))


def test_all_together():
    """All of it, in both layouts, and with the same bits on every backend and number of threads."""
    tensors = write_inputs()
    bias, mask = randoms(7, [4, 3, 5]), [value > -2.0 for value in randoms(8, [2, 1, 3, 5])]
    write_npy("bias.npy", [4, 3, 5], bias)
    write_npy("mask.npy", [2, 1, 3, 5], mask, kind="?")
    write_npy("alibi.npy", [4], [0.5, 0.25, 0.125, 1.0])
    write_npy("sinks.npy", [4], [0.5, -0.5, 1.0, 0.0])
    options = ["--bias=bias.npy", "--mask=mask.npy", "--alibi=alibi.npy", "--sinks=sinks.npy", "--softcap=3",
               "--window=3,-1", "--causal=3", "--scale=0.3"]
    want = attention(*tensors, SIZES, bias=reach([4, 3, 5], bias), mask=reach([2, 1, 3, 5], mask), causal=3, scale=0.3,
                     slopes=[0.5, 0.25, 0.125, 1.0], sinks=[0.5, -0.5, 1.0, 0.0], softcap=3.0, window=(3, -1))
    first = compute(*options, "--isa=scalar", "--threads=1")
    compare("together", first, want)
    for isa in isas():
        check(compute(*options, "--isa", isa, "--threads=3") == first, isa, "differs from scalar")
    batch, heads, kv_heads, lq, lk, d, dv = SIZES
    for name, values, count, length, width in [("q", tensors[0], heads, lq, d), ("k", tensors[1], kv_heads, lk, d),
                                               ("v", tensors[2], kv_heads, lk, dv)]:
        write_npy(name + ".npy", [batch, length, count, width], swap_heads(values, batch, count, length, width))
    got = compute(*options, "--layout=bshd")
    check(got == [swap_heads(first[0], batch, heads, lq, dv), *first[1:]], "bshd differs")


def test_two_dimensions():
    """[L,D] is one batch entry and one head."""
    q, k, v = randoms(1, [3, 4]), randoms(2, [5, 4]), randoms(3, [5, 2])
    for name, shape, values in [("q", [3, 4], q), ("k", [5, 4], k), ("v", [5, 2], v)]:
        write_npy(name + ".npy", shape, values)
    bias = randoms(4, [3, 5])
    write_npy("bias.npy", [1, 1, 3, 5], bias)
    write_npy("sinks.npy", [1], [0.25])
    compare("two dimensions", compute("--bias=bias.npy", "--sinks=sinks.npy"),
            attention(q, k, v, (1, 1, 1, 3, 5, 4, 2), bias=reach([3, 5], bias), sinks=[0.25]))


def test_nothing():
    """Sizes of 0 are no error, and files of such shapes none either."""
    for sizes in [(0, 2, 1, 3, 4, 5, 5), (2, 0, 1, 3, 4, 5, 5), (2, 2, 1, 0, 4, 5, 5), (2, 2, 1, 3, 0, 5, 5)]:
        tensors = write_inputs(sizes)
        shape = [sizes[0], sizes[1], sizes[3], sizes[4]]
        for bias in [shape, [1], [1, 1, 1, 1]]:
            write_npy("bias.npy", bias, [0.5] * math.prod(bias))
            write_npy("mask.npy", bias, [True] * math.prod(bias), kind="?")
            write_npy("alibi.npy", [sizes[1]], [1.0] * sizes[1])
            compare("empty %s" % (sizes,), compute("--bias=bias.npy", "--mask=mask.npy", "--alibi=alibi.npy"),
                    attention(*tensors, sizes))


def test_special_values():
    """NaN or +inf in a bias is the row's own affair."""
    write_inputs()
    want = compute()
    for bad in [math.nan, math.inf]:
        write_npy("bias.npy", [3, 1], [0.0, bad, 0.0])
        out, lse, _ = compute("--bias=bias.npy")
        for row in range(2 * 4 * 3):
            values = out[3 * row:3 * row + 3] + lse[row:row + 1]
            wanted = want[0][3 * row:3 * row + 3] + want[1][row:row + 1]
            good = all(math.isnan(value) for value in values) if row % 3 == 1 else values == wanted
            check(good, "bias", bad, "row", row, "is", values)


def test_refused():
    write_inputs()
    for option in ["--bias", "--mask"]:
        kind = "?" if option == "--mask" else "f"
        for shape, fragment in [
            ([2, 4, 3, 6], "shape: the number of keys is 6, neither 1 nor 5"),
            ([2, 4, 5, 3], "shape: the number of keys is 3, neither 1 nor 5"),
            ([4, 5], "shape: the number of queries is 4, neither 1 nor 3"),
            ([3, 3, 5], "shape: the number of heads is 3, neither 1 nor 4"),
            ([2, 2, 3, 5], "shape: the number of heads is 2, neither 1 nor 4"),
            ([3, 1, 1, 1], "shape: batch is 3, neither 1 nor 2"), ([0], "shape: the number of keys is 0"),
            ([1, 2, 4, 3, 5], "shape: 5 dimensions, not at most 4"),
        ]:
            write_npy("f.npy", shape, [1] * math.prod(shape), kind=kind)
            run_refused("heed run: f.npy: " + fragment, "run", *QKV, *OUTPUTS, option, "f.npy")
    for option in ["--alibi", "--sinks"]:
        for shape in [[3], [1], [4, 1], [], [0]]:
            write_npy("f.npy", shape, [1.0] * math.prod(shape))
            run_refused("f.npy: shape: not [4], one number for each head", "run", *QKV, *OUTPUTS, option, "f.npy")
    for kind in "?B":
        write_npy("f.npy", [1], [1], kind=kind)
        for option in ["--bias", "--alibi", "--sinks"]:
            run_refused("f.npy: descr: dtype '|", "run", *QKV, *OUTPUTS, option, "f.npy")
    for kind in "efd":
        write_npy("f.npy", [1], [1.0], kind=kind)
        run_refused("is not supported: |b1 and |u1 are", "run", *QKV, *OUTPUTS, "--mask", "f.npy")
    write_npy("f.npy", [1, 5], [1e300] * 5, kind="d")
    run_refused("f.npy: data: element 0 is too large", "run", *QKV, *OUTPUTS, "--bias", "f.npy")
    write_npy("f.npy", [3, 5], [True] * 15, kind="?")
    with open("f.npy", "rb") as file:
        good = file.read()
    for name, data, fragment in [("cut", good[:-1], "data: truncated"), ("long", good + b"\0", "data: trailing"),
                                 ("order", good.replace(b"|b1", b"<b1"), "descr: dtype '<b1'"),
                                 ("empty", b"", "magic")]:
        with open(name, "wb") as file:
            file.write(data)
        run_refused("heed run: %s: %s" % (name, fragment), "run", *QKV, *OUTPUTS, "--mask", name)
    for option in ["--bias", "--mask", "--alibi", "--sinks"]:
        run_refused("heed run: missing: open: No such", "run", *QKV, *OUTPUTS, option, "missing")


main(test_window, test_softcap, test_bias, test_mask, test_mask_is_minus_infinity, test_alibi_and_sinks,
     test_all_together, test_two_dimensions, test_nothing, test_special_values, test_refused)
