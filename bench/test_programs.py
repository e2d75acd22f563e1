# Tests heed_bench, heed_speed and bench/instructions as programs: arguments, names, figures in the report, exit codes.
# May know: the programs and their reports.  Must not know: heed, how fast anything is.
# Usage: test_programs.py BUILD_BENCH_FOLDER

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = ""

SHAPES = """attention small{causal} heads=4 kv_heads=2 seq=40 dim=24 causal=0,1
attention decode heads=4 kv_heads=2 seq_q=1 seq_kv=300 dim=16 stream=1
linear l{rows} rows=1,20 in=33 out=17 stream=1
layer y seq=9 model=24 heads=3 dim=8
softmax s rows=5 cols=100
exp e cols=100
pack_k k rows=30 dim=9
pack_v v rows=30 dim=9
qk_tile q rows=7 dim=9
softmax_tile t rows=7
pv_tile p rows=7 dim=9
gemm_tile g rows=7 in=9
"""


def run(name, *arguments, **environment):
    return subprocess.run([os.path.join(BENCH, name), *arguments], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})


class Programs(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def measure(self, *arguments):
        shapes = self.write("shapes", SHAPES)
        result = run("heed_bench", f"--shapes={shapes}", "--benchmark_min_time=0.001", "--benchmark_format=json",
                     *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_every_kind_on_every_backend(self):
        report = self.measure("--threads=1,2")
        entries = {entry["name"]: entry for entry in report["benchmarks"]}
        self.assertEqual(len(entries), len(report["benchmarks"]))
        backends = {name.split("/")[1] for name in entries}
        self.assertIn("scalar", backends)
        for backend in backends:
            for name in ("attention/%s/small0", "attention/%s/small1/threads:2", "attention/%s/decode", "linear/%s/l20",
                         "linear/%s/l1/threads:2", "layer/%s/y", "softmax/%s/s", "exp/%s/e", "pack_k/%s/k",
                         "pack_v/%s/v", "qk_tile/%s/q", "softmax_tile/%s/t", "pv_tile/%s/p", "gemm_tile/%s/g"):
                self.check_entry(entries[name % backend], backend)
        self.assertNotIn("qk_tile/scalar/q/threads:2", entries)
        for key in ("cpu", "compiler", "default_backend", "widest_vectors", "heed_version"):
            self.assertTrue(report["context"][key], key)

    def check_entry(self, entry, backend):
        name = entry["name"]
        if entry.get("error_occurred"):
            self.assertIn("cannot run " + backend, entry["error_message"], name)
            return
        self.assertGreater(entry["median_s"], 0, name)
        self.assertGreater(entry["GB/s"], 0, name)
        self.assertEqual(entry["threads"], 2 if name.endswith("/threads:2") else 1, name)
        counts_flops = name.split("/")[0] in ("attention", "linear", "layer", "qk_tile", "pv_tile", "gemm_tile")
        self.assertEqual("GFLOP/s" in entry, counts_flops, name)
        self.assertEqual("ns/elem" in entry, not counts_flops, name)
        self.assertEqual("fma_%" in entry, counts_flops and backend != "scalar", name)
        streams = name.split("/")[2] in ("decode", "l1", "l20")
        self.assertEqual("read_%" in entry, streams, name)

    def test_causal_counts_what_is_visible(self):
        entries = {entry["name"]: entry for entry in self.measure("--benchmark_filter=scalar/small")["benchmarks"]}
        flops = [e["GFLOP/s"] * e["median_s"] * 1e9 for e in (entries["attention/scalar/small0"],
                                                              entries["attention/scalar/small1"])]
        self.assertAlmostEqual(flops[0], 4 * 4 * 40 * 40 * 24, delta=1)
        self.assertAlmostEqual(flops[1], 4 * 4 * 40 * 41 / 2 * 24, delta=1)

    def test_work_of_large_shapes_is_left_to_fast_backends(self):
        shapes = self.write("large", "linear x rows=4096 in=4096 out=4096\nexp e cols=1\n")
        names = run("heed_bench", f"--shapes={shapes}", "--benchmark_list_tests")
        self.assertNotIn("linear/scalar", names.stdout)
        self.assertIn("1 large shapes", names.stderr)
        names = run("heed_bench", f"--shapes={shapes}", "--benchmark_list_tests", "--heavy")
        self.assertIn("linear/scalar/x", names.stdout)

    def check_refused(self, name, *arguments):
        result = run(name, *arguments)
        self.assertEqual(result.returncode, 2, (arguments, result.stdout))
        self.assertTrue(result.stderr.strip() or result.stdout.strip(), arguments)

    def test_bad_arguments(self):
        shapes = self.write("bad", "linear x rows=0 in=1 out=1\n")
        for arguments in (["--threads=0"], ["--threads="], ["--threads=1,x"], ["--threads=1.5"], ["--threads=99999"],
                          ["--backends=mmx"], ["--backends="], ["--what"], [f"--shapes={shapes}"],
                          ["--shapes=/nowhere"], ["--benchmark_filter=nothing_has_this_name"]):
            self.check_refused("heed_bench", *arguments)
        result = run("heed_bench", f"--shapes={shapes}")
        self.assertRegex(result.stderr, r"bad:1: rows: must be a number in 1 \.\. \d+\n$")
        for arguments in (["--what"], ["--seconds="], ["--seconds=-1"], ["--seconds=1x"], ["--seconds=nan"], ["5"]):
            self.check_refused("heed_speed", *arguments)
        for arguments in ([], ["avx2"], ["mmx", "qk_tile"], ["scalar", "nothing"]):
            self.check_refused("heed_instructions", *arguments)

    def test_help(self):
        for name in ("heed_bench", "heed_speed"):
            result = run(name, "--help")
            self.assertEqual(result.returncode, 0)
            self.assertIn("Usage: " + name, result.stdout)

    def test_names_of_the_real_list(self):
        names = run("heed_bench", "--benchmark_list_tests").stdout.split()
        self.assertIn("exp/scalar/builtin_4096", names)
        self.assertEqual(len(names), len(set(names)))
        if "exp/avx2/builtin_4096" in names:
            self.assertIn("attention/avx2/llama3_8b_prefill_2048", names)

    def test_instructions_file(self):
        program = [sys.executable, os.path.join(HERE, "instructions"), BENCH]
        other = self.write("other.txt", "[some other compiler]\nscalar/qk_tile 5\n")
        result = subprocess.run([*program, "--file", other], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 77)
        self.assertIn("NOT COMPARED", result.stdout)
        bad = self.write("bad.txt", "[key]\nscalar/qk_tile five\n")
        result = subprocess.run([*program, "--file", bad], capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"bad\.txt:2: ")


if __name__ == "__main__":
    BENCH = os.path.abspath(sys.argv.pop(1))
    unittest.main()
