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
NAMES = ("machine", "targets", "peers", "sweep", "causal", "models", "masks", "windows", "decode", "projections", "layers",
         "softmax", "kernels", "threads", "growth", "roofline")
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
    for n in (1024, 2048, 4096):  # one of three misses its target
        benchmarks.append(entry(f"attention/avx2/sweep_l{n}_d128", **{"fma_%": 90.0 if n > 1024 else 87.0}))
    benchmarks += [
        entry("attention/avx2/mask_none_2048_d64", median_s=0.1, **{"GFLOP/s": 1.0}),
        entry("attention/avx2/mask_bias_2048_d64", median_s=0.15, **{"GFLOP/s": 1.0}),
        entry("attention/avx2/window_1024_of_8192", **{"fma_%": 75.0, "GFLOP/s": 70.0, "GB/s": 1.0}),
        entry("attention/avx2/tiny_8", median_s=1e-6, **{"GFLOP/s": 1.0, "GB/s": 1.0}),
        entry("attention/avx2/tiny_8/threads:2", median_s=2e-6),
        entry("attention/avx2/sweep_l512_d64/threads:2", median_s=0.25),
        entry("attention/avx2/sweep_l2048_d64", median_s=1.0),
        entry("attention/avx2/sweep_l2048_d64/threads:2", median_s=0.8),
        entry("attention/avx2/decode_l8192_h8_f32_none", median_s=4e-3, **{"read_%": 91.0, "GB/s": 15.0}),
        entry("attention/avx2/decode_l8192_h8_f32_none/threads:2", median_s=2e-3, **{"read_%": 91.0, "GB/s": 30.0}),
        entry("attention/avx2/decode_l32768_h8_f16_none", median_s=4e-3, **{"read_%": 89.0, "GB/s": 15.0}),
        entry("attention/avx2/decode_l8192_h32_f32_none", median_s=4.8e-3, **{"read_%": 76.0, "GB/s": 13.0}),
        entry("attention/avx2/decode_l8192_h8_f32_16", median_s=4.16e-3, **{"read_%": 87.0, "GB/s": 14.0}),
        entry("attention/avx2/decode_short_h1_f32", median_s=2.5e-6, **{"GFLOP/s": 1.0}),
        entry("attention/avx2/decode_short_h1_i8", median_s=3.5e-6, **{"GFLOP/s": 1.0}),
        entry("attention/avx2/prefill_l512_f32", median_s=1.0, **{"GFLOP/s": 1.0}),
        entry("attention/avx2/prefill_l512_f16", median_s=1.04, **{"GFLOP/s": 1.0}),
        entry("attention/avx2/growth_l16384", median_s=1.0, workspace=9.0 * 2**20),
    ]
    for n in (128, 256):
        benchmarks.append(entry(f"attention/avx2/growth_window_l{n}", median_s=n * 1e-7))
    return {"context": {"date": "2001-02-03T04:05:06", "host_name": "secret-host", "cpu": "A CPU", "compiler": "cc 1",
                        "build_type": "Release", "default_backend": "avx2", "heed_version": "0.1.0", "max_threads": "2",
                        "widest_vectors": "avx2", "arguments": "--benchmark_out=/home/somebody/run.json --threads=1"},
            "benchmarks": benchmarks}


def peers(times=(0.2, 0.3)):
    """heed at two lengths, and one peer."""
    results = []
    for length, time in zip((256, 1024), times):
        for peer, seconds in (("heed", 0.2), ("other", time)):
            results.append({"kind": "attention", "shape": f"sweep_l{length}_d64", "threads": 1, "peer": peer,
                            "status": "ok", "note": "", "flops": 1e9, "bytes": 1e6, "stream": 0, "length": length,
                            "error": 1e-7, "against_heed": 1e-7, "cpu": [seconds], "wall": [9.0]})
    return {"context": {"date": "2001-02-03", "cpu": "A CPU", "rounds": 1, "seconds": 0.1, "arguments": "b"},
            "peers": {n: {"title": n, "version": "1"} for n in ("heed", "other")}, "absent": {}, "results": results}


class Report(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, *names):
        return os.path.join(self.folder.name, *names)

    def read(self, *names):
        with open(self.path(*names), encoding="utf-8") as file:
            return file.read()

    def run_report(self, run, document=DOCUMENT, others=None, second=None):
        with open(self.path("run.json"), "w", encoding="utf-8") as file:
            file.write(run if isinstance(run, str) else json.dumps(run))
        with open(self.path("performance.md"), "w", encoding="utf-8") as file:
            file.write(document)
        command = [sys.executable, os.path.join(HERE, "report"), self.path("run.json"), "--docs", self.folder.name]
        if second is not None:
            with open(self.path("second.json"), "w", encoding="utf-8") as file:
                json.dump(second, file)
            command.insert(3, self.path("second.json"))
        if others is not None:
            with open(self.path("peers.json"), "w", encoding="utf-8") as file:
                json.dump(others, file)
            command += ["--peers", self.path("peers.json")]
        return subprocess.run(command, capture_output=True, text=True, check=False)

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
        self.assertIn("old peers", text)  # without a report of peers it stays
        for word in ("secret-host", "somebody", "avx512", "old machine", "old targets"):
            self.assertNotIn(word, text)

    def test_two_runs_are_one(self):
        slow, other = made_up(), made_up()
        for entry in slow["benchmarks"]:
            if "median_s" in entry:
                entry["median_s"] *= 3.0
        result = self.run_report(made_up(), second=slow)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        text = self.read("performance.md")
        self.assertIn("--threads=1`, 2 times |", text)
        self.assertIn("| attention llama_decode | 2 | 1 s | 500 ms | 2.00 |", text)
        other["context"]["cpu"] = "Another CPU"
        result = self.run_report(made_up(), second=other)
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, r"^report: .*second\.json: cpu is not the same as in .*run\.json\n$")

    def test_targets(self):
        self.run_report(made_up())
        text = self.read("performance.md")
        for line in ("| not causal, head_dim 128, L 1024, 2048, 4096 | >= 88 % | **87**, 90, 90 |",
                     "| not causal, head_dim 64, L 1024, 2048, 4096 | >= 82 % | -, -, - |",
                     "| head_dim 64, L 512 | >= 78 % | 80 |",
                     "| window of 1024 in L 8192, head_dim 128 | >= 75 % | 75 |",
                     "head_dim 64, 128: times the time | <= 1.10 | **1.50**, - |",
                     "the least of the sweep | >= 1.9 | **1.25** (sweep_l2048_d64) |",
                     "| tiny (L 8): all threads over one; microseconds | <= 1.1; < 3 | **2.00**, 2 |",
                     "| memory at L 16384 beyond packed keys and values, MiB | < 64 | 1.00 |",
                     "| bias | 150 ms, 1.50 |  |", "| window_1024_of_8192 | 70.0 GFLOP/s, 75 % |"):
            self.assertIn(line, text)

    def test_decode_targets(self):
        self.run_report(made_up())
        text = self.read("performance.md")
        for line in ("8192 and 32768 keys, f32, of the read bandwidth | >= 90 % | 91, - |",
                     "| the same, f16 | >= 90 % | -, **89** |", "| the same, int8 | >= 85 % | -, - |",
                     "32 heads over 8 against 8 over 8, f32, f16, int8: times the time | <= 1.15 | **1.20**, -, - |",
                     "pages of 16 against none, f32, f16, int8: times the time | <= 1.05 | 1.04, -, - |",
                     "prefill from f16 against f32, L 512, 2048: times the time | <= 1.05 | 1.04, - |",
                     "f32, f16, int8: times as fast | >= 1.9 | 2.00, -, -, -, -, - |",
                     "one head of 128, f32, f16, int8: microseconds | < 3 | 2.5, -, **3.5** |",
                     "| decode_l8192_h8_f32_16 | 14.0 GB/s, 87 % |  |"):
            self.assertIn(line, text)
        self.assertNotIn("decode_l", text.split("begin models")[1].split("end models")[0])

    def test_peers(self):
        result = self.run_report(made_up(), others=peers())
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        text = self.read("performance.md")
        for line in ("L below 512, one thread | >= 1 | 1.00 (sweep_l256_d64, other); reached by 1 of 1 shapes |",
                     "L 512 and above, one thread | >= 1.2 | 1.50 (sweep_l1024_d64, other); reached by 1 of 1 shapes |",
                     "| sweep_l1024_d64 | 200 ms | 5.0 GFLOP/s | 1.50 |", "(performance/peers.svg)", "peers.md"):
            self.assertIn(line, text)
        self.assertIn("| attention sweep_l256_d64 | other | 200 ms |", self.read("performance", "peers.md"))
        self.run_report(made_up(), others=peers((0.1, 0.22)))
        text = self.read("performance.md")
        for words in ("**0.50** (sweep_l256_d64, other)", "**1.10** (sweep_l1024_d64, other); reached by 0 of 1 shapes",
                      "- attention sweep_l256_d64, one thread: other takes 0.50 of heed's time"):
            self.assertIn(words, text)

    def test_bad_peers_change_nothing(self):
        for others in ([], {}, {"results": []}, {**peers(), "results": [{}]}, {**peers(), "peers": {}}):
            result = self.run_report(made_up(), others=others)
            self.assertEqual((result.returncode, len(result.stderr.splitlines())), (2, 1), result.stderr)
            self.assertEqual(self.read("performance.md"), DOCUMENT)

    def test_a_second_run_changes_nothing(self):
        self.run_report(made_up())
        first = self.read("performance.md"), self.read("performance", "growth.svg")
        self.assertEqual(self.run_report(made_up(), first[0]).returncode, 0)
        self.assertEqual((self.read("performance.md"), self.read("performance", "growth.svg")), first)

    def test_charts_are_svg(self):
        self.run_report(made_up())
        for name, words in (("growth.svg", ("L squared", "MiB", "128", "512", "a window of 1024")),
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
