"""Boots one program in Bochs and passes its output and exit status on; called by avx512-emulation.sh, described there.

May know: Bochs' configuration, the frames that init.c sends.
Must not know: heed.  Standard library only."""

import argparse
import os
import secrets
import select
import shutil
import signal
import struct
import subprocess
import sys
import time

import archive
import kernel

TIME_LIMIT, EMULATOR_FAILED = 124, 125
MEGABYTE = 1 << 20

CONFIGURATION = """config_interface: textconfig
display_library: rfb, options="timeout=0"
cpu: model={model}, count=1, ips=30000000, reset_on_triple_fault=0, ignore_bad_msrs=1
memory: guest={memory}, host={memory}
romimage: file={work}/rom, address=0xffff0000
vgaromimage: file={work}/vgarom
optramimage1: file={work}/ram, address={base:#x}
com1: enabled=1, mode=file, dev={work}/serial
port_e9_hack: enabled=1
log: {work}/bochs.log
panic: action=fatal
error: action=ignore
info: action=ignore
debug: action=ignore
mouse: enabled=0
clock: sync=none
sound: waveoutdrv=dummy
"""


class Failure(Exception):
    """What the user reads, and the exit status."""

    def __init__(self, text, status=EMULATOR_FAILED):
        super().__init__(text)
        self.status = status


def parse():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ["cache", "work", "kernel", "bochs", "model", "directory"]:
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--memory", type=int, required=True)
    parser.add_argument("--limit", type=float, required=True)
    parser.add_argument("--env", action="append", default=[])
    parser.add_argument("--file", action="append", default=[])
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("command", nargs="*")
    return parser.parse_args()


def find_program(name):
    path = name if "/" in name else shutil.which(name)
    if not path or not os.access(path, os.X_OK) or os.path.isdir(path):
        raise Failure("%s: no such program" % name)
    return os.path.abspath(path)


def environment(given):
    """Bochs 2.7's XSAVEC stores the upper lanes at a wrong place, and glibc resolves functions lazily with it: the first
    call of a function with vector arguments would lose them."""
    values = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TERM": "dumb", "LD_BIND_NOW": "1",
              "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-XSAVEC"}
    if "LD_LIBRARY_PATH" in os.environ:
        values["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    values.update(item.partition("=")[::2] for item in given)
    return ["%s=%s" % item for item in values.items()]


def pack_files(options, mark):
    """The initial file system: init, the program, its libraries, what else was asked for."""
    program = find_program(options.command[0])
    files = archive.Archive()
    for folder in ["dev", "proc", "sys", "tmp"]:
        files.add(folder, archive.FOLDER)
    files.add_from(os.path.join(options.cache, "init"), "/init")
    files.add_from(program, program)
    for item in options.file:
        source, _, path = item.partition(":")
        files.add_from(source, path or os.path.abspath(source))
    if os.path.exists("/etc/ld.so.cache"):
        files.add_from("/etc/ld.so.cache", "/etc/ld.so.cache")
    files.add_list("emulate/run", [mark, options.directory])
    files.add_list("emulate/command", [program] + options.command[1:])
    files.add_list("emulate/environment", environment(options.env))
    return files.finish()


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


def prepare(options, mark):
    """Everything Bochs reads, in the work folder."""
    image = kernel.load(options.kernel, options.cache, options.memory * MEGABYTE)
    files = pack_files(options, mark)
    if len(image.data) + 2 * len(files) + 64 * MEGABYTE > options.memory * MEGABYTE:
        raise Failure("program and files do not fit into %d MB of memory (-M)" % options.memory)
    image.append_files(files)
    with open(os.path.join(options.cache, "rom"), "rb") as file:
        rom = bytearray(file.read())
    struct.pack_into("<IIII", rom, 0, image.base, image.end, image.entry, image.info)
    work = options.work
    write(work + "/ram", image.data)
    write(work + "/rom", rom)
    write(work + "/vgarom", bytes(512))
    write(work + "/commands", b"c\n")  # Debian's Bochs has its debugger built in and waits for "continue"
    text = CONFIGURATION.format(model=options.model, memory=options.memory, work=work, base=image.base)
    write(work + "/bochsrc", text.encode())


def start(options):
    command = [options.bochs]
    if options.bochs == "cached":
        home = os.path.join(options.cache, "bochs")
        os.environ["LTDL_LIBRARY_PATH"] = home + "/plugins"
        command = [home + "/ld-linux-x86-64.so.2", "--library-path", home + "/lib", home + "/bochs-bin"]
    command += ["-q", "-f", options.work + "/bochsrc", "-rc", options.work + "/commands"]
    # The display is a VNC server on a port of all interfaces: keep it in a network of its own where that is allowed.
    for private in (["unshare", "-n"], ["unshare", "-rn"]):
        if shutil.which("unshare") and subprocess.run(private + ["true"], stderr=subprocess.DEVNULL).returncode == 0:
            command = private + command
            break
    with open(options.work + "/stderr", "wb") as errors:
        return subprocess.Popen(command, cwd=options.work, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=errors, start_new_session=True)


def stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def tail(path, lines=25):
    try:
        with open(path, errors="replace") as file:
            return "\n".join(file.read().strip().splitlines()[-lines:])
    except FileNotFoundError:
        return ""


class Frames:
    """Takes the stream of init.c apart: output goes to stdout and stderr as it comes; status is set by the last frame."""

    HEAD = 9  # kind and length after the mark

    def __init__(self, mark):
        self.mark, self.pending, self.stray = b"\x01" + mark.encode(), b"", b""
        self.begun, self.status = False, None

    def feed(self, data):
        self.pending += data
        while self.status is None and self.step():
            pass

    def step(self):
        """One frame, or as much of one as there is; false when more must come first."""
        at = self.pending.find(self.mark)
        if at < 0:
            keep = len(self.mark)
            self.stray = (self.stray + self.pending[:-keep])[-2000:]
            self.pending = self.pending[-keep:]
            return False
        head = at + len(self.mark)
        if len(self.pending) < head + self.HEAD:
            return False
        kind, length = self.pending[head:head + 1], int(self.pending[head + 1:head + self.HEAD], 16)
        if kind == b"X":
            self.status = length
            return False
        if kind == b"B":
            self.begun, length = True, 0
        body = self.pending[head + self.HEAD:head + self.HEAD + length]
        if body:
            stream = (sys.stdout if kind == b"O" else sys.stderr).buffer
            stream.write(body)
            stream.flush()
        rest = self.pending[head + self.HEAD + len(body):]
        if len(body) < length:
            self.pending = self.mark + kind + b"%08x" % (length - len(body))
            return False
        self.pending = rest
        return True


def follow(process, frames, options, begin):
    """Until the program has ended; raises Failure when it does not."""
    while frames.status is None:
        left = begin + options.limit - time.time()
        if left <= 0:
            raise Failure("time limit of %g s reached" % options.limit, TIME_LIMIT)
        if not select.select([process.stdout], [], [], min(left, 0.5))[0]:
            if "Kernel panic" in tail(options.work + "/serial"):
                raise Failure("the kernel panicked")
            continue
        data = os.read(process.stdout.fileno(), 1 << 16)
        if not data:
            raise Failure("Bochs ended early")
        frames.feed(data)


def explain(failure, frames, work):
    text = "%s%s" % (failure, "" if frames.begun else " before the program started")
    for name in ["serial", "stderr", "bochs.log"]:
        content = tail(os.path.join(work, name))
        if content and failure.status == EMULATOR_FAILED:
            text += "\n--- %s ---\n%s" % (name, content)
    if failure.status == EMULATOR_FAILED:
        text += "\n--- output of Bochs ---\n" + (frames.stray + frames.pending)[-1500:].decode(errors="replace")
    return text


def run(options):
    begin, mark = time.time(), secrets.token_hex(8)
    prepare(options, mark)
    frames, process = Frames(mark), start(options)

    def on_signal(number, _):
        stop(process)
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    try:
        follow(process, frames, options, begin)
    except Failure as failure:
        stop(process)
        raise Failure(explain(failure, frames, options.work), failure.status) from None
    stop(process)
    if options.verbose:
        print("avx512-emulation: %.1f s, exit status %d" % (time.time() - begin, frames.status), file=sys.stderr)
    return frames.status


def main():
    options = parse()
    try:
        if not options.command:  # only fill the cache
            kernel.load(options.kernel, options.cache, options.memory * MEGABYTE)
            return 0
        return run(options)
    except (Failure, kernel.KernelError, archive.ArchiveError, OSError) as failure:
        if isinstance(failure, kernel.KernelError):
            failure = "kernel %s: %s" % (options.kernel, failure)
        print("avx512-emulation: %s" % failure, file=sys.stderr)
        return getattr(failure, "status", EMULATOR_FAILED)


if __name__ == "__main__":
    sys.exit(main())
