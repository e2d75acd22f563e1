"""Arguments, messages, exit codes and what is left behind: heed info, heed run, heed help.

May know: heedtest.py, the documented options.
Must not know: anything of the program's sources."""

import errno
import json
import os
import pty
import re
import resource
import signal
import subprocess
import time

from heedtest import PROGRAM, check, main, randoms, read_npy, run, run_ok, run_refused, write_npy, write_safetensors

RUN_OPTIONS = ["--q", "--k", "--v", "--x", "--weights", "--layer", "--heads", "--kv-heads", "--names", "--causal",
               "--lengths", "--lengths-q", "--scale", "--window", "--softcap", "--bias", "--mask", "--alibi", "--sinks",
               "--rope", "--rope-base", "--rope-dim", "--rope-scaling", "--rope-offset", "--isa", "--threads", "--exp",
               "--layout", "-o", "--output", "--lse", "--attention", "--expect", "--expect-attention", "--tolerance",
               "--quiet", "--decode-step", "--kv-type", "--page-size", "--bf16-npy"]
QKV = ["--q", "q.npy", "--k", "k.npy", "--v", "v.npy"]


SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


# Texts that are no scaling.
SCALINGS = ["", "linear", "linear:", "linear:x", "linear:2,3", "linear:0.5", "linear:0", "linear:-2", "linear:nan",
            "linear:1e999", "linear:" + "1" * 100, "Linear:2", "none", "llama3:8", "llama3:8,1,4", "llama3:8,1,4,8192,",
            "llama3:8,4,1,8192", "llama3:8,1,1,8192", "llama3:8,-1,4,8192", "llama3:8,1,4,0", "llama3:8,1,4,8192.5",
            "llama3:8,1,4,1e300", "llama3:,1,4,8192", "yarn:4", "yarn:4,0", "yarn:4,-1", "yarn:4, 32", "yarn:0.1,32",
            "yarn:4,32,1", "longrope:4"]


def inputs():
    write_npy("q.npy", [2, 3, 4], randoms(1, [2, 3, 4]))
    write_npy("k.npy", [1, 5, 4], randoms(2, [1, 5, 4]))
    write_npy("v.npy", [1, 5, 4], randoms(3, [1, 5, 4]))


def test_help():
    text, _ = run_ok("--help")
    check(run_ok("help")[0] == text and run_ok("-h")[0] == text, "three spellings of help")
    for command in ["info", "run", "show", "verify"]:
        check("heed " + command in text, "help lacks", command)
        own, _ = run_ok(command, "--help")
        check(own.startswith("usage: heed " + command), command, "--help:", own)
        check(run_ok("help", command)[0] == own and run_ok(command, "-h")[0] == own, "help of", command)
    own, _ = run_ok("run", "--help")
    for option in RUN_OPTIONS:
        check(option in own, "heed run --help lacks", option)
    with open(os.path.join(SOURCES, "docs", "heed.1")) as file:
        manual = file.read().replace("\\-", "-")
    for command in ["info", "run", "show", "verify"]:
        for option in set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", run_ok(command, "--help")[0])):
            check(option in manual, "the manual lacks", option, "of heed", command)
    check(run_ok("run", "--q", "missing", "--help")[0] == own, "--help after other options")
    version, _ = run_ok("--version")
    check(version == "heed %s\n" % json.loads(run_ok("info", "--json")[0])["version"], "--version:", version)
    check(run_ok("-V")[0] == version, "-V")


def test_commands():
    result = run()
    check(result.returncode == 2 and b"usage: heed COMMAND" in result.stderr and result.stdout == b"", "no command")
    run_refused("heed: attend: no such command", "attend")
    run_refused("heed: --versio: no such command", "--versio")
    run_refused("no such command", "")
    run_refused("attend: no such command", "help", "attend")
    run_refused("unexpected argument", "help", "run", "info")
    run_refused("--jso: unknown option", "info", "--jso")
    run_refused("--json: takes no value", "info", "--json=1")
    run_refused("--json: given twice", "info", "--json", "--json")
    run_refused("x: unexpected argument", "info", "x")
    run_refused("-x: unknown option", "info", "-x")
    run_refused("a?b?[31m: no such command", "a\nb\x1b[31m")


def test_info():
    text, _ = run_ok("info")
    facts = json.loads(run_ok("info", "--json")[0])
    for word in [facts["version"], facts["chosen"], facts["cpu_model"], facts["compiler"], facts["cpu_features"]]:
        check(word in text, "heed info lacks", word)
    backends = {entry["name"]: entry for entry in facts["backends"]}
    check(set(backends) == {"scalar", "avx2", "avx512", "neon"}, "backends", backends)
    check(backends["scalar"]["compiled"] and backends["scalar"]["usable"], "scalar is not usable")
    check([entry["name"] for entry in facts["backends"] if entry["chosen"]] == [facts["chosen"]], "chosen")
    for entry in facts["backends"]:
        check(entry["compiled"] or not entry["usable"], entry["name"], "is usable but not compiled")
        check(entry["usable"] or not entry["sleef"], entry["name"], "has SLEEF but is not usable")
    check(facts["online_cpus"] >= 1 and isinstance(facts["openmp"], bool), "threads")
    check(facts["options"]["build type"] != "", "options")


def test_info_environment():
    usual = json.loads(run_ok("info", "--json")[0])
    bits = usual["preferred_vector_bits"]
    check(bits in (0, 256), bits)
    check(usual["reason"] in ("the best usable one", "this CPU prefers %d-bit vectors" % bits), usual["reason"])
    lowered = json.loads(run_ok("info", "--json", env={"HEED_ISA": "scalar"})[0])
    check(lowered["chosen"] == "scalar" and lowered["reason"] == "HEED_ISA asks for it", lowered["reason"])
    odd = json.loads(run_ok("info", "--json", env={"HEED_ISA": "a\"b\\c\n"})[0])
    check(odd["chosen"] == usual["chosen"] and "HEED_ISA=a\"b\\c?" in odd["reason"], odd["reason"])
    threads = json.loads(run_ok("info", "--json", env={"OMP_NUM_THREADS": "3"})[0])
    check(threads["omp_num_threads"] == "3", threads)


def test_run_options():
    inputs()
    out = ["-o", "out.npy"]
    run_refused("--q: is needed", "run")
    run_refused("--q: is needed", "run", *out)
    run_refused("--k: is needed", "run", "--q", "q.npy", *out)
    run_refused("--v: is needed", "run", "--q", "q.npy", "--k", "k.npy", *out)
    run_refused("-o: nothing to write", "run", *QKV)
    run_refused("--q: needs a value", "run", "--q", "--k", "k.npy")
    run_refused("--output: needs a value", "run", *QKV, "-o")
    run_refused("--output: the value is empty", "run", *QKV, "--output=")
    run_refused("--q: given twice", "run", *QKV, "--q", "q.npy", *out)
    run_refused("--bogus: unknown option", "run", *QKV, *out, "--bogus")
    run_refused("--qq=q.npy: unknown option", "run", "--qq=q.npy")
    run_refused("stray: unexpected argument", "run", *QKV, *out, "stray")
    run_refused("--quiet: unexpected argument", "run", *QKV, *out, "--", "--quiet")
    for option in ["--heads", "--kv-heads", "--layer", "--names", "--rope", "--rope-base", "--rope-dim",
                   "--rope-scaling", "--rope-offset"]:
        run_refused(option + ": does not go with --q", "run", *QKV, *out, option, "1")
    for option in ["--x", "--weights"]:
        run_refused("--q: does not go with --x", "run", *QKV, *out, option, "1")
    for option, value in [("--layout", "bshd"), ("--lengths-q", "1"), ("--bias", "b"), ("--mask", "m"),
                          ("--alibi", "a"), ("--sinks", "s")]:
        run_refused(option + ": does not go with --x", "run", "--x", "x", "--weights", "w", "--heads", "1", *out,
                    option, value)


def test_run_values():
    inputs()
    out = ["-o", "out.npy"]
    for option, values in {
            "--scale": ["x", "nan", "inf", "1e99", "1 ", "0x1"],
            "--isa": ["sse", "AVX2", "avx", "none"],
            "--exp": ["fast", "SLEEF"],
            "--layout": ["bhsdx", "BHSD", "hbsd"],
            "--threads": ["0", "-1", "1.5", "x", "99999999999", "1025"],
            "--causal": ["lower", "1.5", "9223372036854775808", "0x1", "top_left"],
            "--lengths": ["", "x", "1,", "-1", "99999999999", "1 ,2"],
            "--lengths-q": ["1;2", "+"],
            "--window": ["", "1", "1,", "1,2,3", "-2,0", "0,-2", "x,1", "1,1.5", "2147483648,0", " 1,1"],
            "--softcap": ["", "-1", "x", "nan", "inf", "1e39"],
    }.items():
        for value in values:
            run_refused(option + ": ", "run", *QKV, *out, option + "=" + value)
    for value in ["", "x", "-1e-5", "nan", "inf"]:
        run_refused("--tolerance: ", "run", *QKV, *out, "--expect", "q.npy", "--tolerance=" + value)
    run_refused("--tolerance: needs --expect", "run", *QKV, *out, "--tolerance=1")
    for option, values in [("--heads", ["0", "x", "-1"]), ("--layer", ["-1", "x", "99999999999"]),
                           ("--kv-heads", ["0"]), ("--rope", ["", "half", "Halves", "1"]),
                           ("--rope-base", ["1", "0", "-10000", "x", "inf", "1e101"]),
                           ("--rope-dim", ["0", "1", "3", "-2", "x"]),
                           ("--rope-offset", ["-1", "1.5", "1073741825"]),
                           ("--rope-scaling", SCALINGS)]:
        for value in values:
            arguments = ["--x", "x", "--weights", "w", *out, option + "=" + value]
            run_refused(option + ": ", "run", *arguments, *([] if option == "--heads" else ["--heads", "1"]))
    run_refused("--lengths: 2 given for a batch of 1", "run", *QKV, *out, "--lengths", "1,2")
    run_refused("--lengths: entry 0 is 6, but the sequence has 5", "run", *QKV, *out, "--lengths", "6")
    run_refused("--lengths-q: entry 0 is 4, but the sequence has 3", "run", *QKV, *out, "--lengths-q", "4")
    facts = json.loads(run_ok("info", "--json")[0])
    for entry in facts["backends"]:
        if not entry["usable"]:
            run_refused(entry["name"], "run", *QKV, *out, "--isa", entry["name"])


def test_run_shapes():
    inputs()
    out = ["-o", "out.npy"]
    cases = [("k", [5, 4], "k.npy: shape: the number of dimensions"), ("v", [1, 1, 5, 4], "v.npy: shape: the number"),
             ("k", [1, 5, 3], "k.npy: shape: head_dim is 3, but that of --q is 4"),
             ("v", [2, 5, 4], "v.npy: shape: num_kv_heads is 2"), ("v", [1, 6, 4], "v.npy: shape: seq_len_kv is 6"),
             ("q", [3], "q.npy: shape: 1 dimensions"), ("q", [1, 1, 1, 1, 4], "q.npy: shape: 5 dimensions"),
             ("q", [], "q.npy: shape: 0 dimensions"), ("v", [1, 5, 0], "v.npy: shape: head_dim_v is 0"),
             ("k", [0, 5, 4], "v.npy: shape: num_kv_heads is 1, but that of --k is 0")]
    for name, shape, fragment in cases:
        inputs()
        write_npy(name + ".npy", shape, randoms(4, shape))
        run_refused(fragment, "run", *QKV, *out)
    for kv in [0, 3]:
        write_npy("q.npy", [2, 3, 4], randoms(1, [2, 3, 4]))
        write_npy("k.npy", [kv, 5, 4], randoms(2, [kv, 5, 4]))
        write_npy("v.npy", [kv, 5, 4], randoms(3, [kv, 5, 4]))
        run_refused("k.npy: shape: %d kv heads do not divide the 2 heads" % kv, "run", *QKV, *out)
    for name in "qkv":
        write_npy(name + ".npy", [2, 0], [])
    run_refused("q.npy: shape: head_dim is 0", "run", *QKV, *out)
    for name, batch in [("q", 2), ("k", 3), ("v", 3)]:
        write_npy(name + ".npy", [batch, 1, 2, 2], randoms(1, [batch, 1, 2, 2]))
    run_refused("k.npy: shape: batch is 3, but that of --q is 2", "run", *QKV, *out)


def test_bad_files():
    inputs()
    with open("k.npy", "rb") as file:
        good = file.read()
    out = ["-o", "out.npy", "--lse", "lse.npy"]
    for name, data, fragment in [("empty", b"", "magic"), ("text", b"hello world", "magic"),
                                 ("cut", good[:-1], "data: truncated"), ("long", good + b"x", "data: trailing bytes"),
                                 ("int", good.replace(b"<f4", b"<i4"), "descr: dtype '<i4'")]:
        with open(name, "wb") as file:
            file.write(data)
        run_refused("heed run: %s: %s" % (name, fragment), "run", "--q", "q.npy", "--k", name, "--v", "v.npy", *out)
        run_refused("heed run: %s: " % name, "run", "--x", name, "--weights", "w", "--layer", "0", "--heads", "1", *out)
        run_refused("heed run: %s: header" % name, "run", "--x", "k.npy", "--weights", name, "--layer", "0", "--heads",
                    "1", *out)
    run_refused("heed run: missing: open: No such file", "run", "--q", "missing", "--k", "k.npy", "--v", "v.npy", *out)
    run_refused("heed run: .: open: not a regular file", "run", "--q", ".", "--k", "k.npy", "--v", "v.npy", *out)
    os.mkfifo("pipe")
    run_refused("heed run: pipe: open: not a regular file", "run", "--q", "pipe", "--k", "k.npy", "--v", "v.npy", *out)
    with open("a\nb\x1b", "wb") as file:
        file.write(b"x")
    run_refused("heed run: a?b?: magic", "run", "--q", "a\nb\x1b", "--k", "k.npy", "--v", "v.npy", *out)


def test_outputs():
    inputs()
    os.mkdir("folder")
    run_refused("nowhere/out.npy: output: No such file", "run", *QKV, "-o", "nowhere/out.npy")
    run_refused("folder: output: exists and is not a regular file", "run", *QKV, "-o", "folder")
    run_refused("/dev/null: output: exists and is not a regular file", "run", *QKV, "-o", "/dev/null")
    run_refused("lse.npy: output: No such file", "run", *QKV, "-o", "out.npy", "--lse", "nowhere/lse.npy")
    run_refused("out.npy: output: two outputs have this name", "run", *QKV, "-o", "out.npy", "--lse", "./out.npy")
    with open("old.npy", "wb") as file:
        file.write(b"old")
    run_refused("nowhere/w.npy", "run", *QKV, "-o", "old.npy", "--attention", "nowhere/w.npy")
    text, _ = run_ok("run", *QKV, "-o", "old.npy", "--lse=folder/lse.npy", "--attention", "w.npy")
    check(read_npy("old.npy")[0] == [2, 3, 4], "out shape")
    check(read_npy("folder/lse.npy")[0] == [2, 3], "lse shape")
    check(read_npy("w.npy")[0] == [2, 3, 5], "weights shape")
    check("wrote old.npy [2, 3, 4]\n" in text and "backend: " in text and "time: " in text, "summary:", text)
    check("batch 1, heads 2 over 1, queries 3, keys 5, head_dim 4 and 4" in text, "summary:", text)
    check(sorted(os.listdir(".")) == ["folder", "k.npy", "old.npy", "q.npy", "v.npy", "w.npy"], os.listdir("."))
    check(run_ok("run", *QKV, "-oout.npy", "--quiet")[0] == "", "--quiet is not quiet")
    check(run_ok("run", *QKV, "-o", "q.npy", "--quiet")[0] == "", "the output may replace an input")
    mask = os.umask(0)
    os.umask(mask)
    check(os.stat("out.npy").st_mode & 0o777 == 0o666 & ~mask, "mode of the output")


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))


def test_full_disk():
    """A file cannot grow beyond 100 bytes: an error, and neither output is there."""
    inputs()
    # One thread: LLVM's OpenMP makes a file of its own to register itself in, and ends the process if it cannot.
    run_refused("out.npy: write: ", "run", *QKV, "-o", "out.npy", "--lse", "lse.npy", "--threads", "1",
                preexec=limit_files)
    with open("/dev/full", "wb") as full:
        result = run("info", stdout=full)
        check(result.returncode == 2 and b"standard output: write: No space" in result.stderr, "stdout full", result)
        result = run("help", "run", stdout=full)
        check(result.returncode == 2, "stdout full", result)


def test_weights_file():
    write_npy("x.npy", [3, 4], randoms(1, [3, 4]))
    names = ["encoder.layer.2.attention.self.query", "encoder.layer.2.attention.self.key",
             "encoder.layer.2.attention.self.value", "encoder.layer.2.attention.output.dense"]

    def model(changes, drop=()):
        tensors = {name + ".weight": ("F32", [4, 4], randoms(5, [4, 4])) for name in names}
        tensors.update({names[0] + ".bias": ("F32", [4], randoms(6, [4]))})
        tensors.update(changes)
        write_safetensors("w", {name: tensor for name, tensor in tensors.items() if name not in drop})

    def refused(fragment, *more, layer="2", heads="2"):
        run_refused(fragment, "run", "--x", "x.npy", "--weights", "w", "--layer", layer, "--heads", heads, "-o", "o",
                    *more)

    model({})
    run_refused("--heads: is needed", "run", "--x", "x.npy", "--weights", "w", "--layer", "2", "-o", "o")
    run_refused("--weights: is needed", "run", "--x", "x.npy", "-o", "o")
    run_refused("w: --layer: is needed", "run", "--x", "x.npy", "--weights", "w", "--heads", "1", "-o", "o")
    refused("w: --layer: the file has no layer 3, its layers are 2 to 2", layer="3")
    refused("4 rows are no multiple of --heads (3)", heads="3")
    refused("--kv-heads: 1, but the weights have 2", "--kv-heads", "1")
    refused("w: --names: the file has no tensor 'nope'", "--names", "q=nope")
    refused("--lengths: 2 given for a batch of 1", "--lengths", "1,2")
    for change, fragment in [
        ({names[0] + ".weight": ("F32", [4, 3], randoms(1, [4, 3]))}, "query.weight: shape: 3 columns"),
        ({names[1] + ".weight": ("F32", [3, 4], randoms(1, [3, 4]))}, "key.weight: shape: 3 rows"),
        ({names[1] + ".weight": ("F32", [4], randoms(1, [4]))}, "key.weight: shape: not a matrix"),
        ({names[1] + ".weight": ("F32", [0, 4], [])}, "key.weight: shape: not a matrix"),
        ({names[2] + ".weight": ("F32", [3, 4], randoms(1, [3, 4]))}, "value.weight: shape: 3 rows"),
        ({names[3] + ".weight": ("F32", [4, 6], randoms(1, [4, 6]))}, "dense.weight: shape: 6 columns"),
        ({names[0] + ".bias": ("F32", [3], randoms(1, [3]))}, "query.bias: shape: not one number"),
        ({names[0] + ".weight": ("I64", [4, 4], [0] * 16)}, "query.weight: dtype I64"),
        ({names[0] + ".weight": ("F64", [4, 4], [1e300] * 16)}, "query.weight: element 0 is too large"),
    ]:
        model(change)
        refused(fragment)
    model({}, drop=[names[3] + ".weight"])
    refused("w: tensor names: encoder.layer.2.attention.self.query.weight is there, but no")
    model({names[1] + ".weight": ("F32", [6, 4], randoms(1, [6, 4])),
           names[2] + ".weight": ("F32", [6, 4], randoms(1, [6, 4]))})
    refused("--heads: 2 is no multiple of the 3 kv heads")
    write_safetensors("w", {"other": ("F32", [1], [1.0])})
    refused("w: tensor names: no attention layer with BERT's or Llama's names among 1 tensors; give --names")
    write_npy("x.npy", [4], randoms(1, [4]))
    refused("x.npy: shape: not [positions, width]")
    write_npy("x.npy", [4, 0], [])
    refused("x.npy: shape: not [positions, width]")


def everything(terminal):
    """All that was written to a terminal whose other end is closed: a single read may give a part of it, as the kernel
    hands it over in its own time."""
    chunks = []
    try:
        while chunk := os.read(terminal, 65536):
            chunks.append(chunk)
    except OSError as error:  # Linux reports the closed end as EIO, after the last byte
        check(error.errno == errno.EIO, "reading the terminal:", error)
    return b"".join(chunks)


def test_progress():
    """On a terminal a line of progress is drawn, and nothing of it is left at the end."""
    inputs()
    arguments = [*PROGRAM, "run", *QKV, "-o", "out.npy"]
    for more, code in [([], 0), (["--lengths", "99"], 2)]:
        ours, theirs = pty.openpty()
        child = subprocess.run([*arguments, *more], stdout=subprocess.PIPE, stderr=theirs, timeout=60)
        os.close(theirs)
        drawn = everything(ours)
        os.close(ours)
        check(child.returncode == code and b"reading" in drawn, "exit", child.returncode, drawn)
        left = drawn.rsplit(b"\r\033[K", 1)[-1]
        check(left.startswith(b"heed run: --lengths: ") if code else left == b"", "left:", drawn)


def test_interrupt():
    """Killed while it writes 80 MB: no file under either name, no temporary one."""
    rows = 4500
    write_npy("q.npy", [rows, 1], [0.0] * rows)
    arguments = ["--q", "q.npy", "--k", "q.npy", "--v", "q.npy", "-o", "o", "--attention", "w"]
    seen = False
    for _ in range(10):
        child = subprocess.Popen([*PROGRAM, "run", *arguments], stdout=subprocess.DEVNULL)
        while child.poll() is None:
            if any(name.endswith(".part") for name in os.listdir(".")):
                child.send_signal(signal.SIGTERM)
                break
            time.sleep(0.0005)
        code = child.wait(60)
        left = sorted(os.listdir("."))
        check(code in [0, -signal.SIGTERM], "ended with", code)
        if code == -signal.SIGTERM and left == ["q.npy"]:
            seen = True
            break
        elif check(left == ["o", "q.npy", "w"], "ended with", code, "and left", left):
            os.remove("o")
            os.remove("w")
    check(seen, "the program was never caught while writing")


main(test_help, test_commands, test_info, test_info_environment, test_run_options, test_run_values, test_run_shapes,
     test_bad_files, test_outputs, test_full_disk, test_weights_file, test_progress, test_interrupt)
