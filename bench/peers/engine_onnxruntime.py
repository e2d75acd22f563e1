# ONNX Runtime's operators MultiHeadAttention (not causal) and GroupQueryAttention (causal), in models of one node.
# May know: ONNX Runtime, ONNX, problems.  Must not know: heed, other peers.

import numpy
from engines import Absent, NotOffered, Ready

TITLE = "ONNX Runtime"
DOMAIN = "com.microsoft"


def joined(x):
    """[batch][head][token][element] -> [batch][token][head * element], what both operators take."""
    return numpy.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


class Engine:

    def __init__(self, ort, onnx, threads):
        self.ort, self.onnx, self.threads, self.version = ort, onnx, threads, ort.__version__

    def session(self, operator, inputs, outputs, **attributes):
        """inputs: name -> array, or "" for one left out; outputs: name -> shape."""
        helper, floats = self.onnx.helper, self.onnx.TensorProto.FLOAT
        types = {numpy.dtype(numpy.float32): floats, numpy.dtype(numpy.int32): self.onnx.TensorProto.INT32}
        node = helper.make_node(operator, [name if x is not None else "" for name, x in inputs.items()],
                                list(outputs), domain=DOMAIN, **attributes)
        graph = helper.make_graph(
            [node], "one",
            [helper.make_tensor_value_info(n, types[x.dtype], x.shape) for n, x in inputs.items() if x is not None],
            [helper.make_tensor_value_info(n, floats, shape) for n, shape in outputs.items()])
        model = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17),
                                                                      helper.make_opsetid(DOMAIN, 1)])
        its_options = self.ort.SessionOptions()
        its_options.intra_op_num_threads, its_options.inter_op_num_threads = self.threads, 1
        its_options.log_severity_level = 3
        return self.ort.InferenceSession(model.SerializeToString(), its_options, providers=["CPUExecutionProvider"])

    def values(self, inputs):
        return {name: self.ort.OrtValue.ortvalue_from_numpy(x) for name, x in inputs.items() if x is not None}

    @staticmethod
    def caller(session, inputs, outputs):
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, value)
        for name, value in outputs.items():
            binding.bind_ortvalue_output(name, value)
        return lambda: session.run_with_iobinding(binding)

    @staticmethod
    def split(joined_output, shape):
        return joined_output.reshape(shape["batch"], shape["seq_q"], shape["heads"], -1).transpose(0, 2, 1, 3)

    def prepare(self, problem):
        if problem.shape["causal"]:
            return self.prepare_gqa(problem)
        if problem.softcap or problem.group > 1:
            raise NotOffered("MultiHeadAttention has no softcap and no groups")
        return self.prepare_mha(problem)

    def output(self, shape):
        width = shape["heads"] * shape["dim_v"]
        return self.ort.OrtValue.ortvalue_from_numpy(
            numpy.zeros((shape["batch"], shape["seq_q"], width), numpy.float32))

    def prepare_mha(self, problem):
        s, mask = problem.shape, problem.additive_mask()
        q, out, calls = joined(problem.q), self.output(problem.shape), []
        bias = None if mask is None else numpy.ascontiguousarray(mask[None])
        session = None
        for k, v in problem.keys_values:
            inputs = {"query": q, "key": joined(k), "value": joined(v), "b": None, "padding": None, "bias": bias}
            if session is None:
                session = self.session("MultiHeadAttention", inputs, {"out": out.shape()}, num_heads=s["heads"],
                                       scale=problem.scale)
            calls.append(self.caller(session, self.values(inputs), {"out": out}))
        return Ready(calls, lambda: self.split(out.numpy(), s), "MultiHeadAttention")

    def prepare_gqa(self, problem):
        """The past lies in a cache that the present shares, as in a model that generates: nothing is copied."""
        s = problem.shape
        if s["dim"] != s["dim_v"] or s["mask"] not in ("none", "softcap"):
            raise NotOffered("GroupQueryAttention: equal head sizes and no mask are what is measured")
        out, calls, session = self.output(s), [], None
        q = joined(problem.q)
        lengths = numpy.full((s["batch"],), s["seq_kv"] - 1, numpy.int32)
        total = numpy.array(s["seq_kv"], numpy.int32)
        new = slice(s["seq_kv"] - s["seq_q"], None)
        for k, v in problem.keys_values:
            inputs = {"query": q, "key": joined(k[:, :, new]), "value": joined(v[:, :, new]), "past_k": k,
                      "past_v": v, "lengths": lengths, "total": total}
            if session is None:
                attributes = {"num_heads": s["heads"], "kv_num_heads": s["kv_heads"], "scale": problem.scale}
                if s["window"]:
                    attributes["local_window_size"] = s["window"]
                if problem.softcap:
                    attributes["softcap"] = problem.softcap
                outputs = {"out": out.shape(), "present_k": k.shape, "present_v": v.shape}
                session = self.session("GroupQueryAttention", inputs, outputs, **attributes)
            values = self.values(inputs)
            bound = {"out": out, "present_k": values["past_k"], "present_v": values["past_v"]}
            calls.append(self.caller(session, values, bound))
        return Ready(calls, lambda: self.split(out.numpy(), s), "GroupQueryAttention")


def load(threads, _paths):
    try:
        import onnx  # pylint: disable=import-outside-toplevel
        import onnxruntime  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Absent(f"not installed ({error})") from None
    return Engine(onnxruntime, onnx, threads)
