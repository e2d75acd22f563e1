"""A Linux kernel and the Xen/PVH start information, laid out as they stand in the memory of the emulated machine.

May know: the formats of bzImage, ELF and hvm_start_info, what the kernel's command line is for.
Must not know: the emulator's options, the program that is run.  Standard library only."""

import ctypes
import hashlib
import os
import struct
import subprocess

# clearcpuid  pku, xsaves, xsavec: Bochs 2.7 reports their layout wrongly, Linux would give up XSAVE and with it AVX;
#             fsrm: Bochs lacks IA32_MISC_ENABLE, and without ERMS the kernel's memmove would break with it.
# tsc         CPUID promises 2.4 GHz, but the counter advances by one for each instruction: keep time by the timer chip
#             (else sleep(1) takes 70 seconds).
# The rest skips work: self-tests of the cryptography (770 million instructions), X.509 (137 million), BTF, probes.
COMMAND_LINE = (
    "console=ttyS0 quiet loglevel=1 panic=0 mitigations=off no_timer_check tsc=unstable acpi=off pci=off "
    "clearcpuid=pku,xsaves,xsavec,fsrm cryptomgr.notests initcall_blacklist=btf_vmlinux_init,"
    "load_system_certificate_list,init_kprobes,init_kprobe_trace,trace_eval_init,tracer_init_tracefs,"
    "cubictcp_register,bpf_prog_test_run_init,bpf_tcp_ca_kfunc_init,kfunc_init,bpf_key_sig_kfuncs_init,"
    "bpf_rstat_kfunc_init")

BLOCK = 0x20000  # Bochs' unit of memory
START_MAGIC = 0x336EC578
PT_LOAD, PT_NOTE, NOTE_PVH_ENTRY = 1, 4, 18
LZ4_BLOCK = 8 << 20


class KernelError(Exception):
    pass


def unpack_lz4(payload):
    """LZ4's legacy frame (Debian's cloud kernel), through the library that apt needs too."""
    library = ctypes.CDLL("liblz4.so.1")
    (size,) = struct.unpack("<I", payload[-4:])
    out, at = bytearray(), 4
    block = ctypes.create_string_buffer(LZ4_BLOCK)
    while len(out) < size:
        (length,) = struct.unpack_from("<I", payload, at)
        at += 4
        got = library.LZ4_decompress_safe(payload[at:at + length], block, length, LZ4_BLOCK)
        if got <= 0:
            raise KernelError("its LZ4 data is damaged")
        out += block.raw[:got]
        at += length
    return bytes(out)


def unpack(kernel):
    """vmlinux out of a bzImage, decompressed here and not in the emulator."""
    sectors = kernel[0x1F1] or 4
    offset, length = struct.unpack_from("<II", kernel, 0x248)
    start = (sectors + 1) * 512 + offset
    payload = kernel[start:start + length]
    if payload[:4] == b"\x02\x21\x4c\x18":
        return unpack_lz4(payload)
    tools = {b"\xfd7zX": ["xz", "-dc", "--single-stream"], b"\x28\xb5\x2f\xfd": ["zstd", "-dc"]}
    if payload[:4] in tools:
        return subprocess.run(tools[payload[:4]], input=payload, stdout=subprocess.PIPE, check=True).stdout
    if payload[:2] == b"\x1f\x8b":
        return subprocess.run(["gzip", "-dc"], input=payload, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    raise KernelError("unknown compression " + payload[:4].hex())


def pvh_entry(elf, offset, size):
    """The 32-bit entry point among the notes, or None."""
    at = offset
    while at < offset + size:
        name_size, data_size, kind = struct.unpack_from("<III", elf, at)
        data = at + 12 + (name_size + 3 & ~3)
        if elf[at + 12:at + 15] == b"Xen" and kind == NOTE_PVH_ENTRY:
            return int.from_bytes(elf[data:data + data_size], "little")
        at = data + (data_size + 3 & ~3)
    return None


def segments(elf):
    """[(address, offset, bytes in the file, bytes in memory)] and the entry point."""
    if elf[:4] != b"\x7fELF":
        raise KernelError("it holds no ELF file")
    loaded, entry = [], None
    (table,) = struct.unpack_from("<Q", elf, 32)
    entry_size, count = struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, _, offset, _, address, in_file, in_memory, _ = struct.unpack_from("<IIQQQQQQ", elf, table + i * entry_size)
        if kind == PT_LOAD:
            loaded.append((address, offset, in_file, in_memory))
        elif kind == PT_NOTE and entry is None:
            entry = pvh_entry(elf, offset, in_file)
    if entry is None or not loaded:
        raise KernelError("it has no PVH entry (CONFIG_PVH)")
    return loaded, entry


class Image:
    """Memory from base on; the page at info holds the start information, the initial file system follows its 64 KiB."""

    def __init__(self, base, entry, info, data):
        self.base, self.entry, self.info, self.data = base, entry, info, data

    @property
    def end(self):
        return self.base + len(self.data)

    def append_files(self, archive):
        struct.pack_into("<Q", self.data, self.info - self.base + 0x108, len(archive))
        self.data += archive


def lay_out(elf, memory):
    loaded, entry = segments(elf)
    base = min(s[0] for s in loaded) // BLOCK * BLOCK
    info = -(-max(s[0] + s[3] for s in loaded) // BLOCK) * BLOCK
    data = bytearray(info + 0x10000 - base)
    for address, offset, in_file, _ in loaded:
        data[address - base:address - base + in_file] = elf[offset:offset + in_file]
    at, line = info - base, COMMAND_LINE.encode() + b"\0"
    modules, memory_map, text = info + 0x100, info + 0x200, info + 0x1000
    struct.pack_into("<IIIIQQQQII", data, at, START_MAGIC, 1, 0, 1, modules, text, 0, memory_map, 2, 0)
    struct.pack_into("<QQQQ", data, at + 0x100, info + 0x10000, 0, 0, 0)
    struct.pack_into("<QQII", data, at + 0x200, 0, 0x9F000, 1, 0)
    struct.pack_into("<QQII", data, at + 0x218, 0x100000, memory - 0x100000, 1, 0)
    data[at + 0x1000:at + 0x1000 + len(line)] = line
    return Image(base, entry, info, data)


def load(path, cache, memory):
    """The image for this kernel file and so many bytes of memory; kept in the cache folder."""
    with open(path, "rb") as file:
        kernel = file.read()
    key = hashlib.sha256(kernel + ("%s %d" % (COMMAND_LINE, memory)).encode()).hexdigest()[:16]
    cached = os.path.join(cache, "kernel-" + key)
    if not os.path.exists(cached):
        image = lay_out(unpack(kernel), memory)
        temporary = "%s.%d" % (cached, os.getpid())
        with open(temporary, "wb") as file:
            file.write(struct.pack("<QQQ", image.base, image.entry, image.info) + image.data)
        os.rename(temporary, cached)
    with open(cached, "rb") as file:
        data = file.read()
    return Image(*struct.unpack_from("<QQQ", data), bytearray(data[24:]))
