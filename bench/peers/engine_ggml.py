# ggml's flash_attn_ext, from a build of ggml with shared libraries.
# May know: the C interface of ggml, problems.  Must not know: heed, other peers.

import ctypes
import glob
import os
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

import numpy
from engines import Absent, NotOffered, Ready

TITLE = "ggml"
F32, F16 = 0, 1
MASK_ROWS = 64  # versions before 2026 want a mask padded to so many queries


class InitParameters(Structure):
    _fields_ = [("size", c_size_t), ("memory", c_void_p), ("no_alloc", c_bool)]


class Plan(Structure):
    """More room than any version's: the callee fills in its own."""
    _fields_ = [("work_size", c_size_t), ("work", c_void_p), ("threads", c_int), ("rest", c_void_p * 16)]


def declare(base, cpu):
    for library, name, result, arguments in (
        (base, "ggml_init", c_void_p, [InitParameters]), (base, "ggml_free", None, [c_void_p]),
        (base, "ggml_new_tensor_4d", c_void_p, [c_void_p, c_int] + [c_int64] * 4),
        (base, "ggml_get_data", c_void_p, [c_void_p]), (base, "ggml_nbytes", c_size_t, [c_void_p]),
        (base, "ggml_flash_attn_ext", c_void_p, [c_void_p] * 5 + [c_float] * 3),
        (base, "ggml_new_graph", c_void_p, [c_void_p]),
        (base, "ggml_build_forward_expand", None, [c_void_p, c_void_p]),
        (base, "ggml_version", c_char_p, []),
        (cpu, "ggml_graph_plan", Plan, [c_void_p, c_int, c_void_p]),
        (cpu, "ggml_graph_compute", c_int, [c_void_p, POINTER(Plan)])):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments


class Engine:

    def __init__(self, threads, base, cpu):
        self.threads, self.base, self.cpu = threads, base, cpu
        self.version, self.context = base.ggml_version().decode(), None

    def tensor(self, kind, array):
        """array's axes, slowest first, are ggml's, fastest first; the data is copied."""
        tensor = self.base.ggml_new_tensor_4d(self.context, kind, *reversed(array.shape))
        array = numpy.ascontiguousarray(array)
        ctypes.memmove(self.base.ggml_get_data(tensor), array.ctypes.data, array.nbytes)
        return tensor

    def mask(self, problem):
        """All that hides keys or is added, as half-precision numbers: all that ggml takes.  ALiBi is its own."""
        matrix = problem.hidden() if problem.slopes is not None else problem.additive_mask()
        if problem.slopes is not None:
            s = problem.shape  # it multiplies the mask by its slopes: the mask is the distance
            distance = numpy.arange(s["seq_kv"]) - problem.positions()[:, None]
            matrix = (distance if matrix is None else numpy.where(matrix, -numpy.inf, distance))[None]
        if matrix is None:
            return None
        padded = numpy.zeros((1, 1, -(-matrix.shape[1] // MASK_ROWS) * MASK_ROWS, matrix.shape[2]), numpy.float16)
        padded[0, 0, :matrix.shape[1]] = matrix[0]
        return self.tensor(F16, padded)

    def prepare(self, problem):
        s = problem.shape
        if s["mask"] == "bias":
            raise NotOffered("its mask is in half precision, which a bias does not fit")
        if self.context:
            self.base.ggml_free(self.context)
        size = sum(k.nbytes + v.nbytes + 4 * problem.q.nbytes + (2 << 20) for k, v in problem.keys_values)
        size += problem.q.nbytes + 2 * (s["seq_q"] + MASK_ROWS) * s["seq_kv"] + (64 << 20)
        self.context = self.base.ggml_init(InitParameters(size, None, False))
        q, mask, calls, outputs = self.tensor(F32, problem.q), self.mask(problem), [], []
        alibi = 8.0 if problem.slopes is not None else 0.0  # from it come the slopes of problem.py
        for k, v in problem.keys_values:
            out = self.base.ggml_flash_attn_ext(self.context, q, self.tensor(F32, k), self.tensor(F32, v), mask,
                                                problem.scale, alibi, problem.softcap)
            calls.append(self.caller(out))
            outputs.append(out)

        def output():
            count = self.base.ggml_nbytes(outputs[0]) // 4
            floats = (c_float * count).from_address(self.base.ggml_get_data(outputs[0]))
            rows = numpy.ctypeslib.as_array(floats).reshape(s["batch"], s["seq_q"], s["heads"], -1)
            return rows.transpose(0, 2, 1, 3)

        return Ready(calls, output, "keys and values in f32")

    def caller(self, out):
        graph = self.base.ggml_new_graph(self.context)
        self.base.ggml_build_forward_expand(graph, out)
        plan = self.cpu.ggml_graph_plan(graph, self.threads, None)
        work = ctypes.create_string_buffer(plan.work_size + 64)
        plan.work = ctypes.addressof(work)

        def call():
            if self.cpu.ggml_graph_compute(graph, byref(plan)) or not work:
                raise RuntimeError("ggml_graph_compute failed")

        return call


def load(threads, paths):
    if not paths.get("ggml"):
        raise Absent("no path to a build was given (--ggml)")
    found = [glob.glob(os.path.join(paths["ggml"], "**", f"libggml-{part}.so"), recursive=True)
             for part in ("base", "cpu")]
    if not all(found):
        raise Absent(f"{paths['ggml']}: holds no libggml-base.so and libggml-cpu.so")
    base, cpu = [ctypes.CDLL(paths_found[0], mode=ctypes.RTLD_GLOBAL) for paths_found in found]
    try:
        declare(base, cpu)
    except AttributeError as error:
        raise Absent(f"a version of another interface: {error}") from None
    return Engine(threads, base, cpu)
