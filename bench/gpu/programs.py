"""The programs that `compare.py` measures. Each gives rows for a workload, and what went wrong."""

import json
import os
import pathlib
import selectors
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
WORKLOADS = ["mlp", "mlp-large", "conv1d", "encoder", "mm"]


class Failed(Exception):
    """A program could not be built or started, or gave no answer."""


def last_words(text):
    """The end of what a program said, short enough for a table of problems."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-400:]


def clean(rows, problems):
    """The rows without wrong answers; the others become problems."""
    kept = []
    for row in rows:
        if row["errors"] or row["mismatches"]:
            errors, mismatches = row["errors"], row["mismatches"]
            problems.append(f"{row['threads']} threads: {errors} errors, {mismatches} mismatches")
        else:
            kept.append(row)
    return kept


def output_of(command, limit):
    """What a command printed as JSON, and what went wrong."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"no answer within {limit:.0f} s") from None
    except OSError as error:
        raise Failed(str(error)) from None
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise Failed(f"exit status {done.returncode}: {last_words(done.stderr or done.stdout)}") from None
    problems = []
    if done.returncode != 0:
        problems.append(f"exit status {done.returncode}: {last_words(done.stderr)}")
    return found, problems


class Millstream:
    """`millstream bench --device cuda`. Before every row it measures one caller for a quarter of the time."""

    name, workloads, weight, start_seconds = "ours", WORKLOADS, 1.25, 3.0

    def __init__(self, path, device):
        self.path, self.device = path, device

    def prepare(self):
        if self.path is not None:
            return {}
        command = ["cargo", "build", "--release", "-p", "millstream-cli", "--message-format=json"]
        try:
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        except OSError as error:
            raise Failed(str(error)) from None
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found = [message["executable"] for message in messages if message.get("executable")]
        if done.returncode != 0 or not found:
            raise Failed("cargo build failed")
        self.path = found[-1]
        return {}

    def rows(self, workload, threads, seconds, source, limit):
        command = [self.path, "bench", "--device", self.device, "--json", "--workload", workload]
        command += ["--threads", ",".join(map(str, threads)), "--seconds", f"{seconds:.3f}"]
        found, problems = output_of([*command, "--input", source], limit)
        return clean(found["rows"], problems), problems

    def stop(self):
        pass


class Ceiling:
    """`ceiling.cu`, built here."""

    # Two ways of waiting, each with a row.
    name, workloads, weight, start_seconds = "ceiling", ["mlp", "mlp-large", "mm"], 2.0, 4.0

    def __init__(self, path, python, arch):
        self.path, self.python, self.arch, self.about = path, python, arch, {}

    def prepare(self):
        if self.path is not None:
            return {}
        nvcc = os.environ.get("NVCC") or shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
        target = TARGET / "bench-gpu" / "ceiling"
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [nvcc, "-O3", "-std=c++20", f"-arch={self.arch}", HERE / "ceiling.cu", "-o", target]
        said = []
        for libraries in [["-lcublasLt", "-lcublas"], *self.packaged()]:
            try:
                done = subprocess.run(
                    [*command, *libraries], capture_output=True, text=True, timeout=180, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise Failed(f"nvcc: {error}") from None
            if done.returncode == 0:
                self.path = target
                return {}
            said.append(last_words(done.stderr or done.stdout))
        raise Failed(f"nvcc: {said[0]}")

    def packaged(self):
        """The flags for cuBLAS as Python's packages have it, for machines with nothing but nvcc."""
        ask = "import nvidia; print('\\n'.join(nvidia.__path__))"
        done = subprocess.run([self.python, "-c", ask], capture_output=True, text=True, check=False)
        for folder in map(pathlib.Path, done.stdout.split("\n")[:-1]):
            for library in sorted(folder.glob("*/lib/libcublasLt.so.*")):
                home, suffix = library.parents[1], library.name.removeprefix("libcublasLt")
                flags = [f"-I{home / 'include'}", f"-L{home / 'lib'}", "-Xlinker", f"-rpath={home / 'lib'}"]
                yield [*flags, f"-l:libcublasLt{suffix}", f"-l:libcublas{suffix}"]

    def rows(self, workload, threads, seconds, source, limit):
        command = [self.path, "--workload", workload, "--threads", ",".join(map(str, threads))]
        found, problems = output_of([*command, "--seconds", f"{seconds:.3f}", "--input", source], limit)
        self.about.update({name: found[name] for name in ["cuda_driver", "cuda_runtime", "cublas"]})
        return clean(found["rows"], problems), problems

    def stop(self):
        pass


class Torch:
    """`torch_worker.py`, asked line by line: starting it takes longer than a measurement."""

    workloads, weight, start_seconds = WORKLOADS, 1.0, 2.0

    def __init__(self, mode, python):
        self.name, self.mode, self.python, self.process = mode, mode, python, None

    def prepare(self):
        self.process = subprocess.Popen(
            [self.python, HERE / "torch_worker.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        about = self.reply(120)
        if "problem" in about:
            self.stop()
            raise Failed(about["problem"])
        return about

    def reply(self, limit):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            # A reply is written at once, and nothing is written without a request.
            line = self.process.stdout.readline() if selector.select(limit) else None
        if not line:
            self.stop()
            raise Failed("the worker ended" if line == b"" else f"no answer within {limit:.0f} s")
        return json.loads(line)

    def rows(self, workload, threads, seconds, source, limit):
        if self.process is None:
            self.prepare()
        request = {"mode": self.mode, "workload": workload, "threads": threads}
        request |= {"seconds": seconds, "input": source}
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            self.stop()
            raise Failed(f"the worker ended: {error}") from None
        found = self.reply(limit)
        problems = found["problems"]
        if problems:
            # Whatever went wrong may have left the GPU's context unusable.
            self.stop()
        return clean(found["rows"], problems), problems

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None


def all_programs(arguments):
    python = arguments.python or sys.executable
    return [
        Millstream(arguments.millstream, arguments.device),
        Torch("eager", python),
        Torch("graph", python),
        Ceiling(arguments.ceiling, python, arguments.arch),
    ]
