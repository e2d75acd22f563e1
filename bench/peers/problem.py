# The data of a shape, the same in every process, and what the right answer is, in double precision.
# May know: shapes, NumPy.  Must not know: heed or any peer.

import math

import numpy

SEED = 20240607
MOST_ROWS = 48  # of a head that are computed again in double precision
SOFTCAP = 30.0
COPIED_BYTES = 1 << 30
MOST_COPIES = 256


def last_cache():
    """Bytes of the largest cache of CPU 0, or a guess."""
    sizes = [32 << 20]
    for index in range(8):
        try:
            with open(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size", encoding="ascii") as file:
                text = file.read().strip()
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20, "G": 30}[text[-1]])
        except (OSError, ValueError, KeyError):
            break
    return max(sizes)


def copies(shape, size):
    """How often what streams from memory is kept, so that no call finds it in a cache; 1 if it does not stream."""
    if not shape.get("stream"):
        return 1
    return int(max(1, min(2 * last_cache() / size + 1, COPIED_BYTES / size, MOST_COPIES)))


class Attention:
    """q, k, v as [batch][head][token][element]; what is done to the scores."""

    def __init__(self, shape):
        s = self.shape = shape
        random = numpy.random.default_rng(SEED)
        self.q = random.standard_normal((s["batch"], s["heads"], s["seq_q"], s["dim"]), dtype=numpy.float32)
        k = random.standard_normal((s["batch"], s["kv_heads"], s["seq_kv"], s["dim"]), dtype=numpy.float32)
        v = random.standard_normal((s["batch"], s["kv_heads"], s["seq_kv"], s["dim_v"]), dtype=numpy.float32)
        self.keys_values = [(k, v)]
        for _ in range(copies(s, k.nbytes + v.nbytes) - 1):
            self.keys_values.append((k.copy(), v.copy()))
        self.scale = 1.0 / math.sqrt(s["dim"])
        self.group = s["heads"] // s["kv_heads"]
        pairs = (s["seq_q"], s["seq_kv"])
        self.softcap = SOFTCAP if s["mask"] == "softcap" else 0.0
        self.bias = random.standard_normal(pairs, dtype=numpy.float32) if s["mask"] == "bias" else None
        self.boolean = random.random(pairs) < 0.9 if s["mask"] == "boolean" else None
        self.slopes = None
        if s["mask"] == "alibi":
            self.slopes = numpy.float32(2.0)**(-8.0 * numpy.arange(1, s["heads"] + 1, dtype=numpy.float32) / s["heads"])

    def positions(self):
        return numpy.arange(self.shape["seq_q"]) + self.shape["seq_kv"] - self.shape["seq_q"]

    def hidden(self, rows=slice(None)):
        """Where the causal rule, the window and the mask hide keys, [row][key]; None if nowhere."""
        s, at = self.shape, self.positions()[rows, None]
        keys = numpy.arange(s["seq_kv"])
        hidden = numpy.zeros((at.shape[0], s["seq_kv"]), bool)
        if s["causal"]:
            hidden |= keys > at
        if s["window"]:
            hidden |= keys <= at - s["window"]
        if self.boolean is not None:
            hidden |= ~self.boolean[rows]
        return hidden if hidden.any() else None

    def added(self, rows=slice(None)):
        """What is added to the scores, [head or 1][row][key]; None if nothing."""
        if self.bias is not None:
            return self.bias[None, rows]
        if self.slopes is None:
            return None
        distance = numpy.arange(self.shape["seq_kv"]) - self.positions()[rows, None]
        return self.slopes[:, None, None] * distance.astype(numpy.float32)

    def additive_mask(self):
        """All of that as one matrix for the peers that know nothing else, [head or 1][row][key]; None if nothing."""
        hidden, added = self.hidden(), self.added()
        if hidden is None:
            return added
        matrix = numpy.where(hidden, numpy.float32(-numpy.inf), numpy.float32(0.0))[None]
        return matrix if added is None else matrix + added

    def checked_rows(self):
        count = self.shape["seq_q"]
        return numpy.unique(numpy.linspace(0, count - 1, min(count, MOST_ROWS)).astype(int))

    def reference(self):
        """Rows checked_rows() of every head, in double precision."""
        rows, (k, v) = self.checked_rows(), self.keys_values[0]
        hidden, added = self.hidden(rows), self.added(rows)
        out = numpy.empty(self.q.shape[:2] + (len(rows), v.shape[-1]))
        for b, h in numpy.ndindex(*self.q.shape[:2]):
            scores = self.q[b, h, rows].astype(float) @ k[b, h // self.group].astype(float).T * self.scale
            if self.softcap:
                scores = self.softcap * numpy.tanh(scores / self.softcap)
            if added is not None:
                scores += added[h if added.shape[0] > 1 else 0]
            if hidden is not None:
                scores[hidden] = -numpy.inf
            weights = numpy.exp(scores - scores.max(axis=1, keepdims=True))
            out[b, h] = weights / weights.sum(axis=1, keepdims=True) @ v[b, h // self.group].astype(float)
        return out

    def checked(self, output):
        return output[:, :, self.checked_rows()]


class Linear:
    """y = x w, w as [out][in], the way models store it."""

    def __init__(self, shape):
        self.shape = shape
        random = numpy.random.default_rng(SEED)
        self.x = random.standard_normal((shape["rows"], shape["in"]), dtype=numpy.float32)
        self.w = random.standard_normal((shape["out"], shape["in"]), dtype=numpy.float32)
        self.copies = copies(shape, self.w.nbytes)

    def checked_rows(self):
        return numpy.unique(numpy.linspace(0, self.shape["rows"] - 1, MOST_ROWS).astype(int))

    def reference(self):
        return self.x[self.checked_rows()].astype(float) @ self.w.T.astype(float)

    def checked(self, output):
        return output[self.checked_rows()]


class Softmax:

    def __init__(self, shape):
        self.shape = shape
        random = numpy.random.default_rng(SEED)
        self.x = 4.0 * random.standard_normal((shape["rows"], shape["cols"]), dtype=numpy.float32)

    def reference(self):
        x = self.x.astype(float)
        weights = numpy.exp(x - x.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def checked(self, output):
        return output


def make(shape):
    return {"attention": Attention, "linear": Linear, "softmax": Softmax}[shape["kind"]](shape)


def error(output, reference):
    """The largest difference, relative to the largest value; infinite if the output is not a number somewhere."""
    difference = numpy.abs(output.astype(float) - reference).max()
    return float(difference / numpy.abs(reference).max()) if numpy.isfinite(difference) else math.inf
