#!/usr/bin/env python3
"""The share of lines of crates/metal that tests have run, and the lines that none has.

    report.py LEAST FILE.lcov...

Reads what `llvm-cov export --format=lcov` says of each test program; a line counts as run if it ran in one of them. Fails if the share
is below LEAST percent.
"""

import os
import sys

SOURCES = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../crates/metal/src")) + os.sep


def read(paths):
    """How often each line of each file ran."""
    counts = {}
    for path in paths:
        lines = None
        for row in open(path):
            key, _, value = row.strip().partition(":")
            if key == "SF":
                source = os.path.realpath(value)
                ours = source.startswith(SOURCES) and os.path.basename(source) != "tests.rs"
                lines = counts.setdefault(source[len(SOURCES) :], {}) if ours else None
            elif key == "DA" and lines is not None:
                line, count = map(int, value.split(",")[:2])
                lines[line] = max(lines.get(line, 0), count)
    return counts


def stretches(lines):
    """Numbers in a row as in `3-5, 8`."""
    found = []
    for line in sorted(lines):
        if found and found[-1][1] == line - 1:
            found[-1][1] = line
        else:
            found.append([line, line])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in found)


def main():
    least, counts = float(sys.argv[1]), read(sys.argv[2:])
    run = total = 0
    for source, lines in sorted(counts.items()):
        missed = [line for line, count in lines.items() if count == 0]
        run, total = run + len(lines) - len(missed), total + len(lines)
        print(f"{100 * (1 - len(missed) / len(lines)):6.1f} %  {source:24} {stretches(missed)}")
    if not total:
        sys.exit("error: no line of crates/metal was measured")
    share = 100 * run / total
    print(f"{share:6.1f} %  {run} of {total} lines of crates/metal; {total - run} were not run")
    if share < least:
        sys.exit(f"error: that is less than {least} %")


main()
