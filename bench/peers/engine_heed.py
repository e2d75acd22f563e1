# heed, through its shared library.
# May know: heed_library, problems.  Must not know: peers.

import ctypes

import heed_library as heed
import numpy
from engines import Ready

TITLE = "heed"


def address(array):
    return array.ctypes.data


class Engine:

    def __init__(self, threads, path):
        self.library, self.threads = heed.load(path), threads
        isa = self.library.heed_isa_name(self.library.heed_isa_default()).decode()
        self.version = f"{self.library.heed_version().decode()} ({isa})"

    def prepare(self, problem):
        return getattr(self, f"prepare_{problem.shape['kind']}")(problem)

    def prepare_attention(self, problem):
        s = problem.shape
        a = heed.Attention(struct_size=ctypes.sizeof(heed.Attention), batch=s["batch"], num_heads=s["heads"],
                           num_kv_heads=s["kv_heads"], seq_len_q=s["seq_q"], seq_len_kv=s["seq_kv"],
                           head_dim=s["dim"], head_dim_v=s["dim_v"], softcap=problem.softcap,
                           causal=heed.CAUSAL_BOTTOM_RIGHT if s["causal"] else 0,
                           window_left=s["window"] - 1 if s["window"] else -1, window_right=-1)
        a.strides_bias = a.strides_mask = heed.MaskStrides(query=s["seq_kv"], key=1)
        plan = heed.Plan(self.library, a, heed.options(self.threads, s["exp"]))
        out = numpy.zeros((s["batch"], s["heads"], s["seq_q"], s["dim_v"]), numpy.float32)
        mask = None if problem.boolean is None else problem.boolean.astype(numpy.uint8)
        calls = []
        for k, v in problem.keys_values:
            t = heed.Tensors(struct_size=ctypes.sizeof(heed.Tensors), q=address(problem.q), k=address(k),
                             v=address(v), out=address(out))
            t.bias = None if problem.bias is None else address(problem.bias)
            t.mask = None if mask is None else address(mask)
            t.alibi_slopes = None if problem.slopes is None else address(problem.slopes)
            calls.append(plan.caller(t))
        return Ready(calls, lambda: (out, mask)[0])

    def prepare_linear(self, problem):
        s, error = problem.shape, heed.Error()
        y = numpy.zeros((s["rows"], s["out"]), numpy.float32)
        desc = heed.LinearDesc(struct_size=ctypes.sizeof(heed.LinearDesc), in_features=s["in"],
                               out_features=s["out"], weight=address(problem.w), stride_in=1, stride_out=s["in"])
        its_options, linears = heed.options(self.threads), []
        for _ in range(problem.copies):
            linear = ctypes.c_void_p()
            heed.check(self.library.heed_linear_create(ctypes.byref(linear), ctypes.byref(desc),
                                                       ctypes.byref(its_options), ctypes.byref(error)), error)
            linears.append(linear)
        size = self.library.heed_linear_workspace_size(linears[0], s["rows"])
        workspace = ctypes.create_string_buffer(size + 1)
        rest = (s["rows"], address(problem.x), s["in"], address(y), s["out"], ctypes.addressof(workspace), size,
                ctypes.byref(error))

        def caller(which):
            return lambda: heed.check(self.library.heed_linear_run(which, *rest), error)

        return Ready([caller(which) for which in linears], lambda: (y, workspace)[0], "weights packed once, before")

    def prepare_softmax(self, problem):
        s, error, its_options = problem.shape, heed.Error(), heed.options(self.threads, problem.shape["exp"])
        y = numpy.zeros_like(problem.x)
        arguments = (s["rows"], s["cols"], address(problem.x), s["cols"], address(y), s["cols"], None,
                     ctypes.byref(its_options), ctypes.byref(error))
        return Ready([lambda: heed.check(self.library.heed_softmax(*arguments), error)], lambda: y)


def load(threads, paths):
    try:
        return Engine(threads, paths["heed"])
    except heed.HeedError as error:
        raise SystemExit(str(error)) from None
