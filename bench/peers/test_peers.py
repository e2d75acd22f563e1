# Tests what of bench/peers needs no peer: layouts of heed's structures, shapes, arguments, tables and the chart.
# May know: the modules of bench/peers.  Must not know: NumPy, any peer.
# Usage: test_peers.py PROGRAM_THAT_PRINTS_LAYOUTS

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import heed_library  # pylint: disable=wrong-import-position
import results  # pylint: disable=wrong-import-position
import shapes  # pylint: disable=wrong-import-position
import tables  # pylint: disable=wrong-import-position

LAYOUTS = ""


class Layouts(unittest.TestCase):

    def test_structures_are_the_headers(self):
        output = subprocess.run([LAYOUTS], capture_output=True, text=True, check=True).stdout
        real = {tuple(line.split()[:2]): int(line.split()[2]) for line in output.splitlines()}
        for name, structure in heed_library.STRUCTS.items():
            size = real.pop((name, "sizeof"))
            if structure._fields_[0][0] == "struct_size":  # the header's may have grown: heed takes shorter ones
                self.assertLessEqual(ctypes.sizeof(structure), size, name)
            else:
                self.assertEqual(ctypes.sizeof(structure), size, name)
        self.assertEqual({(name, field): getattr(structure, field).offset
                          for name, structure in heed_library.STRUCTS.items() for field, _ in structure._fields_}, real)


class Shapes(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, text):
        path = os.path.join(self.folder.name, "shapes")
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path

    def test_bad_lists(self):
        for text in ("attention", "attention a heads", "attention a{b} heads=1 seq=1 dim=1",
                     "linear l rows=1 in=1 out=", "attention a heads=1 dim=1", "linear l rows=1 in=1"):
            with self.assertRaisesRegex(shapes.BadShapes, ":1: ", msg=text):
                shapes.read(self.write(text))
        with self.assertRaises(shapes.BadShapes):
            shapes.read(os.path.join(self.folder.name, "no such file"))


def entry(shape, peer, threads=1, status="ok", seconds=(), **more):
    times = {"cpu": list(seconds), "wall": [9.0 * s for s in seconds]} if threads == 1 else {
        "wall": list(seconds), "cpu": [9.0 * s for s in seconds]}
    return {"kind": "attention", "shape": shape, "peer": peer, "threads": threads, "status": status, "note": "",
            "flops": 4e9, "bytes": 1e9, "stream": 0, "error": 1e-7, "against_heed": 2e-7, **times, **more}


def made_up():
    """One peer faster at one shape, one wrong, one that cannot; times of which the median is known."""
    entries = []
    for length, heeds, peers in ((512, 0.04, 0.05), (1024, 0.2, 0.1)):
        for threads in (1, 2):
            entries += [entry(f"sweep_l{length}_d64", "heed", threads, seconds=(heeds, 9.0, heeds)),
                        entry(f"sweep_l{length}_d64", "fast", threads, seconds=(peers, peers, 0.001)),
                        entry(f"sweep_l{length}_d64", "bad", threads, "wrong", error=0.5),
                        entry(f"sweep_l{length}_d64", "weak", threads, "not offered", note="no such thing")]
    return {"context": {"date": "2001-02-03", "cpu": "A CPU", "rounds": 3, "seconds": 0.1,
                        "arguments": "b --shapes a|b"},
            "peers": {n: {"title": n.title(), "version": "1"} for n in ("heed", "fast", "bad", "weak")},
            "absent": {"gone": "not installed"}, "results": entries}


class Results(unittest.TestCase):

    def test_statistics(self):
        self.assertEqual(tables.median([3.0, 1.0, 2.0]), 2.0)
        self.assertEqual(tables.median([4.0, 1.0, 2.0, 3.0]), 2.5)
        self.assertEqual(results.spread([8.0, 10.0, 10.0, 11.0, 100.0]), 0.1)

    def test_tables(self):
        text = results.markdown(made_up())
        for line in ("| sweep_l512_d64 | 40 ms | 100.0 GFLOP/s | 1.25 | wrong | - |",
                     "| sweep_l1024_d64 | 200 ms | 20.0 GFLOP/s | **0.50** | wrong | - |",
                     "| attention sweep_l512_d64 | Fast | 50 ms | 80.0 GFLOP/s | 1.25 | 0.0 % | 1.0e-07 | 2.0e-07 |",
                     "| attention sweep_l512_d64 | Bad | wrong |  |  |  | 5.0e-01 |  |",
                     "| attention sweep_l512_d64 | Weak | not offered: no such thing |  |  |  | 1.0e-07 |  |",
                     "| gone | absent: not installed |", r"`bench/peers/run b --shapes a\|b`",
                     "- attention sweep_l1024_d64, 2 threads: Fast takes 0.50 of heed's time",
                     "- attention sweep_l1024_d64, one thread: Fast takes 0.50 of heed's time"):
            self.assertIn(line, text)
        self.assertNotIn("sweep_l512_d64, one thread: Fast", text)

    def test_a_wrong_peer_is_never_the_fastest(self):
        report = made_up()
        for e in report["results"]:
            if e["peer"] == "fast":
                e["status"] = "wrong"
        self.assertEqual(results.best_ratios(report), [])
        self.assertEqual(results.where_slower(report), "Nowhere in this run.")

    def test_chart(self):
        text = results.chart(made_up())
        self.assertEqual(xml.etree.ElementTree.fromstring(text).tag, "{http://www.w3.org/2000/svg}svg")
        for words in ("head_dim 64, one thread", "head_dim 64, 2 threads", "Heed", "Fast"):
            self.assertIn(words, text)
        for words in ("Bad", "head_dim 128"):
            self.assertNotIn(words, text)
        self.assertIsNone(results.chart({**made_up(), "results": []}))


class Arguments(unittest.TestCase):

    def run_peers(self, *arguments):
        return subprocess.run([sys.executable, os.path.join(HERE, "run"), *arguments], capture_output=True, text=True,
                              check=False)

    def test_help_and_list(self):
        self.assertIn("bench/peers/run BUILD", self.run_peers("--help").stdout)
        listed = self.run_peers("--list", "--shapes", "sweep_l512_d(64|80)")
        self.assertEqual((listed.returncode, listed.stdout),
                         (0, "attention/sweep_l512_d64\nattention/sweep_l512_d80\n"), listed.stderr)
        self.assertGreater(len(self.run_peers("--list").stdout.splitlines()), 20)

    def test_bad_arguments(self):
        with tempfile.TemporaryDirectory() as folder:
            for arguments in ((), ("--bad",), (folder,), ("b", "--threads", "x"), ("b", "--threads", "0"),
                              ("b", "--rounds", "0"), ("b", "--rounds", "x"), ("b", "--shapes", "no_such_shape"),
                              ("b", "--shapes", "("), ("b", "--peers", "nobody"), ("b", "--seconds", "nan"),
                              ("b", "--file", os.path.join(folder, "none"))):
                result = self.run_peers(*arguments)
                self.assertEqual(result.returncode, 2, arguments)
                self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
                self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    (LAYOUTS,) = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
