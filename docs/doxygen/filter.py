#!/usr/bin/env python3
# Doxygen's view of heed.h: its comments become documentation comments, those behind a declaration ones that look back; and of
# pages, without links to what is not shown.
# May know: how heed.h is laid out.
# Must not know: what it declares.
import re
import sys

KEEP = re.compile(r"/\* (-{4}|clang-format)")  # headings and formatting


def documented(line):
    if KEEP.search(line):
        return line
    before = line.split("/*")[0]
    if re.search(r"[;,{\w]\s*$", before):
        return line.replace("/* ", "/**< ", 1)
    return line.replace("/* ", "/** ", 1)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        text = file.read()
    if not sys.argv[1].endswith(".h"):
        # Pages that are not among the input have no place to link to.
        sys.stdout.write(re.sub(r"\[([^]]*)\]\((\.\./)?[a-z/]+/README\.md\)", r"\1", text))
        return
    text = "\n".join(documented(line) for line in text.split("\n"))
    sys.stdout.write(re.sub(r"^/\*\* ", "/** @file\n * ", text, count=1))


if __name__ == "__main__":
    main()
