#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that docs/asks.md answers each of its 42 questions, and that the commands, options, checks of doctor, pages and tests
that it names exist.

usage: asks_test.py BUILD-DIRECTORY
"""

import re
import subprocess
import sys
import unittest
from pathlib import Path

from acceptance_test import known_tests

ROOT = Path(__file__).resolve().parents[2]
BUILD = str(Path(sys.argv.pop(1)).resolve())
PAGE = (ROOT / "docs" / "asks.md").read_text(encoding="utf-8")
QUESTIONS = 42


def rows():
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines()
             if re.match(r"\| \d+ \|", line)]
    return {int(row[0]): row for row in found}


def help_of(*words):
    return subprocess.run([f"{BUILD}/bin/ucx_gaudi", *words, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


class Asks(unittest.TestCase):
    def test_every_question_has_a_state_and_an_answer(self):
        self.assertEqual(list(rows()), list(range(1, QUESTIONS + 1)))
        for number, row in rows().items():
            self.assertEqual(len(row), 5, row)
            self.assertIn(row[3], {"answered", "in part", "not yet", "not ours"}, number)
            self.assertTrue(row[4], number)

    def test_commands_and_their_options_exist(self):
        commands = set(re.findall(r"^  ([a-z-]+) ", help_of().split("Commands:")[1], re.MULTILINE))
        for line in set(re.findall(r"`ucx_gaudi ([^`]+)`", PAGE)):
            command, *words = line.split(" -- ")[0].split()
            self.assertIn(command, commands, line)
            text = help_of(command)
            for word in words:
                if word.startswith("--"):
                    self.assertIn(f"{word} ", text, line)

    def test_checks_of_doctor_exist(self):
        known = set(re.findall(r"^\| (GD\d+) ", (ROOT / "docs" / "doctor.md").read_text(), re.MULTILINE))
        self.assertEqual(set(re.findall(r"GD\d+", PAGE)) - known, set())

    def test_pages_exist(self):
        for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
            self.assertTrue((ROOT / "docs" / target).exists(), target)

    def test_tests_exist(self):
        names = "\n".join(known_tests(BUILD)) + "\n"
        for test in re.findall(r"`([A-Z]\w+\.\w+)`", PAGE):
            self.assertRegex(names, r"(?:^|/|\b)" + re.escape(test) + r"(?:/|\s|$)")


if __name__ == "__main__":
    unittest.main()
