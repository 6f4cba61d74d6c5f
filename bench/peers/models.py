#!/usr/bin/env python3
"""ONNX models on the CPU beside onnxruntime and OpenVINO, in one run.

    bench/peers/models.py [--rounds 3] [--seconds 0.5] [--threads 1 2 8 31] [--model NAME …] [--isa avx2] [--json FILE] [--write]

Makes a virtual environment under target/ with onnxruntime and OpenVINO, fetches and makes the models (`model_files.py`), builds
`millstream` and `bench/peers/native`, which calls both through their C interfaces, and measures all in turn, round after round; the best
round of each counts. In each, threads share one model, every thread has inputs of its own, and all start at a barrier, warm.
onnxruntime runs with 1 thread inside of a call and with as many as cores, whose threads wait busily or not; OpenVINO with the
latency and the throughput hint, shapes fixed, in f32. The best setting of each counts, row by row. `--write` puts the table in
bench/peers/MODELS.md.

`--isa avx2` keeps Millstream from longer vectors (MILLSTREAM_ISA). It is no fair comparison: onnxruntime has no such setting, and
OpenVINO with ONEDNN_MAX_CPU_ISA=AVX2 leaves its fast kernels (conv1d took 12 ms instead of 0.8). For that, take a machine with AVX2 only.
"""

import argparse
import datetime
import importlib.metadata
import json
import math
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from compare import build  # noqa: E402
from environment import ROOT, TARGET, VENV, enter, invocation, machine  # noqa: E402

PACKAGES = ["numpy", "onnx", "onnxruntime", "openvino", "sympy"]
PEERS = ["onnxruntime", "openvino"]
# What keeps a program from longer vectors.
LIMITS = {"avx2": {"MILLSTREAM_ISA": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}}


def library(pattern):
    found = sorted(VENV.glob(f"lib/python*/site-packages/{pattern}"))
    return found[-1] if found else sys.exit(f"no {pattern} in {VENV}")


def settings(cores):
    """The ways in which each peer is called."""
    yield "onnxruntime", "1 thread", ["--inside", "1"]
    if cores > 1:
        yield "onnxruntime", f"{cores} threads", ["--inside", str(cores)]
        yield "onnxruntime", f"{cores} busy threads", ["--inside", str(cores), "--spin"]
    for hint in ("LATENCY", "THROUGHPUT"):
        yield "openvino", hint.lower(), ["--hint", hint]


def rows_of(command, environment, may_fail):
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        if not may_fail:
            sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
        reason = done.stderr.strip()
        print(f"    does not run: {reason[-200:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)["rows"]


def run(arguments, folders):
    """The best row of every program, model and number of threads."""
    ours = build(ROOT / "crates" / "cli", TARGET) if not arguments.program else arguments.program
    native = build(HERE / "native", TARGET / "peers-native")
    libraries = {
        "onnxruntime": library("onnxruntime/capi/libonnxruntime.so.*"),
        "openvino": library("openvino/libs/libopenvino_c.so.*"),
    }
    options = ["--threads", ",".join(map(str, arguments.threads)), "--seconds", str(arguments.seconds)]
    limits = LIMITS.get(arguments.isa, {})
    best, refused = {}, set()

    def keep(name, model, rows, setting):
        for row in rows:
            key = (model, row["threads"], name)
            if key not in best or row["calls_per_s"] > best[key]["calls_per_s"]:
                best[key] = {**row, "setting": setting}

    for round_ in range(arguments.rounds):
        for model, folder in folders.items():
            print(f"round {round_ + 1} of {arguments.rounds}: {model}", file=sys.stderr, flush=True)
            file = folder / "model.onnx"
            command = [ours, "bench", "--device", "cpu", "--json", "--model", file, "--inputs", folder / "inputs.npz", *options]
            rows = rows_of(command, limits, False)
            wrong = [row for row in rows if row["errors"] or row["mismatches"]]
            if wrong:
                sys.exit(f"wrong answers: {wrong}")
            keep("millstream", model, rows, None)
            for peer, setting, more in settings(len(os.sched_getaffinity(0))):
                if peer not in arguments.peer or (peer, model) in refused:
                    continue
                command = [native, "--program", peer, "--library", libraries[peer], "--model", file, "--inputs", folder, *options, *more]
                rows = rows_of(command, limits, True)
                if rows is None:
                    refused.add((peer, model))
                else:
                    keep(peer, model, rows, setting)
    return best


def mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def table(best, arguments):
    head = ["model", "threads", "millstream"]
    for peer in arguments.peer:
        head += [peer, "its setting"]
    head += ["rate / better peer", "p99 / onnxruntime"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    ratios = {peer: [] for peer in arguments.peer}
    better, tails, rows = [], [], []
    for model in arguments.model:
        for threads in arguments.threads:
            ours = best[model, threads, "millstream"]
            peers = {peer: best.get((model, threads, peer)) for peer in arguments.peer}
            cells = [model, str(threads), f"{ours['calls_per_s']:,.1f} ({ours['p99_us'] / 1e3:.1f})"]
            for peer, row in peers.items():
                if row is None:
                    cells += ["does not run", ""]
                    continue
                ratios[peer].append(ours["calls_per_s"] / row["calls_per_s"])
                cells += [f"{row['calls_per_s']:,.1f} ({row['p99_us'] / 1e3:.1f})", row["setting"]]
            rates = [row["calls_per_s"] for row in peers.values() if row]
            better.append(ours["calls_per_s"] / max(rates))
            cells.append(f"{better[-1]:.2f}")
            theirs = peers.get("onnxruntime")
            tail = ours["p99_us"] / theirs["p99_us"] if theirs else float("nan")
            if threads >= 8:
                tails.append(tail)
            cells.append(f"{tail:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
            rows.append({"model": model, "threads": threads, "millstream": ours, **peers, "rate_ratio": better[-1]})
    sums = [f"{mean(values):.2f} of {peer}'s" for peer, values in ratios.items()]
    low = sum(ratio < 0.9 for ratio in better)
    text = f"Geometric mean of the rates: {', '.join(sums)}, {mean(better):.2f} of the better one's. {low} of {len(better)} rows are below 0.9."
    if tails:
        text += f" Geometric mean of p99 at 8 threads and more: {mean(tails):.2f} of onnxruntime's."
    return rows, "\n".join([*lines, "", text])


def main():
    enter(PACKAGES)
    import model_files

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.5, help="per row and round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 8, 31])
    parser.add_argument("--model", nargs="+", choices=model_files.NAMES, default=model_files.NAMES)
    parser.add_argument("--peer", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--isa", choices=list(LIMITS), help="no longer vectors than these")
    parser.add_argument("--program", type=pathlib.Path, help="a `millstream` that is built already")
    parser.add_argument("--json", type=pathlib.Path, help="also write JSON there")
    parser.add_argument("--write", action="store_true", help="write MODELS.md")
    arguments = parser.parse_args()

    rows, text = table(run(arguments, model_files.make(arguments.model)), arguments)
    print(text)
    versions = ", ".join(f"{peer} {importlib.metadata.version(peer)}" for peer in arguments.peer)
    about = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "peers": versions,
        "isa": arguments.isa or "all of the machine's",
    }
    if arguments.json:
        arguments.json.write_text(json.dumps({**about, "rows": rows}, indent=1))
    if arguments.write:
        name = f"MODELS-{arguments.isa}.md" if arguments.isa else "MODELS.md"
        (HERE / name).write_text(
            f"""# ONNX models beside onnxruntime and OpenVINO on the CPU

Calls per second (p99 in ms), threads sharing one model, best of {arguments.rounds} rounds of {arguments.seconds} s, all measured in turn in one run by `{invocation()}`.
{about["date"]}, {about["machine"]}, instructions: {about["isa"]}; {versions}. Both through their C interfaces, in f32, each with its best setting of a row.

{text}
"""
        )


if __name__ == "__main__":
    main()
