#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The man page and the completion have exactly the commands and long options of ucx_gaudi --help."""

import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop()


def help_of(*words):
    return subprocess.run([PROGRAM, *words, "--help"], stdout=subprocess.PIPE, text=True, check=True).stdout


def options_in(text):
    return set(re.findall(r"^ +(?:-\w,)?(--[a-z-]+)", text, re.MULTILINE)) - {"--help"}


def commands():
    return re.findall(r"^  ([a-z-]+) ", help_of().split("Commands:")[1], re.MULTILINE)


def complete(*words):
    script = (f"source {ROOT}/packaging/completion/ucx_gaudi; COMP_WORDS=(ucx_gaudi \"$@\"); COMP_CWORD=$#; "
              "_ucx_gaudi; echo ${COMPREPLY[@]}")
    found = subprocess.run(["bash", "-c", script, "bash", *words], stdout=subprocess.PIPE, text=True, check=True)
    return set(found.stdout.split())


class Help(unittest.TestCase):
    def test_man_page_has_every_command_and_option(self):
        page = (ROOT / "docs" / "man" / "ucx_gaudi.1").read_text()
        listed = {"--" + name for name in re.findall(r"^\.It Fl (?:\w , )?-([a-z-]+)", page, re.MULTILINE)}
        wanted = set().union(*(options_in(help_of(command)) for command in commands()))
        self.assertEqual(listed, wanted)
        described = {name for names in re.findall(r"^\.It Cm (.*)", page, re.MULTILINE) for name in names.split(" , ")}
        self.assertEqual(described, set(commands()))

    def test_completion_offers_every_command_and_option(self):
        self.assertEqual(complete(""), {*commands(), "--help", "--version"})
        for command in commands():
            self.assertEqual(complete(command, "--") - {"--", "--help"}, options_in(help_of(command)), command)
        self.assertEqual(complete("run", "--model", "gaudi"), {"gaudi2", "gaudi3"})
        self.assertIn("bash", complete("run", "--", "bas"))


if __name__ == "__main__":
    unittest.main()
