#!/usr/bin/env python3
# Fails when the shared library is too large, or keeps state of its own beyond what it found out about the CPU.
# May know: objdump, strip, which variables may change.
# Must not know: the library's sources.
import argparse
import os
import re
import subprocess
import sys
import tempfile

LARGEST = 400_000  # bytes, stripped
# What is detected once and never changes again: the CPU's features and the backend chosen by them.
STATE = re.compile(r"^((heed_cpu|default_backend)\.)?cache(\.\d+)?$")
STATE_SIZE = 8
# Written by the loader alone, then read-only.
CONSTANT = re.compile(r"^\.data\.rel\.ro")
MUTABLE = re.compile(r"^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)")


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def variables(objdump, path):
    """(name, section, size) of what lies in memory that can be written."""
    found = []
    for line in run(objdump, "-t", "-w", path).splitlines():
        match = re.match(r"^[0-9a-f]{16} .{7} (\S+)\s+([0-9a-f]+)\s+(?:\.hidden )?(\S+)$", line)
        section, size = (match.group(1), int(match.group(2), 16)) if match else ("", 0)
        if MUTABLE.match(section) and not CONSTANT.match(section) and size:
            found.append((match.group(3), section, size))
    return found


def check_state(objdump, archive):
    found = variables(objdump, archive)
    print("state: " + ", ".join("%s (%d bytes in %s)" % (n, size, s) for n, s, size in found))
    problems = ["%s: %d bytes in %s can change" % (n, size, s) for n, s, size in found
                if not STATE.match(n) or size > STATE_SIZE]
    if not found:
        problems.append("not even the cached choice of a backend was found: the search sees nothing")
    return problems


def check_size(strip, library):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "stripped.so")
        run(strip, "-o", copy, library)
        size = os.path.getsize(copy)
    print("size: %d bytes stripped, of at most %d" % (size, LARGEST))
    return ["%s: %d bytes stripped, at most %d are wanted" % (library, size, LARGEST)] if size > LARGEST else []


def main():
    parser = argparse.ArgumentParser(description="Size and state of the library.")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--strip", default="strip")
    parser.add_argument("--static", required=True)
    parser.add_argument("--shared", help="check the size of this library too")
    parser.add_argument("--self-test", help="a C compiler: the search for state must see made-up state")
    arguments = parser.parse_args()
    problems = check_state(arguments.objdump, arguments.static)
    if arguments.shared:
        problems += check_size(arguments.strip, arguments.shared)
    if arguments.self_test:
        with tempfile.TemporaryDirectory() as folder:
            source, made = os.path.join(folder, "made.c"), os.path.join(folder, "made.o")
            with open(source, "w", encoding="utf-8") as file:
                file.write("int f(int x); int f(int x) { static int a, b = 1; static _Thread_local int c; return a += b += c += x; }\n"
                           "const int d = 4; int e;")
            run(*arguments.self_test.split(), "-c", source, "-o", made)
            seen = {re.sub(r"^f\.|\.\d+$", "", n) for n, _, _ in variables(arguments.objdump, made)}
            if seen != {"a", "b", "c", "e"}:
                problems.append("of the made-up state a, b, c, e was seen: %s" % sorted(seen))
    for problem in problems:
        print("FAIL: " + problem)
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
