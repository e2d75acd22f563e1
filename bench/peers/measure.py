# Runs the workers of all peers in turn on each shape, and compares what they compute.
# May know: workers, shapes, problems.  Must not know: any library's interface, arguments, tables.

import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import time

import engines
import numpy
import problem
import shapes

HERE = os.path.dirname(os.path.abspath(__file__))
PATIENCE = 60  # seconds for one answer: some libraries fall back to loops that take minutes
WRONG = 1e-4  # of the largest value: f32 has 1e-6, bfloat16 and half precision more than 1e-3


class BadRun(Exception):
    pass


class Gone(Exception):
    pass


class Peer:
    """One worker process: a library with its number of threads."""

    def __init__(self, name, threads, paths):
        environment = {**os.environ, **{f"{prefix}_NUM_THREADS": str(threads) for prefix in
                                        ("OMP", "OPENBLAS", "MKL", "OV")}, "PYTHONDONTWRITEBYTECODE": "1"}
        self.name, self.threads = name, threads
        self.command = [sys.executable, os.path.join(HERE, "worker.py"), name, str(threads), json.dumps(paths)]
        self.environment, self.process = environment, None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        env=self.environment, text=True)
        self.hello = self.read()

    def read(self):
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.process.kill()
            self.process.wait()
            raise Gone(f"no answer within {PATIENCE} s")
        line = self.process.stdout.readline()
        if not line:
            raise Gone(f"its process ended with code {self.process.wait()}")
        return json.loads(line)

    def order(self, **order):
        """A library that takes its process down has failed at this shape; it may be asked for the next."""
        try:
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()
            return self.read()
        except BrokenPipeError:
            reason = f"its process ended with code {self.process.wait()}"
        except Gone as gone:
            reason = str(gone)
        self.start()
        return {"failed": reason}

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait()
        self.process.stdout.close()


def start(names, threads, paths, absent):
    """The peers that are there; why the others are not goes to absent."""
    peers = []
    for name in names:
        try:
            peer = Peer(name, threads, paths)
        except Gone as reason:
            absent[name] = str(reason)
            continue
        if "absent" in peer.hello:
            absent[name] = peer.hello["absent"]
            peer.close()
        else:
            peers.append(peer)
    return peers


def first_word(answer):
    for word in ("not_offered", "failed"):
        if word in answer:
            return {"status": word.replace("_", " "), "note": answer[word]}
    return None


def prepare(peer, shape, folder, options):
    """An entry of the report, without times; and the output, or None."""
    entry = {"kind": shape["kind"], "shape": shape["name"], "threads": peer.threads, "peer": peer.name,
             "flops": shapes.flops(shape), "bytes": shapes.bytes_moved(shape), "stream": shape.get("stream", 0),
             "length": shape.get("seq_kv", 0)}
    path = os.path.join(folder, peer.name + ".npy")
    answer = peer.order(do="prepare", shape=shape, output=path, seconds=options.seconds)
    no = first_word(answer)
    if no:
        return {**entry, **no}, None
    output = numpy.load(path)
    os.unlink(path)
    return {**entry, "status": "ok", "note": answer["note"], "calls": answer["calls"]}, output


def compare(entry, output, right, reference, heeds):
    """Fills in errors; a library that is wrong is not timed."""
    entry["error"] = problem.error(right.checked(output), reference) if output.shape == heeds.shape else float("inf")
    if output.shape == heeds.shape:
        entry["against_heed"] = problem.error(output, heeds.astype(float))
    if not entry["error"] < WRONG:
        entry["status"] = "wrong"


def measure(shape, peers, folder, options):
    """Entries of one shape: everything is made ready, compared, then timed in turn."""
    entries, outputs = {}, {}
    for peer in peers:
        if peer.name in engines.KINDS[shape["kind"]]:
            entries[peer.name], outputs[peer.name] = prepare(peer, shape, folder, options)
    if entries["heed"]["status"] != "ok":
        raise BadRun(f"{shapes.full_name(shape)}: heed: {entries['heed']['note']}")
    right = problem.make(shape)
    reference = right.reference()
    for name, output in outputs.items():
        if output is not None:
            compare(entries[name], output, right, reference, outputs["heed"])
    timed = [peer for peer in peers if entries.get(peer.name, {}).get("status") == "ok"]
    for round_number in range(options.rounds):
        for i in range(len(timed)):
            take_time(timed[(i + round_number) % len(timed)], entries)
    return list(entries.values())


def take_time(peer, entries):
    entry = entries[peer.name]
    answer = peer.order(do="time")
    no = first_word(answer)
    if no:
        entry.update(no)
        return
    for what in ("wall", "cpu"):
        entry.setdefault(what, []).append(answer[what])
    entry["restless"] = entry.get("restless", 0) + (not answer["still"])


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("model name")]
        return lines[0].partition(":")[2].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def measure_all(chosen, names, paths, options):
    report = {"context": {"date": time.strftime("%Y-%m-%d"), "cpu": processor(), "python": platform.python_version(),
                          "rounds": options.rounds, "seconds": options.seconds, "wrong": WRONG,
                          "arguments": options.shown},
              "peers": {}, "absent": {}, "results": []}
    for threads in options.thread_counts:
        peers = start(names, threads, paths, report["absent"])
        if not peers or peers[0].name != "heed":
            raise BadRun(report["absent"].get("heed", "heed did not start"))
        report["peers"].update({p.name: {"title": p.hello["title"], "version": p.hello["version"]} for p in peers})
        with tempfile.TemporaryDirectory() as folder:
            for number, shape in enumerate(chosen, 1):
                print(f"{threads} threads, {number} of {len(chosen)}: {shapes.full_name(shape)}", file=sys.stderr)
                report["results"] += measure(shape, peers, folder, options)
        for peer in peers:
            peer.close()
    return report
