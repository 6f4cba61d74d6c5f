#!/usr/bin/env python3
"""Two builds of the `millstream` program side by side: `bench` of each in turn, and the medians as a table.

    bench/compare_builds.py BEFORE AFTER                     # all models on the CPU device, at 1, 2, 8 and 31 threads
    bench/compare_builds.py BEFORE AFTER --device cuda --input host --threads 1,8,31 --seconds 0.5
    bench/compare_builds.py BEFORE AFTER --workload mlp --threads 1 --rounds 5

The builds take turns, and another one is first in every round, so that a machine whose speed changes changes both. A row
is the median of the rounds. Wrong answers and errors end the program.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", help="the older program")
    parser.add_argument("after", help="the newer program")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workload", default="mm,mlp,mlp-large,conv1d,encoder")
    parser.add_argument("--threads", default="1,2,8,31")
    parser.add_argument("--mode", default="direct")
    parser.add_argument("--input", default="device")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each row")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no round begins")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between runs, for a machine that others use too")
    parser.add_argument("--warm", action="store_true", help="run both once for a moment first: compiles kernels")
    return parser.parse_args()


def measure(program, options, seconds):
    """Calls per second and median latency of every row: {(workload, mode, threads): (calls, p50)}."""
    command = [program, "bench", "--json", "--seconds", str(seconds)]
    for name in ("device", "workload", "threads", "mode", "input"):
        command += [f"--{name}", getattr(options, name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}: {done.stderr.strip()}")
    rows = json.loads(done.stdout)["rows"]
    wrong = [row for row in rows if row["errors"] or row["mismatches"]]
    if wrong:
        sys.exit(f"{program}: wrong answers or errors: {wrong}")
    return {(row["workload"], row["mode"], row["threads"]): (row["calls_per_s"], row["p50_us"]) for row in rows}


def main():
    options = arguments()
    programs = {"before": options.before, "after": options.after}
    if options.warm:
        for program in programs.values():
            measure(program, options, 0.05)
    began, results = time.monotonic(), {}
    for number in range(options.rounds):
        if time.monotonic() - began > options.budget:
            print(f"{number} of {options.rounds} rounds, then the time was up", file=sys.stderr)
            break
        order = list(programs) if number % 2 == 0 else list(programs)[::-1]
        for name in order:
            time.sleep(options.pause)
            for row, figures in measure(programs[name], options, options.seconds).items():
                results.setdefault(row, {}).setdefault(name, []).append(figures)
    print("| model | mode | threads | calls/s before | calls/s after | after / before | each round | p50 µs before | after |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (workload, mode, threads), found in results.items():
        calls = {name: [figures[0] for figures in found[name]] for name in programs}
        middle = {name: statistics.median(calls[name]) for name in programs}
        p50 = {name: statistics.median(figures[1] for figures in found[name]) for name in programs}
        each = ", ".join(f"{after / before:.2f}" for before, after in zip(calls["before"], calls["after"]))
        print(
            f"| {workload} | {mode} | {threads} | {middle['before']:.0f} | {middle['after']:.0f} | "
            f"{middle['after'] / middle['before']:.2f} | {each} | {p50['before']:.1f} | {p50['after']:.1f} |"
        )


if __name__ == "__main__":
    main()
