#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/assumptions.py on registers that are right and wrong."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import assumptions  # pylint: disable=wrong-import-position

GOOD = ('Assumption{"A1", "one \\"thing\\"", "public",\n "step `open`; the"\n " rest", "no"},\n'
        'Assumption{"A2", "two", "public", "*not testable*: a reset", "no"},\n')
STEP = 'constexpr const char *kStep = "open";\n.ids = {"A1"}\n'


class Assumptions(unittest.TestCase):
    def check(self, register, step=STEP, page=None, *words):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "register.cpp").write_text(register)
            (directory / "step_open.cpp").write_text(step)
            table = page or assumptions.table_of(assumptions.rows_of(register))
            (directory / "page.md").write_text("# Page\n\n" + table)
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                code = assumptions.main(["--source", name, "--page", str(directory / "page.md"), *words])
            return code, output.getvalue(), (directory / "page.md").read_text()

    def test_repository_is_right(self):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(assumptions.main([]), 0, output.getvalue())

    def test_right_register_passes(self):
        code, output, page = self.check(GOOD)
        self.assertEqual((code, output), (0, "2 assumptions, each with a test or a reason why there is none\n"))
        self.assertIn('| A1 | one "thing" | public | step `open`; the rest | no |', page)

    def test_page_that_differs_is_refused_and_written(self):
        code, output, _ = self.check(GOOD, STEP, "| id |\n|---|\n| A1 | other |\n")
        self.assertEqual(code, 1)
        self.assertIn("differs from src/cli/verify/register.cpp", output)
        code, _, page = self.check(GOOD, STEP, "| id |\n|---|\n| A1 | other |\n", "--write")
        self.assertEqual((code, page), (0, "# Page\n\n" + assumptions.table_of(assumptions.rows_of(GOOD))))

    def test_assumption_without_a_test_is_named(self):
        self.assertIn("A2: names no step, no self-test", self.check(GOOD.replace("*not testable*: a reset", "no"))[1])

    def test_step_that_does_not_name_its_assumption_is_named(self):
        self.assertIn("A1: step `open` does not name it", self.check(GOOD, STEP.replace("A1", "A2"))[1])
        self.assertIn("A1: step `gone` does not name it", self.check(GOOD.replace("`open`", "`gone`"))[1])

    def test_step_without_a_known_id_is_named(self):
        self.assertIn("step `open` names no assumption", self.check(GOOD, STEP.replace('"A1"', ""))[1])
        self.assertIn("names A7, which is no assumption", self.check(GOOD, STEP + '"A7"')[1])

    def test_id_that_is_there_twice_is_named(self):
        self.assertIn("A2: is there twice", self.check(GOOD.replace('"A1"', '"A2"'), STEP.replace("A1", "A2"))[1])

    def test_empty_register_fails(self):
        self.assertEqual(self.check("")[0], 1)


if __name__ == "__main__":
    unittest.main()
