"""The workloads of `millstream bench` in PyTorch or MLX on the GPU of a Mac, for `compare.py`.

    worker.py torch|mlx

Writes a line of JSON that says what it is, or what is missing. Then reads a request per line from standard input and writes a line for
each: `{"workload": "mlp", "threads": [1, 8], "seconds": 1.0}` or `{"product": 2048, "seconds": 1.0}`.

Threads share one model; each has an input of its own on the device and starts at a barrier, warm. A call ends when its answer is
on the host. PyTorch aborts when two threads use MPS at once, so there is a lock around each call. MLX ties arrays to threads, so
one thread makes all calls and the others wait for it. `MILLSTREAM_PEER_DEVICE=cpu` runs the same on the CPU, to try this file out.
"""

import concurrent.futures
import json
import math
import os
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
ON_CPU = os.environ.get("MILLSTREAM_PEER_DEVICE") == "cpu"


class Torch:
    """PyTorch's MPS backend with a lock around it."""

    def __init__(self):
        import torch
        from torch_models import WORKLOADS

        self.torch, self.workloads, self.lock = torch, WORKLOADS, threading.Lock()
        if not ON_CPU and not torch.backends.mps.is_available():
            raise RuntimeError("this PyTorch has no MPS device")
        self.device = "cpu" if ON_CPU else "mps"
        self.name = f"PyTorch {torch.__version__} {self.device}"

    def load(self, workload):
        build, shape = self.workloads[workload]
        return build().eval().to(self.device), shape

    def input(self, shape):
        return self.torch.randn(shape).to(self.device)

    def call(self, model, values):
        with self.lock, self.torch.inference_mode():
            return model(values).cpu()

    def same(self, one, other):
        return self.torch.equal(one, other)

    def product(self, size):
        """How long a product takes."""
        a, b = self.input((size, size)), self.input((size, size))
        wait = (lambda: None) if ON_CPU else self.torch.mps.synchronize
        wait()
        start = time.perf_counter()
        with self.torch.inference_mode():
            self.torch.mm(a, b)
        wait()
        return time.perf_counter() - start


class Mlx:
    """MLX with one thread that calls it."""

    def __init__(self):
        import mlx.core as mx
        import mlx.nn as nn

        self.mx, self.nn = mx, nn
        self.caller = concurrent.futures.ThreadPoolExecutor(1)
        if ON_CPU:
            self.caller.submit(mx.set_default_device, mx.cpu).result()
        elif not mx.metal.is_available():
            raise RuntimeError("this MLX has no Metal device")
        self.name = f"MLX {mx.__version__}"

    def alone(self, call):
        return self.caller.submit(call).result()

    def build(self, workload):
        nn = self.nn

        def linears(sizes):
            layers = []
            for inputs, outputs in zip(sizes, sizes[1:]):
                layers += [nn.Linear(inputs, outputs), nn.ReLU()]
            return nn.Sequential(*layers[:-1])

        def conv1d():
            layers = []
            for channels in (80, 256, 256):
                layers += [nn.Conv1d(channels, 256, 3, padding=1), nn.ReLU()]
            return nn.Sequential(*layers)

        if workload == "encoder":
            layer = nn.TransformerEncoderLayer(256, 4, 1024, 0.0, norm_first=False)
            return (lambda x: layer(x, None)), (1, 128, 256)
        # Convolutions have channels last here.
        return {
            "mm": lambda: (nn.Sequential(nn.Linear(512, 512, bias=False), nn.ReLU()), (512, 512)),
            "mlp": lambda: (linears([512, 1024, 1024, 512]), (1, 512)),
            "mlp-large": lambda: (linears([2048, 2048, 2048]), (64, 2048)),
            "conv1d": lambda: (conv1d(), (1, 200, 80)),
        }[workload]()

    def load(self, workload):
        return self.alone(lambda: self.build(workload))

    def input(self, shape):
        def make():
            values = self.mx.random.normal(shape)
            self.mx.eval(values)
            return values

        return self.alone(make)

    def call(self, model, values):
        # The bytes of the answer are on the host then.
        return self.alone(lambda: bytes(memoryview(model(values))))

    def same(self, one, other):
        return one == other

    def product(self, size):
        def run():
            a, b = self.mx.random.normal((size, size)), self.mx.random.normal((size, size))
            self.mx.eval(a, b)
            start = time.perf_counter()
            self.mx.eval(a @ b)
            return time.perf_counter() - start

        return self.alone(run)


def measure(subject, model, shape, threads, seconds):
    """Latencies of all threads, the time from the first start to the last end, and answers that differ."""
    barrier = threading.Barrier(threads)

    def work():
        try:
            values = subject.input(shape)
            subject.call(model, values)
            expected = subject.call(model, values)
        except Exception:
            barrier.abort()
            raise
        barrier.wait()
        latencies, wrong, started = [], 0, time.perf_counter()
        ended = started
        while ended - started < seconds:
            before = time.perf_counter()
            answer = subject.call(model, values)
            ended = time.perf_counter()
            latencies.append(ended - before)
            wrong += not subject.same(answer, expected)
        return latencies, wrong, started, ended

    with concurrent.futures.ThreadPoolExecutor(threads) as callers:
        calls = [callers.submit(work) for _ in range(threads)]
    problems = [call.exception() for call in calls if call.exception()]
    # Whoever fails breaks the barrier for the others, which says less.
    problems.sort(key=lambda problem: isinstance(problem, threading.BrokenBarrierError))
    if problems:
        raise problems[0]
    latencies, wrong, starts, ends = zip(*(call.result() for call in calls))
    return sorted(sum(latencies, [])), max(ends) - min(starts), sum(wrong)


def product(subject, size, seconds):
    """The best rate of a product, in GFLOP/s."""
    best, started = math.inf, time.perf_counter()
    while time.perf_counter() - started < seconds or best == math.inf:
        best = min(best, subject.product(size))
    return {"gflops": 2 * size**3 / best / 1e9}


def answer(subject, models, request):
    if "product" in request:
        return product(subject, request["product"], request["seconds"])
    name = request["workload"]
    if name not in models:
        models[name] = subject.load(name)
    model, shape = models[name]
    rows = []
    for threads in request["threads"]:
        latencies, elapsed, mismatches = measure(subject, model, shape, threads, request["seconds"])
        percentile = lambda share: latencies[math.ceil(len(latencies) * share) - 1] * 1e6
        rows.append(
            {
                "workload": name,
                "threads": threads,
                "calls_per_s": len(latencies) / elapsed,
                "p50_us": percentile(0.5),
                "p99_us": percentile(0.99),
                "mismatches": mismatches,
            }
        )
    return {"rows": rows}


def main():
    try:
        subject = {"torch": Torch, "mlx": Mlx}[sys.argv[1]]()
    except Exception as error:
        print(json.dumps({"missing": f"{type(error).__name__}: {error}"}), flush=True)
        return
    print(json.dumps({"version": subject.name}), flush=True)
    models = {}
    for line in sys.stdin:
        try:
            result = answer(subject, models, json.loads(line))
        except Exception as error:
            result = {"failed": f"{type(error).__name__}: {error}"}
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
