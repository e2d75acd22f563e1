"""Shared by the tests that run the program: files in and out, running it, attention in plain Python doubles.

May know: the .npy and .safetensors formats, the definition of attention.
Must not know: anything of the program's sources.  Standard library only."""

import json
import math
import os
import random
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

# HEED_TEST_RUNNER is what runs the program, an emulator and its options; nothing usually.
PROGRAM = [*shlex.split(os.environ.get("HEED_TEST_RUNNER", "")), os.path.abspath(sys.argv[1])]
DATA = os.path.abspath(sys.argv[2])
FAILURES = []
CHECKS = [0]


def check(truth, *what):
    CHECKS[0] += 1
    if not truth:
        FAILURES.append(what)
        print("FAIL", *what)
    return truth


def main(*tests):
    """Runs each test in an empty folder of its own and ends the program."""
    home = os.getcwd()
    for test in tests:
        before = len(FAILURES)
        folder = tempfile.mkdtemp(prefix="heed-test-", dir=home)
        os.chdir(folder)
        try:
            test()
        finally:
            os.chdir(home)
            shutil.rmtree(folder)
        print("%-30s %s" % (test.__name__, "ok" if len(FAILURES) == before else "FAILED"))
    print("%d passed, %d failed" % (CHECKS[0] - len(FAILURES), len(FAILURES)))
    sys.exit(1 if FAILURES or CHECKS[0] == 0 else 0)


def run(*arguments, env=None, stdout=subprocess.PIPE, preexec=None):
    environment = dict(os.environ)
    environment.pop("HEED_ISA", None)
    environment.update(env or {})
    result = subprocess.run([*PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE,
                            env=environment, preexec_fn=preexec, timeout=300)
    if len(PROGRAM) > 1:
        # What the emulator itself warns about is not the program's.
        own = (os.path.basename(PROGRAM[0]) + ": warning").encode()
        result.stderr = b"".join(line for line in result.stderr.splitlines(True) if not line.startswith(own))
    return result


def run_ok(*arguments, env=None, notes=0):
    """A run that must succeed with exactly this many lines on stderr; returns stdout and stderr."""
    result = run(*arguments, env=env)
    errors = result.stderr.decode()
    check(result.returncode == 0, arguments, "exit", result.returncode, errors)
    check(errors.count("\n") == notes, arguments, "stderr:", errors)
    return result.stdout.decode(), errors


def run_failed(*arguments):
    """A check that must fail: exit code 1, nothing on stderr; returns stdout."""
    result = run(*arguments)
    check(result.returncode == 1, arguments, "exit", result.returncode)
    check(result.stderr == b"", arguments, "stderr:", result.stderr)
    return result.stdout.decode()


def run_refused(fragment, *arguments, env=None, preexec=None):
    """Exit code 2, one line on stderr that holds the fragment, nothing on stdout, no file changed."""
    before = snapshot()
    result = run(*arguments, env=env, preexec=preexec)
    errors = result.stderr.decode()
    check(result.returncode == 2, arguments, "exit", result.returncode, errors)
    check(errors.count("\n") == 1 and errors.endswith("\n"), arguments, "not one line:", errors)
    check(errors.startswith("heed"), arguments, "stderr:", errors)
    check(fragment in errors, arguments, "stderr:", errors, "lacks:", fragment)
    check(result.stdout == b"", arguments, "stdout:", result.stdout)
    check(snapshot() == before, arguments, "files changed:", snapshot(), before)


def snapshot():
    found = {}
    for folder, _, names in os.walk("."):
        for name in names:
            path = os.path.join(folder, name)
            status = os.stat(path)
            found[path] = (status.st_ino, status.st_size, status.st_mtime_ns)
    return found


def isas():
    """The usable backends, from the program itself."""
    facts = json.loads(run("info", "--json").stdout)
    return [entry["name"] for entry in facts["backends"] if entry["usable"]]


# ---- Files ------------------------------------------------------------------------------------------------------


def count(shape):
    return math.prod(shape)


def write_npy(path, shape, values, kind="f", order="<", fortran=False, version=1):
    """values in C order; kind ? is b1, B is u1."""
    assert len(values) == count(shape)
    if fortran:
        values = [values[at] for at in fortran_positions(shape)]
    name = {"e": "f2", "f": "f4", "d": "f8", "?": "b1", "B": "u1"}[kind]
    header = "{'descr': '%s%s', 'fortran_order': %s, 'shape': %s, }" % (
        "|" if name.endswith("1") else order, name, fortran, tuple(shape))
    header = header.ljust(117) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY" + bytes([version, 0]) + length + header.encode())
        file.write(struct.pack("%s%d%s" % (order, len(values), kind), *values))


def fortran_positions(shape):
    """Where in C order each element in Fortran order is."""
    positions = []
    index = [0] * len(shape)
    for _ in range(count(shape)):
        at = 0
        for size, now in zip(shape, index):
            at = at * size + now
        positions.append(at)
        for axis in range(len(shape)):
            index[axis] += 1
            if index[axis] < shape[axis]:
                break
            index[axis] = 0
    return positions


def read_npy(path):
    """Shape and values of a file in C order; header as NumPy writes it."""
    with open(path, "rb") as file:
        data = file.read()
    check(data[:8] == b"\x93NUMPY\x01\x00", path, "magic or version")
    length = struct.unpack("<H", data[8:10])[0]
    check((10 + length) % 64 == 0 and data[9 + length:10 + length] == b"\n", path, "header is not padded")
    header = eval(data[10:10 + length].decode(), {})  # a file of this test's own making
    check(not header["fortran_order"], path, "Fortran order")
    kind = {"<f4": "f", "<f8": "d"}[header["descr"]]
    values = struct.unpack("<%d%s" % (count(header["shape"]), kind), data[10 + length:])
    return list(header["shape"]), list(values)


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, shape, values)."""
    header = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, shape, values) in tensors.items():
        if dtype == "BF16":
            piece = b"".join(struct.pack("<f", value)[2:] for value in values)
        else:
            kind = {"F32": "f", "F16": "e", "F64": "d", "I64": "q"}[dtype]
            piece = struct.pack("<%d%s" % (len(values), kind), *values)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(piece)]}
        data += piece
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def randoms(seed, shape, scale=1.0):
    """Multiples of 1/16 up to 4, times a power of two: every dtype holds them exactly, so one list serves all."""
    rng = random.Random(seed)
    return [rng.randint(-64, 64) / 16.0 * scale for _ in range(count(shape))]


# ---- Attention in doubles ---------------------------------------------------------------------------------------


def attention_row(scores, values, width, sink=None):
    """One row, scores: key -> score of those that are seen.  Output, log-sum-exp, weights of all keys."""
    weights = [0.0] * len(values)
    seen = list(scores.values()) + ([sink] if sink is not None else [])
    top = max(seen, default=-math.inf)
    if top == -math.inf:
        return [0.0] * width, top, weights
    total = math.fsum(math.exp(score - top) for score in seen)
    for j, score in scores.items():
        weights[j] = math.exp(score - top) / total
    out = [math.fsum(weights[j] * values[j][c] for j in scores) for c in range(width)]
    return out, top + math.log(total), weights


def attention(q, k, v, sizes, causal=None, scale=None, lengths_q=None, lengths=None, window=(-1, -1), softcap=0,
              slopes=None, bias=None, mask=None, sinks=None):
    """Flat lists [B][H][L][D]; sizes: batch, heads, kv_heads, lq, lk, d, dv; bias and mask: functions of batch entry,
    head, query, key.  Flat out, lse, weights."""
    batch, heads, kv_heads, lq, lk, d, dv = sizes
    out, lse, weights = [], [], []
    scale = 1 / math.sqrt(d) if scale is None else scale
    for b in range(batch):
        own_q = lengths_q[b] if lengths_q else lq
        own_k = lengths[b] if lengths else lk
        offset = {None: own_k - own_q, "bottom-right": own_k - own_q, "top-left": 0}.get(causal, causal)
        for h in range(heads):
            base = b * kv_heads + h // (heads // kv_heads)
            keys = [k[(base * lk + j) * d:(base * lk + j + 1) * d] for j in range(lk)]
            values = [v[(base * lk + j) * dv:(base * lk + j + 1) * dv] for j in range(lk)]
            for i in range(lq):
                at = ((b * heads + h) * lq + i) * d
                p = i + offset
                scores = {}
                for j in range(own_k if i < own_q else 0):
                    if causal is not None and j > p or 0 <= window[0] < p - j or 0 <= window[1] < j - p:
                        continue
                    score = scale * math.fsum(x * y for x, y in zip(q[at:at + d], keys[j]))
                    score = softcap * math.tanh(score / softcap) if softcap else score
                    score += slopes[h] * (j - p) if slopes else 0.0
                    score += bias(b, h, i, j) if bias else 0.0
                    if score != -math.inf and (not mask or mask(b, h, i, j)):
                        scores[j] = score
                row = attention_row(scores, values, dv, sinks[h] if sinks else None)
                out += row[0]
                lse.append(row[1])
                weights += row[2]
    return out, lse, weights


def rotate(values, rows, heads, width, first=0, pairs="halves", dim=None, base=10000.0, frequency=None, magnitude=1.0):
    """Rotary embedding of [rows][heads][width], rows at positions first, first + 1, ...; frequency changes one."""
    dim = dim or width
    turned = list(values)
    for row in range(rows):
        for h in range(heads):
            at = (row * heads + h) * width
            for i in range(dim // 2):
                plain = base ** (-2 * i / dim)
                angle = (first + row) * (frequency(plain, i) if frequency else plain)
                one, two = (i, i + dim // 2) if pairs == "halves" else (2 * i, 2 * i + 1)
                x, y = values[at + one], values[at + two]
                turned[at + one] = magnitude * (x * math.cos(angle) - y * math.sin(angle))
                turned[at + two] = magnitude * (y * math.cos(angle) + x * math.sin(angle))
    return turned


def project(x, rows, width, weight, bias):
    """x [rows][width] times weight [out][width], transposed, plus bias."""
    outs = len(weight) // width
    return [math.fsum(x[r * width + i] * weight[o * width + i] for i in range(width)) + (bias[o] if bias else 0.0)
            for r in range(rows) for o in range(outs)]


def swap_heads(values, batch, first, second, width):
    """[batch][first][second][width] to [batch][second][first][width]."""
    return [values[((b * first + i) * second + j) * width + c]
            for b in range(batch) for j in range(second) for i in range(first) for c in range(width)]


def close(name, got, want, bound=4e-6):
    """Equal lengths, and every value within bound, relative to values above 1."""
    if not check(len(got) == len(want), name, "has", len(got), "values, not", len(want)):
        return
    for i, (a, b) in enumerate(zip(got, want)):
        same = a == b if math.isinf(b) else abs(a - b) <= bound * max(1.0, abs(b))
        if not check(same, name, "value", i, "is", a, "not", b):
            return
