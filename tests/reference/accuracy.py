#!/usr/bin/env python3
# Measures heed's attention, an f32 three-pass softmax and PyTorch's CPU attention in f32 against f64.
# It may know: the public header's structs (through ctypes), numpy, PyTorch.
# It must not know: heed's sources.  Nothing here is needed to build, test or use heed.
"""Makes the table of docs/accuracy-table.md and fails if heed errs more than three passes in any of its rows.

Requirements: torch, numpy, and heed as a shared library:

    cmake --preset release -B build/shared -DBUILD_SHARED_LIBS=ON && cmake --build build/shared --target heed
    python3 tests/reference/accuracy.py --library build/shared/libheed.so --out docs/accuracy-table.md

The three passes are those of tests/oracle.c: all scores of a row and their maximum, then exponentials and their sum, then the
weighted values; every sum one chain in the order of the dimension or the keys, every operation rounded to f32.

Where the rounding of large scores makes all of the error, both make the same kind of error, few rows have any, and which is
larger is chance.  So the last column compares the squared errors row by row: "less" and "more" are a mean difference beyond three
standard errors of it, "equal" is one within.
"""
import argparse
import ctypes
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F

UNIT = 2.0**-24
I64, F32, PTR = ctypes.c_int64, ctypes.c_float, ctypes.c_void_p


class Attention(ctypes.Structure):
    """heed_attention as far as it is needed here; struct_size tells the library where it ends."""

    _fields_ = [("struct_size", ctypes.c_size_t)]
    _fields_ += [(n, I64) for n in "batch num_heads num_kv_heads seq_len_q seq_len_kv head_dim head_dim_v".split()]
    _fields_ += [("scale", F32), ("causal", ctypes.c_int), ("causal_offset", I64), ("layout", ctypes.c_int)]
    _fields_ += [("strides", I64 * 12)]


class Tensors(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t)] + [(n, PTR) for n in ("q", "k", "v", "out")]


class Heed:
    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.heed_version.restype = self.library.heed_isa_name.restype = ctypes.c_char_p
        isa = self.library.heed_isa_name(self.library.heed_isa_default()).decode()
        self.name = f"{self.library.heed_version().decode()} ({isa})"

    def attention(self, q, k, v):
        """q [heads][queries][d], k and v [heads][keys][d]."""
        heads, queries, d = q.shape
        out = np.empty((heads, queries, v.shape[2]), np.float32)
        a = Attention(ctypes.sizeof(Attention), 1, heads, heads, queries, k.shape[1], d, v.shape[2])
        t = Tensors(ctypes.sizeof(Tensors), *(x.ctypes.data for x in (q, k, v, out)))
        message = ctypes.create_string_buffer(192)
        if self.library.heed_attend(ctypes.byref(a), ctypes.byref(t), None, message):
            sys.exit(f"heed_attend: {message.value.decode()}")
        return out


def exact(q, k, v):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[2])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


def three_passes(q, k, v):
    """Rows side by side, so that each row's sums are chains."""
    scale = np.float32(1) / np.sqrt(np.float32(q.shape[2]))
    scores = np.zeros((q.shape[0], q.shape[1], k.shape[1]), np.float32)
    for d in range(q.shape[2]):
        scores += q[:, :, d, None] * k[:, None, :, d]
    weights = np.exp((scores * scale) - (scores * scale).max(axis=-1, keepdims=True))
    total = np.zeros(weights.shape[:2], np.float32)
    for j in range(k.shape[1]):
        total += weights[:, :, j]
    weights /= total[:, :, None]
    out = np.zeros((q.shape[0], q.shape[1], v.shape[2]), np.float32)
    for j in range(k.shape[1]):
        out += weights[:, :, j, None] * v[:, None, j]
    assert out.dtype == np.float32
    return out


def by_torch(q, k, v):
    with torch.no_grad():
        return F.scaled_dot_product_attention(*(torch.from_numpy(x)[None] for x in (q, k, v)))[0].numpy()


# ---- Inputs ----------------------------------------------------------------------------------------------------------


def normal(rng, rows, d):
    return rng.standard_normal((*rows, d), dtype=np.float32)


def heavy(rng, rows, d):
    return np.clip(rng.standard_cauchy((*rows, d)), -1e4, 1e4).astype(np.float32)


def student(rng, rows, d):
    return rng.standard_t(3, (*rows, d)).astype(np.float32)


def one_hot(rng, rows, d):
    return np.float32(8) * np.eye(d, dtype=np.float32)[rng.integers(0, d, rows)]


def constant(rng, rows, d):
    return np.repeat(normal(rng, rows, 1), d, axis=-1)


def denormal(rng, rows, d):
    return (rng.integers(-(2**22), 2**22, (*rows, d)) * 2.0**-149).astype(np.float32)


def spread(rng, rows, d):
    """Scores with a standard deviation of 5e3: the largest of a row are near 1e4."""
    return normal(rng, rows, d) * np.float32(25 * math.sqrt(8))


def offset(rng, rows, d):
    """Half of the keys' scores near +1e4, half near -1e4: all that is left of their differences is what f32 keeps."""
    x = normal(rng, rows, d)
    sign = rng.choice(np.array([-1, 1], np.float32), rows) if rows[1] == KEYS else np.float32(1)
    x[..., 37] = sign * np.float32(math.sqrt(1e4 * math.sqrt(d)))
    return x


# name, values of q and k, of v, queries, keys
QUERIES, KEYS, HEADS, DIM = 1500, 512, 2, 64
FAMILIES = [
    ("normal, 64 keys", normal, normal, QUERIES, 64),
    ("normal, 512 keys", normal, normal, QUERIES, KEYS),
    ("normal, 4096 keys", normal, normal, 200, 4096),
    ("normal, 100 000 keys", normal, normal, 8, 100000),
    ("logits to +-1e4", spread, normal, 4 * QUERIES, KEYS),
    ("logits all near +-1e4", offset, normal, QUERIES, KEYS),
    ("heavy tails (Student, 3)", student, student, QUERIES, KEYS),
    ("heavy tails (Cauchy)", heavy, heavy, 4 * QUERIES, KEYS),
    ("one-hot rows of 8", one_hot, one_hot, QUERIES, KEYS),
    ("constant rows", constant, constant, QUERIES, KEYS),
    ("denormals", denormal, denormal, QUERIES, KEYS),
    ("denormal values alone", normal, denormal, QUERIES, KEYS),
]


def measure(heed, index, kind, kind_v, queries, keys):
    """Errors of heed, three passes and torch, in units of 2^-24 of the largest output: [3][rows][dim]."""
    rng = np.random.default_rng([2031, index])
    q, k = kind(rng, (HEADS, queries), DIM), kind(rng, (HEADS, keys), DIM)
    v = kind_v(rng, (HEADS, keys), DIM)
    want = exact(q, k, v)
    unit = UNIT * np.abs(want).max()
    results = (f(q, k, v).astype(np.float64) for f in (heed.attention, three_passes, by_torch))
    return np.stack([(np.abs(r - want) / unit).reshape(-1, DIM) for r in results])


def verdict(errors):
    """heed against three passes, each row one sample."""
    difference = (errors[0] ** 2).mean(axis=-1) - (errors[1] ** 2).mean(axis=-1)
    chance = 3 * difference.std() / math.sqrt(len(difference))
    return "less" if difference.mean() < -chance else "more" if difference.mean() > chance else "equal"


HEAD = """<!-- Made by tests/reference/accuracy.py: do not edit. -->

Root mean square and largest error of f32 attention against f64, in units of 2^-24 of the largest output of the case; {heads} heads,
head_dim {dim}. heed {heed}, built-in exp; three passes: scores, exponentials, weighted values, each sum one chain in f32;
PyTorch {torch}, `scaled_dot_product_attention` on the CPU. The last column compares heed with three passes row by row: "equal"
is a mean difference within three standard errors; there the rounding of large scores, which is the same for all, makes the error.

| inputs | heed rms | three passes rms | PyTorch rms | heed max | three passes max | PyTorch max | heed's rms is |
|---|---|---|---|---|---|---|---|
"""
FOOT = """
```
cmake --preset release -B build/shared -DBUILD_SHARED_LIBS=ON && cmake --build build/shared --target heed
python3 tests/reference/accuracy.py --library build/shared/libheed.so --out docs/accuracy-table.md
```
"""


def main():
    parser = argparse.ArgumentParser(description="Measures f32 attention against f64.")
    parser.add_argument("--library", type=pathlib.Path, required=True, help="heed as a shared library")
    parser.add_argument("--out", type=pathlib.Path, help="where the table goes; else it is printed")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    heed = Heed(arguments.library.resolve())
    text = HEAD.format(heads=HEADS, dim=DIM, heed=heed.name, torch=torch.__version__.split("+")[0])
    worse = []
    for index, (name, *family) in enumerate(FAMILIES):
        errors = measure(heed, index, *family)
        numbers = [*np.sqrt((errors**2).mean(axis=(1, 2))), *errors.max(axis=(1, 2))]
        cells = [f"{x:.3g}" for x in numbers] + [verdict(errors)]
        text += f"| {name} | " + " | ".join(cells) + " |\n"
        print(f"{name:24}", *(f"{c:>9}" for c in cells), flush=True)
        if cells[-1] == "more":
            worse.append(name)
    text += FOOT
    if arguments.out:
        arguments.out.write_text(text)
    else:
        print(text)
    if worse:
        sys.exit("heed errs more than three passes: " + ", ".join(worse))


if __name__ == "__main__":
    main()
