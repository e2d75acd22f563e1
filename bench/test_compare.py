# Tests bench/compare: its statistics on made-up data, its verdicts and exit codes, the interleaving of --run.
# May know: compare as a module and as a program, the JSON of Google Benchmark.  Must not know: heed.
# Everything random is seeded.

import importlib.machinery
import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "compare")


def load():
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("compare", PROGRAM)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", loader))
    loader.exec_module(module)
    return module


compare = load()


def noisy(rng, centre, noise, n):
    """Times as a busy machine gives them: a little spread, now and then much more, never less."""
    return [centre * (1 + noise * rng.random()) * (3 if rng.random() < 0.1 else 1) for _ in range(n)]


class Statistics(unittest.TestCase):

    def test_median(self):
        self.assertEqual(compare.median([3, 1, 2]), 2)
        self.assertEqual(compare.median([4, 1, 3, 2]), 2.5)

    def test_sign_interval_is_the_tabulated_pair_of_order_statistics(self):
        # Conover, Practical Nonparametric Statistics: n = 6: extremes, 9: second and eighth, 15: fourth and twelfth.
        for n, low in ((6, 1), (8, 1), (9, 2), (12, 3), (15, 4), (20, 6)):
            values = list(range(1, n + 1))
            self.assertEqual(compare.sign_interval(values)[1], (low, n + 1 - low), n)
        self.assertIsNone(compare.sign_interval([1, 2, 3, 4, 5])[1])

    def test_rank_sum_counts(self):
        self.assertEqual(compare.rank_sum_counts(2, 2), [1, 1, 2, 1, 1])
        self.assertEqual(compare.rank_sum_counts(3, 2), [1, 1, 2, 2, 2, 1, 1])
        self.assertEqual(sum(compare.rank_sum_counts(9, 9)), 48620)

    def test_shift_interval_matches_tables(self):
        # Critical values of Mann-Whitney, two-sided 5 %: 0 for 4 and 4, 2 for 5 and 5, 17 for 9 and 9; none for
        # 3 and 3.
        for n, critical in ((4, 0), (5, 2), (9, 17)):
            a, b = list(range(n)), [10.0 + 0.01 * i for i in range(n)]
            differences = sorted(y - x for x in a for y in b)
            wanted = differences[critical], differences[n * n - 1 - critical]
            self.assertEqual(compare.shift_interval(a, b)[1], wanted)
        self.assertIsNone(compare.shift_interval([1, 2, 3], [4, 5, 6])[1])

    def coverage(self, paired, n):
        rng = random.Random(7)
        held, trials, truth = 0, 1500, 1.1
        for _ in range(trials):
            a = noisy(rng, 1.0, 0.05, n)
            b = noisy(rng, truth, 0.05, n)
            low, high = compare.compare_values(a, b, paired)[1]
            held += low <= truth <= high
        return held / trials

    def test_intervals_hold_the_truth_as_often_as_they_say(self):
        for paired in (True, False):
            self.assertGreater(self.coverage(paired, 9), 0.94, paired)

    def test_intervals_are_of_use(self):
        rng = random.Random(3)
        for paired in (True, False):
            widths = []
            for _ in range(200):
                low, high = compare.compare_values(noisy(rng, 1, 0.02, 12), noisy(rng, 1, 0.02, 12), paired)[1]
                widths.append(high / low)
            self.assertLess(compare.median(widths), 1.03, paired)


class Verdicts(unittest.TestCase):

    def test_words(self):
        self.assertEqual(compare.verdict(1.2, (1.1, 1.3), 0.05), "REGRESSION")
        self.assertEqual(compare.verdict(1.2, (1.01, 1.3), 0.05), "slower")
        self.assertEqual(compare.verdict(1.2, (0.9, 1.3), 0.05), "same")
        self.assertEqual(compare.verdict(1.01, (1.005, 1.02), 0.05), "same")
        self.assertEqual(compare.verdict(0.8, (0.7, 0.9), 0.05), "faster")
        self.assertEqual(compare.verdict(2.0, None, 0.05), "unsure")

    def test_false_alarms_are_rare_and_real_ones_are_found(self):
        rng = random.Random(11)
        for paired in (True, False):
            words = []
            for centre in [1.0] * 300 + [1.12] * 300:
                a, b = noisy(rng, 1.0, 0.02, 9), noisy(rng, centre, 0.02, 9)
                words.append(compare.verdict(*compare.compare_values(a, b, paired), 0.05))
            self.assertLessEqual(words[:300].count("REGRESSION"), 3, paired)
            self.assertGreaterEqual(words[300:].count("REGRESSION"), 240, paired)


def report(benchmarks):
    entries = []
    for name, times in benchmarks.items():
        for t in times:
            entries.append({"name": name, "run_name": name, "run_type": "iteration", "real_time": 1e9, "median_s": t})
        entries.append({"name": name + "_mean", "run_name": name, "run_type": "aggregate", "real_time": 5.0})
    return json.dumps({"context": {}, "benchmarks": entries})


class Program(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_program(self, *arguments):
        return subprocess.run([sys.executable, PROGRAM, *arguments], capture_output=True, text=True, check=False)

    def check(self, a, b, code, *words):
        result = self.run_program(self.write("a.json", a), self.write("b.json", b))
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        for word in words:
            self.assertIn(word, result.stdout + result.stderr)
        return result

    def test_regression(self):
        a = {"x": [1.0, 1.01, 1.02, 1.03, 1.04], "y": [2.0] * 5}
        b = {"x": [1.2, 1.21, 1.22, 1.23, 1.24], "y": [2.0] * 5}
        self.check(report(a), report(b), 1, "REGRESSION", "1 regressions")
        self.check(report(b), report(a), 0, "faster", "0 regressions")
        self.check(report(a), report(a), 0, "same")

    def test_too_few_values_never_fail(self):
        self.check(report({"x": [1.0]}), report({"x": [9.0]}), 0, "unsure")

    def test_what_is_on_one_side_only_is_named(self):
        self.check(report({"x": [1.0], "only_a": [1.0]}), report({"x": [1.0]}), 0, "not compared: only_a")

    def test_skipped_is_named_with_its_reason(self):
        kind = {"run_type": "iteration"}
        z = {"name": "z", "run_name": "z", "error_occurred": True, "error_message": "cannot run avx512", **kind}
        skipped = json.dumps({"benchmarks": [z, {"name": "x", "run_name": "x", "median_s": 1.0, **kind}]})
        self.check(skipped, skipped, 0, "not compared: z", "cannot run avx512")

    def check_bad(self, text):
        result = self.check(text, report({"x": [1.0]}), 2)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_bad_input(self):
        entry = '{"name": "x", "run_type": "iteration", "median_s": %s}'
        for text in ("", "{", "[]", "{}", '{"benchmarks": 1}', '{"benchmarks": [1]}', '{"benchmarks": []}',
                     '{"benchmarks": [{"name": 1}]}', '{"benchmarks": [{"name": "x"}]}'):
            self.check_bad(text)
        for value in ("0", "-1", "NaN", "Infinity", '"1"', "true", "null", "1e999"):
            self.check_bad('{"benchmarks": [%s]}' % (entry % value))
        self.assertEqual(self.run_program("/nowhere/a", "/nowhere/b").returncode, 2)
        self.assertEqual(self.run_program("one").returncode, 2)
        self.assertEqual(self.run_program("a", "b", "--rounds", "0").returncode, 2)
        self.assertEqual(self.run_program("a", "b", "--filter", "(").returncode, 2)
        self.assertEqual(self.run_program("--run", "/nowhere", "/nowhere").returncode, 2)

    def build(self, name, factor):
        """A build folder whose heed_bench notes that it ran and reports made-up times."""
        folder = os.path.join(self.folder.name, name, "bench")
        os.makedirs(folder)
        path = self.write(os.path.join(name, "bench", "heed_bench"), f"""#!{sys.executable}
import json, sys
log = {os.path.join(self.folder.name, "log")!r}
arguments = dict(a.split("=", 1) for a in sys.argv[1:] if "=" in a)
if "--benchmark_list_tests" in sys.argv:
    print("p/one")
    print("p/two")
    sys.exit(0)
name = arguments["--benchmark_filter"].strip("^$")
with open(log, "a") as file:
    file.write({name!r})
with open(log) as file:
    n = len(file.read())
time = (1.0 + 0.001 * n) * ({factor} if name == "p/two" else 1.0)
print(json.dumps({{"benchmarks": [{{"name": name, "run_name": name, "median_s": time}}]}}))
""")
        os.chmod(path, 0o755)
        return os.path.join(self.folder.name, name)

    def test_run_interleaves(self):
        result = self.run_program("--run", self.build("A", 1.0), self.build("B", 1.3), "--rounds", "7")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.startswith("p/")}
        self.assertIn("same", lines["p/one"])
        self.assertIn("REGRESSION", lines["p/two"])
        with open(os.path.join(self.folder.name, "log"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "ABBAABBAABBAAB" * 2)


if __name__ == "__main__":
    unittest.main()
