"""Runs a script with pinned packages, for the scripts in the folders beside this file."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PACKAGES = ["onnx==1.23.2", "onnxruntime==1.31.1", "numpy", "ml_dtypes"]


def enter(name="onnx-venv", more=()):
    """Runs the script again inside a virtual environment under target/, which is made on first use, with `more`
    packages; with `--no-venv` it stays where it is."""
    venv = TARGET / name
    python = venv / "bin" / "python"
    if "--no-venv" in sys.argv or pathlib.Path(sys.prefix).resolve() == venv.resolve():
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, stdout=sys.stderr)
        install = [python, "-m", "pip", "install", "-q", *PACKAGES, *more]
        subprocess.run(install, check=True, stdout=sys.stderr)
    os.execv(python, [python, *sys.argv])


def download(package, folder, *options):
    """Fetches the wheel of a package, `NAME==VERSION`, and gives its path."""
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    subprocess.run([*pip, *options, "-d", folder, package], check=True, stdout=sys.stderr)
    [wheel] = pathlib.Path(folder).glob("*.whl")
    return wheel
