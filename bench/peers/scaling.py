#!/usr/bin/env python3
"""Throughput against threads on the CPU: Millstream, with calls by themselves and joined, beside onnxruntime, OpenVINO and PyTorch.

    bench/peers/scaling.py [--rounds 3] [--seconds 1] [--threads 1 2 4 8 16 31 64] [--program FILE] [--write]

The model is `mlp`, batch 1: a call takes some ten microseconds, so the cost of many callers shows. All run in turn, round after round; of each
program the best setting and round of a row counts, settings as in `models.py`. Threads share one model, have inputs of their
own, and start at a barrier, warm. `--write` draws docs/scaling.svg and writes bench/peers/SCALING.md.
"""

import argparse
import datetime
import importlib.metadata
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from compare import Torch, build  # noqa: E402
from environment import ROOT, TARGET, enter, invocation, machine  # noqa: E402
from models import PEERS, library, rows_of, settings  # noqa: E402

PACKAGES = ["numpy", "onnx", "onnxruntime", "openvino", "sympy", "torch", "matplotlib"]
NAMES = {
    "coalesced": "Millstream, calls joined (the default)",
    "direct": "Millstream, each call by itself",
    "onnxruntime": "onnxruntime",
    "openvino": "OpenVINO",
    "torch": "PyTorch",
}


def run(arguments, folder):
    """The best row of every program and number of threads."""
    ours = arguments.program or build(ROOT / "crates" / "cli", TARGET)
    native = build(HERE / "native", TARGET / "peers-native")
    libraries = {
        "onnxruntime": library("onnxruntime/capi/libonnxruntime.so.*"),
        "openvino": library("openvino/libs/libopenvino_c.so.*"),
    }
    torch, cores = Torch(), len(os.sched_getaffinity(0))
    model = folder / "model.onnx"
    options = ["--threads", ",".join(map(str, arguments.threads)), "--seconds", str(arguments.seconds)]
    best = {}

    def keep(name, rows):
        for row in rows:
            key = (name, row["threads"])
            if key not in best or row["calls_per_s"] > best[key]["calls_per_s"]:
                best[key] = row

    for round_ in range(arguments.rounds):
        print(f"round {round_ + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
        command = [ours, "bench", "--device", "cpu", "--json", "--model", model, "--inputs", folder / "inputs.npz", *options]
        for row in rows_of([*command, "--mode", "direct,coalesced"], {}, False):
            if row["errors"] or row["mismatches"]:
                sys.exit(f"wrong answers: {row}")
            keep(row["mode"], [row])
        for peer, _, more in settings(cores):
            command = [native, "--program", peer, "--library", libraries[peer], "--model", model, "--inputs", folder, *options, *more]
            keep(peer, rows_of(command, {}, False))
        for inside in sorted({1, cores}):
            keep("torch", torch.rows("mlp", arguments.threads, arguments.seconds, inside))
    return best, torch.version


def table(best, threads):
    lines = ["| calls/s (p99 in ms), threads | " + " | ".join(map(str, threads)) + " |", "|---|" + "---|" * len(threads)]
    for name, label in NAMES.items():
        cells = [f"{best[name, count]['calls_per_s']:,.0f} ({best[name, count]['p99_us'] / 1e3:.1f})" for count in threads]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    peers = [name for name in NAMES if name not in ("coalesced", "direct")]
    for name in ("coalesced", "direct"):
        ratios = [best[name, count]["calls_per_s"] / max(best[peer, count]["calls_per_s"] for peer in peers) for count in threads]
        lines.append(f"| {name} / best of the others | " + " | ".join(f"{ratio:.2f}" for ratio in ratios) + " |")
    return "\n".join(lines)


def draw(best, threads, about):
    import matplotlib

    matplotlib.use("svg")
    # The same file for the same figures.
    matplotlib.rcParams.update({"svg.hashsalt": "millstream", "svg.fonttype": "none", "font.size": 11})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    styles = {"coalesced": ("#c0392b", 3), "direct": ("#e59866", 2), "onnxruntime": ("#2471a3", 1.5), "openvino": ("#229954", 1.5), "torch": ("#7d3c98", 1.5)}
    for name, label in NAMES.items():
        color, width = styles[name]
        axes.plot(range(len(threads)), [best[name, count]["calls_per_s"] for count in threads], color=color, linewidth=width, marker="o", markersize=4, label=label)
    axes.set_xticks(range(len(threads)), threads)
    axes.set_xlabel("threads that call one model")
    axes.set_ylabel("calls per second")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="y", color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    axes.set_title(about, fontsize=9, color="#555555")
    figure.tight_layout()
    figure.savefig(ROOT / "docs" / "scaling.svg", metadata={"Date": None})


def main():
    enter(PACKAGES)
    import model_files

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="per row and round")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2, 4, 8, 16, 31, 64])
    parser.add_argument("--program", type=pathlib.Path, help="a `millstream` that is built already")
    parser.add_argument("--write", action="store_true", help="draw docs/scaling.svg and write SCALING.md")
    arguments = parser.parse_args()

    best, version = run(arguments, model_files.make(["mlp"])["mlp"])
    text = table(best, arguments.threads)
    print(text)
    if not arguments.write:
        return
    date = datetime.date.today().isoformat()
    draw(best, arguments.threads, f"mlp, batch 1, f32; {machine()}; {date}")
    versions = ", ".join([*(f"{peer} {importlib.metadata.version(peer)}" for peer in PEERS), f"torch {version}"])
    (HERE / "SCALING.md").write_text(
        f"""# Throughput against threads on the CPU

`mlp`, batch 1, f32, best of {arguments.rounds} rounds of {arguments.seconds} s, all in turn in one run of `{invocation()}`. {date}, {machine()}; {versions}.
Each with its best setting of a row.

{text}

![Calls per second against threads](../../docs/scaling.svg)
"""
    )


if __name__ == "__main__":
    main()
