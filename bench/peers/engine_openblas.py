# The OpenBLAS that NumPy brings along, through numpy.matmul.
# May know: NumPy, problems.  Must not know: heed, other peers.

import numpy
from engines import Absent, Ready

TITLE = "OpenBLAS"


class Engine:

    def __init__(self, version):
        self.version = version

    def prepare(self, problem):
        y = numpy.zeros((problem.shape["rows"], problem.shape["out"]), numpy.float32)
        weights = [numpy.ascontiguousarray(problem.w.T) for _ in range(problem.copies)]

        def caller(w):
            return lambda: numpy.matmul(problem.x, w, out=y)

        return Ready([caller(w) for w in weights], lambda: y, "weights as [in][out], packed in every call")


def load(threads, _paths):
    try:
        from threadpoolctl import threadpool_info, threadpool_limits  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Absent(f"not installed ({error})") from None
    found = [pool for pool in threadpool_info() if pool.get("internal_api") == "openblas"]
    if not found:
        raise Absent("this NumPy is built with another BLAS")
    threadpool_limits(limits=threads, user_api="blas")
    return Engine(f"{found[0]['version']} ({found[0]['architecture']})")
