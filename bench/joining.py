#!/usr/bin/env python3
"""What joining calls does to every model: calls by themselves and joined, in turn, in one run.

    bench/joining.py [--program target/release/millstream] [--model NAME …] [--threads 1 2 3 4 8 31 64] [--rounds 3] [--seconds 0.5] [--write]

Models are those of bench/peers/model_files.py. Of each round the rates of both are divided; a row is the median of the rounds. The second table is
an open loop: calls come at random times (Poisson) at 70 % of the highest rate of the first table, and their latency counts from the
time at which they should have been sent. `--write` puts both in bench/JOINING.md.
"""

import argparse
import datetime
import json
import pathlib
import statistics
import subprocess
import sys

from environment import ROOT, TARGET, enter, invocation, machine

sys.path.insert(0, str(ROOT / "bench" / "peers"))
PACKAGES = ["numpy", "onnx", "onnxruntime", "sympy"]
MODES = ("direct", "coalesced")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--program", default=TARGET / "release" / "millstream")
    parser.add_argument("--model", nargs="+")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 3, 4, 8, 31, 64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="per row and round")
    parser.add_argument("--write", action="store_true", help="write JOINING.md")
    return parser.parse_args()


def bench(program, folder, mode, threads, seconds, more=()):
    command = [program, "bench", "--device", "cpu", "--json", "--model", folder / "model.onnx", "--inputs", folder / "inputs.npz"]
    command += ["--mode", mode, "--threads", ",".join(map(str, threads)), "--seconds", str(seconds), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{folder.name}: {done.stderr}")
    rows = json.loads(done.stdout)["rows"]
    if any(row["errors"] or row["mismatches"] for row in rows):
        sys.exit(f"{folder.name}: wrong answers: {rows}")
    return {row["threads"]: row for row in rows}


def main():
    options = arguments()
    enter(PACKAGES)
    import model_files

    names = options.model or ["mlp", *model_files.NAMES]
    folders = model_files.make(names)
    head = ["model", *(str(count) for count in options.threads)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    open_loop = ["| model | threads | calls/s sent | lone call, ms | p50, ms | p99, ms | p99 / lone | sent late, p99, ms |", "|---|---|---|---|---|---|---|---|"]
    for name, folder in folders.items():
        rounds = []
        for number in range(options.rounds):
            print(f"{name}: round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            order = MODES if number % 2 == 0 else MODES[::-1]
            found = {mode: bench(options.program, folder, mode, options.threads, options.seconds) for mode in order}
            rounds.append(found)
        cells = [name]
        for count in options.threads:
            ratios = [found["coalesced"][count]["calls_per_s"] / found["direct"][count]["calls_per_s"] for found in rounds]
            rate = statistics.median(found["coalesced"][count]["calls_per_s"] for found in rounds)
            cells.append(f"{statistics.median(ratios):.2f} ({rate:,.0f}/s)")
        lines.append("| " + " | ".join(cells) + " |")
        print(lines[-1], file=sys.stderr, flush=True)
        best = max(
            (statistics.median(found["coalesced"][count]["calls_per_s"] for found in rounds), count) for count in options.threads
        )
        lone = statistics.median(found["coalesced"][options.threads[0]]["p50_us"] for found in rounds) / 1e3
        rate, count = 0.7 * best[0], max(best[1], 8)
        row = bench(options.program, folder, "coalesced", [count], max(options.seconds, 2.0), ["--arrivals", f"poisson:{rate:.1f}"])[count]
        p50, p99, late = row["p50_us"] / 1e3, row["p99_us"] / 1e3, row["sent_late_p99_us"] / 1e3
        open_loop.append(f"| {name} | {count} | {rate:,.1f} | {lone:.2f} | {p50:.2f} | {p99:.2f} | {p99 / lone:.1f} | {late:.2f} |")
        print(open_loop[-1], file=sys.stderr, flush=True)
    about = f"{datetime.date.today()}, {machine()}, `{invocation()}`."
    text = [
        "# What joining calls does, on the CPU",
        "",
        f"The rate of joined calls over that of calls by themselves (and the former), at so many threads. {about}",
        "",
        *lines,
        "",
        "Calls that come at random times, at 70 % of the highest rate above. Latencies count from the time at which a call was due. How late it was sent is part of",
        "that: callers sleep until a call is due, and wake up on the cores that compute.",
        "",
        *open_loop,
        "",
    ]
    print("\n".join(text))
    if options.write:
        pathlib.Path(ROOT / "bench" / "JOINING.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
