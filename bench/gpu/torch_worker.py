"""The workloads of `millstream bench` in PyTorch on a GPU, for `compare.py`.

Reads a request per line from standard input and writes a line of JSON for each:

    {"mode": "eager", "workload": "mlp", "threads": [1, 8], "seconds": 1.0, "input": "host"}

One process; threads share one model, and each has a `torch.cuda.Stream`, an input of its own and a barrier
to start at, warm. A call copies the input from pinned memory (with `"input": "host"`), runs the model, copies
the answer to pinned memory and waits for the stream. `graph` replays a CUDA graph of all that, one per
thread, captured in thread-local mode. f32, TF32 off. PyTorch has 32 streams, so that with 64 threads two
share one. Answers are compared with the model in f64, after the timed calls.
"""

import json
import math
import pathlib
import sys
import threading
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from torch_models import WORKLOADS  # noqa: E402

DEVICE = "cuda"
TOLERANCE = 1e-4
WARM_CALLS = 10


class Subject:
    """A model on the GPU, the inputs of its callers, and the right answers."""

    # The type of answers.
    result = torch.float32

    def __init__(self, name):
        torch.manual_seed(1)
        build, self.shape = WORKLOADS[name]
        model = build().eval()
        self.model = model.to(DEVICE)
        self.exact = build().eval().double()
        self.exact.load_state_dict(model.state_dict())
        self.inputs, self.answers = [], []

    def prepare(self, threads):
        """Makes the inputs of so many threads and the answers to them."""
        # The encoder's fast path is not what the answers should be compared with themselves.
        torch.backends.mha.set_fastpath_enabled(False)
        self.exact.to(DEVICE)
        try:
            with torch.inference_mode():
                for seed in range(len(self.inputs), threads):
                    generator = torch.Generator().manual_seed(seed)
                    values = torch.randn(self.shape, generator=generator)
                    self.inputs.append(values)
                    self.answers.append(self.exact(values.double().to(DEVICE)).cpu())
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
        # Weights and inputs went through the default stream, for which the callers' streams do not wait.
        torch.cuda.synchronize()

    def is_right(self, thread, answer):
        expected = self.answers[thread]
        wrong = torch.linalg.vector_norm(answer.double() - expected)
        # Not a number is never smaller.
        return bool(wrong < TOLERANCE * torch.linalg.vector_norm(expected))


STREAMS = []


def stream(thread):
    """The same stream for the same thread every time: memory that PyTorch caches belongs to a stream."""
    while len(STREAMS) <= thread:
        STREAMS.append(torch.cuda.Stream())
    return STREAMS[thread]


class Caller:
    """What one thread owns, and one call."""

    def __init__(self, subject, thread, mode, from_host):
        self.subject, self.thread, self.from_host = subject, thread, from_host
        self.stream, self.graph = stream(thread), None
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            self.input = subject.inputs[thread].pin_memory()
            self.input_on_device = self.input.to(DEVICE)
            self.answer = torch.full_like(subject.answers[thread], math.nan, dtype=subject.result).pin_memory()
            for _ in range(3):
                self.enqueue()
            self.stream.synchronize()
            if mode == "graph":
                self.graph = self.captured()
            for _ in range(WARM_CALLS):
                self.call()

    def captured(self):
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            self.enqueue()
        finally:
            graph.capture_end()
        return graph

    def enqueue(self):
        if self.from_host:
            self.input_on_device.copy_(self.input, non_blocking=True)
        self.answer.copy_(self.subject.model(self.input_on_device), non_blocking=True)

    def call(self):
        if self.graph is None:
            self.enqueue()
        else:
            self.graph.replay()
        self.stream.synchronize()

    def call_for(self, seconds):
        """The latencies of calls for some time, and when they began and ended."""
        latencies = []
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            started = time.perf_counter()
            while True:
                before = time.perf_counter()
                self.call()
                after = time.perf_counter()
                latencies.append(after - before)
                if after - started >= seconds:
                    return latencies, started, after

    def is_right(self):
        """Calls once more, with nothing left of earlier answers to be mistaken for the new one."""
        with torch.inference_mode(), torch.cuda.stream(self.stream):
            last = self.answer.clone()
            self.answer.fill_(math.nan)
            self.call()
            return self.subject.is_right(self.thread, last) and self.subject.is_right(self.thread, self.answer)


def measure(subject, mode, threads, seconds, from_host):
    """One row without its names."""
    subject.prepare(threads)
    barrier, preparing = threading.Barrier(threads), threading.Lock()
    results, problems = [], []

    def work(thread):
        try:
            # One after another: PyTorch's captures break each other's, even in thread-local mode.
            with preparing:
                caller = Caller(subject, thread, mode, from_host)
            barrier.wait()
            latencies, started, ended = caller.call_for(seconds)
            barrier.wait()
            with preparing:
                right = caller.is_right()
            results.append((latencies, started, ended, right))
        except threading.BrokenBarrierError:
            pass  # The thread that broke it says why.
        except Exception as error:
            problems.append(error)
            barrier.abort()

    callers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    # A workspace per pair of handle and stream, of 32 MiB on Hopper: they would add up.
    torch._C._cuda_clearCublasWorkspaces()
    if problems:
        raise problems[0]
    latencies = sorted(one for result in results for one in result[0])
    elapsed = max(ended for *_, ended, _ in results) - min(result[1] for result in results)
    percentile = lambda share: latencies[math.ceil(len(latencies) * share) - 1] * 1e6
    return {
        "threads": threads,
        "calls_per_s": len(latencies) / elapsed,
        "p50_us": percentile(0.5),
        "p99_us": percentile(0.99),
        "errors": 0,
        "mismatches": sum(not right for *_, right in results),
    }


def answer(subjects, request):
    name, mode = request["workload"], request["mode"]
    if mode not in ("eager", "graph"):
        raise ValueError(f"unknown mode {mode}")
    if name not in subjects:
        subjects[name] = Subject(name)
    rows, problems = [], []
    for threads in request["threads"]:
        try:
            row = measure(subjects[name], mode, threads, request["seconds"], request["input"] == "host")
            rows.append({"workload": name, "mode": mode, **row})
        except Exception as error:
            problems.append(f"{threads} threads: {type(error).__name__}: {error}")
    return {"rows": rows, "problems": problems}


def about():
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "gpu": torch.cuda.get_device_name(),
    }


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.set_num_threads(1)
    subjects = {}
    try:
        torch.cuda.init()
        print(json.dumps(about()), flush=True)
    except Exception as error:
        print(json.dumps({"problem": f"{type(error).__name__}: {error}"}), flush=True)
        return 1
    for line in sys.stdin:
        try:
            reply = answer(subjects, json.loads(line))
        except Exception as error:
            reply = {"rows": [], "problems": [f"{type(error).__name__}: {error}"]}
        print(json.dumps(reply), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
