#!/usr/bin/env python3
# Takes the C code out of Markdown documents, so that the tests can compile and run it.
# It may know: Markdown's fences, Python's standard library.
# It must not know: heed.
"""extract.py OUT_DIR DOCUMENT...

Writes OUT_DIR/<document>.c with all C blocks of a document that are not programs, one after another, and for the n-th program (a
block with a main) OUT_DIR/<document>-<n>.c and, from the comment behind its last printf, the text that it prints,
OUT_DIR/<document>-<n>.txt.  #line directives make a compiler's messages name the document.
"""
import pathlib
import re
import sys


def blocks(path):
    """(line number of its first line, text) of every block fenced as C."""
    found, start, text = [], None, []
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if start is None and line.strip() == "```c":
            start, text = number + 1, []
        elif start is not None and line.strip() == "```":
            found.append((start, "\n".join(text) + "\n"))
            start = None
        elif start is not None:
            text.append(line)
    if start is not None:
        sys.exit(f"{path}:{start}: the block does not end")
    return found


def source(path, some):
    return "".join(f'#line {line} "{path.name}"\n{text}' for line, text in some)


def promised_output(path, line, text):
    printed = re.findall(r"printf\([^\n]*\);\s*/\*\s*(.*?)\s*\*/", text)
    if not printed:
        sys.exit(f"{path}:{line}: the program does not say behind its printf what it prints")
    return printed[-1]


def extract(path, folder):
    found = blocks(path)
    if not found:
        sys.exit(f"{path}: no C code")
    programs = [block for block in found if re.search(r"^int main\(", block[1], re.MULTILINE)]
    snippets = [block for block in found if block not in programs]
    if snippets:
        (folder / f"{path.stem}.c").write_text(source(path, snippets), encoding="utf-8")
    for n, (line, text) in enumerate(programs, 1):
        (folder / f"{path.stem}-{n}.c").write_text(source(path, [(line, text)]), encoding="utf-8")
        (folder / f"{path.stem}-{n}.txt").write_text(promised_output(path, line, text), encoding="utf-8")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    for name in sys.argv[2:]:
        extract(pathlib.Path(name), folder)


if __name__ == "__main__":
    main()
