#!/usr/bin/env python3
"""Finds code that stands twice: runs of 12 or more lines that are the same in two places.

    scripts/repeated.py            lists the pairs; fails if there are any

Blank lines, comments, imports and lone punctuation do not count, and neither does white space. Tests are left out:
a test that repeats itself is read more easily than one that does not.
"""

import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LINES = 12
KINDS = {".rs", ".py", ".sh", ".kernel", ".cu", ".h", ".c", ".cpp"}
TESTS = re.compile(r"(^|/)(tests|fixtures|fuzz|examples)/|tests?\.(rs|py)$|(^|/)test_[^/]*$")
# What carries no meaning of its own: comments, attributes, imports, and brackets.
THIN = re.compile(r"(//|#|\"\"\"|use |pub use |pub\(\w+\) use |import |from |\*)|^[\W_]*$")


def files():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in names.stdout.splitlines():
        if pathlib.Path(name).suffix in KINDS and not TESTS.search(name):
            yield name


def lines(name):
    """The lines that count, with their numbers. A file's own tests are at its end."""
    found = []
    for number, line in enumerate((ROOT / name).read_text().splitlines(), 1):
        if line.startswith("#[cfg(") and "test" in line:
            break
        line = " ".join(line.split())
        if line and not THIN.match(line):
            found.append((number, line))
    return found


def main():
    texts = {name: lines(name) for name in files()}
    places = collections.defaultdict(list)
    for name, text in texts.items():
        for at in range(len(text) - LINES + 1):
            places[tuple(line for _, line in text[at : at + LINES])].append((name, at))
    seen, pairs = set(), []
    for same in places.values():
        for index, (name, at) in enumerate(same):
            for other, there in same[index + 1 :]:
                # A longer run is reported once, where it begins.
                seen.add((name, at, other, there))
                if (name, at - 1, other, there - 1) not in seen:
                    pairs.append((name, at, other, there))
    for name, at, other, there in pairs:
        length = LINES
        while (name, at + length - LINES + 1, other, there + length - LINES + 1) in seen:
            length += 1
        first, second = texts[name][at][0], texts[other][there][0]
        print(f"{name}:{first} and {other}:{second}: {length} lines are the same")
    if pairs:
        sys.exit(f"{len(pairs)} pairs of places: give them a function or a table that both use")


if __name__ == "__main__":
    main()
