#!/usr/bin/env python3
"""Writes models with onnxruntime's answers, for `crates/onnx/tests/reference`, and prints their folder.

    crates/onnx/tests/reference/export.py [GROUP …]

| group | what is there |
|---|---|
| `control` | loops, branches, sequences, optionals and strings |
| `microsoft` | single nodes of `com.microsoft`, with their options |

The cases are made in a virtual environment under target/ (with `--no-venv`, in the Python that runs this), and never committed.
"""

import importlib
import sys

import writer

GROUPS = ["control", "microsoft"]


def main():
    writer.environment.enter()
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")] or GROUPS
    for name in chosen:
        importlib.import_module(name).main()
    print(writer.FOLDER)


if __name__ == "__main__":
    main()
