#!/usr/bin/env python3
"""The workloads of `millstream bench` on the GPU of a Mac beside PyTorch MPS, MLX and candle, in one run.

    bench/metal/compare.py --program target/release/millstream --out FOLDER [--rounds 3] [--seconds 1] [--threads 1 8 31 64] [--install]

Measures all in turn, round after round; the best round of each counts. What cannot be had is left out with a sentence. With
`--install` PyTorch and MLX are installed into a virtual environment under target/. Writes compare.json, compare.md with the table
of ratios, and a plot for each workload. Uses nothing but Python's own library.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORKLOADS = ["mm", "mlp", "mlp-large", "conv1d", "encoder"]
PEERS = ["torch", "mlx", "candle"]
PRODUCT = 2048


class Skipped(Exception):
    """Why something is left out."""


def python_with(package, install, folder):
    """A Python that has a package."""
    venv = folder / f"{package}-venv"
    python = venv / "bin" / "python"
    for candidate in [python, sys.executable]:
        if pathlib.Path(candidate).exists():
            done = subprocess.run([candidate, "-c", f"import {package}"], capture_output=True, check=False)
            if done.returncode == 0:
                return candidate
    if not install:
        raise Skipped(f"{package} is not installed, and --install was not given")
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    packages = [package, "numpy"]
    done = subprocess.run([python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"{package} cannot be installed: {done.stderr.strip().splitlines()[-1:]}")
    return python


class Worker:
    """`worker.py`, asked line by line: starting it takes longer than a measurement."""

    def __init__(self, package, install, folder):
        python = python_with(package, install, folder)
        self.process = subprocess.Popen(
            [python, HERE / "worker.py", package], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        first = self.read()
        if "missing" in first:
            raise Skipped(first["missing"])
        self.version = first["version"]

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Skipped(f"its process ended with {self.process.wait()}")
        return json.loads(line)

    def ask(self, request):
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Skipped(f"its process is gone: {error}") from error
        found = self.read()
        if "failed" in found:
            raise Skipped(found["failed"])
        return found

    def rows(self, workload, threads, seconds):
        return self.ask({"workload": workload, "threads": threads, "seconds": seconds})["rows"]

    def product(self, seconds):
        return self.ask({"product": PRODUCT, "seconds": seconds})["gflops"]


class Candle:
    """`bench/peers/candle` with its Metal feature."""

    version = "candle"

    def __init__(self, install, folder):
        if platform.system() != "Darwin":
            raise Skipped("candle has a Metal device on a Mac only")
        if not install:
            raise Skipped("candle is not built, and --install was not given")
        command = ["cargo", "build", "--release", "--quiet", "--features", "metal"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(folder / "peers-candle")}
        done = subprocess.run(command, cwd=HERE.parent / "peers/candle", env=environment, check=False)
        if done.returncode != 0:
            raise Skipped("candle does not build with its Metal feature")
        self.program = folder / "peers-candle/release/peers-candle"

    def rows(self, workload, threads, seconds):
        counts = ",".join(map(str, threads))
        command = [self.program, "--workload", workload, "--threads", counts, "--seconds", str(seconds)]
        return run_json(command, MILLSTREAM_PEER_DEVICE="metal")["rows"]

    def product(self, seconds):
        raise Skipped("no product is measured with candle")


class Millstream:
    """Our own program."""

    def __init__(self, program):
        self.program = program
        self.version = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()

    def rows(self, workload, threads, seconds):
        counts = ",".join(map(str, threads))
        command = [self.program, "bench", "--device", "metal", "--json", "--workload", workload, "--threads", counts]
        return run_json([*command, "--seconds", str(seconds)])["rows"]

    def product(self, seconds):
        milliseconds = str(max(1, int(seconds * 1000)))
        command = [self.program, "bench", "kernels", "--device", "metal", "--json", "--only", "matmul"]
        rows = run_json([*command, "--milliseconds", milliseconds])["rows"]
        size = f"{PRODUCT}"
        found = [r["rate"] for r in rows if r["command"] == "matmul" and r["size"].count(size) >= 3]
        if not found:
            raise Skipped(f"bench kernels has no product of {PRODUCT}")
        return max(found)


def run_json(command, **environment):
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError as error:
        raise Skipped(f"{command[0]} ended with {done.returncode}") from error


def measure(subjects, arguments):
    """The best row of every subject, workload and number of threads; and what was left out."""
    best, skipped = {}, {}
    for _ in range(arguments.rounds):
        for workload in arguments.workload:
            for name, subject in subjects.items():
                if name in skipped:
                    continue
                try:
                    rows = subject.rows(workload, arguments.threads, arguments.seconds)
                except Skipped as reason:
                    skipped[name] = f"left out from {workload} on: {reason}"
                    continue
                for row in rows:
                    key = (workload, row["threads"], name)
                    if key not in best or row["calls_per_s"] > best[key]["calls_per_s"]:
                        best[key] = row
    return best, skipped


def table(best, names, workloads, threads):
    """Rates, and our rate over each peer's."""
    peers = [name for name in names if name != "millstream"]
    head = ["workload", "threads", *names, *(f"ours / {peer}" for peer in peers), "p99 µs", "wrong"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for workload in workloads:
        for count in threads:
            found = {name: best.get((workload, count, name)) for name in names}
            ours = found["millstream"]
            rate = lambda row: f"{row['calls_per_s']:,.0f}" if row else "-"
            ratio = lambda row: f"{ours['calls_per_s'] / row['calls_per_s']:.2f}" if ours and row else "-"
            cells = [workload, str(count), *(rate(found[name]) for name in names)]
            cells += [ratio(found[peer]) for peer in peers]
            cells += [f"{ours['p99_us']:.0f}", str(ours["errors"] + ours["mismatches"])] if ours else ["-", "-"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


COLORS = ["#1f6feb", "#d1242f", "#8250df", "#1a7f37"]


def plot(best, names, workload, threads):
    """Calls per second against threads, as SVG."""
    width, height, margin = 640, 360, 60
    rates = [best[key]["calls_per_s"] for key in best if key[0] == workload]
    top = max(rates, default=1.0) or 1.0
    x = lambda index: margin + index * (width - 2 * margin) / max(1, len(threads) - 1)
    y = lambda rate: height - margin - rate / top * (height - 2 * margin)
    text = lambda at, down, words, color="#000": f'<text x="{at:.0f}" y="{down:.0f}" fill="{color}">{words}</text>'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        text(margin, 24, f"{workload}: calls per second against threads, up to {top:,.0f}"),
    ]
    parts += [text(x(index) - 6, height - margin + 20, count) for index, count in enumerate(threads)]
    for color, name in zip(COLORS, names):
        points = [
            (x(index), y(best[workload, count, name]["calls_per_s"]))
            for index, count in enumerate(threads)
            if (workload, count, name) in best
        ]
        if points:
            line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
            parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
            parts += [f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3" fill="{color}"/>' for px, py in points]
            parts.append(text(points[-1][0] + 6, points[-1][1], name, color))
    return "\n".join(parts) + "\n</svg>\n"


def products(subjects, skipped, seconds):
    found = {}
    for name, subject in subjects.items():
        if name not in skipped:
            try:
                found[name] = subject.product(seconds)
            except Skipped:
                pass
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, help="the millstream program")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the folder to write to")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row and round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 31, 64])
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--install", action="store_true", help="install and build what is missing")
    parser.add_argument("--no-product", action="store_true", help=f"leave out the product of {PRODUCT}")
    arguments = parser.parse_args()

    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    subjects, skipped = {"millstream": Millstream(arguments.program.resolve())}, {}
    for peer in PEERS:
        try:
            made = Candle(arguments.install, folder) if peer == "candle" else Worker(peer, arguments.install, folder)
            subjects[peer] = made
        except Skipped as reason:
            skipped[peer] = str(reason)
    best, left = measure(subjects, arguments)
    skipped.update(left)
    rates = {} if arguments.no_product else products(subjects, left, arguments.seconds)
    names = list(subjects)
    text = table(best, names, arguments.workload, arguments.threads) + "\n"
    text += "".join(f"\n{peer} is not in the table: {reason}.\n" for peer, reason in skipped.items())
    if rates:
        text += f"\nProduct of {PRODUCT}³ in f32, GFLOP/s: " + ", ".join(f"{n} {r:,.0f}" for n, r in rates.items()) + ".\n"
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "compare.md").write_text(text)
    rows = [{"subject": name, **row} for (_, _, name), row in best.items()]
    versions = {name: subject.version for name, subject in subjects.items()}
    about = {"versions": versions, "skipped": skipped, "rows": rows, "products": rates}
    (arguments.out / "compare.json").write_text(json.dumps(about, indent=1) + "\n")
    for workload in arguments.workload:
        (arguments.out / f"{workload}.svg").write_text(plot(best, names, workload, arguments.threads))
    print(text)
    wrong = [row for row in rows if row["subject"] == "millstream" and (row["errors"] or row["mismatches"])]
    if wrong or "millstream" in left:
        sys.exit(f"millstream: {wrong or left['millstream']}")


if __name__ == "__main__":
    main()
