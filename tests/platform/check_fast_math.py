#!/usr/bin/env python3
# Fails when heed can be built with flags that let the compiler break IEEE arithmetic: such a build must say why not.
# May know: which flags those are, where the sources lie, cmake.
# Must not know: how the sources or the CMake files stop.
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

# The last one has no macro in clang: only the configuration can see it.
FLAGS = ("-ffast-math", "-Ofast", "-ffinite-math-only", "-funsafe-math-optimizations")
SEEN_BY_MACRO = {"gcc": FLAGS[:3], "clang": FLAGS[:3]}
REASONS = ("fast-math", "IEEE")


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return result.returncode, result.stdout.decode("utf-8", "replace")


def explains(output):
    return any(reason in output for reason in REASONS)


def computes(path):
    with open(path, encoding="utf-8") as file:
        return re.search(r"\b(float|double)\b", file.read()) is not None


def sources(root):
    """The backends, and the core files in which floating-point values occur."""
    core = glob.glob(os.path.join(root, "src", "*.c"))
    return sorted([path for path in core if computes(path)] + glob.glob(os.path.join(root, "src", "*", "backend.c")))


def check_sources(root, compiler):
    """Each file by itself, as a build without CMake would compile it."""
    problems = []
    for flag in SEEN_BY_MACRO[compiler]:
        silent = []
        for source in sources(root):
            code, output = run([compiler, "-std=c11", "-w", "-I" + os.path.join(root, "include"), flag, "-E",
                                source])
            if code == 0 or not explains(output):
                silent.append(os.path.relpath(source, root))
        if silent:
            problems.append("%s %s: %d of %d files do not stop and say why: %s" % (
                compiler, flag, len(silent), len(sources(root)), " ".join(silent)))
    return problems


def configure(cmake, root, compiler, flags, folder):
    options = ["-DHEED_BUILD_%s=OFF" % part for part in ("TESTS", "TOOLS", "EXAMPLES", "BENCH")]
    # A build type without flags of its own: -O3 after -Ofast takes the latter back.
    return run([cmake, "-S", root, "-B", folder, "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_COMPILER=" + compiler,
                "-DCMAKE_C_FLAGS=" + flags] + options)


def check_configuration(root, compiler, cmake):
    problems = []
    for flag in FLAGS + ("",):
        with tempfile.TemporaryDirectory() as folder:
            code, output = configure(cmake, root, compiler, flag, folder)
        if not flag and code:
            problems.append("%s: does not configure even without such flags:\n%s" % (compiler, output))
        elif flag and code == 0:
            problems.append("%s: configures with CMAKE_C_FLAGS=%s" % (compiler, flag))
        elif flag and not explains(output):
            problems.append("%s: with CMAKE_C_FLAGS=%s it stops but does not say why:\n%s" % (compiler, flag, output))
    return problems


def main():
    parser = argparse.ArgumentParser(description="Builds with -ffast-math and its like must stop with a clear message.")
    parser.add_argument("root", help="the top of the source tree")
    parser.add_argument("what", choices=("sources", "configuration"))
    parser.add_argument("--cmake", default="cmake")
    arguments = parser.parse_args()
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)]
    problems = []
    for compiler in compilers:
        if arguments.what == "sources":
            problems += check_sources(arguments.root, compiler)
        else:
            problems += check_configuration(arguments.root, compiler, arguments.cmake)
    for problem in problems:
        print("FAIL: " + problem)
    print("%s checked with %s: %d wrong" % (arguments.what, ", ".join(compilers) or "no compiler", len(problems)))
    return bool(problems) or not compilers or not sources(arguments.root)


if __name__ == "__main__":
    sys.exit(main())
