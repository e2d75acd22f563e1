"""The initial file system of the emulated machine: a cpio archive of programs, their shared libraries and other files.

May know: the "newc" format, ldd.
Must not know: the emulator, what the files are for.  Standard library only."""

import os
import re
import stat
import subprocess

FOLDER, FILE = 0o040755, 0o100000


class ArchiveError(Exception):
    pass


class Archive:
    def __init__(self):
        self.parts, self.seen = [], set()

    def add(self, path, mode, data=b""):
        """One entry and the folders above it; what is already there stays."""
        path = path.strip("/")
        if not path or path in self.seen:
            return
        if os.path.dirname(path):
            self.add(os.path.dirname(path), FOLDER)
        self.seen.add(path)
        name = path.encode() + b"\0"
        fields = (len(self.seen), mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        head = b"070701" + "".join("%08X" % field for field in fields).encode() + name
        self.parts += [head, b"\0" * (-len(head) % 4), data, b"\0" * (-len(data) % 4)]

    def add_list(self, path, strings):
        self.add(path, FILE | 0o644, b"".join(text.encode() + b"\0" for text in strings))

    def add_from(self, source, path):
        """A file or a folder of this machine; the libraries of programs come along."""
        status = os.stat(source)
        if stat.S_ISDIR(status.st_mode):
            self.add(path, FOLDER)
            for name in sorted(os.listdir(source)):
                self.add_from(os.path.join(source, name), path.rstrip("/") + "/" + name)
        elif stat.S_ISREG(status.st_mode):
            with open(source, "rb") as file:
                data = file.read()
            self.add(path, FILE | stat.S_IMODE(status.st_mode), data)
            if data[:4] == b"\x7fELF":
                self.add_libraries(source)

    def add_libraries(self, program):
        listing = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        if "not found" in listing or "ISA level" in listing:
            raise ArchiveError("ldd %s:\n%s" % (program, listing))
        for library in re.findall(r"(?:=> )?(/\S+) \(0x", listing):
            with open(library, "rb") as file:
                self.add(library, FILE | 0o755, file.read())

    def finish(self):
        self.add("TRAILER!!!", 0)
        return b"".join(self.parts)
