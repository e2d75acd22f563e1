# Tests that bench/peers reads shapes.txt as heed_bench does, and counts the same work.
# May know: shapes.py, heed_bench as a program.  Must not know: NumPy, any peer.
# Usage: test_peers_shapes.py HEED_BENCH

import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import shapes  # pylint: disable=wrong-import-position

SHAPES = os.path.join(os.path.dirname(HERE), "shapes.txt")
HEED_BENCH = ""

SMALL = """attention causal{seq_q} heads=4 kv_heads=2 seq_q=1,7,40 seq_kv=40 dim=8 dim_v=5 causal=1
attention window{window} heads=2 seq=40 dim=8 causal=1 window=1,9,40,50
attention full batch=2 heads=3 seq_q=5 seq_kv=9 dim=7  # a comment
linear l rows=3 in=5 out=7
softmax s rows=3 cols=9
"""


class Shapes(unittest.TestCase):

    def test_the_same_list_as_heed_bench(self):
        names = subprocess.run([HEED_BENCH, "--benchmark_list_tests", "--backends=scalar", "--heavy"],
                               capture_output=True, text=True, check=True).stdout
        self.assertEqual(sorted(name.replace("/scalar/", "/") for name in names.split()),
                         sorted(shapes.full_name(shape) for shape in shapes.read(SHAPES)))

    def test_the_same_work_as_heed_bench(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "shapes")
            with open(path, "w", encoding="ascii") as file:
                file.write(SMALL)
            out = subprocess.run([HEED_BENCH, f"--shapes={path}", "--backends=scalar", "--benchmark_min_time=0.001",
                                  "--benchmark_format=json"], capture_output=True, text=True, check=True).stdout
            read = shapes.read(path)
        theirs = {entry["name"].replace("/scalar/", "/"): entry for entry in json.loads(out)["benchmarks"]}
        self.assertEqual(len(theirs), len(read))
        for shape in read:
            entry = theirs[shapes.full_name(shape)]
            for name, ours in (("GFLOP/s", shapes.flops(shape)), ("GB/s", shapes.bytes_moved(shape))):
                value = 1e9 * entry.get(name, 0.0) * entry["median_s"]
                self.assertAlmostEqual(value, ours, delta=1e-6 * ours, msg=f"{entry['name']} {name}")


if __name__ == "__main__":
    (HEED_BENCH,) = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
