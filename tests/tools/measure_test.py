#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The verdicts of ./ucx-gaudi bench: a row whose noise reaches over its bar is neither met nor missed."""

import sys
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from measure import MET, MISSED, TOO_NOISY, Added, Factor, Ratio, Report, judge
from peer_rows import thread_bars
from sweep_rows import group_by_size, judge_size


def samples(base, other, again):
    return {"base_ns": base, "other_ns": other, "base_again_ns": again}


QUIET = [100.0, 101, 99, 100, 100]


class Verdict(unittest.TestCase):
    def test_range_on_one_side_of_the_bar_decides(self):
        self.assertEqual(judge(0.9, 1.1, at_least=0.8), MET)
        self.assertEqual(judge(0.9, 1.1, at_least=1.2), MISSED)
        self.assertEqual(judge(0.9, 1.1, at_most=1.2), MET)
        self.assertEqual(judge(0.9, 1.1, at_most=0.8), MISSED)

    def test_range_over_the_bar_decides_nothing(self):
        self.assertEqual(judge(0.9, 1.1, at_least=1.0), TOO_NOISY)
        self.assertEqual(judge(0.9, 1.1, at_most=1.0), TOO_NOISY)

    def test_figure_at_its_bar_without_noise_is_met(self):
        self.assertEqual(judge(1, 1, at_least=1), MET)
        self.assertEqual(judge(1, 1, at_most=1), MET)

    def test_quiet_rows_are_met_or_missed(self):
        half = [2 * value for value in QUIET]
        self.assertEqual(Ratio(samples(QUIET, half, QUIET)).at_least(0.3), MET)
        self.assertEqual(Ratio(samples(QUIET, half, QUIET)).at_least(0.8), MISSED)
        self.assertEqual(Factor(samples(QUIET, half, QUIET)).at_most(3), MET)
        self.assertEqual(Factor(samples(QUIET, half, QUIET)).at_most(1.5), MISSED)
        self.assertEqual(Added(samples(QUIET, half, QUIET)).at_most(150), MET)
        self.assertEqual(Added(samples(QUIET, half, QUIET)).at_most(50), MISSED)

    def test_ratio_far_below_its_bar_is_not_met_by_its_noise(self):
        """A ratio of 0.13 whose base varies between 0.13 and 0.89 of itself."""
        slow, again = [100 / 0.13] * 5, [100 / ratio for ratio in (0.10, 0.13, 0.5, 0.89, 0.95)]
        ratio = Ratio(samples([100.0] * 5, slow, again))
        self.assertAlmostEqual(ratio.median, 0.13)
        self.assertEqual(ratio.at_least(0.3), TOO_NOISY)

    def test_good_median_within_the_noise_is_not_met_either(self):
        ratio = Ratio(samples([100.0] * 5, [250.0] * 5, [100, 150, 60, 200, 100]))
        self.assertGreater(ratio.median, 0.3)
        self.assertEqual(ratio.at_least(0.3), TOO_NOISY)


    def test_figure_that_varies_over_its_bar_is_not_met_although_the_base_is_quiet(self):
        ratio = Ratio(samples([100.0] * 5, [90, 100, 100, 140, 150], [100.0] * 5))
        self.assertEqual(ratio.spread, 0)
        self.assertEqual(ratio.at_least(0.9), TOO_NOISY)

    def test_row_without_a_bar_says_when_its_noise_is_larger_than_its_answer(self):
        self.assertEqual(Factor(samples(QUIET, [2 * value for value in QUIET], QUIET)).says(), "")
        self.assertEqual(Factor(samples([100.0] * 5, [105.0] * 5, [100, 150, 60, 200, 100])).says(), TOO_NOISY)
        self.assertEqual(Added(samples(QUIET, [value + 50 for value in QUIET], QUIET)).says(), "")


class Sweep(unittest.TestCase):
    def judge(self, **rounds):
        return judge_size({name.replace("_", " "): values for name, values in rounds.items()})

    def test_choice_within_a_tenth_of_the_fastest_is_met(self):
        self.assertEqual(self.judge(choice=[109, 109], eager=[100], rendezvous=[200], choice_again=[109])[3], MET)
        self.assertEqual(self.judge(choice=[90], eager=[100], choice_again=[90])[:2], ("eager", 0))

    def test_choice_further_behind_is_missed_and_the_fastest_is_named(self):
        self.assertEqual(self.judge(choice=[150], eager=[100], get=[120], choice_again=[150]), ("eager", 0.5, 0, MISSED))

    def test_choice_that_differs_from_itself_by_more_decides_nothing(self):
        self.assertEqual(self.judge(choice=[100], eager=[100], choice_again=[120])[3], TOO_NOISY)
        self.assertEqual(self.judge(choice=[500], eager=[100], choice_again=[600])[3], TOO_NOISY)

    def test_rounds_that_differ_by_more_decide_nothing(self):
        self.assertEqual(self.judge(choice=[500, 900, 900], eager=[100], choice_again=[500])[3], TOO_NOISY)
        self.assertEqual(self.judge(choice=[500], eager=[100, 300, 300], choice_again=[500])[3], TOO_NOISY)

    def test_single_slow_round_is_ignored(self):
        self.assertEqual(self.judge(choice=[100, 100, 900], eager=[100], choice_again=[100])[3], MET)

    def test_rows_are_grouped_by_size(self):
        data = {"rows": [{"size_bytes": 1, "protocol": "choice", "ns": [3, 2, 9]}]}
        self.assertEqual(group_by_size(data), {1: {"choice": [3, 2, 9]}})


class Threads(unittest.TestCase):
    def test_bars_hold_where_the_machine_has_the_cores(self):
        self.assertEqual(thread_bars(1, 64), (None, None))
        self.assertEqual(thread_bars(2, 2), (1, None))
        self.assertEqual(thread_bars(16, 2), (None, None))
        self.assertEqual(thread_bars(16, 16), (1, 0.8))


class Summary(unittest.TestCase):
    def test_names_rows_that_are_not_met(self):
        report = Report()
        for verdict, what in ((MET, "one"), (MISSED, "two"), (TOO_NOISY, "three")):
            self.assertEqual(report.verdict(verdict, what), verdict)
        self.assertEqual(report.summary(), "1 rows missed their bar\n  two\n1 rows are too noisy to tell\n  three")

    def test_is_empty_if_all_are_met(self):
        report = Report()
        report.verdict(MET, "one")
        self.assertEqual(report.summary(), "")


if __name__ == "__main__":
    unittest.main()
