# OpenVINO's operation ScaledDotProductAttention in a model of one node.
# May know: OpenVINO, problems.  Must not know: heed, other peers.

import numpy
from engines import Absent, NotOffered, Ready

TITLE = "OpenVINO"


class Engine:

    def __init__(self, openvino, opset, threads):
        self.ov, self.opset, self.core = openvino, opset, openvino.Core()
        self.version = openvino.__version__.split("-")[0]
        # f32: on CPUs with bfloat16 it would compute in that by default.
        self.settings = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1, "INFERENCE_PRECISION_HINT": "f32"}

    def model(self, arrays, causal):
        parameters = [self.opset.parameter(list(x.shape), x.dtype.type) for x in arrays]
        mask = parameters[3] if len(parameters) > 3 else None
        node = self.opset.scaled_dot_product_attention(*parameters[:3], attention_mask=mask, causal=causal)
        return self.core.compile_model(self.ov.Model([node], parameters), "CPU", self.settings)

    @staticmethod
    def grouped(problem):
        """With one query the heads of a group are queries of one head; else keys and values are repeated, before."""
        q, s = problem.q, problem.shape
        if problem.group == 1:
            return q, problem.keys_values, ""
        if s["seq_q"] == 1 and s["mask"] == "none" and not s["window"]:
            return q.reshape(s["batch"], s["kv_heads"], problem.group, -1), problem.keys_values, "groups as queries"
        repeated = [tuple(numpy.repeat(x, problem.group, axis=1) for x in pair) for pair in problem.keys_values]
        return q, repeated, "keys and values repeated for each head"

    def prepare(self, problem):
        if problem.softcap:
            raise NotOffered("no softcap")
        s = problem.shape
        q, keys_values, note = self.grouped(problem)
        square = s["causal"] and s["seq_q"] == s["seq_kv"] and not s["window"] and s["mask"] == "none"
        mask = None if square else problem.additive_mask()
        more = [] if mask is None else [numpy.ascontiguousarray(mask[None])]
        compiled = self.model([q, *keys_values[0], *more], bool(square))
        requests = []
        for k, v in keys_values:
            request = compiled.create_infer_request()
            for i, x in enumerate([q, k, v, *more]):
                request.set_input_tensor(i, self.ov.Tensor(x, shared_memory=True))
            requests.append(request)
        shape = (s["batch"], s["heads"], s["seq_q"], s["dim_v"])
        kept = (compiled, keys_values, more, q)  # a request does not keep the memory of its tensors
        return Ready([request.infer for request in requests],
                     lambda: (requests[0].get_output_tensor(0).data.reshape(shape), kept)[0], note)


def load(threads, _paths):
    try:
        import openvino  # pylint: disable=import-outside-toplevel
        from openvino import opset13  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Absent(f"not installed ({error})") from None
    return Engine(openvino, opset13, threads)
