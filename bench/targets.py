# What heed wants to reach, and what a run reached: the first table of docs/performance.md.
# May know: figures of heed_bench by the names of shapes.txt, ratios of bench/peers.  Must not know: files, Markdown.
# Python's standard library alone.

LENGTHS = (1024, 2048, 4096)
# Title, least percentage, figure, kind, shapes.
SHARES = (
    ("not causal, head_dim 128, L 1024, 2048, 4096", 88, "fma_%", "attention", [f"sweep_l{n}_d128" for n in LENGTHS]),
    ("not causal, head_dim 64, L 1024, 2048, 4096", 82, "fma_%", "attention", [f"sweep_l{n}_d64" for n in LENGTHS]),
    ("head_dim 64, L 512", 78, "fma_%", "attention", ["sweep_l512_d64"]),
    ("head_dim 64, L 256", 72, "fma_%", "attention", ["sweep_l256_d64"]),
    ("head_dim 64, L 128", 60, "fma_%", "attention", ["sweep_l128_d64"]),
    ("causal, head_dim 128, L 2048", 84, "fma_%", "attention", ["sweep_causal_l2048_d128"]),
    ("causal, head_dim 128, L 512", 68, "fma_%", "attention", ["sweep_causal_l512_d128"]),
    ("head_dim 80, 96, 112, 256, L 2048", 80, "fma_%", "attention", [f"sweep_l2048_d{d}" for d in (80, 96, 112, 256)]),
    ("window of 1024 in L 8192, head_dim 128", 75, "fma_%", "attention", ["window_1024_of_8192"]),
    ("projection 512 x 4096 x 4096", 92, "fma_%", "linear", ["512x4096x4096"]),
    ("projection 1 x 4096 x 4096, of the read bandwidth", 90, "read_%", "linear", ["1x4096x4096"]),
    ("decode, 8 heads over 8, 8192 and 32768 keys, f32, of the read bandwidth", 90, "read_%", "attention",
     [f"decode_l{n}_h8_f32_none" for n in (8192, 32768)]),
    ("the same, f16", 90, "read_%", "attention", [f"decode_l{n}_h8_f16_none" for n in (8192, 32768)]),
    ("the same, int8", 85, "read_%", "attention", [f"decode_l{n}_h8_i8_none" for n in (8192, 32768)]),
)
TYPES = ("f32", "f16", "i8")
# Title, most times the time, (shape, shape it is compared with) for each figure.
RATIOS = (
    ("decode, 8192 keys, 32 heads over 8 against 8 over 8, f32, f16, int8: times the time", 1.15,
     [(f"decode_l8192_h32_{t}_none", f"decode_l8192_h8_{t}_none") for t in TYPES]),
    ("the same, 32768 keys", 1.15, [(f"decode_l32768_h32_{t}_none", f"decode_l32768_h8_{t}_none") for t in TYPES]),
    ("decode, 8192 keys, 8 over 8, pages of 16 against none, f32, f16, int8: times the time", 1.05,
     [(f"decode_l8192_h8_{t}_16", f"decode_l8192_h8_{t}_none") for t in TYPES]),
    ("the same, pages of 128", 1.05, [(f"decode_l8192_h8_{t}_128", f"decode_l8192_h8_{t}_none") for t in TYPES]),
    ("prefill from f16 against f32, L 512, 2048: times the time", 1.05,
     [(f"prefill_l{n}_f16", f"prefill_l{n}_f32") for n in (512, 2048)]),
    ("queries and results too, 12 heads of 64, L 128, 512, f16, bf16, against f32: times the time", 1.05,
     [(f"all_{t}_l{n}", f"bert_base_{n}") for t in ("f16", "bf16") for n in (128, 512)]),
)
DECODE_THREADS = [f"decode_l{n}_h8_{t}_none" for n in (8192, 32768) for t in TYPES]
SHORT, SHORT_MICROSECONDS = [f"decode_short_h1_{t}" for t in TYPES], 3.0
MASKS = (("bias", 1.10), ("boolean", 1.10), ("alibi", 1.10), ("softcap", 1.25))
MASK_DIMS = (64, 128)
TINY, TINY_MICROSECONDS, TINY_RATIO = "tiny_8", 3.0, 1.1
TWO_THREADS, TWO_THREADS_FROM = 1.9, 512
# The shape growth_l16384: one head of 64 elements.
MEMORY, MEMORY_LENGTH, MEMORY_ROW, MEMORY_MIB = "growth_l16384", 16384, 64 * 4, 64
PEER_RATIO, PEER_FROM = 1.2, 512


def mark(text, reached):
    return text if reached else f"**{text}**"


class Run:
    """The figures of one backend."""

    def __init__(self, results, backend, most_threads):
        self.results, self.backend, self.threads = results, backend, most_threads

    def get(self, kind, shape, threads=1):
        return self.results.get((kind, self.backend, shape, threads))

    def share(self, target):
        _, least, name, kind, shapes = target
        values = [self.get(kind, shape).get(name) if self.get(kind, shape) else None for shape in shapes]
        return ", ".join(mark(f"{v:.0f}", v >= least) if v is not None else "-" for v in values)

    def mask(self, mask, most):
        return self.ratios(most, [[f"mask_{m}_2048_d{dim}" for m in (mask, "none")] for dim in MASK_DIMS])

    def ratios(self, most, pairs):
        cells = []
        for shapes in pairs:
            one, other = [self.get("attention", shape) for shape in shapes]
            ratio = one["median_s"] / other["median_s"] if one and other else None
            cells.append(mark(f"{ratio:.2f}", ratio <= most) if ratio else "-")
        return ", ".join(cells)

    def decode_threads(self):
        cells = []
        for shape in DECODE_THREADS:
            one, two = self.get("attention", shape), self.get("attention", shape, 2)
            speedup = one["median_s"] / two["median_s"] if one and two else None
            cells.append(mark(f"{speedup:.2f}", speedup >= TWO_THREADS) if speedup else "-")
        return ", ".join(cells)

    def short(self):
        times = [1e6 * r["median_s"] if r else None for r in (self.get("attention", shape) for shape in SHORT)]
        return ", ".join(mark(f"{t:.2g}", t < SHORT_MICROSECONDS) if t else "-" for t in times)

    def speedups(self):
        """(speedup, shape) of the sweep's shapes with two threads."""
        found = []
        for (kind, backend, shape, threads), result in self.results.items():
            one = self.get(kind, shape)
            if kind == "attention" and backend == self.backend and threads == 2 and one and shape.startswith("sweep_"):
                length = int("".join(c for c in shape.split("_l")[-1].split("_")[0] if c.isdigit()))
                if length >= TWO_THREADS_FROM:
                    found.append((one["median_s"] / result["median_s"], shape))
        return sorted(found)

    def two_threads(self):
        found = self.speedups()
        return f"{mark(f'{found[0][0]:.2f}', found[0][0] >= TWO_THREADS)} ({found[0][1]})" if found else "-"

    def tiny(self):
        one, every = self.get("attention", TINY), self.get("attention", TINY, self.threads)
        if not one or not every or self.threads == 1:
            return "-"
        ratio, time = every["median_s"] / one["median_s"], 1e6 * every["median_s"]
        return f"{mark(f'{ratio:.2f}', ratio <= TINY_RATIO)}, {mark(f'{time:.2g}', time < TINY_MICROSECONDS)}"

    def memory(self):
        found = [self.get("attention", MEMORY, threads) for threads in sorted({1, self.threads})]
        found = [result["workspace"] for result in found if result]
        if not found:
            return "-"
        beyond = (max(found) - 2 * MEMORY_LENGTH * MEMORY_ROW) / 2**20
        return mark(f"{beyond:.2f}", beyond < MEMORY_MIB)


def peer_rows(ratios):
    """ratios: (ratio, kind, shape, threads, title, length), ascending."""
    rows = []
    groups = (("attention, L below 512", 1.0, lambda r: r[1] == "attention" and r[5] < PEER_FROM),
              ("attention, L 512 and above", PEER_RATIO, lambda r: r[1] == "attention" and r[5] >= PEER_FROM),
              ("projections", PEER_RATIO, lambda r: r[1] == "linear"))
    for title, least, chosen in groups:
        for threads in sorted({r[3] for r in ratios}):
            found = [r for r in ratios if chosen(r) and r[3] == threads]
            if found:
                ratio, _, shape, _, name, _ = found[0]
                reached = sum(r[0] >= least for r in found)
                many = "one thread" if threads == 1 else f"{threads} threads"
                rows.append([f"fastest peer's time over heed's, {title}, {many}", f">= {least:g}",
                             f"{mark(f'{ratio:.2f}', ratio >= least)} ({shape}, {name}); "
                             f"reached by {reached} of {len(found)} shapes"])
    return rows


def rows(results, backends, most_threads):
    """Title, target and a cell for each backend; bold is not reached."""
    runs = [Run(results, backend, most_threads) for backend in backends]
    made = [[target[0], f">= {target[1]} %"] + [run.share(target) for run in runs] for target in SHARES]
    for name, most in MASKS:
        made.append([f"{name} against none, L 2048, head_dim 64, 128: times the time", f"<= {most:.2f}"] +
                    [run.mask(name, most) for run in runs])
    made.append([f"two threads, L >= {TWO_THREADS_FROM}: times as fast, the least of the sweep", f">= {TWO_THREADS}"] +
                [run.two_threads() for run in runs])
    for title, most, pairs in RATIOS:
        made.append([title, f"<= {most:.2f}"] + [run.ratios(most, pairs) for run in runs])
    made.append(["decode, 8 over 8, two threads, 8192 and 32768 keys of f32, f16, int8: times as fast",
                 f">= {TWO_THREADS}"] + [run.decode_threads() for run in runs])
    made.append(["decode, 128 keys, one head of 128, f32, f16, int8: microseconds", f"< {SHORT_MICROSECONDS:g}"] +
                [run.short() for run in runs])
    made.append(["tiny (L 8): all threads over one; microseconds", f"<= {TINY_RATIO}; < {TINY_MICROSECONDS:g}"] +
                [run.tiny() for run in runs])
    made.append([f"memory at L {MEMORY_LENGTH} beyond packed keys and values, MiB", f"< {MEMORY_MIB}"] +
                [run.memory() for run in runs])
    return made
