#!/usr/bin/env python3
"""MLPerf's LoadGen drives a session of Millstream: the server and the offline scenario.

    bench/loadgen/run.py [--scenario server offline] [--qps 2000] [--latency-ms 10] [--seconds 10] [--threads 2] [--program FILE]

LoadGen makes the queries and measures when they are answered; `session.rs` beside this script answers them, through pipes: a query is two
numbers, its own and that of its sample, and an answer is the number of its query. The model is `mlp` of
`bench/onnx_models.py`, batch 1. Every answer is compared with that of a call by itself, bit by bit.

The environment with LoadGen is made under target/ on first use. What is printed are LoadGen's own summaries.
"""

import argparse
import os
import pathlib
import struct
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from environment import ROOT, TARGET, enter, machine  # noqa: E402

SAMPLES = 256
SHOWN = (
    "Scenario", "Result is", "Scheduled samples per second", "Completed samples per second", "Samples per second",
    "Min latency", "Max latency", "Mean latency", "50.00 percentile", "90.00 percentile", "99.00 percentile",
    "99.90 percentile", "target_latency", "samples_per_query", "min_duration",
)


def build():
    """The program that answers."""
    command = ["cargo", "build", "--release", "--quiet", "--example", "loadgen-session"]
    subprocess.run(command, cwd=ROOT, check=True)
    return TARGET / "release" / "examples" / "loadgen-session"


class Session:
    """The program that answers, behind its pipes."""

    def __init__(self, program, model, threads):
        command = [program, model, "1x512", str(SAMPLES), str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        if self.process.stdout.read(1) != b"\0":
            sys.exit("the session did not start")
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def issue(self, samples):
        """Queries of LoadGen."""
        bytes_ = b"".join(struct.pack("=QQ", sample.id, sample.index) for sample in samples)
        view = memoryview(bytes_)
        while view:
            view = view[self.process.stdin.write(view):]

    def read(self):
        """Gives answers to LoadGen as they come."""
        import mlperf_loadgen as loadgen

        rest = b""
        while block := self.process.stdout.read(1 << 16):
            rest += block
            whole = len(rest) // 8 * 8
            answers = [loadgen.QuerySampleResponse(number, 0, 0) for (number,) in struct.iter_unpack("=Q", rest[:whole])]
            rest = rest[whole:]
            loadgen.QuerySamplesComplete(answers)
        if self.process.wait() != 0:
            # LoadGen would wait for answers that nobody gives.
            print("the session has failed", file=sys.stderr, flush=True)
            os._exit(1)

    def close(self):
        self.process.stdin.close()
        self.reader.join()


def run(scenario, session, arguments, folder):
    """One scenario. Gives LoadGen's summary."""
    import mlperf_loadgen as loadgen

    settings = loadgen.TestSettings()
    settings.mode = loadgen.TestMode.PerformanceOnly
    settings.min_duration_ms = int(arguments.seconds * 1000)
    settings.min_query_count = 1
    if scenario == "server":
        settings.scenario = loadgen.TestScenario.Server
        settings.server_target_qps = arguments.qps
        settings.server_target_latency_ns = int(arguments.latency_ms * 1e6)
    else:
        settings.scenario = loadgen.TestScenario.Offline
        settings.offline_expected_qps = arguments.offline_qps
    output = loadgen.LogOutputSettings()
    output.outdir = str(folder)
    logs = loadgen.LogSettings()
    logs.log_output = output
    logs.enable_trace = False
    sut = loadgen.ConstructSUT(session.issue, lambda: None)
    qsl = loadgen.ConstructQSL(SAMPLES, SAMPLES, lambda samples: None, lambda samples: None)
    loadgen.StartTestWithLogSettings(sut, qsl, settings, logs)
    loadgen.DestroyQSL(qsl)
    loadgen.DestroySUT(sut)
    return (folder / "mlperf_log_summary.txt").read_text()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenario", nargs="+", choices=["server", "offline"], default=["server", "offline"])
    parser.add_argument("--qps", type=float, default=2000, help="queries per second of the server scenario")
    parser.add_argument("--latency-ms", type=float, default=10, help="the bound of the server scenario, for the 99th percentile")
    parser.add_argument("--offline-qps", type=float, default=60000, help="the rate that the size of the offline query is made for")
    parser.add_argument("--seconds", type=float, default=10, help="how long a scenario takes at least")
    parser.add_argument("--threads", type=int, default=2, help="threads that submit queries to the session")
    parser.add_argument("--program", type=pathlib.Path, help="loadgen-session, if it is built already")
    arguments = parser.parse_args()
    enter(["mlperf_loadgen", "numpy", "onnx"])

    folder = TARGET / "loadgen"
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, ROOT / "bench" / "onnx_models.py", folder], check=True, stdout=subprocess.DEVNULL)
    program = arguments.program or build()
    print(machine())
    valid = True
    for scenario in arguments.scenario:
        session = Session(program, folder / "mlp.onnx", arguments.threads)
        summary = run(scenario, session, arguments, folder)
        session.close()
        print(f"\n{scenario}:")
        for line in summary.splitlines():
            if line.strip().startswith(SHOWN):
                print(f"  {line.strip()}")
        valid = valid and "Result is : VALID" in summary
    sys.exit(0 if valid else 1)


if __name__ == "__main__":
    main()
