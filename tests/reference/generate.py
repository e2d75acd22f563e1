#!/usr/bin/env python3
# Makes tests/reference/cases.bin: inputs and what PyTorch answers to them in f64.
# It may know: the modules beside it, PyTorch.
# It must not know: heed's sources.  Nothing here is needed to build, test or use heed.
"""Writes cases.bin, whose format casefile.py tells, and prints how far f32 PyTorch and f32 ONNX Runtime are from it.

Requirements: torch, numpy, onnx, onnxruntime, transformers (their versions stand in the second line of cases.bin).

    python3 tests/reference/generate.py [--out tests/reference/cases.bin]

Every attention case carries `magnitude`, the largest |scale| * sum_d |q_d k_d| + |what is added| of a visible pair: what
the rounding of a score in f32 is proportional to; 0 where all scores are exact in f32.
"""
import argparse
import pathlib
import warnings

import attention_cases
import layer_cases
import numpy as np
import onnxruntime
import rope_cases
import torch
import torch.nn.functional as F
import transformers
from attention_table import CASES
from casefile import Writer


def write_softmax(writer, index, name, rows, cols, spread, lengths=None, hide=0.0):
    rng = np.random.default_rng([2025, index])
    x = (rng.standard_normal((rows, cols)) * spread).astype("<f4")
    x[rng.random(x.shape) < hide] = -np.inf
    x[:, 0] = 1.0  # no row of nothing but -inf: torch answers NaN, heed 0
    truth = np.zeros(x.shape)
    for r in range(rows):
        end = cols if lengths is None else lengths[r]
        truth[r, :end] = torch.softmax(torch.from_numpy(x[r, :end]).double(), dim=0).numpy()
    tensors = {"x": x, "y": truth}
    if lengths is not None:
        tensors["lengths"] = np.array(lengths, "<i4")
    writer.case("softmax", name, {"rows": rows, "cols": cols}, tensors)


def write_linear(writer, index, name, m, k, n, bias):
    rng = np.random.default_rng([2026, index])
    tensors = {"x": rng.standard_normal((m, k)).astype("<f4"), "w": rng.standard_normal((n, k)).astype("<f4")}
    if bias:
        tensors["b"] = rng.standard_normal(n).astype("<f4")
    x, w = (torch.from_numpy(tensors[t]).double() for t in "xw")
    b = torch.from_numpy(tensors["b"]).double() if bias else None
    magnitude = F.linear(x.abs(), w.abs(), b.abs() if bias else None).max().item()
    writer.case("linear", name, {"m": m, "k": k, "n": n, "magnitude": magnitude}, tensors | {"y": F.linear(x, w, b)})


def write_all(writer):
    for index, (name, changes, extra) in enumerate(CASES):
        attention_cases.write(writer, index, name, changes, extra)
    write_softmax(writer, 0, "softmax", 9, 37, 3.0)
    write_softmax(writer, 1, "softmax_lengths", 8, 20, 3.0, lengths=[1, 2, 7, 8, 9, 16, 17, 20])
    write_softmax(writer, 2, "softmax_hidden", 6, 33, 10.0, hide=0.4)
    write_softmax(writer, 3, "softmax_long", 1, 600, 1.0)
    write_linear(writer, 0, "linear", 7, 37, 21, bias=True)
    write_linear(writer, 1, "linear_no_bias", 13, 64, 9, bias=False)
    write_linear(writer, 2, "linear_one_row", 1, 70, 17, bias=True)
    layer_cases.write(writer)
    rope_cases.write(writer)


def main():
    parser = argparse.ArgumentParser(description="Makes the reference values of heed's tests.")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "cases.bin")
    path = parser.parse_args().out
    torch.set_num_threads(1)  # one order of sums, whatever the machine
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    modules = torch, np, onnxruntime, transformers
    with open(path, "wb") as file:
        write_all(Writer(file, " ".join(f"{m.__name__} {m.__version__}" for m in modules)))
    print(f"{path.name}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
