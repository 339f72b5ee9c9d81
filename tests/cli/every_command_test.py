#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What holds for every command of ucx_gaudi: help, version, mistakes, and a full disk behind stdout."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM = sys.argv.pop()
ON_A_CARD = [PROGRAM, "run", "--cards", "1", "--"]
OPEN_A_CARD = "import ctypes, os; ctypes.CDLL(os.environ['GAUDI_THUNK']).hlthunk_open_by_module_id(0)"


def run(*words, stdout=subprocess.PIPE, home=None):
    environment = {**os.environ, "GAUDI_ENGINES": "/nowhere", **({"HOME": home} if home else {})}
    return subprocess.run(words, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, env=environment)


def commands():
    listed = run(PROGRAM, "--help").stdout.split("Commands:")[1]
    return re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)


def own_lines(text):
    return [line for line in text.splitlines() if not line.startswith("ucx_gaudi: software: ")]


class EveryCommand(unittest.TestCase):
    def test_help_and_version_return_0(self):
        for words in [[], *([command] for command in commands())]:
            for option in ["-h", "--help", "--version"]:
                with self.subTest(words=words, option=option):
                    found = run(PROGRAM, *words, option)
                    self.assertEqual((found.returncode, found.stderr), (0, ""))
                    start = "ucx_gaudi " if option == "--version" else ""
                    self.assertTrue(found.stdout.startswith(start) and found.stdout)

    def test_unknown_option_is_one_sentence(self):
        for words in [[], *([command] for command in commands())]:
            with self.subTest(words=words):
                found = run(PROGRAM, *words, "--no-such-option")
                self.assertEqual((found.returncode, found.stdout), (2, ""))
                self.assertRegex(found.stderr, r"\Aucx_gaudi: .*; see ucx_gaudi.* --help\n\Z")

    def test_flag_with_a_value_is_one_sentence(self):
        for command in commands():
            text = run(PROGRAM, command, "--help").stdout
            flags = re.findall(r"^ +(?:-\w,)?(--[a-z-]+) {2,}", text, re.MULTILINE)
            self.assertTrue({"--help"} <= set(flags), text)
            for flag in flags:
                with self.subTest(command=command, flag=flag):
                    found = run(PROGRAM, command, f"{flag}=3", home="/nowhere")
                    self.assertEqual((found.returncode, found.stdout), (2, ""))
                    self.assertRegex(found.stderr, rf"\Aucx_gaudi: {flag} takes no value; see ucx_gaudi {command} --help\n\Z")

    def test_empty_value_is_one_sentence(self):
        for command in commands():
            text = run(PROGRAM, command, "--help").stdout
            for option in re.findall(r"^ +(?:-\w,)?(--[a-z-]+) [A-Z]", text, re.MULTILINE):
                with self.subTest(command=command, option=option):
                    words = ["--", "true"] if command in ("run", "record") else []
                    others = ["-o", "/dev/null"] if command == "record" and option != "--output" else []
                    others += ["a"] if command == "replay" else ["host", "host", "1"] if command == "explain" else []
                    found = run(PROGRAM, command, option, "", *others, *words, home="/nowhere")
                    self.assertEqual((found.returncode, found.stdout), (2, ""))
                    self.assertRegex(found.stderr, r"\Aucx_gaudi: .*; see ucx_gaudi.* --help\n\Z")

    def test_every_command_has_json(self):
        for command in commands():
            self.assertIn("--json", run(PROGRAM, command, "--help").stdout, command)

    def expect_full(self, *words, home=None):
        with open("/dev/full", "w", encoding="utf-8") as full:
            found = run(*words, stdout=full, home=home)
        self.assertEqual(found.returncode, 1, words)
        self.assertEqual([line for line in own_lines(found.stderr) if "stdout" in line],
                         ["ucx_gaudi: cannot write to stdout: No space left on device"], words)

    def test_full_disk_behind_help_is_reported(self):
        for words in [["--version"], ["--help"], *([command, "--help"] for command in commands())]:
            with self.subTest(words=words):
                self.expect_full(PROGRAM, *words)

    def test_full_disk_behind_output_is_reported(self):
        with tempfile.TemporaryDirectory() as home:
            for words in [["info"], ["info", "--json"], ["doctor"], ["doctor", "--json"], ["dump"], ["plugin-path"],
                          ["plugin-path", "--json"], ["enable", "--user"], ["disable", "--user"],
                          ["enable", "--user", "--json"], ["topo"], ["topo", "--json"], ["metrics"]]:
                if words[0] in commands():
                    with self.subTest(words=words):
                        self.expect_full(PROGRAM, *words, home=home)

    def test_full_disk_behind_verify_and_replay_is_reported(self):
        self.expect_full(*ON_A_CARD, PROGRAM, "verify", "--soak", "0")
        with tempfile.TemporaryDirectory() as directory:
            file = str(Path(directory) / "calls.rec")
            recorded = run(*ON_A_CARD, PROGRAM, "record", "-o", file, "--", sys.executable, "-c", OPEN_A_CARD)
            self.assertEqual(recorded.returncode, 0, recorded.stderr)
            self.expect_full(PROGRAM, "replay", file)
            self.expect_full(PROGRAM, "replay", "--json", file)


if __name__ == "__main__":
    unittest.main()
