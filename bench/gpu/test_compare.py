"""The logic of `compare.py` with programs that only pretend: `python3 -m unittest discover -s bench/gpu`."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import compare
import programs
import report

ALL = programs.WORKLOADS


class Clock:
    """Time that only measurements take."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Fake:
    """A program whose rates are given, as a function of workload, threads and round."""

    def __init__(self, name, rate, clock, ways=(None,), around=1.0, workloads=ALL):
        self.name, self.rate, self.clock, self.ways = name, rate, clock, ways
        self.around, self.workloads = around, workloads
        self.weight, self.start_seconds = float(len(ways)), 2.0
        self.asked, self.stopped, self.rounds = [], False, {}

    def prepare(self):
        return {f"{self.name}_version": "1"}

    def rows(self, workload, threads, seconds, source, limit):
        self.asked.append((workload, seconds, source))
        self.clock.now += self.around + seconds * len(threads) * self.weight
        round_ = self.rounds[workload] = self.rounds.get(workload, -1) + 1
        rows, problems = [], []
        for count in threads:
            for place, way in enumerate(self.ways):
                rate = self.rate(workload, count, round_) * (1 + place)
                row = {"workload": workload, "threads": count, "way": way, "calls_per_s": rate}
                row |= {"p50_us": 1e6 * count / rate, "p99_us": 2e6 * count / rate}
                rows.append({**row, "errors": 0, "mismatches": 0})
        return programs.clean(rows, problems), problems

    def stop(self):
        self.stopped = True


class Failing(Fake):
    def rows(self, workload, threads, seconds, source, limit):
        if workload == "conv1d":
            raise programs.Failed("no answer within 1 s")
        return super().rows(workload, threads, seconds, source, limit)


def fakes(clock, ours=lambda workload, threads, round_: 1000.0):
    slow = lambda share: lambda workload, threads, round_: 1000.0 * share
    return [
        Fake("ours", ours, clock),
        Fake("eager", slow(0.04), clock),
        Fake("graph", slow(0.1), clock),
        Fake("ceiling", slow(0.5), clock, ways=("sync", "flag"), workloads=["mlp", "mlp-large", "mm"]),
    ]


def call(words, fake_programs, clock):
    """The exit status of a comparison, and what it printed."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        status = compare.main(words, fake_programs, clock)
    return status, printed.getvalue()


class Comparing(unittest.TestCase):
    def test_a_whole_run_gives_ratios_goals_and_files(self):
        clock = Clock()
        made = fakes(clock)
        with tempfile.TemporaryDirectory() as folder:
            status, printed = call(["--out", folder], made, clock)
            found = json.loads(pathlib.Path(folder, "results.json").read_text())
            page = pathlib.Path(folder, "RESULTS.md").read_text()
        self.assertEqual(status, 0)
        # The ceiling's better way counts: twice 500.
        line = "| mlp | 8 | 1,000 | 1,000 flag | 40 | 100 | 1.00 | 25.00 | 10.00 | 1.00 |"
        self.assertIn(line, printed)
        self.assertIn(line, page)
        self.assertIn("| conv1d | 8 | 1,000 | – | 40 | 100 | – | 25.00 | 10.00 | 1.00 |", printed)
        self.assertNotIn("does not hold", printed)
        self.assertNotIn("not measured", printed)
        self.assertEqual({one["holds"] for one in found["goals"]}, {True})
        self.assertEqual(len(found["goals"]), 3 + 2 + 2 * 3 + 2 * len(ALL))
        self.assertEqual(len(found["rows"]), 7 * (3 * 5 + 2 * 3))
        self.assertEqual(found["eager_version"], "1")
        self.assertTrue(all(program.stopped for program in made))

    def test_medians_over_rounds_count_and_goals_can_fail(self):
        clock = Clock()

        def ours(workload, threads, round_):
            return [1.0, 30.0, 1e9][round_] if threads > 16 else [1.0, 40.0, 1e9][round_]

        status, printed = call(["--workloads", "mlp"], fakes(clock, ours), clock)
        self.assertEqual(status, 0)
        for line in ["threads 31: rate / best of 1 to 16 | 0.75", "threads 1: rate / ceiling | 0.04"]:
            self.assertIn(f"| mlp, {line} | at least 0.9 | does not hold |", printed)

    def test_a_part_that_fails_stands_in_the_table_and_the_rest_goes_on(self):
        clock = Clock()
        made = fakes(clock)
        made[1] = Failing("eager", lambda *_: 50.0, clock)
        status, printed = call([], made, clock)
        self.assertEqual(status, 1)
        self.assertIn("| conv1d | 8 | 1,000 | – | failed | 100 | – | – | 10.00 | 1.00 |", printed)
        self.assertIn("| encoder | 8 | 1,000 | – | 50 | 100 |", printed)
        self.assertIn("eager, conv1d, round 1: Failed: no answer", printed)
        self.assertIn("| conv1d, threads 8: rate / PyTorch eager | – | at least 5 | not measured |", printed)

    def test_a_program_that_cannot_be_built_does_not_stop_the_others(self):
        clock = Clock()
        made = fakes(clock)

        def prepare():
            raise programs.Failed("nvcc: not found")

        made[3].prepare = prepare
        status, printed = call(["--quick"], made, clock)
        self.assertEqual(status, 1)
        self.assertIn("- ceiling: nvcc: not found", printed)
        self.assertIn("| mlp | 8 | 1,000 | failed | 40 |", printed)

    def test_a_run_stays_within_its_budget_and_takes_turns(self):
        for around in [0.1, 1.0, 4.0]:
            clock = Clock()
            made = fakes(clock)
            for program in made:
                program.around = around
            call(["--budget", "300"], made, clock)
            self.assertLess(clock.now, 330.0)
            self.assertGreater(clock.now, 150.0)
            self.assertTrue(all(0.1 <= seconds <= 1.5 for _, seconds, _ in made[0].asked))
            self.assertTrue(all(source == "host" for *_, source in made[0].asked))
        plan = compare.Plan(made, ["mlp"], [1], 2, 10.0)
        first = [[program.name for _, program in plan.steps(round_)][0] for round_ in range(2)]
        self.assertEqual(first, ["ours", "eager"])

    def test_a_dry_run_measures_nothing(self):
        made = fakes(Clock())
        status, printed = call(["--dry-run"], made, Clock())
        self.assertEqual((status, made[0].asked), (0, []))
        self.assertIn("round 3: mm, ceiling", printed)


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, text):
        path = self.folder / "program"
        path.write_text(f"#!{sys.executable}\nimport json, sys, time\n{text}\n")
        os.chmod(path, 0o755)
        return path

    def test_ours_is_asked_for_what_is_measured_and_wrong_answers_do_not_count(self):
        path = self.script(
            "rows = [{'threads': n, 'errors': 0, 'mismatches': n - 1} for n in (1, 2)]\n"
            "print(json.dumps({'words': sys.argv[1:], 'rows': rows}))\n"
            "sys.exit('wrong')"
        )
        ours = programs.Millstream(path, "cuda")
        rows, problems = ours.rows("mlp", [1, 2], 0.25, "host", 30)
        self.assertEqual([row["threads"] for row in rows], [1])
        self.assertEqual(problems, ["exit status 1: wrong", "2 threads: 0 errors, 1 mismatches"])
        found, _ = programs.output_of([path, "bench", "--device", "cuda"], 30)
        self.assertEqual(found["words"], ["bench", "--device", "cuda"])

    def test_a_program_that_says_nothing_hangs_or_is_missing_has_failed(self):
        with self.assertRaisesRegex(programs.Failed, "exit status 3: no driver"):
            programs.output_of([self.script("print('no driver', file=sys.stderr); sys.exit(3)")], 30)
        with self.assertRaisesRegex(programs.Failed, "no answer within"):
            programs.output_of([self.script("time.sleep(60)")], 0.2)
        with self.assertRaises(programs.Failed):
            programs.output_of([self.folder / "missing"], 1)

    def test_a_worker_is_asked_line_by_line_and_started_again_after_a_problem(self):
        path = self.script(
            "print(json.dumps({'torch': '2'}), flush=True)\n"
            "row = {'threads': 1, 'errors': 0, 'mismatches': 0}\n"
            "for line in sys.stdin:\n"
            "    workload = json.loads(line)['workload']\n"
            "    if workload == 'mm': sys.exit(1)\n"
            "    if workload == 'encoder': time.sleep(60)\n"
            "    problems = ['capture'] if workload == 'conv1d' else []\n"
            "    print(json.dumps({'rows': [row], 'problems': problems}), flush=True)"
        )
        worker = programs.Torch("graph", path)
        self.addCleanup(worker.stop)
        self.assertEqual(worker.prepare(), {"torch": "2"})
        ask = lambda workload, limit=30: worker.rows(workload, [1], 0.1, "host", limit)
        self.assertEqual(len(ask("mlp")[0]), 1)
        self.assertEqual(ask("conv1d")[1], ["capture"])
        self.assertIsNone(worker.process)
        self.assertEqual(ask("mlp")[1], [])
        with self.assertRaisesRegex(programs.Failed, "ended"):
            ask("mm")
        with self.assertRaisesRegex(programs.Failed, "no answer within"):
            ask("encoder", 0.2)
        self.assertEqual(ask("mlp")[1], [])

    def test_a_worker_without_a_gpu_has_failed(self):
        worker = programs.Torch("eager", self.script("print(json.dumps({'problem': 'no GPU'}))"))
        with self.assertRaisesRegex(programs.Failed, "no GPU"):
            worker.prepare()


class Reporting(unittest.TestCase):
    def test_a_goal_without_figures_is_not_measured(self):
        self.assertIsNone(report.goal("g", None, 1.0)["holds"])
        self.assertTrue(report.goal("g", 0.9, 0.9)["holds"])
        self.assertFalse(report.goal("g", 1.0, 1.0, below=True)["holds"])

    def test_latency_is_that_of_the_better_way(self):
        row = {"workload": "mlp", "threads": 1, "p99_us": 9.0}
        samples = [
            ("ceiling", {**row, "way": "sync", "calls_per_s": 2.0, "p50_us": 5.0}),
            ("ceiling", {**row, "way": "flag", "calls_per_s": 1.0, "p50_us": 4.0}),
        ]
        results = report.Results(samples, ["mlp"], [1], {"mlp": ["ceiling"]})
        self.assertEqual(results.latency("ceiling", "mlp", 1), 4.0)
        self.assertEqual(results.rate("ceiling", "mlp", 1), 2.0)
        self.assertEqual(results.way("ceiling", "mlp", 1), "sync")


if __name__ == "__main__":
    unittest.main()
