# A plain loop around SLEEF's vector exp (sleef_softmax.c), compiled here with this machine's compiler.
# May know: the C file beside it, how to call a compiler.  Must not know: heed, other peers.

import ctypes
import os
import shutil
import subprocess
import tempfile
from ctypes import c_char_p, c_int, c_int64, c_void_p

import numpy
from engines import Absent, Ready

TITLE = "plain SLEEF loop"
HERE = os.path.dirname(os.path.abspath(__file__))


def build(folder):
    compiler = os.environ.get("CC") or shutil.which("cc")
    if not compiler:
        raise Absent("no C compiler (cc, or CC)")
    path = os.path.join(folder, "sleef_softmax.so")
    command = [compiler, "-std=c11", "-O3", "-march=native", "-fopenmp", "-shared", "-fPIC", "-o", path,
               os.path.join(HERE, "sleef_softmax.c"), "-lsleef", "-lm"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "error" in line] or ["the compiler failed"]
        raise Absent(lines[0])
    return path


class Engine:

    def __init__(self, threads, path):
        self.threads, library = threads, ctypes.CDLL(path)
        library.peer_name.restype = c_char_p
        self.version, self.run = library.peer_name().decode(), library.peer_softmax
        self.run.restype, self.run.argtypes = None, [c_int64, c_int64, c_void_p, c_void_p, c_int]

    def prepare(self, problem):
        y = numpy.zeros_like(problem.x)
        arguments = (problem.shape["rows"], problem.shape["cols"], problem.x.ctypes.data, y.ctypes.data, self.threads)
        return Ready([lambda: self.run(*arguments)], lambda: (y, problem)[0], self.version)


def load(threads, _paths):
    with tempfile.TemporaryDirectory() as folder:
        return Engine(threads, build(folder))
