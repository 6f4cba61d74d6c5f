#!/usr/bin/env python3
"""`millstream bench --device cuda` beside PyTorch and a plain C++ ceiling on one GPU, in one run.

    bench/gpu/compare.py [--quick] [--workloads mlp conv1d] [--millstream PATH] [--budget 300] [--write]

Four programs, in turn, round after round, the medians counting: ours; PyTorch eager with a stream per
thread; PyTorch with a CUDA graph per thread; `ceiling.cu`, built here. README.md says what each does.
A part that fails stands in the table as such; the rest goes on, and the exit status is 1.
"""

import argparse
import datetime
import json
import os
import pathlib
import subprocess
import sys
import time

import programs as programs_module
import report

HERE = pathlib.Path(__file__).resolve().parent
THREADS = [1, 2, 4, 8, 16, 31, 64]
QUICK_THREADS = [1, 8, 31]
# Seconds of a measurement: below, a few calls of one thread decide; above, nothing is gained.
LEAST, MOST = 0.1, 1.5


class Plan:
    """Which program measures which workload in which round, and for how long."""

    def __init__(self, programs, workloads, threads, rounds, budget):
        self.programs, self.workloads, self.threads = programs, workloads, threads
        self.rounds, self.budget = rounds, budget
        # Seconds that a step takes beside its measurements: a guess, until the first was seen.
        self.around = {program.name: program.start_seconds for program in programs}

    def steps(self, round_):
        """Each program in turn, another one first in every round."""
        shift = round_ % max(len(self.programs), 1)
        turned = self.programs[shift:] + self.programs[:shift]
        return [
            (workload, program)
            for workload in self.workloads
            for program in turned
            if workload in program.workloads
        ]

    def weight(self, program):
        """Measurements in one step, in units of the time that is asked for."""
        return program.weight * len(self.threads)

    def seconds(self, round_, spent):
        """How long to measure in this round, or None if there is no time for it."""
        steps = self.steps(round_)
        left, rounds = self.budget - spent, self.rounds - round_
        around = sum(self.around[program.name] for _, program in steps)
        weight = sum(self.weight(program) for _, program in steps)
        if not steps or (round_ > 0 and left < around + LEAST * weight):
            return None
        return min(max((left / rounds - around) / weight, LEAST), MOST)

    def learn(self, program, seconds, took):
        self.around[program.name] = max(took - seconds * self.weight(program), 0.0)

    def limit(self, program, seconds):
        """When a step counts as hung."""
        return 60.0 + 5.0 * self.around[program.name] + 2.0 * seconds * self.weight(program)


def run(plan, source, say, clock=time.monotonic):
    """Rows with their programs, what went wrong, what programs say of themselves, seconds per round."""
    samples, problems, about, lengths = [], [], {}, []
    started = clock()
    broken = []
    for program in plan.programs:
        say(f"preparing {program.name}")
        try:
            about.update(program.prepare())
        except programs_module.Failed as error:
            problems.append(f"{program.name}: {error}")
            broken.append(program)
        if isinstance(program, programs_module.Millstream):
            # The budget is for measuring: a first build of everything is none of it.
            started = clock()
    plan.programs = [program for program in plan.programs if program not in broken]
    for round_ in range(plan.rounds):
        seconds = plan.seconds(round_, clock() - started)
        if seconds is None:
            break
        lengths.append(seconds)
        for workload, program in plan.steps(round_):
            say(f"round {round_ + 1} of {plan.rounds}, {seconds:.2f} s each: {workload}, {program.name}")
            before = clock()
            try:
                limit = plan.limit(program, seconds)
                rows, wrong = program.rows(workload, plan.threads, seconds, source, limit)
            except (programs_module.Failed, KeyError, TypeError, ValueError) as error:
                rows, wrong = [], [f"{type(error).__name__}: {error}"]
            samples += [(program.name, row) for row in rows]
            problems += [f"{program.name}, {workload}, round {round_ + 1}: {one}" for one in wrong]
            if not wrong:
                plan.learn(program, seconds, clock() - before)
    for program in plan.programs:
        about.update(getattr(program, "about", {}))
        program.stop()
    return samples, problems, about, lengths


def machine():
    """The GPU, its driver and the CPU, as far as the machine tells."""
    ask = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stdout
        gpu, driver = [part.strip() for part in said.splitlines()[0].split(",")]
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        gpu, driver = "unknown GPU", "unknown"
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = models[0] if models else "unknown CPU"
    return {"gpu": gpu, "driver": driver, "cpu": cpu, "cores": os.cpu_count()}


def head(about):
    """What stands above the tables in RESULTS.md."""
    lengths = ", ".join(f"{seconds:.2f}" for seconds in about["seconds"])
    moved = "input and answer" if about["input"] == "host" else "the answer only (inputs lie on the GPU)"
    return (
        "# Millstream on a GPU beside PyTorch and a plain C++ ceiling\n\n"
        f"{about['date']}, {about['gpu']} with driver {about['driver']}, {about['cores']} × {about['cpu']}; "
        f"PyTorch {about.get('torch', '–')}, CUDA {about.get('cuda', '–')}, "
        f"cuDNN {about.get('cudnn', '–')}, cuBLAS of the ceiling {about.get('cublas', '–')}.\n"
        f"All measured in turn in one run by `bench/gpu/compare.py` ([how](README.md)); medians of "
        f"{len(about['seconds'])} rounds, of {lengths} s per measurement. f32, TF32 off; every call moves "
        f"{moved} and waits. Beside a ceiling's rate stands its better way of waiting.\n\n"
    )


def write(folder, about, results, problems, text):
    folder.mkdir(parents=True, exist_ok=True)
    found = {**about, "rows": results.rows, "goals": report.goals(results), "problems": problems}
    (folder / "results.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    (folder / "RESULTS.md").write_text(head(about) + text)


def arguments_of(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = programs_module.WORKLOADS
    parser.add_argument("--workloads", nargs="+", choices=names, default=names)
    parser.add_argument("--threads", type=int, nargs="+", help=f"by default {THREADS}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, help="seconds for all but building ours; by default 300")
    parser.add_argument("--quick", action="store_true", help="few threads, one round, 60 seconds")
    parser.add_argument("--input", choices=["host", "device"], default="host", help="where inputs lie")
    parser.add_argument("--device", default="cuda", help="ours, by name")
    parser.add_argument("--only", nargs="+", choices=report.PROGRAMS, default=report.PROGRAMS)
    parser.add_argument("--millstream", type=pathlib.Path, help="our program, built already")
    parser.add_argument("--ceiling", type=pathlib.Path, help="the ceiling, built already")
    parser.add_argument("--python", help="a Python that has PyTorch; by default the one that runs this")
    parser.add_argument("--arch", default="native", help="what nvcc builds the ceiling for")
    parser.add_argument("--out", type=pathlib.Path, help="write results.json and RESULTS.md there")
    parser.add_argument("--write", action="store_true", help="write both beside this script")
    parser.add_argument("--dry-run", action="store_true", help="print what would be done")
    arguments = parser.parse_args(words)
    if arguments.quick:
        arguments.rounds = 1
    arguments.threads = arguments.threads or (QUICK_THREADS if arguments.quick else THREADS)
    arguments.budget = arguments.budget or (60.0 if arguments.quick else 300.0)
    if min(arguments.threads) < 1 or arguments.rounds < 1 or arguments.budget <= 0:
        parser.error("threads, rounds and budget are above 0")
    return arguments


def main(words=None, programs=None, clock=time.monotonic):
    arguments = arguments_of(words)
    chosen = programs_module.all_programs(arguments) if programs is None else programs
    chosen = [program for program in chosen if program.name in arguments.only]
    plan = Plan(chosen, arguments.workloads, arguments.threads, arguments.rounds, arguments.budget)
    expected = {
        workload: [program.name for program in chosen if workload in program.workloads]
        for workload in arguments.workloads
    }
    if arguments.dry_run:
        for round_ in range(plan.rounds):
            for workload, program in plan.steps(round_):
                print(f"round {round_ + 1}: {workload}, {program.name}, threads {plan.threads}")
        print(f"{plan.seconds(0, 0.0):.2f} s per measurement to begin with")
        return 0

    say = lambda text: print(text, file=sys.stderr, flush=True)
    samples, problems, about, lengths = run(plan, arguments.input, say, clock)
    results = report.Results(samples, arguments.workloads, arguments.threads, expected)
    text = report.text(results, problems)
    about |= {"date": datetime.date.today().isoformat(), **machine()}
    about |= {"input": arguments.input, "seconds": lengths}
    for folder in [arguments.out, HERE if arguments.write else None]:
        if folder is not None:
            write(folder, about, results, problems, text)
    print(head(about) + text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
