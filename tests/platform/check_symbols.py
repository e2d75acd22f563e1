#!/usr/bin/env python3
# Fails when an object or a library of heed exports, imports or contains what it must not.
# May know: nm, objdump and readelf, the names that are allowed.
# Must not know: how the objects are made.
import argparse
import os
import re
import subprocess
import sys
import tempfile

# What a backend may call: nothing of heed's own, so that no code it shares with the rest is compiled with its flags.
BACKEND_IMPORTS = re.compile(r"^(mem(cpy|set|move|cmp)|fmaf|Sleef_\w+|_GLOBAL_OFFSET_TABLE_)$")
# What the library may call: no output, no exit, no global state; of libm only what IEEE-754 defines to the last bit.
LIBRARY_IMPORTS = re.compile(
    r"^(mem(cpy|set|move|cmp|chr)|str(cmp|len|ncmp)|malloc|free|v?snprintf|(secure_)?getenv|getauxval"
    r"|(fma|frexp|ldexp|sqrt|fabs|floor|ceil|trunc|rint|nearbyint|round|copysign|fmod)f?"
    r"|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__tls_get_addr|__aarch64_\w+)$")
# What allocate.c alone may call beside: advice about memory, and errno, which it puts back.
ALLOCATE_IMPORTS = re.compile(r"^(madvise|__errno_location)$")
ALLOCATE_OBJECT = re.compile(r"^allocate\.(c\.)?o(bj)?$")
OPENMP_IMPORTS = re.compile(r"^(GOMP_\w+|__kmpc_\w+|omp_get_\w+|omp_in_\w+)$")
SLEEF_IMPORTS = re.compile(r"^Sleef_\w+$")
# What the compiler's own start files add to a shared library: imports, and functions that run when it is loaded.
START_FILES = re.compile(r"^(_ITM_\w+TMCloneTable|__gmon_start__|__cxa_finalize|__getauxval)$")
START_FUNCTIONS = {"frame_dummy", "init_have_lse_atomics"}
DEBUG_IMPORTS = re.compile(r"^__assert_fail$")
# VEX and EVEX code: all that begins with v but for these, what touches wide or mask registers, and BMI.
V_WITHOUT_VEX = {"verr", "verw", "vmcall", "vmlaunch", "vmresume", "vmxoff", "vmxon", "vmread", "vmwrite", "vmptrld"}
BMI = {"andn", "bextr", "blsi", "blsr", "blsmsk", "bzhi", "mulx", "pdep", "pext", "rorx", "sarx", "shlx", "shrx"}
WIDE = re.compile(r"%([yz]mm\d|k[0-7]\b)")
WIDE_BACKENDS = ("avx2", "avx512")


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if result.returncode:
        sys.exit("check_symbols: %s: %s" % (" ".join(command), result.stderr.decode("utf-8", "replace")))
    return result.stdout.decode("utf-8", "replace")


class Tools:
    def __init__(self, nm, objdump, readelf):
        self.nm, self.objdump, self.readelf = nm, objdump, readelf

    def symbols(self, path, *options):
        """(name, type letter) of each symbol; without options of local ones too."""
        found = []
        for line in run(self.nm, "-P", *options, path).splitlines():
            parts = line.split()
            if len(parts) >= 2 and len(parts[1]) == 1:
                found.append((parts[0].split("@")[0], parts[1]))
        return found


def global_definitions(tools, path):
    return [(n, t) for n, t in tools.symbols(path, "-g") if t not in "Uwv"]


def imports(tools, path, *options):
    return sorted({n for n, t in tools.symbols(path, "-g", *options) if t in "Uwv"})


def check_object(tools, path, label):
    """What holds for every object."""
    problems = []
    for name, kind in global_definitions(tools, path):
        if not name.startswith("heed_"):
            problems.append("%s: global symbol %s does not begin with heed_" % (label, name))
    for name, kind in tools.symbols(path):
        if kind in "WwVvui":
            problems.append("%s: %s is weak, unique or indirect (%s): another object's copy may be taken" % (
                label, name, kind))
    for line in run(tools.readelf, "-S", "-W", path).splitlines():
        section = re.search(r"\]\s+(\S+)", line)
        if section and re.match(r"^\.(init_array|preinit_array|ctors|fini_array|dtors|init|fini)\b", section.group(1)):
            problems.append("%s: section %s: code that runs at load time" % (label, section.group(1)))
        if section and (section.group(1).startswith(".gnu.linkonce") or section.group(1) == ".group"):
            problems.append("%s: section %s: the linker may take another object's copy" % (label, section.group(1)))
    return problems


def wide_instructions(tools, path):
    found = []
    for line in run(tools.objdump, "-d", "--no-show-raw-insn", "-w", path).splitlines():
        match = re.match(r"^ *[0-9a-f]+:\s+(\S+)\s*(.*)$", line)
        if match:
            name = match.group(1)
            vex = name.startswith("v") and name not in V_WITHOUT_VEX
            if vex or name in BMI or WIDE.search(match.group(2)):
                found.append(line.strip())
    return found


def check_backend(tools, path, name):
    problems = []
    exported = [n for n, _ in global_definitions(tools, path)]
    if exported != ["heed_backend_" + name]:
        problems.append("backend %s: exports %s, must be its table alone" % (name, ", ".join(exported) or "nothing"))
    for symbol in imports(tools, path):
        if not BACKEND_IMPORTS.match(symbol):
            problems.append("backend %s: calls or reads %s" % (name, symbol))
    return problems


def check_objects(tools, objects, x86):
    problems, wide = [], 0
    for kind, name, path in objects:
        label = "backend %s" % name if kind == "backend" else os.path.basename(path)
        problems += check_object(tools, path, label)
        if kind == "backend":
            problems += check_backend(tools, path, name)
        elif not ALLOCATE_OBJECT.match(os.path.basename(path)):
            problems += ["%s: calls or reads %s" % (label, n) for n in imports(tools, path) if ALLOCATE_IMPORTS.match(n)]
        if x86:
            code = wide_instructions(tools, path)
            if kind == "backend" and name in WIDE_BACKENDS:
                wide += 1
                if not code:
                    problems.append("%s: not one VEX instruction: the search for them finds nothing" % label)
            elif code:
                problems.append("%s: %d VEX or EVEX instructions, the first: %s" % (label, len(code), code[0]))
    print("%d objects, %d of them backends, %d with VEX code" % (
        len(objects), sum(1 for o in objects if o[0] == "backend"), wide))
    return problems


def allowed(name, openmp, sleef, debug):
    return bool(LIBRARY_IMPORTS.match(name) or ALLOCATE_IMPORTS.match(name) or (openmp and OPENMP_IMPORTS.match(name)) or
                (sleef and SLEEF_IMPORTS.match(name)) or (debug and DEBUG_IMPORTS.match(name)))


def check_archive(tools, path, arguments):
    defined = {n for n, _ in global_definitions(tools, path)}
    needed = [n for n in imports(tools, path) if n not in defined]
    problems = ["%s: needs %s" % (os.path.basename(path), n) for n in needed
                if not allowed(n, arguments.openmp, arguments.sleef, arguments.debug)]
    problems += ["%s: global symbol %s does not begin with heed_" % (os.path.basename(path), n)
                 for n in sorted(defined) if not n.startswith("heed_")]
    print("%s: %d global symbols, needs %s" % (os.path.basename(path), len(defined), " ".join(needed)))
    return problems


def load_functions(tools, path):
    """The names of the functions that the loader calls: the addresses in .init_array and its like."""
    names, targets = {}, {}
    for line in run(tools.nm, "-P", path).splitlines():
        parts = line.split()
        if len(parts) >= 3 and parts[1] in "tT":
            names.setdefault(int(parts[2], 16), parts[0])
    for line in run(tools.readelf, "-r", "-W", path).splitlines():
        match = re.match(r"^([0-9a-f]+)\s+[0-9a-f]+\s+R_\w+_RELATIVE\s+([0-9a-f]+)$", line.strip())
        if match:
            targets[int(match.group(1), 16)] = int(match.group(2), 16)
    found = []
    for line in run(tools.readelf, "-S", "-W", path).splitlines():
        match = re.search(r"\] \.(init_array|preinit_array|ctors)\s+\S+\s+([0-9a-f]+) \S+ ([0-9a-f]+)", line)
        if match:
            start, size = int(match.group(2), 16), int(match.group(3), 16)
            for address in range(start, start + size, 8):
                found.append(names.get(targets.get(address), "what stands in .%s at %#x" % (match.group(1), address)))
    return found


def check_shared(tools, path, public, arguments):
    name = os.path.basename(path)
    exported = {n for n, t in tools.symbols(path, "-D", "--defined-only")}
    problems = ["%s: exports %s, which is not public" % (name, n) for n in sorted(exported - public)]
    problems += ["%s: does not export %s" % (name, n) for n in sorted(public - exported)]
    for symbol in imports(tools, path, "-D"):
        if not (allowed(symbol, arguments.openmp, arguments.sleef, arguments.debug) or START_FILES.match(symbol)):
            problems.append("%s: needs %s" % (name, symbol))
    for function in load_functions(tools, path):
        if function not in START_FUNCTIONS:
            problems.append("%s: %s runs at load time" % (name, function))
    print("%s: exports %d symbols" % (name, len(exported)))
    return problems


def check_header(header, public):
    """symbols.txt says the same as the header's declarations."""
    with open(header, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.S)
    text = re.sub(r"^#.*?(?<!\\)$", "", text, flags=re.M)
    declared = set(re.findall(r"\bHEED_API\b[^;{]*?\b(heed_\w+)\s*\(", text))
    every = len(re.findall(r"\bHEED_API\b", text))
    problems = ["heed.h declares %s, symbols.txt does not list it" % n for n in sorted(declared - public)]
    problems += ["symbols.txt lists %s, heed.h does not declare it" % n for n in sorted(public - declared)]
    if every != len(declared):
        problems.append("heed.h: %d HEED_API but %d names" % (every, len(declared)))
    return problems


def read_objects(path):
    with open(path, encoding="utf-8") as file:
        return [line.rstrip("\n").split(" ", 2) for line in file if line.strip()]


def check(arguments, tools):
    with open(arguments.symbols, encoding="utf-8") as file:
        public = {line.strip() for line in file if line.strip() and not line.startswith("#")}
    problems = check_header(arguments.header, public)
    problems += check_objects(tools, read_objects(arguments.objects), arguments.x86)
    problems += check_archive(tools, arguments.static, arguments)
    problems += check_shared(tools, arguments.shared, public, arguments)
    return problems


# ---- The check must see what it is there for ----

BAD_SOURCES = {
    "no prefix": ("int gemm(void) { return 1; }", "does not begin with heed_"),
    "no prefix, data": ("int heedless = 4;", "does not begin with heed_"),
    "weak": ("__attribute__((weak)) int heed_x(void) { return 1; }", "weak"),
    "weak reference": ("__attribute__((weak)) int heed_x(void); int heed_y(void) { return heed_x ? 1 : 2; }", "weak"),
    "constructor": ("static volatile int x; __attribute__((constructor)) static void f(void) { x = 1; }", "load time"),
    "comdat": ('__attribute__((section(".gnu.linkonce.t.x"))) int heed_x(void) { return 1; }', "copy"),
    "two exports": ("int heed_backend_test, heed_other;", "table alone"),
    "no export": ("__attribute__((used)) static int f(void) { return 1; }", "table alone"),
    "import": ("int heed_backend_test; int heed_add(int); "
               "__attribute__((used)) static int f(void) { return heed_add(1); }", "calls or reads heed_add"),
}
GOOD_SOURCE = "#include <string.h>\nextern const int heed_backend_test; const int heed_backend_test = 1; " \
              "__attribute__((used)) static void f(char *x) { strcpy(x, \"a\"); memset(x, 1, 99999); }"
SHARED_SOURCE = "#include <stdio.h>\nstatic volatile int x; " \
                "__attribute__((constructor)) static void f(void) { x = 1; } " \
                "int heed_run(void) { return puts(\"\"); } int heed_extra(void) { return 1; }"
FORBIDDEN = ("printf", "exit", "abort", "omp_set_num_threads", "setenv", "signal", "pthread_create",
             "expf", "tanh", "cos")
ERRNO_SOURCE = "#include <errno.h>\nint heed_x(void); int heed_x(void) { return errno; }"
WIDE_SOURCE = "#include <immintrin.h>\nvoid heed_x(float *p); " \
              "void heed_x(float *p) { _mm256_storeu_ps(p, _mm256_setzero_ps()); }"


def compiled(compiler, folder, source, *flags):
    path = os.path.join(folder, "made.o")
    with open(os.path.join(folder, "made.c"), "w", encoding="utf-8") as file:
        file.write(source)
    subprocess.run(compiler + ["-O1", "-w", "-fPIC", *flags, "-c", file.name, "-o", path], check=True)
    return path


def self_test(arguments, tools):
    wrong = []
    compiler = arguments.compiler.split()
    with tempfile.TemporaryDirectory() as folder:
        for name, (source, expected) in BAD_SOURCES.items():
            path = compiled(compiler, folder, source)
            problems = check_object(tools, path, "made.o") + check_backend(tools, path, "test")
            if not any(expected in problem for problem in problems):
                wrong.append("%s: not seen; reported: %s" % (name, problems))
        path = compiled(compiler, folder, GOOD_SOURCE)
        problems = check_object(tools, path, "made.o") + check_backend(tools, path, "test")
        wrong += ["a good object is refused: " + p for p in problems]
        if arguments.x86:
            path = compiled(compiler, folder, WIDE_SOURCE, "-mavx")
            if not any("VEX" in p for p in check_objects(tools, [("core", "x", path)], True)):
                wrong.append("AVX code in a core object: not seen")
        path = compiled(compiler, folder, ERRNO_SOURCE)
        if not any("__errno_location" in p for p in check_objects(tools, [("core", "x", path)], False)):
            wrong.append("errno in a core object: not seen")
        path = os.path.join(folder, "made.so")
        made = compiled(compiler, folder, SHARED_SOURCE)
        subprocess.run(compiler + ["-shared", made, "-o", path], check=True)
        problems = check_shared(tools, path, {"heed_run", "heed_plan"}, arguments)
        for expected in ("heed_extra", "heed_plan", "needs puts", "f runs at load time"):
            if not any(expected in problem for problem in problems):
                wrong.append("a shared library with %s: not seen" % expected)
        if check_header(arguments.header, {"heed_version", "heed_none"}) == []:
            wrong.append("a wrong list of symbols: not seen")
        wrong += ["%s is let through" % name for name in FORBIDDEN if allowed(name, True, True, True)]
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Checks the symbols, sections and instructions of heed's objects.")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--objdump", default="objdump")
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("--header", required=True)
    parser.add_argument("--symbols", help="the list of public functions")
    parser.add_argument("--objects", help="file with 'core NAME PATH' and 'backend NAME PATH' lines")
    parser.add_argument("--static", help="the archive")
    parser.add_argument("--shared", help="the shared library")
    for flag in ("--x86", "--openmp", "--sleef", "--debug"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--self-test", action="store_true", help="check the check; needs --compiler")
    parser.add_argument("--compiler", default="cc")
    arguments = parser.parse_args()
    tools = Tools(arguments.nm, arguments.objdump, arguments.readelf)
    problems = (self_test if arguments.self_test else check)(arguments, tools)
    for problem in problems:
        print("FAIL: " + problem)
    print("%d wrong" % len(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
