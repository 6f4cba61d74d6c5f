"""The virtual environment that scripts of bench/ run in, and what they say about the machine."""

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
VENV = TARGET / "bench-venv"


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
        subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    os.execv(python, [python, *sys.argv])


def machine():
    words = [
        line.split(":", 1)[1].strip()
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return f"{len(words)} × {words[0]}" if words else "unknown machine"
