#!/usr/bin/env python3
"""The workloads of `millstream bench` beside PyTorch and candle on the CPU, in one run.

    bench/peers/compare.py [--rounds 5] [--seconds 1] [--threads 1 2 8 31] [--json FILE] [--write]

Makes a virtual environment under target/ with torch, builds `millstream` and `bench/peers/candle`, and
measures all in turn, round after round; the best round of each counts. In each, threads share one model,
every thread has inputs of its own, and all start at a barrier, warm. PyTorch and candle run with one
thread per operation and with as many as cores; the better of the two counts, row by row. `--write` puts
the table in bench/peers/RESULTS.md.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import ROOT, TARGET, enter, machine  # noqa: E402

PACKAGES = ["numpy", "torch"]
WORKLOADS = ["mm", "mlp", "mlp-large", "conv1d", "encoder"]
PEERS = ["torch", "candle"]


def build(folder, target):
    """Builds a cargo package and says where its program is."""
    command = ["cargo", "build", "--release", "--bins", "--message-format=json"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return next(m["executable"] for m in reversed(found) if m.get("executable"))


def rows_of(command, **environment):
    done = subprocess.run(
        command, env={**os.environ, **environment}, check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)["rows"]


class Torch:
    """`torch_worker.py`, asked line by line: starting it takes longer than a measurement."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, HERE / "torch_worker.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.version = json.loads(self.process.stdout.readline())["version"]

    def rows(self, workload, threads, seconds, inside):
        request = {"workload": workload, "threads": threads, "seconds": seconds, "inside": inside}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        rows = json.loads(self.process.stdout.readline())["rows"]
        # Its threads spin for a while after their work.
        time.sleep(0.3)
        return rows


def run(arguments, torch):
    """The best row of every program, workload and number of threads."""
    ours = build(ROOT / "crates" / "cli", TARGET)
    candle = build(HERE / "candle", TARGET / "peers-candle")
    counts = ",".join(map(str, arguments.threads))
    cores = len(os.sched_getaffinity(0))
    best = {}

    def keep(name, rows, setting=None):
        for row in rows:
            key = (row["workload"], row["threads"], name)
            if key not in best or row["calls_per_s"] > best[key]["calls_per_s"]:
                best[key] = {**row, "threads_per_operation": setting}

    for round_ in range(arguments.rounds):
        for workload in arguments.workload:
            print(f"round {round_ + 1} of {arguments.rounds}: {workload}", file=sys.stderr, flush=True)
            options = ["--workload", workload, "--threads", counts, "--seconds", str(arguments.seconds)]
            rows = rows_of([ours, "bench", "--json", *options])
            wrong = [row for row in rows if row["errors"] or row["mismatches"]]
            if wrong:
                sys.exit(f"wrong answers: {wrong}")
            keep("millstream", rows)
            for inside in sorted({1, cores}):
                rows = torch.rows(workload, arguments.threads, arguments.seconds, inside)
                keep("torch", rows, inside)
                rows = rows_of([candle, *options], RAYON_NUM_THREADS=str(inside))
                keep("candle", rows, inside)
    return best


def table(best, arguments):
    head = ["workload", "threads", "millstream", *PEERS]
    head += [f"rate / {peer}" for peer in PEERS] + [f"p99 / {peer}" for peer in PEERS]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    rows = []
    for workload in arguments.workload:
        for threads in arguments.threads:
            found = {name: best[workload, threads, name] for name in ["millstream", *PEERS]}
            ours = found["millstream"]
            ratios = {peer: ours["calls_per_s"] / found[peer]["calls_per_s"] for peer in PEERS}
            tails = {peer: ours["p99_us"] / found[peer]["p99_us"] for peer in PEERS}
            rows.append(
                {
                    "workload": workload,
                    "threads": threads,
                    "results": found,
                    "rate_ratio": ratios,
                    "p99_ratio": tails,
                }
            )
            cells = [workload, str(threads)]
            cells += [
                f"{row['calls_per_s']:,.0f} ({row['p99_us'] / 1e3:.1f})" for row in found.values()
            ]
            cells += [f"{ratio:.2f}" for ratio in [*ratios.values(), *tails.values()]]
            lines.append("| " + " | ".join(cells) + " |")
    return rows, "\n".join(lines)


def candle_version():
    lock = (HERE / "candle" / "Cargo.lock").read_text()
    return lock.split('name = "candle-core"\nversion = "')[1].split('"')[0]


def main():
    enter(PACKAGES)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row and round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 8, 31])
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    parser.add_argument("--json", type=pathlib.Path, help="also write JSON there")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md")
    arguments = parser.parse_args()

    torch = Torch()
    rows, text = table(run(arguments, torch), arguments)
    print(text)
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "torch": torch.version,
        "candle": candle_version(),
        "rounds": arguments.rounds,
        "seconds": arguments.seconds,
        "rows": rows,
    }
    if arguments.json:
        arguments.json.write_text(json.dumps(about, indent=1) + "\n")
    if arguments.write:
        head = (
            "# Models beside PyTorch and candle on the CPU\n\n"
            "Calls per second (p99 in ms), threads sharing one model, best of "
            f"{arguments.rounds} rounds of {arguments.seconds} s, all measured in turn in one run by "
            f"`bench/peers/compare.py`.\n{about['date']}, {about['machine']}; torch {about['torch']}, "
            f"candle {about['candle']}, each with the better of one thread per operation and as many as "
            "cores.\nRates above 1 and p99 below 1 are in Millstream's favor. Every program compares each "
            "answer with the first, which counts in the rate, not in the latency.\n\n"
        )
        (HERE / "RESULTS.md").write_text(head + text + "\n")


if __name__ == "__main__":
    main()
