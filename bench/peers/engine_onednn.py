# oneDNN's primitives: a matmul for the scores, a softmax, a matmul with the values, through its C interface.
# May know: the C interface of oneDNN 3, problems.  Must not know: heed, other peers.

import ctypes
import glob
import os
import sys
from ctypes import POINTER, Structure, byref, c_int, c_int64, c_uint, c_void_p

import numpy
from engines import Absent, NotOffered, Ready

TITLE = "oneDNN"
F32, CPU, IN_ORDER, INFERENCE, SOFTMAX, ADD = 3, 1, 1, 96, 0x30000, 0x1fff0
SRC, SRC_1, WEIGHTS, DST = 1, 2, 33, 17
RUNTIMES = {1: "sequential", 2: "OpenMP"}


class Version(Structure):
    _fields_ = [("major", c_int), ("minor", c_int), ("patch", c_int), ("hash", ctypes.c_char_p), ("cpu", c_uint)]


class Argument(Structure):
    _fields_ = [("which", c_int), ("memory", c_void_p)]


class Engine:

    def __init__(self, path):
        self.dnnl = ctypes.CDLL(path)
        self.dnnl.dnnl_version.restype = POINTER(Version)
        v = self.dnnl.dnnl_version().contents
        if v.major != 3 or v.cpu not in RUNTIMES:
            raise Absent(f"{path}: version {v.major} with CPU runtime {v.cpu}; 3 with OpenMP is what is understood")
        self.version = f"{v.major}.{v.minor}.{v.patch} ({RUNTIMES[v.cpu]})"
        self.engine = self.make("dnnl_engine_create", c_int(CPU), ctypes.c_size_t(0))
        self.stream = self.make("dnnl_stream_create", self.engine, c_uint(IN_ORDER))

    def call(self, function, *arguments):
        status = getattr(self.dnnl, function)(*arguments)
        if status:
            raise RuntimeError(f"{function}: status {status}")

    def make(self, function, *arguments):
        made = c_void_p()
        self.call(function, byref(made), *arguments)
        return made

    def description(self, shape, strides=None):
        sizes = (c_int64 * 12)(*shape)
        steps = [int(numpy.prod(shape[i + 1:])) for i in range(len(shape))] if strides is None else strides
        return self.make("dnnl_memory_desc_create_with_strides", c_int(len(shape)), sizes, c_int(F32),
                         (c_int64 * 12)(*steps))

    def memory(self, description, array):
        return self.make("dnnl_memory_create", description, self.engine, c_void_p(array.ctypes.data))

    def matmul(self, a, b, c):
        return self.make("dnnl_primitive_create", self.make("dnnl_matmul_primitive_desc_create", self.engine, a, b,
                                                            None, c, None))

    def runner(self, steps):
        prepared = [(primitive, (Argument * len(a))(*[Argument(which, m.value) for which, m in a.items()]), len(a))
                    for primitive, a in steps]
        execute, wait, stream = self.dnnl.dnnl_primitive_execute, self.dnnl.dnnl_stream_wait, self.stream

        def call():
            for primitive, arguments, count in prepared:
                if execute(primitive, stream, count, arguments):
                    raise RuntimeError("dnnl_primitive_execute failed")
            wait(stream)

        return call

    @staticmethod
    def mask(problem):
        """[1 or head][query of the group][key], or None."""
        mask, s = problem.additive_mask(), problem.shape
        if mask is None or problem.group == 1:
            return mask
        if mask.shape[0] == 1:
            return numpy.tile(mask, (1, problem.group, 1))
        return mask.reshape(s["kv_heads"], -1, s["seq_kv"])

    def prepare(self, problem):
        if problem.softcap:
            raise NotOffered("no softcap among the three primitives")
        s, d, dv, n = problem.shape, problem.shape["dim"], problem.shape["dim_v"], problem.shape["seq_kv"]
        # The heads of a group are queries of one head, so that no keys are broadcast, which takes a reference kernel.
        heads, rows = s["batch"] * s["kv_heads"], problem.group * s["seq_q"]
        q = (problem.q * numpy.float32(problem.scale)).reshape(heads, rows, d)  # the scale goes into them, before
        scores = numpy.empty((heads, rows, n), numpy.float32)
        out = numpy.zeros((heads, rows, dv), numpy.float32)
        q_desc, score_desc, out_desc = [self.description(x.shape) for x in (q, scores, out)]
        k_desc, v_desc = self.description((heads, d, n), [n * d, 1, d]), self.description((heads, n, dv))
        first, last = self.matmul(q_desc, k_desc, score_desc), self.matmul(score_desc, v_desc, out_desc)
        softmax = self.make("dnnl_primitive_create", self.make(
            "dnnl_softmax_forward_primitive_desc_create", self.engine, c_int(INFERENCE), c_int(SOFTMAX), score_desc,
            score_desc, c_int(2), None))
        at_q, at_s, at_o = self.memory(q_desc, q), self.memory(score_desc, scores), self.memory(out_desc, out)
        mask, between = self.mask(problem), [(softmax, {SRC: at_s, DST: at_s})]
        if mask is not None:  # fused into the matmul it takes a reference kernel
            desc = self.description(mask.shape)
            add = self.make("dnnl_primitive_create", self.make("dnnl_binary_primitive_desc_create", self.engine,
                                                               c_int(ADD), score_desc, desc, score_desc, None))
            between.insert(0, (add, {SRC: at_s, SRC_1: self.memory(desc, mask), DST: at_s}))
        calls = [self.runner([(first, {SRC: at_q, WEIGHTS: self.memory(k_desc, k), DST: at_s}), *between,
                              (last, {SRC: at_s, WEIGHTS: self.memory(v_desc, v), DST: at_o})])
                 for k, v in problem.keys_values]
        kept = (q, scores, mask)
        return Ready(calls, lambda: (out.reshape(problem.q.shape[:3] + (dv,)), kept)[0],
                     f"matmul, {'' if mask is None else 'add, '}softmax, matmul")


def load(_threads, paths):
    """The number of threads is the environment's: OMP_NUM_THREADS."""
    found = [paths["onednn"]] if paths.get("onednn") else glob.glob(os.path.join(sys.prefix, "lib", "libdnnl.so.3"))
    if not found:
        raise Absent("not installed")
    try:
        return Engine(found[0])
    except OSError as error:
        raise Absent(str(error)) from None
