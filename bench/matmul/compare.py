#!/usr/bin/env python3
"""f32 matrix products: Millstream beside MKL and oneDNN (PyTorch) and OpenBLAS (numpy), in one run.

    bench/matmul/compare.py [--rounds 12] [--threads 1 2] [--json FILE] [--write]

Makes a virtual environment under target/ with torch and numpy, builds `bench/matmul/main.rs`, and
measures all in turn, round after round; the best time of each counts. With one thread, time is that
of the calling thread on its core (so that other programs do not count); with more, it is wall time.
`--write` puts the table in bench/matmul/RESULTS.md.
"""

import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from environment import ROOT, enter, machine  # noqa: E402

PACKAGES = ["numpy", "torch", "threadpoolctl"]

# Rows, columns and depth; the least fraction of the best peer that is wanted.
SIZES = [
    ((2048, 2048, 2048), 0.95),
    ((1024, 1024, 1024), 0.95),
    ((512, 512, 512), 0.95),
    ((64, 2048, 2048), 1.0),
    ((128, 1024, 256), 1.0),
    ((128, 1536, 384), 1.0),
    ((200, 256, 768), 1.0),
] + [((m, 1024, 1024), 1.0) for m in (1, 2, 4, 8, 16, 31)]


class Ours:
    """The Rust program, asked line by line."""

    def __init__(self):
        build = ["cargo", "bench", "--no-run", "--bench", "matmul", "--message-format=json"]
        lines = subprocess.run(build, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        found = [json.loads(line) for line in lines.splitlines() if line.startswith("{")]
        program = next(m["executable"] for m in reversed(found) if m.get("executable"))
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def best(self, size, packed, threads, seconds):
        m, n, k = size
        self.process.stdin.write(f"{m} {n} {k} {int(packed)} {threads} {seconds}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline()) * 1e-9


def peers(size, threads):
    """Name and function of each peer for a size."""
    import numpy
    import torch

    m, n, k = size
    generator = numpy.random.default_rng(1)
    a = generator.random((m, k), dtype=numpy.float32)
    b = generator.random((k, n), dtype=numpy.float32)
    out = numpy.empty((m, n), dtype=numpy.float32)
    ta, tb, tout = torch.from_numpy(a), torch.from_numpy(b), torch.from_numpy(out)
    found = {
        "openblas": lambda: numpy.matmul(a, b, out=out),
        "mkl": lambda: torch.mm(ta, tb, out=tout),
    }
    try:
        # oneDNN with weights that it packs once, as compiled PyTorch models use it.
        weight = tb.t().contiguous()
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(weight, m)
        except RuntimeError:
            # Versions differ in whether this is there; without it the weights stay in plain order.
            packed = weight.to_mkldnn()
        linear = torch.ops.mkldnn._linear_pointwise
        linear(ta, packed, None, "none", [], "")
        found["onednn"] = lambda: linear(ta, packed, None, "none", [], "")
    except (AttributeError, RuntimeError) as error:
        print(f"oneDNN left out: {error}", file=sys.stderr)
    return found


def measure(function, threads, seconds):
    clock = time.thread_time if threads == 1 else time.perf_counter
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = clock()
        function()
        elapsed = clock() - start
        # The clock of a thread stands still now and then on virtual machines.
        best = min(best, elapsed) if elapsed > 0 else best
        if time.perf_counter() >= end:
            return best


def run(arguments):
    import threadpoolctl
    import torch

    ours, best = Ours(), {}
    torch.set_grad_enabled(False)
    functions = {}
    for round_ in range(arguments.rounds):
        print(f"round {round_ + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        for threads in arguments.threads:
            torch.set_num_threads(threads)
            with threadpoolctl.threadpool_limits(threads, user_api="blas"):
                for size, _ in SIZES:
                    if (size, threads) not in functions:
                        functions[size, threads] = peers(size, threads)
                    times = {
                        name: measure(function, threads, arguments.seconds)
                        for name, function in functions[size, threads].items()
                    }
                    # Threads of the peers spin for a while after their work.
                    time.sleep(0.02 if threads > 1 else 0)
                    for packed in (False, True):
                        name = "packed" if packed else "plain"
                        times[name] = ours.best(size, packed, threads, arguments.seconds)
                    for name, value in times.items():
                        key = (size, threads, name)
                        best[key] = min(best.get(key, float("inf")), value)
    return best


def table(best, thread_counts):
    names = ["plain", "packed", "mkl", "onednn", "openblas"]
    rows, lines = [], []
    lines.append("| m×n×k | threads | " + " | ".join(names) + " | packed / best peer | wanted |")
    lines.append("|---|---|" + "---|" * (len(names) + 2))
    for threads in thread_counts:
        for size, wanted in SIZES:
            flops = 2 * size[0] * size[1] * size[2]
            rates = {
                n: flops / best[size, threads, n] / 1e9 for n in names if (size, threads, n) in best
            }
            peer = max(v for n, v in rates.items() if n not in ("plain", "packed"))
            row = {"size": size, "threads": threads, "gflops": rates, "wanted": wanted}
            row["ratio"] = rates["packed"] / peer
            row["ratio_plain"] = rates["plain"] / peer
            rows.append(row)
            cells = [f"{rates[n]:.1f}" if n in rates else "–" for n in names]
            cells += [f"{row['ratio']:.2f}", f"{wanted:.2f}"]
            lines.append(f"| {'×'.join(map(str, size))} | {threads} | " + " | ".join(cells) + " |")
    return rows, "\n".join(lines)


def main():
    enter(PACKAGES)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.1, help="per setting and round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--json", type=pathlib.Path, help="also write JSON there")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    arguments = parser.parse_args()
    import numpy
    import torch

    rows, text = table(run(arguments), arguments.threads)
    print(text)
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "rounds": arguments.rounds,
        "rows": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(about, indent=1) + "\n")
    if arguments.write:
        head = (
            "# f32 matrix products\n\n"
            "GFLOP/s, best of "
            f"{arguments.rounds} rounds of {arguments.seconds} s, all measured in turn in one run by "
            f"`bench/matmul/compare.py`.\n{about['date']}, {about['machine']}; torch "
            f"{about['torch']} (MKL, oneDNN), numpy {about['numpy']} "
            "(OpenBLAS).\n`plain` packs the right factor in each call, `packed` has it packed "
            "once, as weights are.\nOne thread: time of the thread on its core; more: wall time.\n\n"
        )
        (pathlib.Path(__file__).parent / "RESULTS.md").write_text(head + text + "\n")


if __name__ == "__main__":
    main()
