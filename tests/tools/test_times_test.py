#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/test_times.py on a report and an output as ctest writes them."""

import sys
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import test_times

REPORT = """<testsuite>
<testcase name="soft_copy/Copy.down" time="1.5" status="run"/>
<testcase name="soft_copy/Copy.up" time="2.5" status="run"/>
<testcase name="thunk_symbols" time="0.25" status="run"/>
</testsuite>"""
LOG = """2/3 Test #2: soft_copy/Copy.up ...   Passed    2.50 sec

Label Time Summary:
thunk    =   0.25 sec*proc (1 test)
soft     =   4.00 sec*proc (2 tests)

Total Test time (real) =   3.00 sec
"""


class Table(unittest.TestCase):
    def rows(self):
        cases = list(xml.fromstring(REPORT).iter("testcase"))
        return [line.split() for line in test_times.table(cases, LOG).splitlines()]

    def test_groups_come_with_the_dearest_first(self):
        rows = self.rows()
        self.assertLess(rows.index(["soft", "2", "tests", "4.0", "s"]), rows.index(["thunk", "1", "tests", "0.2", "s"]))

    def test_tests_of_a_program_are_summed(self):
        self.assertIn(["soft_copy", "2", "tests", "4.0", "s"], self.rows())

    def test_last_row_is_the_sum(self):
        self.assertEqual(self.rows()[-1], ["all", "3", "tests", "4.2", "s"])


if __name__ == "__main__":
    unittest.main()
