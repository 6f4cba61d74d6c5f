"""The virtual environment that scripts of bench/ run in, and what they say about the machine."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
VENV = TARGET / "bench-venv"
# Modules whose package has another name.
PACKAGES = {"mlperf_loadgen": "mlcommons-loadgen"}


def enter(packages):
    """Runs the calling script again inside the environment, which is made on first use."""
    python = VENV / "bin" / "python"
    if pathlib.Path(sys.prefix).resolve() == VENV:
        return
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    installed = subprocess.run(
        [python, "-c", f"import {', '.join(packages)}"], capture_output=True, check=False
    )
    if installed.returncode != 0:
        names = [PACKAGES.get(package, package) for package in packages]
        subprocess.run([python, "-m", "pip", "install", "-q", *names], check=True)
    os.execv(python, [python, *sys.argv])


def machine():
    words = [
        line.split(":", 1)[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{len(words)} × {words[0]}" if words else "unknown machine"


def invocation():
    """The command line of the calling script, as anybody can repeat it: without programs that were built elsewhere."""
    words = iter(sys.argv)
    kept = [str(pathlib.Path(next(words)).resolve().relative_to(ROOT))]
    for word in words:
        if word == "--program":
            next(words, None)
        elif not word.startswith("--program="):
            kept.append(word)
    return " ".join(kept)
