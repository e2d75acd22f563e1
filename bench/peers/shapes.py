# Reads bench/shapes.txt: the shapes of heed_bench, as dictionaries.
# May know: the syntax of the list.  Must not know: heed, how anything is measured.
# Python's standard library alone.

import itertools
import re

WORDS = ("exp", "mask", "type", "io", "layout", "page")
ATTENTION_DEFAULTS = {"batch": 1, "causal": 0, "exp": "default", "stream": 0, "window": 0, "mask": "none",
                      "type": "f32", "io": "f32", "layout": "bhsd", "page": "none", "ragged": 0}


class BadShapes(Exception):
    pass


def expand(kind, pattern, fields):
    """One shape for each combination of values."""
    for values in itertools.product(*fields.values()):
        chosen = dict(zip(fields, values))
        yield {"kind": kind, "name": pattern.format(**chosen), **chosen}


def parse_line(words, where):
    fields = {}
    for word in words[2:]:
        name, equals, values = word.partition("=")
        if not equals:
            raise BadShapes(f"{where}: {word} is not FIELD=VALUE")
        try:
            fields[name] = [value if name in WORDS else int(value) for value in values.split(",")]
        except ValueError:
            raise BadShapes(f"{where}: {name}: {values} is not a list of numbers") from None
    try:
        return list(expand(words[0], words[1], fields))
    except (KeyError, ValueError, IndexError):
        raise BadShapes(f"{where}: {words[1]}: a {{place}} must name a field of this line") from None


def complete(shape, where):
    """Defaults as heed_bench has them."""
    if shape["kind"] == "attention":
        for name, value in ATTENTION_DEFAULTS.items():
            shape.setdefault(name, value)
        length = shape.pop("seq", None)
        for name in ("seq_q", "seq_kv"):
            shape.setdefault(name, length)
        shape.setdefault("kv_heads", shape.get("heads"))
        shape.setdefault("dim_v", shape.get("dim"))
    needed = {"attention": ("heads", "dim", "seq_q", "seq_kv"), "linear": ("rows", "in", "out"),
              "softmax": ("rows", "cols")}
    for name in needed.get(shape["kind"], ()):
        if not shape.get(name):
            raise BadShapes(f"{where}: {name} is missing")
    return shape


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            lines = file.read().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadShapes(f"{path}: cannot be read: {getattr(error, 'strerror', None) or 'not ASCII'}") from None
    shapes = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words and len(words) < 2:
            raise BadShapes(f"{path}:{number}: {words[0]} has no name")
        if words:
            shapes += [complete(shape, f"{path}:{number}") for shape in parse_line(words, f"{path}:{number}")]
    return shapes


def full_name(shape):
    return f"{shape['kind']}/{shape['name']}"


def is_plain(shape):
    """All tensors are f32, a head by itself, of one length: what is compared with others."""
    return shape["kind"] != "attention" or (
        shape["type"] == shape["io"] == "f32" and shape["layout"] == "bhsd" and shape["page"] == "none"
        and not shape["ragged"])


def choose(shapes, pattern):
    return [shape for shape in shapes if is_plain(shape) and re.search(pattern, full_name(shape))]


def visible(shape):
    """Pairs of a query and a key that see each other, in one head."""
    queries, keys, window = shape["seq_q"], shape["seq_kv"], shape["window"]
    if not shape["causal"]:
        return queries * keys
    total = 0
    for query in range(queries):
        seen = max(0, min(keys, query + keys - queries + 1))
        total += min(seen, window) if window else seen
    return total


def flops(shape):
    """Two for each multiply-add; 0 where the work is not made of them."""
    if shape["kind"] == "attention":
        return 2 * shape["batch"] * shape["heads"] * visible(shape) * (shape["dim"] + shape["dim_v"])
    if shape["kind"] == "linear":
        return 2 * shape["rows"] * shape["in"] * shape["out"]
    return 0


def bytes_moved(shape):
    """Each input read once, each output written once."""
    if shape["kind"] == "attention":
        rows, keys = shape["heads"] * shape["seq_q"], shape["kv_heads"] * shape["seq_kv"]
        return 4 * shape["batch"] * (rows + keys) * (shape["dim"] + shape["dim_v"])
    if shape["kind"] == "linear":
        return 4 * (shape["rows"] * (shape["in"] + shape["out"]) + shape["in"] * shape["out"])
    return 8 * shape["rows"] * shape["cols"]
