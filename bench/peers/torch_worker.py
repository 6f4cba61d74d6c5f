"""The workloads of `millstream bench` in PyTorch, for `compare.py`.

Reads a request per line from standard input and writes a line of JSON for each. Threads share one model;
each has an input of its own and starts at a barrier, warm. As in `millstream bench`, every answer is compared
with that of the first call, which is no part of the latency, but of the time that the rate is taken over.
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


def measure(model, shape, threads, seconds, inside):
    """Latencies of all threads, the time from the first start to the last end, and other answers."""
    barrier, latencies, spans, problems = threading.Barrier(threads), [], [], []
    mismatches = []

    def work():
        try:
            # Both settings belong to the thread.
            torch.set_num_threads(inside)
            with torch.inference_mode():
                values = torch.randn(shape)
                model(values)
                expected, wrong = model(values), 0
                barrier.wait()
                own, started = [], time.perf_counter()
                while True:
                    before = time.perf_counter()
                    answer = model(values)
                    after = time.perf_counter()
                    own.append(after - before)
                    wrong += not torch.equal(answer, expected)
                    if after - started >= seconds:
                        break
            latencies.extend(own)
            mismatches.append(wrong)
            spans.append((started, after))
        except Exception as error:
            problems.append(error)
            barrier.abort()

    callers = [threading.Thread(target=work) for _ in range(threads)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    if problems:
        raise problems[0]
    elapsed = max(end for _, end in spans) - min(start for start, _ in spans)
    return sorted(latencies), elapsed, sum(mismatches)


def answer(models, request):
    name, inside = request["workload"], request["inside"]
    build, shape = WORKLOADS[name]
    if name not in models:
        models[name] = build().eval()
    torch.set_num_threads(inside)
    rows = []
    for threads in request["threads"]:
        latencies, elapsed, mismatches = measure(
            models[name], shape, threads, request["seconds"], inside
        )
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
    models = {}
    print(json.dumps({"version": torch.__version__}), flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(models, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
