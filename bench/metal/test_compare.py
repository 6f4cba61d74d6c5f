"""Tests of the comparison on a Mac that need neither a Mac nor a peer."""

import sys
import pathlib
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import compare  # noqa: E402


def row(threads, rate):
    return {"threads": threads, "calls_per_s": rate, "p99_us": 9.0, "errors": 0, "mismatches": 0}


class Fixed:
    """A subject whose rates rise from round to round, up to a failure."""

    def __init__(self, rates):
        self.rates = iter(rates)

    def rows(self, workload, threads, seconds):
        rate = next(self.rates)
        if rate is None:
            raise compare.Skipped("it broke")
        return [row(count, rate) for count in threads]


class Comparison(unittest.TestCase):
    def measure(self, **subjects):
        arguments = types.SimpleNamespace(rounds=2, workload=["mlp"], threads=[1, 8], seconds=0.1)
        return compare.measure(subjects, arguments)

    def test_the_best_round_counts(self):
        best, skipped = self.measure(millstream=Fixed([10.0, 30.0]), torch=Fixed([20.0, 5.0]))
        self.assertEqual(best["mlp", 8, "millstream"]["calls_per_s"], 30.0)
        self.assertEqual(best["mlp", 1, "torch"]["calls_per_s"], 20.0)
        self.assertEqual(skipped, {})

    def test_a_peer_that_breaks_is_left_out_with_its_reason_and_the_rest_goes_on(self):
        best, skipped = self.measure(millstream=Fixed([10.0, 30.0]), mlx=Fixed([4.0, None]))
        self.assertEqual(skipped, {"mlx": "left out from mlp on: it broke"})
        self.assertEqual(best["mlp", 1, "mlx"]["calls_per_s"], 4.0)
        self.assertEqual(best["mlp", 1, "millstream"]["calls_per_s"], 30.0)

    def test_the_table_has_ratios_where_both_were_measured(self):
        best = {("mlp", 1, "millstream"): row(1, 30.0), ("mlp", 1, "torch"): row(1, 20.0), ("mlp", 8, "millstream"): row(8, 40.0)}
        lines = compare.table(best, ["millstream", "torch"], ["mlp"], [1, 8]).splitlines()
        self.assertEqual(lines[2], "| mlp | 1 | 30 | 20 | 1.50 | 9 | 0 |")
        self.assertEqual(lines[3], "| mlp | 8 | 40 | - | - | 9 | 0 |")

    def test_a_plot_has_a_line_for_each_subject_that_was_measured(self):
        best = {("mlp", 1, "millstream"): row(1, 30.0), ("mlp", 8, "millstream"): row(8, 40.0)}
        text = compare.plot(best, ["millstream", "torch"], "mlp", [1, 8])
        self.assertEqual(text.count("<polyline"), 1)
        self.assertEqual(text.count("<circle"), 2)


if __name__ == "__main__":
    unittest.main()
