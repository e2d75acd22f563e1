# heed's public interface through ctypes.
# May know: include/heed/heed.h.  Must not know: NumPy, other libraries, how anything is measured.
# Python's standard library alone.
# Structures end where this file stops: struct_size tells heed, which takes shorter ones than the header's.

import ctypes
import glob
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_float, c_int, c_int32, c_int64, c_size_t, c_void_p

CAUSAL_BOTTOM_RIGHT = 1
EXP = {"default": 0, "builtin": 1, "sleef": 2}


class Error(Structure):
    _fields_ = [("message", c_char * 192)]


class Options(Structure):
    _fields_ = [("struct_size", c_size_t), ("isa", c_int), ("exp", c_int), ("num_threads", c_int32),
                ("executor", c_void_p), ("allocator", c_void_p)]


class Strides(Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("seq", c_int64)]


class MaskStrides(Structure):
    _fields_ = [("batch", c_int64), ("head", c_int64), ("query", c_int64), ("key", c_int64)]


class Attention(Structure):
    _fields_ = [("struct_size", c_size_t), ("batch", c_int64), ("num_heads", c_int64), ("num_kv_heads", c_int64),
                ("seq_len_q", c_int64), ("seq_len_kv", c_int64), ("head_dim", c_int64), ("head_dim_v", c_int64),
                ("scale", c_float), ("causal", c_int), ("causal_offset", c_int64), ("layout", c_int),
                ("strides_q", Strides), ("strides_k", Strides), ("strides_v", Strides), ("strides_out", Strides),
                ("window_left", c_int64), ("window_right", c_int64), ("softcap", c_float),
                ("strides_bias", MaskStrides), ("strides_mask", MaskStrides), ("block_mask_q", c_int64),
                ("block_mask_kv", c_int64), ("varlen", c_int32)]


class Tensors(Structure):
    _fields_ = [("struct_size", c_size_t)] + [
        (name, c_void_p)
        for name in ("q", "k", "v", "out", "lse", "weights", "lengths_q", "lengths_kv", "bias", "mask",
                     "alibi_slopes", "sinks", "block_mask", "offsets_q", "offsets_kv")
    ]


class LinearDesc(Structure):
    _fields_ = [("struct_size", c_size_t), ("in_features", c_int64), ("out_features", c_int64), ("weight", c_void_p),
                ("stride_in", c_int64), ("stride_out", c_int64), ("bias", c_void_p)]


# The header's names, for the test that compares sizes and offsets.
STRUCTS = {"heed_error": Error, "heed_options": Options, "heed_strides": Strides, "heed_mask_strides": MaskStrides,
           "heed_attention": Attention, "heed_tensors": Tensors, "heed_linear_desc": LinearDesc}

FUNCTIONS = {
    "heed_version": (c_char_p, []),
    "heed_isa_default": (c_int, []),
    "heed_isa_name": (c_char_p, [c_int]),
    "heed_plan_create": (c_int, [POINTER(c_void_p), POINTER(Attention), POINTER(Options), POINTER(Error)]),
    "heed_plan_destroy": (None, [c_void_p]),
    "heed_plan_workspace_size": (c_size_t, [c_void_p]),
    "heed_run": (c_int, [c_void_p, POINTER(Tensors), c_void_p, c_size_t, POINTER(Error)]),
    "heed_linear_create": (c_int, [POINTER(c_void_p), POINTER(LinearDesc), POINTER(Options), POINTER(Error)]),
    "heed_linear_destroy": (None, [c_void_p]),
    "heed_linear_workspace_size": (c_size_t, [c_void_p, c_int64]),
    "heed_linear_run": (c_int, [c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_size_t,
                                POINTER(Error)]),
    "heed_softmax": (c_int, [c_int64, c_int64, c_void_p, c_int64, c_void_p, c_int64, c_void_p, POINTER(Options),
                             POINTER(Error)]),
}


class HeedError(Exception):
    pass


def find(folder):
    """The shared library of a build folder (or the path of the library itself)."""
    if os.path.isfile(folder):
        return folder
    for pattern in ("libheed.so", "libheed.dylib", "src/libheed.so", "heed.dll"):
        found = glob.glob(os.path.join(folder, pattern))
        if found:
            return found[0]
    raise HeedError(f"{folder}: holds no shared library of heed; configure it with -DBUILD_SHARED_LIBS=ON")


def load(path):
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise HeedError(f"{path}: {error}") from None
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def check(status, error):
    if status:
        raise HeedError(error.message.decode("ascii", "replace") or f"status {status}")


def options(threads, exp="default"):
    return Options(struct_size=ctypes.sizeof(Options), num_threads=threads, exp=EXP[exp])


class Plan:
    """A plan of one problem; run(tensors) gives the same as heed_run with a workspace of its own."""

    def __init__(self, library, attention, its_options):
        self.library, self.error, self.plan = library, Error(), c_void_p()
        check(library.heed_plan_create(byref(self.plan), byref(attention), byref(its_options), byref(self.error)),
              self.error)
        self.size = library.heed_plan_workspace_size(self.plan)
        self.workspace = ctypes.create_string_buffer(self.size + 1)

    def caller(self, tensors):
        """A function without arguments that runs the plan: what is not the call is done here, once."""
        run, plan, at, error = self.library.heed_run, self.plan, byref(tensors), byref(self.error)
        workspace, size = ctypes.addressof(self.workspace), self.size

        def call():
            check(run(plan, at, workspace, size, error), self.error)

        return call

    def close(self):
        self.library.heed_plan_destroy(self.plan)
        self.plan = None

