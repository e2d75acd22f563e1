# PyTorch's scaled_dot_product_attention.
# May know: PyTorch, problems.  Must not know: heed, other peers.

import contextlib

import numpy
from engines import Absent, NotOffered, Ready

TITLE = "PyTorch"


class Engine:

    def __init__(self, torch, threads):
        from torch.nn import attention, functional  # pylint: disable=import-outside-toplevel
        torch.set_num_threads(threads)
        self.torch, self.version = torch, f"{torch.__version__} ({torch.backends.cpu.get_cpu_capability()})"
        self.attend, self.kernel, self.kinds = (functional.scaled_dot_product_attention, attention.sdpa_kernel,
                                                attention.SDPBackend)

    def mask(self, problem):
        """is_causal, and the mask beside it: is_causal means the upper left corner, so only a square may use it."""
        s = problem.shape
        if s["causal"] and s["seq_q"] == 1 and not s["window"] and s["mask"] == "none":
            return False, None
        if s["causal"] and s["seq_q"] == s["seq_kv"] and not s["window"] and s["mask"] == "none":
            return True, None
        added, hidden = problem.added(), problem.hidden()
        if added is None:
            return False, None if hidden is None else self.torch.from_numpy(~hidden)
        return False, self.torch.from_numpy(numpy.ascontiguousarray(problem.additive_mask()[None]))

    def prepare(self, problem):
        if problem.softcap:
            raise NotOffered("no softcap")
        causal, mask = self.mask(problem)
        q = self.torch.from_numpy(problem.q)
        result = [None]

        def caller(k, v):

            def call():
                result[0] = self.attend(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=problem.group > 1)

            return call

        calls = [caller(self.torch.from_numpy(k), self.torch.from_numpy(v)) for k, v in problem.keys_values]
        kernel, note = self.kinds.FLASH_ATTENTION, "flash"
        try:
            with self.guard(kernel):
                calls[0]()
        except RuntimeError:
            kernel, note = self.kinds.MATH, "math, which flash refuses"
        return Ready(calls, lambda: result[0].numpy(), note, lambda: self.guard(kernel))

    @contextlib.contextmanager
    def guard(self, kernel):
        """One kernel and no other, so that it is known which one was timed."""
        with self.kernel([kernel]), self.torch.inference_mode():
            yield


def load(threads, _paths):
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Absent(f"not installed ({error})") from None
    return Engine(torch, threads)
