# What every library that is timed looks like, and where each is found.
# May know: that there are peers, by name.  Must not know: their interfaces, heed's interface.
# Python's standard library alone.
"""An engine is a module with

  TITLE                    how tables call it
  load(threads, paths)     an object, or raises Absent(reason): not installed, or no path to it was given
    .version               text
    .prepare(problem)      a Ready, or raises NotOffered(reason): the library has no such operation

Everything that is not the operation itself (packing weights, building a model, another layout of the same data) happens
in prepare and is not timed."""

import contextlib
import importlib

KINDS = {
    "attention": ("heed", "pytorch", "onnxruntime", "openvino", "onednn", "ggml"),
    "linear": ("heed", "openblas"),
    "softmax": ("heed", "sleef"),
}
NAMES = tuple(dict.fromkeys(name for names in KINDS.values() for name in names))


class Absent(Exception):
    pass


class NotOffered(Exception):
    pass


class Ready:
    """Calls, used in turn (several if keys and values, or weights, stream from memory), and their output.

    guard() is a context that the calls need."""

    def __init__(self, calls, output, note="", guard=contextlib.nullcontext):
        self.calls, self.output, self.note, self.guard = calls, output, note, guard


def module(name):
    return importlib.import_module(f"engine_{name}")
