"""heed run --expect: errors that are known, what agrees and what does not, exit codes, what is written.

May know: heedtest.py, the documented options.
Must not know: anything of the program's sources."""

import math
import os
import re

from heedtest import (DATA, check, main, randoms, read_npy, run, run_failed, run_ok, run_refused, write_npy,
                      write_safetensors)

QKV = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy", "--quiet"]
LINE = r"error against (.*): max abs (\S+), relative to the largest value (\S+): (within|ABOVE) the tolerance (\S+)\n"


def prepare():
    """Shapes and values of output and weights."""
    for seed, name, rows in [(1, "q", 3), (2, "k", 5), (3, "v", 5)]:
        write_npy(name + ".npy", [2, rows, 4], randoms(seed, [2, rows, 4]))
    run_ok("run", *QKV, "-o", "out.npy", "--attention", "w.npy")
    return read_npy("out.npy"), read_npy("w.npy")


def parse(text):
    """The lines' file, max abs, relative error, whether within, tolerance."""
    found = [(file, float(error), float(relative), word == "within", float(tolerance))
             for file, error, relative, word, tolerance in re.findall(LINE, text)]
    check(re.sub(LINE + r"|  the worst is at .*\n", "", text) == "", "what is printed:", text)
    return found


def test_equal():
    """Its own output in every way to store it: no error at all."""
    (shape, values), _ = prepare()
    for how in [dict(), dict(kind="d"), dict(kind="d", order=">"), dict(order=">"), dict(kind="d", fortran=True),
                dict(fortran=True, version=3)]:
        write_npy("e.npy", shape, values, **how)
        text, _ = run_ok("run", *QKV, "--expect", "e.npy")
        check(parse(text) == [("e.npy", 0.0, 0.0, True, 1e-5)], how, text)


def test_error():
    """Known differences, each way, in double precision."""
    (shape, values), _ = prepare()
    largest = max(abs(value) for value in values)
    for at, change in [(0, 0.5), (13, -0.25), (23, 1e-7), (5, -1e-9), (9, 1e300)]:
        changed = list(values)
        changed[at] += change
        write_npy("e.npy", shape, changed, kind="d")
        top = max(abs(value) for value in changed)
        error = abs(changed[at] - values[at])
        result = run("run", *QKV, "-o", "again.npy", "--expect", "e.npy", "--tolerance", "0.001")
        found = parse(result.stdout.decode())
        within = error / top <= 0.001
        check(found == [("e.npy", float("%.1e" % error), float("%.1e" % (error / top)), within, 0.001)], change, found)
        check(result.returncode == (0 if within else 1) and result.stderr == b"", change, result)
        check(read_npy("again.npy") == (shape, values), "the output is not written")
        if not within:
            place = [at // 12, at // 4 % 3, at % 4]
            line = "  the worst is at %s: %.9g, where %.17g is expected\n" % (place, values[at], changed[at])
            check(line in result.stdout.decode(), "the place:", result.stdout, line)
    check(largest > 0.5, "the values are too small for these tolerances")


def test_tolerance():
    """Equal to the tolerance is within it; the default is 1e-5."""
    write_npy("q.npy", [1, 1], [0.0])
    write_npy("v.npy", [1, 1], [1.0])
    arguments = ["run", "--q", "q.npy", "--k", "q.npy", "--v", "v.npy", "--quiet", "--expect", "e.npy"]
    for expected, tolerance, within in [(2.0, "0.5", True), (2.0, "0.4999", False), (1.0, "0", True),
                                        (1.0 + 2**-50, "0", False), (1.0 + 9e-6, None, True),
                                        (1.0 + 1.1e-5, None, False), (0.5, "1", True), (0.5, "0.99", False)]:
        write_npy("e.npy", [1, 1], [expected], kind="d")
        options = ["--tolerance=" + tolerance] if tolerance else []
        text = run_ok(*arguments, *options)[0] if within else run_failed(*arguments, *options)
        check([line[3] for line in parse(text)] == [within], expected, tolerance, text)


def test_special_values():
    write_npy("q.npy", [1, 1], [0.0])
    arguments = ["run", "--q", "q.npy", "--k", "q.npy", "--v", "v.npy", "--quiet", "--expect", "e.npy", "--tolerance"]
    inf, nan = math.inf, math.nan
    for got, expected, error, relative in [
        (nan, nan, 0.0, 0.0), (1.0, nan, inf, inf), (nan, 1.0, inf, inf), (inf, inf, 0.0, 0.0), (inf, 1.0, inf, inf),
        (1.0, -inf, inf, inf), (inf, -inf, inf, inf), (inf, nan, inf, inf), (0.0, 0.0, 0.0, 0.0), (0.0, -0.0, 0.0, 0.0),
        (1.0, 0.0, 1.0, inf),
    ]:
        write_npy("v.npy", [1, 2], [got, 0.0])
        write_npy("e.npy", [1, 2], [expected, 0.0], kind="d")
        text = run_failed(*arguments, "1e300") if relative else run_ok(*arguments, "0")[0]
        check([line[1:3] for line in parse(text)] == [(error, relative)], got, expected, text)


def test_weights():
    """Both files; the weights are compared without being written; one that is too far is enough."""
    (shape, values), (wshape, weights) = prepare()
    for kind, name, size, numbers in [("d", "e.npy", shape, values), ("f", "we.npy", wshape, weights)]:
        write_npy(name, size, numbers, kind=kind)
    text, _ = run_ok("run", *QKV, "--expect-attention", "we.npy")
    check(parse(text) == [("we.npy", 0.0, 0.0, True, 1e-5)], text)
    text, _ = run_ok("run", *QKV, "--expect-attention", "we.npy", "--expect=e.npy", "--tolerance=0")
    check([line[0] for line in parse(text)] == ["e.npy", "we.npy"], text)
    for name, size, numbers in [("e.npy", shape, values), ("we.npy", wshape, weights)]:
        write_npy("bad.npy", size, [numbers[0] + 1.0] + numbers[1:])
        both = ["bad.npy" if other == name else other for other in ["e.npy", "we.npy"]]
        text = run_failed("run", *QKV, "--expect", both[0], "--expect-attention", both[1])
        check([line[3] for line in parse(text)] == [file != "bad.npy" for file in both], text)
    check(sorted(os.listdir(".")) == sorted(["q.npy", "k.npy", "v.npy", "out.npy", "w.npy", "e.npy", "we.npy",
                                             "bad.npy"]), "files:", os.listdir("."))


def test_shapes():
    """Another shape is exit code 2, with both shapes, and nothing is written."""
    (shape, values), (wshape, _) = prepare()
    for other in [[2, 4, 3], [24], [1, 2, 3, 4], [6, 4], [2, 3, 3], [0]]:
        numbers = (values * 2)[:math.prod(other)]
        write_npy("e.npy", other, numbers)
        for option, what, own in [("--expect", "output", shape), ("--expect-attention", "weights", wshape)]:
            result = run("run", *QKV, "-o", "new.npy", option, "e.npy")
            line = "heed run: e.npy: shape: %s, but that of the %s is %s\n" % (other, what, own)
            check(result.returncode == 2 and result.stderr.decode() == line, other, result)
            check(result.stdout == b"" and not os.path.exists("new.npy"), "the output:", result.stdout)


def test_refused():
    """A file that cannot be read ends the run before anything is written."""
    prepare()
    write_npy("mask", [2, 3, 4], [True] * 24, kind="?")
    with open("out.npy", "rb") as file:
        good = file.read()
    for name, data, fragment in [("cut", good[:-1], "data: truncated"), ("long", good + b"x", "data: trailing bytes"),
                                 ("text", b"0.5", "magic"), ("mask", None, "descr: dtype '|b1'")]:
        if data:
            with open(name, "wb") as file:
                file.write(data)
        for option in ["--expect", "--expect-attention"]:
            run_refused("heed run: %s: %s" % (name, fragment), "run", *QKV, "-o", "new.npy", option, name)
    run_refused("heed run: missing: open: No such", "run", *QKV, "-o", "new.npy", "--expect", "missing")
    run_refused("nowhere/o: output", "run", *QKV, "-o", "nowhere/o", "--expect", "out.npy")


def test_replaced():
    """The output may replace what was expected: the old values are compared."""
    (shape, values), _ = prepare()
    write_npy("out.npy", shape, [values[0] + 1.0] + values[1:])
    run_failed("run", *QKV, "-o", "out.npy", "--expect", "out.npy")
    check(read_npy("out.npy") == (shape, values), "the output is not written")
    run_ok("run", *QKV, "-o", "out.npy", "--expect", "out.npy", "--tolerance=0")


def test_names():
    """The lines follow the summary; a name cannot send control characters to the terminal."""
    prepare()
    os.rename("out.npy", "a\x1bb")
    text, _ = run_ok("run", *QKV[:-1], "-o", "out.npy", "--expect", "a\x1bb")
    check(text.startswith("attention: ") and "wrote out.npy [2, 3, 4]\nerror against a?b: " in text, text)


def test_nothing():
    write_npy("q.npy", [0, 4], [])
    text, _ = run_ok("run", "--q", "q.npy", "--k", "q.npy", "--v", "q.npy", "--quiet", "--expect", "q.npy")
    check(parse(text) == [("q.npy", 0.0, 0.0, True, 1e-5)], text)


def test_layer():
    """The second form, and the real layer as the README of its data claims it."""
    names = ["encoder.layer.0.attention." + part for part in ["self.query", "self.key", "self.value", "output.dense"]]
    write_safetensors("model", {name + ".weight": ("F32", [4, 4], randoms(5 + i, [4, 4])) for i, name in
                                enumerate(names)})
    write_npy("x.npy", [3, 4], randoms(1, [3, 4]))
    arguments = ["run", "--x", "x.npy", "--weights", "model", "--layer", "0", "--heads", "2", "--quiet"]
    run_ok(*arguments, "-o", "o", "--attention", "w")
    text, _ = run_ok(*arguments, "--expect", "o", "--expect-attention", "w", "--tolerance=0")
    check([line[:4] for line in parse(text)] == [("o", 0.0, 0.0, True), ("w", 0.0, 0.0, True)], text)
    run_failed(*arguments, "--scale=1", "--expect", "o")
    files = {name: os.path.join(DATA, name) for name in ["expected.npy", "expected-weights.npy"]}
    text, _ = run_ok("run", "--x", os.path.join(DATA, "hidden.npy"), "--weights",
                     os.path.join(DATA, "minilm-layer.safetensors"), "--layer", "3", "--heads", "12", "--quiet",
                     "--expect", files["expected.npy"], "--expect-attention", files["expected-weights.npy"])
    for line, file in zip(parse(text), files.values()):
        check(line[0] == file and 0 < line[2] < 2e-6, "the real layer:", line)


main(test_equal, test_error, test_tolerance, test_special_values, test_weights, test_shapes, test_refused,
     test_replaced, test_names, test_nothing, test_layer)
