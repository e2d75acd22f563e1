#!/usr/bin/env python3
# Fails when the public header does not compile by itself, without a warning, in every standard of C and C++ at hand, or when a struct
# that can grow ends in padding: a new field there would be read from programs that never wrote it.
# May know: the header's INIT macros, compilers.
# Must not know: the library's sources.
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wshadow", "-Wundef"]
COMPILERS = {"c": ("gcc", "clang"), "c++": ("g++", "clang++")}
STANDARDS = {"c": ("c99", "c11", "c17", "c2x"), "c++": ("c++98", "c++11", "c++14", "c++17", "c++20")}
ALONE = "#include <heed/heed.h>\n"
TWICE = "#include <heed/heed.h>\n#include <heed/heed.h>\n"
BROKEN = "#include <heed/heed.h>\nint f(void) { return heed_no_such_function(1); }\n"


def last_field(text, struct):
    body = re.search(r"^typedef struct %s \{(.*?)^\} %s;" % (struct, struct), text, flags=re.M | re.S).group(1)
    return re.findall(r"(\w+);", re.sub(r"/\*.*?\*/", "", body, flags=re.S))[-1]


def use(header):
    """A program that uses every INIT macro and a few functions; valid in C99 and C++98."""
    with open(header, encoding="utf-8") as file:
        text = file.read()
    macros = re.findall(r"^#define (HEED_(\w+)_INIT)\b", text, flags=re.M)
    lines = ["#include <heed/heed.h>"]
    for _, name in macros:
        struct, field = "heed_" + name.lower(), last_field(text, "heed_" + name.lower())
        lines.append("typedef char %s_ends_in_padding[sizeof(void *) < 8 || sizeof(%s) == offsetof(%s, %s) + "
                     "sizeof(((%s *)0)->%s) ? 1 : -1];" % (struct, struct, struct, field, struct, field))
    lines += ["int main(void)", "{", "    int sum = 0;"]
    for macro, name in macros:
        lines.append("    { heed_%s value = %s; sum += value.struct_size == sizeof(heed_%s); }" % (
            name.lower(), macro, name.lower()))
    lines += ["    sum -= %d;" % len(macros),
              "    return sum == 0 && heed_version()[0] != '\\0' && heed_isa_usable(HEED_ISA_SCALAR) ? 0 : 1;", "}", ""]
    return "\n".join(lines), len(macros)


def compiles(command, folder, source, suffix, *link):
    """The compiler's complaints, None for none."""
    path = os.path.join(folder, "use" + suffix)
    with open(path, "w", encoding="utf-8") as file:
        file.write(source)
    out = ["-o", os.path.join(folder, "use")] if link else ["-c", "-o", os.path.join(folder, "use.o")]
    result = subprocess.run(command + [path] + list(link) + out, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return None if result.returncode == 0 else result.stdout.decode("utf-8", "replace").strip() or "failed"


def knows(command, folder, suffix):
    return compiles(command, folder, "int main(void) { return 0; }\n", suffix) is None


def check_standard(command, folder, suffix, program, library):
    problems = []
    for name, source in (("alone", ALONE), ("twice", TWICE), ("used", program)):
        complaint = compiles(command + WARNINGS, folder, source, suffix)
        if complaint:
            problems.append("%s, %s: %s" % (" ".join(command[:2]), name, complaint))
    if compiles(command + WARNINGS, folder, BROKEN, suffix) is None:
        problems.append("%s: an undeclared function compiles: this check sees nothing" % " ".join(command[:2]))
    if not problems and library:
        complaint = compiles(command, folder, program, suffix, *library)
        if complaint:
            problems.append("%s, linking: %s" % (" ".join(command[:2]), complaint))
        elif subprocess.run([os.path.join(folder, "use")]).returncode:
            problems.append("%s: the program ran and failed" % " ".join(command[:2]))
    return problems


def main():
    parser = argparse.ArgumentParser(description="Compiles heed.h by itself in every standard of C and C++.")
    parser.add_argument("--include", required=True)
    parser.add_argument("--library", help="a shared library to link and run the using program with")
    parser.add_argument("--require", action="append", default=[], help="a compiler that must be there")
    arguments = parser.parse_args()
    program, macros = use(os.path.join(arguments.include, "heed", "heed.h"))
    library = [arguments.library, "-Wl,-rpath," + os.path.dirname(arguments.library)] if arguments.library else []
    problems, checked = [], []
    with tempfile.TemporaryDirectory() as folder:
        for language, suffix in (("c", ".c"), ("c++", ".cc")):
            for compiler in COMPILERS[language]:
                if not shutil.which(compiler):
                    print("%s is not installed: not checked with it" % compiler)
                    if compiler in arguments.require:
                        problems.append("%s is required" % compiler)
                    continue
                for standard in STANDARDS[language]:
                    command = [compiler, "-std=" + standard, "-I" + arguments.include]
                    if not knows(command, folder, suffix):
                        print("%s does not know %s" % (compiler, standard))
                        continue
                    problems += check_standard(command, folder, suffix, program, library)
                    checked.append("%s -std=%s" % (compiler, standard))
    for problem in problems:
        print("FAIL: " + problem)
    print("%d combinations, %d INIT macros: %s\n%d wrong" % (len(checked), macros, ", ".join(checked), len(problems)))
    return bool(problems) or not checked or not macros


if __name__ == "__main__":
    sys.exit(main())
