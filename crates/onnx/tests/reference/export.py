#!/usr/bin/env python3
"""Writes models with onnxruntime's answers, for `crates/onnx/tests/reference`, and prints their folder.

    crates/onnx/tests/reference/export.py [GROUP …]

| group | what is there |
|---|---|
| `control` | loops, branches, sequences, optionals and strings |
| `microsoft` | single nodes of `com.microsoft`, with their options |
| `learning` | models of scikit-learn, XGBoost and LightGBM; only if it is named, since it fetches those packages |

The cases are made in a virtual environment under target/ (with `--no-venv`, in the Python that runs this), and never committed.
"""

import importlib
import sys

import writer

GROUPS = ["control", "microsoft"]
LEARNING = ["scikit-learn==1.9.1", "skl2onnx==1.20.0", "onnxmltools==1.16.0", "xgboost-cpu==3.2.0", "lightgbm==4.7.0"]


def main():
    chosen = [name for name in sys.argv[1:] if not name.startswith("--")] or GROUPS
    if "learning" in chosen:
        writer.environment.enter("learning-venv", LEARNING)
    else:
        writer.environment.enter()
    for name in chosen:
        importlib.import_module(name).main()
    print(writer.FOLDER)


if __name__ == "__main__":
    main()
