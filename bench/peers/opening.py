#!/usr/bin/env python3
"""How long a model takes until its first answer, and how much memory, beside onnxruntime and OpenVINO.

    bench/peers/opening.py [--model minilm …] [--rounds 5] [--program target/release/millstream] [--write]

Every figure is of a process of its own, in turn with the others: the median of the times, the largest peak. A peak is the
most memory that the process had (VmHWM), less what it had before the model was opened. `open + first` counts, since Millstream
loads and packs weights when it first compiles, and the others when they open. The second table is of `millstream bench` with 2 and with 31
callers: what a further caller costs, beside the arena of a plan, by the device's own statistics (with the caller's input and output there) and
in the whole process, where every caller has its input and the expected answer as well. `--write` puts both in bench/peers/OPENING.md.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from models import HERE, PACKAGES, ROOT, TARGET, build, enter, invocation, library, machine

MODELS = ["minilm", "minilm-int8", "ocr-det", "nudenet", "kokoro", "piper"]
MIB = 1 << 20


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=MODELS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--program", help="a `millstream` that is built already")
    parser.add_argument("--write", action="store_true", help="write OPENING.md")
    return parser.parse_args()


def commands(ours, native, folder):
    model = folder / "model.onnx"
    yield "millstream", [ours, "bench", "opening", model, "--inputs", folder / "inputs.npz", "--device", "cpu", "--json"]
    for name, pattern in (("onnxruntime", "onnxruntime/capi/libonnxruntime.so.*"), ("openvino", "openvino/libs/libopenvino_c.so.*")):
        start = [native, "--program", name, "--library", library(pattern)]
        yield name, [*start, "--model", model, "--inputs", folder, "--opening"]


def opening(options, folders, ours, native):
    lines = ["| model | weights, MiB | program | open, ms | open + first call, ms | second call, ms | peak, MiB |", "|---|---|---|---|---|---|---|"]
    for name, folder in folders.items():
        found = {}
        for _ in range(options.rounds):
            for program, command in commands(ours, native, folder):
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode == 0:
                    found.setdefault(program, []).append(json.loads(done.stdout))
        weights = found["millstream"][0]["weights_bytes"] / MIB
        for program, runs in found.items():
            times = [{step["step"]: step["ms"] for step in run["steps"]} for run in runs]
            open_ms = statistics.median(time["open"] for time in times)
            first = statistics.median(time["open"] + time["first call"] for time in times)
            second = statistics.median(time["second call"] for time in times)
            peak = max(step["peak_bytes"] for run in runs for step in run["steps"]) / MIB
            lines.append(f"| {name} | {weights:.1f} | {program} | {open_ms:.1f} | {first:.1f} | {second:.1f} | {peak:.1f} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def callers(folders, ours):
    lines = [
        "| model | arena, MiB | peak of the device with 2 callers, MiB | with 31 | per further caller | of the process |",
        "|---|---|---|---|---|---|",
    ]
    for name, folder in folders.items():
        peaks, processes = [], []
        for threads in (2, 31):
            command = [ours, "bench", "--device", "cpu", "--model", folder / "model.onnx", "--inputs", folder / "inputs.npz"]
            command += ["--threads", str(threads), "--seconds", "0.2", "--json"]
            with tempfile.TemporaryFile("w+") as errors:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
                report = process.stdout.read()
                _, status, usage = os.wait4(process.pid, 0)
                errors.seek(0)
                text = errors.read()
            if status != 0:
                sys.exit(f"{name}: {text}")
            peaks.append(json.loads(report)["device_peak_bytes"] / MIB)
            processes.append(usage.ru_maxrss / 1024)
        arena = float(re.search(r"arenas up to ([\d.]+) MiB", text)[1])
        further = [(found[1] - found[0]) / 29 for found in (peaks, processes)]
        lines.append(f"| {name} | {arena:.1f} | {peaks[0]:.1f} | {peaks[1]:.1f} | {further[0]:.1f} | {further[1]:.1f} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main():
    options = arguments()
    enter(PACKAGES)
    import model_files

    folders = model_files.make(options.model)
    ours = options.program or build(ROOT / "crates" / "cli", TARGET)
    native = build(HERE / "native", TARGET / "peers-native")
    text = [
        "# Opening ONNX models, and what callers cost, on the CPU",
        "",
        f"By `{invocation()}`. {datetime.date.today()}, {machine()}.",
        "",
        *opening(options, folders, ours, native),
        "",
        "What callers cost in `millstream bench`: on the device, by its statistics, and in the process, which has a second device with the model and every caller's input and expected answer:",
        "",
        *callers(folders, ours),
        "",
    ]
    print("\n".join(text))
    if options.write:
        (HERE / "OPENING.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
