"""Tests of the page that scripts/mac.sh writes."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import mac_report  # noqa: E402


def row(subject, workload, threads, rate, **more):
    return {"subject": subject, "workload": workload, "threads": threads, "calls_per_s": rate, **more}


class Report(unittest.TestCase):
    def test_an_empty_folder_gives_a_page_that_says_what_is_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            text = mac_report.report(pathlib.Path(folder))
        self.assertIn("The probe left nothing.", text)
        self.assertIn("Nothing was compared.", text)
        self.assertEqual(text.count("not measured"), len(mac_report.goals(None, None)))

    def test_goals_are_judged_by_their_side(self):
        rows = [
            row("millstream", "mlp", 1, 9000.0, host_us=30.0),
            row("millstream", "mlp", 8, 20000.0),
            row("millstream", "mlp", 31, 19000.0),
            row("millstream", "encoder", 8, 900.0),
            row("torch", "encoder", 8, 200.0),
        ]
        probe = {"rows": [{"name": "first-after-idle", "found": "usual 9 µs, after 2.0 s idle 9.0 times that, after 60.0 s idle 1.5 times that"}]}
        compare = {"rows": rows, "products": {"millstream": 70.0, "torch": 100.0}}
        lines = "\n".join(mac_report.goal_lines(mac_report.goals(compare, probe)))
        self.assertIn("one thread, calls/s | at least 8,000 | 9,000 | reached", lines)
        self.assertIn("8 threads, calls/s | at least 30,000 | 20,000 | missed", lines)
        self.assertIn("31 threads, of the best | at least 0.9 | 0.95 | reached", lines)
        self.assertIn("64 threads, of the best | at least 0.9 | not measured", lines)
        self.assertIn("encoder, 8 threads, times PyTorch MPS with a lock | at least 4 | 4.50 | reached", lines)
        self.assertIn("host share of a call, µs | at most 25 | 30.00 | missed", lines)
        self.assertIn("of MPS | at least 0.8 | 0.70 | missed", lines)
        self.assertIn("times the usual | at most 2 | 1.50 | reached", lines)

    def test_what_failed_or_does_not_hold_stands_on_the_page(self):
        probe = {"rows": [{"name": "queue-cap", "assumed": "it blocks", "found": "it came", "outcome": "not"}]}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "steps.tsv").write_text("build\tpassed\t3\t\nsuite\tFAILED\t9\tcase 7\n")
            (folder / "probe.json").write_text(json.dumps(probe))
            text = mac_report.report(folder)
        self.assertIn("2 steps: 1 failed: suite; 0 skipped.", text)
        self.assertIn("| suite | FAILED | 9 | case 7 |", text)
        self.assertIn("**queue-cap: not.** Assumed: it blocks. Found: it came", text)

    def test_a_row_that_was_run_on_demand_takes_the_place_of_the_one_that_was_not(self):
        rows = [{"name": "failed-buffer", "assumed": "x", "found": "--faults", "outcome": v} for v in ["not run", "as assumed"]]
        lines = list(mac_report.probe_lines([{"rows": rows[:1]}, {"rows": rows[1:]}]))
        self.assertTrue(lines[0].startswith("1 rows: 1 as assumed, 0 not"), lines)


if __name__ == "__main__":
    unittest.main()
