#!/usr/bin/env python3
# Installs heed into a clean place, moves it, and builds users' programs against it: by pkg-config and by CMake, in C and C++.
# May know: what a user may do, where an installation has its files.
# Must not know: heed's targets, objects and sources but for their folder.
import argparse
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGURATION = ["-DHEED_BACKENDS=scalar", "-DCMAKE_BUILD_TYPE=Debug", "-DHEED_BUILD_TESTS=OFF", "-DHEED_BUILD_TOOLS=OFF",
                 "-DHEED_BUILD_EXAMPLES=OFF"]  # quick to build: nothing here depends on kernels


class Failure(Exception):
    pass


def run(command, **more):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if result.returncode:
        raise Failure("%s\n%s" % (" ".join(command), result.stdout[-3000:]))
    return result.stdout


def require(truth, what):
    if not truth:
        raise Failure(what)


class Installation:
    """A tree with heed in it, wherever it has been moved."""

    def __init__(self, arguments, prefix, features):
        self.arguments, self.prefix = arguments, prefix
        self.openmp, self.sleef = features
        found = glob.glob(os.path.join(prefix, "**", "heed.pc"), recursive=True)
        require(len(found) == 1, "%s: %d files heed.pc" % (prefix, len(found)))
        self.pc = found[0]
        libdir = os.path.dirname(os.path.dirname(self.pc))
        self.kinds = [kind for kind, name in (("static", "libheed.a"), ("shared", "libheed.so"))
                      if os.path.exists(os.path.join(libdir, name))]
        self.libdir = libdir
        # CMake searches a prefix for lib, lib64 and lib/<machine>; anything else the user must name.
        self.place = ["-DCMAKE_PREFIX_PATH=" + prefix]
        if "odd" in libdir:
            self.place = ["-Dheed_DIR=" + os.path.join(libdir, "cmake", "heed")]
        self.environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.pc))
        self.environment.pop("LD_LIBRARY_PATH", None)

    def flags(self, *options):
        return run(["pkg-config", *options, "heed"], env=self.environment).split()

    # ---- The files ----

    def check_files(self):
        """No file tells of the machine that built it; every path of heed.pc is there."""
        for path in [self.pc] + glob.glob(os.path.join(self.libdir, "cmake", "heed", "*.cmake")):
            with open(path, encoding="utf-8") as file:
                text = file.read()
            for folder in (self.arguments.source, self.arguments.work, os.path.abspath(self.arguments.build)):
                require(folder not in text, "%s holds %s" % (path, folder))
        for flag in self.flags("--cflags", "--libs"):
            if flag[:2] in ("-L", "-I"):
                require(os.path.isdir(flag[2:]), "heed.pc: there is no %s" % flag)
        private = self.flags("--static", "--libs")
        require(any("omp" in f for f in private) == self.openmp, "OpenMP in %s" % private)
        require(("-lsleef" in private) == self.sleef, "SLEEF in %s" % private)
        public = self.flags("--libs")
        alone = dict(self.environment, PKG_CONFIG_LIBDIR=os.path.dirname(self.pc))
        alone.pop("PKG_CONFIG_PATH")
        run(["pkg-config", "--cflags", "--libs", "heed"], env=alone)  # where no dependency is installed
        require("-lheed" in public and "-lsleef" not in public, "a shared library's users link %s" % public)

    # ---- Programs ----

    def check_program(self, path, kind):
        text = run([path], env=dict(self.environment, LD_LIBRARY_PATH=self.libdir))
        require("openmp %d sleef %d" % (self.openmp, self.sleef) in text, "%s says %s" % (path, text))
        needed = run([self.arguments.readelf, "-d", path])
        require(("libheed" in needed) == (kind == "shared"), "%s, linked for %s: %s" % (path, kind, needed))
        if kind == "static":
            for name, wanted in (("omp", self.openmp), ("sleef", self.sleef)):
                require((name in needed) <= wanted, "%s needs %s: %s" % (path, name, needed))

    def link(self, source, kind, output, folder, *options):
        flags = self.flags("--cflags", "--libs", *(["--static"] if kind == "static" else []))
        if kind == "static":  # where both kinds are there, the linker would take the shared one
            at = flags.index("-lheed")
            flags[at:at + 1] = ["-Wl,-Bstatic", "-lheed", "-Wl,-Bdynamic"]
        path = os.path.join(folder, output)
        run([*self.arguments.compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", *options, source, *flags, "-lm", "-o", path])
        return path

    def check_pkg_config(self, folder):
        for kind in self.kinds:
            self.check_program(self.link(os.path.join(HERE, "use.c"), kind, "use-" + kind, folder), kind)
            names = os.path.join(HERE, "..", "platform", "host_names.c")
            run([self.link(names, kind, "names-" + kind, folder)], env=dict(os.environ, LD_LIBRARY_PATH=self.libdir))
            # A plugin: nothing may be left for its host to bring.
            self.link(os.path.join(HERE, "use.c"), kind, "plugin-%s.so" % kind, folder, "-shared", "-fPIC", "-Wl,-z,defs")

    def check_cmake(self, folder, language, kind):
        suffix = {"C": "c", "CXX": "cc"}[language]
        project = os.path.join(folder, "project-%s-%s" % (language, kind))
        shutil.copytree(os.path.join(HERE, "project"), project)
        shutil.copy(os.path.join(HERE, "use.c"), os.path.join(project, "use." + suffix))
        build = os.path.join(project, "build")
        compiler = self.arguments.compiler[0] if language == "C" else self.arguments.cxx
        text = run([self.arguments.cmake, "-S", project, "-B", build, "-DCMAKE_%s_COMPILER=%s" % (language, compiler),
                    *self.place, "-DUSER_LANGUAGE=" + language, "-DUSER_SUFFIX=" + suffix,
                    "-DKIND=" + kind], env=self.environment)
        used = kind or self.default_kind()
        for name, wanted in (("OpenMP", self.openmp), ("SLEEF", self.sleef)):
            require(("searched: " + name in text) == (wanted and used == "static"), "%s, %s: %s" % (name, used, text))
        run([self.arguments.cmake, "--build", build])
        self.check_program(os.path.join(build, "use"), used)

    def default_kind(self):
        return self.arguments.default if self.arguments.default in self.kinds else self.kinds[0]

    def check_missing_component(self, folder):
        """What is not installed is said to be missing."""
        for kind in {"static", "shared"} - set(self.kinds):
            try:
                self.check_cmake(folder, "C", kind)
            except Failure as failure:
                require("component %s: this library is not installed" % kind in str(failure), str(failure))
            else:
                raise Failure("find_package finds the %s library, which is not there" % kind)


def moved(prefix):
    other = prefix + "-moved"
    os.rename(prefix, other)
    return other


# ---- Parts ----


def part_installed(arguments, folder):
    """What this build tree installs."""
    run([arguments.cmake, "--install", arguments.build, "--prefix", os.path.join(folder, "prefix")])
    here = Installation(arguments, moved(os.path.join(folder, "prefix")), (arguments.openmp, arguments.sleef))
    here.check_files()
    here.check_pkg_config(folder)
    for language in ("C", "CXX") if arguments.cxx else ("C",):
        for kind in [""] + here.kinds:
            here.check_cmake(folder, language, kind)
    here.check_missing_component(folder)
    return "%s, OpenMP %d, SLEEF %d" % (" and ".join(here.kinds), arguments.openmp, arguments.sleef)


def build(arguments, folder, *options):
    tree = os.path.join(folder, "tree")
    run([arguments.cmake, "-S", arguments.source, "-B", tree, "-DCMAKE_C_COMPILER=" + arguments.compiler[0], *CONFIGURATION,
         *options])
    run([arguments.cmake, "--build", tree, "-j2"])
    return tree


def staged(arguments, tree, folder, name):
    stage = os.path.join(folder, name)
    run([arguments.cmake, "--install", tree], env=dict(os.environ, DESTDIR=stage))
    return stage


def part_layouts(arguments, folder):
    """Odd folders, staged by DESTDIR; both kinds, one kind, and nothing but libc and libm."""
    plain = ["-DHEED_WITH_OPENMP=OFF", "-DHEED_WITH_SLEEF=OFF", "-DCMAKE_INSTALL_PREFIX=/opt/heed"]
    arguments.default = "static"
    tree = build(arguments, folder, "-DHEED_BUILD_BOTH=ON", "-DCMAKE_INSTALL_LIBDIR=odd/lib64",
                 "-DCMAKE_INSTALL_INCLUDEDIR=include/deep", *plain)
    here = Installation(arguments, os.path.join(staged(arguments, tree, folder, "both"), "opt", "heed"), (False, False))
    require(here.kinds == ["static", "shared"], "HEED_BUILD_BOTH installs %s" % here.kinds)
    here.check_files()
    here.check_pkg_config(folder)
    here.check_cmake(folder, "C", "shared")
    # An absolute folder cannot be moved, but must be right where it is.
    absolute = os.path.join(folder, "absolute", "lib")
    tree = build(arguments, folder, "-DHEED_BUILD_BOTH=OFF", "-DBUILD_SHARED_LIBS=ON", "-DCMAKE_INSTALL_LIBDIR=" + absolute,
                 "-DCMAKE_INSTALL_INCLUDEDIR=" + os.path.join(folder, "absolute", "include"), *plain[:2],
                 "-DCMAKE_INSTALL_PREFIX=" + os.path.join(folder, "absolute"))
    run([arguments.cmake, "--install", tree])
    arguments.default, arguments.work = "shared", "/nowhere"  # these paths hold the folder's name by right
    here = Installation(arguments, os.path.join(folder, "absolute"), (False, False))
    require(here.kinds == ["shared"], "BUILD_SHARED_LIBS installs %s" % here.kinds)
    here.check_files()
    here.check_pkg_config(os.path.join(folder, "absolute"))
    here.check_missing_component(folder)
    return "LIBDIR odd/lib64 and absolute, DESTDIR, both kinds, no dependency"


def part_subproject(arguments, folder):
    """heed inside another project; nothing of it is installed with that."""
    for fetch in ("OFF", "ON"):
        project, tree = os.path.join(folder, "user" + fetch), os.path.join(folder, "build" + fetch)
        shutil.copytree(os.path.join(HERE, "subproject"), project)
        shutil.copy(os.path.join(HERE, "use.c"), project)
        run([arguments.cmake, "-S", project, "-B", tree, "-DCMAKE_C_COMPILER=" + arguments.compiler[0], "-DUSE_FETCHCONTENT=" + fetch,
             "-DHEED_SOURCE=" + arguments.source, "-DHEED_BACKENDS=scalar", "-DCMAKE_C_FLAGS=-O1 -Wall -Werror",
             "-DHEED_WITH_OPENMP=" + fetch, "-DHEED_WITH_SLEEF=OFF"])
        run([arguments.cmake, "--build", tree, "-j2"])
        run([os.path.join(tree, "use")])
        run([arguments.cmake, "--install", tree, "--prefix", os.path.join(folder, "prefix" + fetch)])
        files = sum((names for _, _, names in os.walk(os.path.join(folder, "prefix" + fetch))), [])
        require(files == ["use"], "installed with the user's project: %s" % files)
    return "add_subdirectory, FetchContent"


PARTS = {"installed": part_installed, "layouts": part_layouts, "subproject": part_subproject}


def main():
    parser = argparse.ArgumentParser(description="Builds users' programs against an installed heed.")
    parser.add_argument("part", choices=sorted(PARTS))
    parser.add_argument("--source", required=True)
    parser.add_argument("--build", required=True, help="the build tree that is installed")
    parser.add_argument("--compiler", required=True, help="C compiler and its flags")
    parser.add_argument("--cxx", default=shutil.which("c++"))
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--readelf", default="readelf")
    parser.add_argument("--default", default="static", help="the kind of heed::heed")
    parser.add_argument("--openmp", action="store_true")
    parser.add_argument("--sleef", action="store_true")
    arguments = parser.parse_args()
    arguments.compiler = arguments.compiler.split()
    if "clang" in os.path.basename(arguments.compiler[0]) and arguments.cxx:  # another compiler has another OpenMP runtime
        arguments.cxx = shutil.which("clang++")
    os.environ.setdefault("CMAKE_BUILD_PARALLEL_LEVEL", "2")
    with tempfile.TemporaryDirectory(prefix="heed-consumers-") as folder:
        arguments.work = folder
        try:
            print("ok: " + PARTS[arguments.part](arguments, folder))
        except Failure as failure:
            print("FAIL: %s" % failure)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
