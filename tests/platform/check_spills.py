#!/usr/bin/env python3
# Fails when a compiler keeps vectors of a backend's inner loop in memory: compiles the backend, reads the machine code.
# May know: the names of the kernels, how the register tile is instantiated, compilers.
# Must not know: instruction sets (disassembly.py does), the build folder's objects.
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

import disassembly

TILES = ("tile_qk", "tile_pv", "tile_gemm")
EXPS = ("softmax_exp_builtin",)
# Few rows: the loops that each has at least, over numbers of rows and storage types.
FEW = {"tile_qk_few": 1, "tile_gemm_few": 1, "qk_few": 3, "qk_few_t": 16, "pv_few": 16}
EXP_PRODUCTS = 9  # fused multiply-adds of one built-in exp
COMMON = ["-std=c11", "-fPIC", "-fvisibility=hidden", "-DNDEBUG", "-DHEED_BUILDING"]


class Geometry:
    """The register tile a compiler sees: vec.h may choose it by compiler."""

    def __init__(self, compiler, flags, source):
        text = subprocess.run(compiler + COMMON + flags + ["-E", "-P", source], stdout=subprocess.PIPE, check=True)
        text = text.stdout.decode("utf-8", "replace")
        for name in ("TILE_M", "TILE_V", "VEC_REGISTERS"):
            setattr(self, name.lower(), int(re.search(r"\b%s\s*=\s*(\d+)" % name, text).group(1)))


def is_instance(name, function):
    """Also the compiler's copies: tile_qk_avx2.constprop.0, .isra.0"""
    return name == function or name.startswith(function + ".")


def product_loops(functions, name):
    """(function, loop, number of fma, registers they add into) of every innermost loop with a fused multiply-add."""
    for function in functions:
        if is_instance(function.name, name):
            for loop in function.innermost_loops():
                code = [i for block in loop for i in function.blocks[block].instructions]
                sums = [r for r in map(function.machine.fma_destination, code) if r]
                if sums:
                    yield function, loop, len(sums), len(set(sums))


def only_reads_constants(function, accesses):
    """x86 has no room for an exp's ten constants: reading them from the stack costs what reading them from where the
    compiler keeps constants costs.  What is written in the loop, in it or for the next round, is a spill."""
    return function.machine is disassembly.X86 and not any("(" in access.operands[-1] for access in accesses)


def stack_problems(functions, name, constants_may_be_read=False):
    problems = []
    for function, loop, _, _ in product_loops(functions, name):
        accesses = function.vector_stack_accesses(loop)
        if accesses and not (constants_may_be_read and only_reads_constants(function, accesses)):
            code = sum(len(function.blocks[b].instructions) for b in loop)
            lines = ["%s+%#x: %d accesses to the stack in a loop of %d instructions" % (
                function.name, function.blocks[loop[0]].instructions[0].address -
                function.blocks[0].instructions[0].address, len(accesses), code)]
            problems.append("\n".join(lines + ["      %x: %s" % (i.address, i.text) for i in accesses]))
    return problems


def tile_problems(functions, name, geometry):
    """Each number of rows must have its loop, with all of its sums in registers."""
    found = {}
    for _, _, _, sums in product_loops(functions, name):
        found[sums] = found.get(sums, 0) + 1
    missing = [rows for rows in range(1, geometry.tile_m + 1) if rows * geometry.tile_v not in found]
    if missing:
        return ["%s: no loop for %s rows; loops with that many sums were found: %s" % (
            name, ", ".join(map(str, missing)), sorted(found) or "none")]
    return []


def exp_problems(functions, name):
    most = max((products for _, _, products, _ in product_loops(functions, name)), default=0)
    return [] if most >= EXP_PRODUCTS else ["%s: no loop that contains an exp was found" % name]


def few_problems(functions, name, least):
    found = sum(1 for _ in product_loops(functions, name))
    return [] if found >= least else ["%s: no loop, or only %d, was found" % (name, found)]


def few_spills(functions, backend):
    problems = []
    for few, least in FEW.items():
        name = "%s_%s" % (few, backend)
        problems += few_problems(functions, name, least) + stack_problems(functions, name)
    return problems


def judge(functions, backend, geometry):
    problems = []
    for tile in TILES:
        name = "%s_%s" % (tile, backend)
        problems += tile_problems(functions, name, geometry) + stack_problems(functions, name)
    for exp in EXPS:
        name = "%s_%s" % (exp, backend)
        problems += exp_problems(functions, name) + stack_problems(functions, name, constants_may_be_read=True)
    return problems


def levels(compiler):
    """-O3: Release; -O2: RelWithDebInfo and the kernels of Debug, where gcc differs more from -O3 than clang does."""
    return ["-O3"] if "clang" in os.path.basename(compiler[0]) else ["-O2", "-O3"]


def compile_backend(compiler, flags, source, folder):
    output = os.path.join(folder, "backend.o")
    subprocess.run(compiler + COMMON + flags + ["-c", source, "-o", output], check=True)
    return output


def loops_found(functions, backend):
    names = ["%s_%s" % (n, backend) for n in TILES + EXPS + tuple(FEW)]
    return sum(1 for name in names for _ in product_loops(functions, name))


def check(arguments, folder):
    failed = False
    source = os.path.join(arguments.source, arguments.backend, "backend.c")
    for compiler in arguments.compiler:
        for level in levels(compiler):
            flags = arguments.flags + ["-I" + arguments.include, level]
            geometry = Geometry(compiler, flags, source)
            functions = disassembly.disassemble(arguments.objdump, compile_backend(compiler, flags, source, folder))
            problems = judge(functions, arguments.backend, geometry) + few_spills(functions, arguments.backend)
            print("%s: %s %s: tile %d x %d, %d inner loops: %s" % (
                arguments.backend, " ".join(compiler), level, geometry.tile_m, geometry.tile_v,
                loops_found(functions, arguments.backend), "FAIL" if problems else "no vector on the stack"))
            for problem in problems:
                print("    " + problem)
            failed |= bool(problems)
    return failed


# ---- The check must see what it is there for ----

LISTING_X86 = """
made.o:     file format elf64-x86-64
0000000000000000 <clean>:
   0:\tlea    0x8(%rsp),%rax
   4:\tmov    %rdi,%rbp
   8:\tmov    %rsi,%rax
   c:\tvmovups (%rbp),%ymm0
  10:\tvfmadd231ps (%rax,%rcx,4),%ymm0,%ymm1
  14:\tadd    $0x20,%rbp
  18:\tcmp    %rdx,%rbp
  1c:\tjne    c <clean+0xc>
  20:\tvmovaps %ymm1,0x20(%rsp)
  24:\tret
0000000000000040 <direct>:
  40:\tvmovups (%rdi),%ymm0
  44:\tvfmadd231ps 0x40(%rsp),%ymm0,%ymm1
  48:\tadd    $0x20,%rdi
  4c:\tcmp    %rdx,%rdi
  50:\tjne    40 <direct>
  54:\tret
0000000000000080 <frame>:
  80:\tpush   %rbp
  84:\tmov    %rsp,%rbp
  88:\tvfmadd231ps (%rdi),%ymm0,%ymm1
  8c:\tvmovaps %ymm1,-0x40(%rbp)
  90:\tdec    %rdx
  94:\tjne    88 <frame+0x8>
  98:\tret
00000000000000c0 <derived>:
  c0:\tlea    0x40(%rsp),%r8
  c4:\tmov    %r8,%r9
  c8:\tvmovaps (%r9),%ymm1
  cc:\tvfmadd231ps (%rdi),%ymm0,%ymm1
  d0:\tvmovaps %ymm1,(%r9)
  d4:\tadd    $0x20,%r9
  d8:\tcmp    %rdx,%r9
  dc:\tjne    c8 <derived+0x8>
  e0:\tret
"""
LISTING_AARCH64 = """
made.o:     file format elf64-littleaarch64
0000000000000000 <clean>:
   0:\tadd\tx9, sp, #0x10
   4:\tmov\tx9, x0
   8:\tldr\tq0, [x9], #16
   c:\tldr\tx3, [sp, #8]
  10:\tfmla\tv1.4s, v2.4s, v0.s[0]
  14:\tsubs\tx2, x2, #0x1
  18:\tb.ne\t8 <clean+0x8>  // b.any
  1c:\tstr\tq1, [sp, #32]
  20:\tret
0000000000000040 <direct>:
  40:\tldr\tq3, [sp, #64]
  44:\tfmla\tv1.4s, v3.4s, v0.4s
  48:\tsubs\tx2, x2, #0x1
  4c:\tb.ne\t40 <direct>
  50:\tret
0000000000000080 <frame>:
  80:\tstp\tx29, x30, [sp, #-96]!
  84:\tmov\tx29, sp
  88:\tfmla\tv1.4s, v3.4s, v0.4s
  8c:\tstp\tq1, q2, [x29, #32]
  90:\tcbnz\tx2, 88 <frame+0x8>
  94:\tret
00000000000000c0 <derived>:
  c0:\tadd\tx4, sp, #0x20
  c4:\tld1\t{v1.4s}, [x4]
  c8:\tfmla\tv1.4s, v3.4s, v0.4s
  cc:\tst1\t{v1.4s}, [x4], #16
  d0:\tcmp\tx4, x5
  d4:\tb.ne\tc4 <derived+0x4>
  d8:\tret
"""


def test_listings():
    wrong = []
    for listing in (LISTING_X86, LISTING_AARCH64):
        functions = disassembly.parse(listing)
        for name, accesses in (("clean", 0), ("direct", 1), ("frame", 1), ("derived", 2)):
            machine = functions[0].machine.name
            loops = list(product_loops(functions, name))
            if len(loops) != 1:
                wrong.append("%s %s: %d loops" % (machine, name, len(loops)))
            elif len(loops[0][0].vector_stack_accesses(loops[0][1])) != accesses:
                wrong.append("%s %s: not %d accesses to the stack" % (machine, name, accesses))
    return wrong


def compile_too_large(arguments, compiler, flags, folder):
    """A copy of the backend with more sums than there are registers: its functions and the height of its tile."""
    copy = os.path.join(folder, "src")
    shutil.copytree(arguments.source, copy, dirs_exist_ok=True)
    source, vec = (os.path.join(copy, arguments.backend, name) for name in ("backend.c", "vec.h"))
    geometry = Geometry(compiler, flags, source)
    geometry.tile_m = min(16, -(-geometry.vec_registers // geometry.tile_v))
    with open(vec, encoding="utf-8") as file:
        text = file.read()
    text = re.sub(r"\bTILE_M = \d+", "TILE_M = %d" % geometry.tile_m, text)
    text = re.sub(r"\bVEC_REGISTERS = \d+", "VEC_REGISTERS = 99", text)
    with open(vec, "w", encoding="utf-8") as file:
        file.write(text)
    return disassembly.disassemble(arguments.objdump, compile_backend(compiler, flags, source, folder)), geometry


def test_backend(arguments, compiler, folder):
    flags = arguments.flags + ["-I" + arguments.include, "-O2"]
    functions, geometry = compile_too_large(arguments, compiler, flags, folder)
    wrong = []
    for tile in TILES:
        name = "%s_%s" % (tile, arguments.backend)
        if not stack_problems(functions, name):
            wrong.append("%s: %s, %d x %d sums: no spill was seen" % (
                compiler[0], name, geometry.tile_m, geometry.tile_v))
        geometry.tile_m += 1
        if not tile_problems(functions, name, geometry):
            wrong.append("%s: a loop for %d rows" % (name, geometry.tile_m))
        geometry.tile_m -= 1
    found = judge(functions, "none", geometry) + few_spills(functions, "none")
    missing, all_of_them = len([p for p in found if "no loop" in p]), len(TILES + EXPS) + len(FEW)
    if missing != all_of_them:
        wrong.append("kernels that are not there: %d of %d reported" % (missing, all_of_them))
    return wrong


def self_test(arguments, folder):
    wrong = test_listings()
    for compiler in arguments.compiler:
        wrong += test_backend(arguments, compiler, folder)
    for problem in wrong:
        print("FAIL: " + problem)
    print("self-test of the spill check on %s: %d wrong" % (arguments.backend, len(wrong)))
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description="Fails when a backend's inner loop touches the stack with vectors.")
    parser.add_argument("--backend", required=True, help="folder under --source")
    parser.add_argument("--source", required=True, help="src/")
    parser.add_argument("--include", required=True, help="include/")
    parser.add_argument("--flags", required=True, help="file with one compiler flag a line; -O and -W are left out")
    parser.add_argument("--compiler", required=True, action="append", help="a command; may be given several times")
    parser.add_argument("--objdump", required=True)
    parser.add_argument("--self-test", action="store_true", help="check the check")
    arguments = parser.parse_args()
    arguments.compiler = [c.split() for c in arguments.compiler]
    with open(arguments.flags, encoding="utf-8") as file:
        arguments.flags = [f for f in file.read().split("\n") if f and not f.startswith(("-O", "-W"))]
    with tempfile.TemporaryDirectory() as folder:
        return (self_test if arguments.self_test else check)(arguments, folder)


if __name__ == "__main__":
    sys.exit(main())
