# Tests bench/report and its charts on a made-up run.
# May know: the report as a program, the charts as a module, Markdown.  Must not know: heed.

import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True

import charts  # pylint: disable=wrong-import-position

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ("machine", "sweep", "causal", "models", "projections", "layers", "softmax", "kernels", "threads", "growth",
         "roofline")
DOCUMENT = "before\n" + "".join(f"## {n}\n<!-- begin {n} -->\nold {n}\n<!-- end {n} -->\n" for n in NAMES) + "after\n"


def entry(name, **figures):
    return {"name": name, "run_name": name, "run_type": "iteration", "median_s": 0.5, "real_time": 1.0, **figures}


def made_up():
    benchmarks = []
    for share in (80.0, 84.0, 20.0):  # three repetitions: the median is 80
        benchmarks.append(entry("attention/avx2/sweep_l512_d64", **{"fma_%": share, "GFLOP/s": 90.0, "GB/s": 1.0}))
    benchmarks += [
        entry("attention/avx2/sweep_causal_l256_d128", **{"fma_%": 71.0, "GFLOP/s": 80.0, "GB/s": 1.0}),
        entry("attention/avx2/llama_decode",
              **{"read_%": 88.0, "GFLOP/s": 9.0, "GB/s": 14.0, "read_peak": 16.0, "fma_peak": 99.0}),
        entry("attention/scalar/llama_decode", **{"read_%": 8.0, "GFLOP/s": 1.0, "GB/s": 1.5, "read_peak": 16.0}),
        entry("attention/avx2/llama_decode/threads:2",
              **{"median_s": 0.25, "read_%": 70.0, "GFLOP/s": 9.0, "GB/s": 28.0}),
        entry("linear/avx2/512x64x64", **{"fma_%": 91.0, "GFLOP/s": 95.5, "GB/s": 1.0, "fma_peak": 101.0}),
        entry("softmax/avx2/builtin_16", **{"ns/elem": 0.321, "GB/s": 1.0}),
        {"name": "exp/avx512/x", "run_name": "exp/avx512/x", "run_type": "iteration", "error_occurred": True},
        {"name": "mean", "run_name": "linear/avx2/512x64x64", "run_type": "aggregate", "fma_%": 1.0},
    ]
    for n in (128, 256, 512):
        benchmarks.append(entry(f"attention/avx2/growth_l{n}", median_s=n * n * 1e-9, workspace=n * 1000.0))
    return {"context": {"date": "2001-02-03T04:05:06", "host_name": "secret-host", "cpu": "A CPU", "compiler": "cc 1",
                        "build_type": "Release", "default_backend": "avx2", "heed_version": "0.1.0", "max_threads": "2",
                        "widest_vectors": "avx2", "arguments": "--benchmark_out=/home/somebody/run.json --threads=1"},
            "benchmarks": benchmarks}


class Report(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return file.read()

    def run_report(self, run, document=DOCUMENT):
        with open(self.path("run.json"), "w", encoding="utf-8") as file:
            file.write(run if isinstance(run, str) else json.dumps(run))
        with open(self.path("performance.md"), "w", encoding="utf-8") as file:
            file.write(document)
        return subprocess.run([sys.executable, os.path.join(HERE, "report"), self.path("run.json"), "--docs",
                               self.folder.name], capture_output=True, text=True, check=False)

    def test_tables(self):
        result = self.run_report(made_up())
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        text = self.read("performance.md")
        for line in ("| 512 | 80.0 % |", "| 256 | 71.0 % |", "| attention | avx2 | scalar |",
                     "| llama_decode | 14.0 GB/s, 88 % | 1.5 GB/s, 8 % |", "| 512x64x64 | 95.5 GFLOP/s, 91 % |  |",
                     "| builtin_16 | 0.321 ns |  |", "| attention llama_decode | 2 | 500 ms | 250 ms | 2.00 |",
                     "(performance/growth.svg)", "| CPU | A CPU |", "| date | 2001-02-03 |",
                     "`heed_bench --benchmark_out=run.json --threads=1`"):
            self.assertIn(line, text)
        self.assertTrue(text.startswith("before\n") and text.endswith("after\n"))
        self.assertIn("Not in this run.", text)
        for word in ("old", "secret-host", "somebody", "avx512"):
            self.assertNotIn(word, text)

    def test_a_second_run_changes_nothing(self):
        self.run_report(made_up())
        first = self.read("performance.md"), self.read("performance", "growth.svg")
        self.assertEqual(self.run_report(made_up(), first[0]).returncode, 0)
        self.assertEqual((self.read("performance.md"), self.read("performance", "growth.svg")), first)

    def test_charts_are_svg(self):
        self.run_report(made_up())
        for name, words in (("growth.svg", ("L squared", "MiB", "128", "512")),
                            ("roofline.svg", ("GFLOP/s", "linear"))):
            text = self.read("performance", name)
            self.assertEqual(xml.etree.ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
            for word in words:
                self.assertIn(word, text, name)

    def test_bad_input_changes_nothing(self):
        broken = made_up()
        broken["benchmarks"][0]["run_name"] = "no slash"
        for run in ("", "{", "[]", {"context": {}}, {"context": {}, "benchmarks": []},
                    {"context": {}, "benchmarks": [1]}, broken):
            result = self.run_report(run)
            self.assertEqual(result.returncode, 2, run)
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertEqual(self.read("performance.md"), DOCUMENT)
        for document in ("", DOCUMENT + DOCUMENT, DOCUMENT.replace("<!-- end models -->", "")):
            self.assertEqual(self.run_report(made_up(), document).returncode, 2)
            self.assertEqual(self.read("performance.md"), document)


class Charts(unittest.TestCase):

    def test_axis_is_logarithmic(self):
        axis = charts.Axis([1.0, 100.0], 10, 0, 200)
        self.assertEqual([axis.at(v) for v in (1, 10, 100)], [0, 100, 200])

    def test_text_is_escaped(self):
        out = charts.svg([charts.Panel("a < b & c", "x", "y", [charts.Series("<s>", [(1, 1), (2, 3)])])])
        self.assertIn("a &lt; b &amp; c", out)
        xml.etree.ElementTree.fromstring(out)

    def test_one_point_is_no_reason_to_fail(self):
        xml.etree.ElementTree.fromstring(charts.svg([charts.Panel("t", "x", "y", [charts.Series("s", [(5, 5)])])]))


if __name__ == "__main__":
    unittest.main()
