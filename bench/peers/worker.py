# A process that runs one library: orders come as lines of JSON on standard input, answers go to standard output.
# May know: engines, problems.  Must not know: the other peers, what is done with the figures.

import json
import os
import sys
import time

import engines
import numpy
import problem

STILL_SECONDS, MOST_SETTLING = 0.02, 1.5


def settle():
    """Waits until no thread of this process runs any more: pools spin for a while after a parallel region, which would
    take a processor from the peer that is next.  Returns 0 if one still runs."""
    end = time.monotonic() + MOST_SETTLING
    while time.monotonic() < end:
        before = time.process_time()
        time.sleep(STILL_SECONDS)
        if time.process_time() - before < 0.1 * STILL_SECONDS:
            return 1
    return 0


class Worker:

    def __init__(self, name, threads, paths):
        self.engine = engines.module(name).load(threads, paths)
        self.problem = self.ready = None
        self.calls, self.next = 1, 0

    def run(self, count):
        calls, at = self.ready.calls, self.next
        with self.ready.guard():
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                calls[at]()
                at += 1
                if at == len(calls):
                    at = 0
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        self.next = at
        return wall, cpu

    def prepare(self, order):
        self.ready = self.problem = None
        self.problem, self.next = problem.make(order["shape"]), 0
        self.ready = self.engine.prepare(self.problem)
        self.run(1)
        output = numpy.array(self.ready.output(), numpy.float32)
        numpy.save(order["output"], output)
        self.calls, seconds = 1, self.run(1)[0]
        if seconds < order["seconds"]:  # the first call is no measure of the next
            self.calls = max(1, int(order["seconds"] / max(self.run(2)[0] / 2, 1e-7)))
        return {"note": self.ready.note, "calls": self.calls, "still": settle()}

    def time(self, _order):
        """A call that is not timed wakes the threads up, unless that is nothing beside the time of one."""
        if self.calls > 1:
            self.run(1)
        wall, cpu = self.run(self.calls)
        return {"wall": wall / self.calls, "cpu": cpu / self.calls, "still": settle()}

    def answer(self, order):
        return {"prepare": self.prepare, "time": self.time}[order["do"]](order)


def serve(worker, channel):
    for line in sys.stdin:
        try:
            answer = worker.answer(json.loads(line))
        except engines.NotOffered as reason:
            answer = {"not_offered": str(reason)}
        except Exception as error:  # pylint: disable=broad-except  # whatever a library throws is its answer
            answer = {"failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        channel.write(json.dumps(answer) + "\n")
        channel.flush()


def main():
    name, threads, paths = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no answer
    try:
        worker = Worker(name, threads, paths)
    except engines.Absent as reason:
        channel.write(json.dumps({"absent": str(reason)}) + "\n")
        return
    channel.write(json.dumps({"version": worker.engine.version, "title": engines.module(name).TITLE}) + "\n")
    channel.flush()
    serve(worker, channel)


if __name__ == "__main__":
    main()
