#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""JSON of the commands whose output is short, against docs/schema."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from schema import mismatches

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop()
OPEN_A_CARD = "import ctypes, os; ctypes.CDLL(os.environ['GAUDI_THUNK']).hlthunk_open_by_module_id(0)"


class Json(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.home = Path(self.directory.name)

    def run_program(self, *words):
        environment = {**os.environ, "HOME": str(self.home)}
        environment.pop("VIRTUAL_ENV", None)
        return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, env=environment)

    def read(self, schema, code, *words):
        found = self.run_program(*words)
        self.assertEqual(found.returncode, code, found.stderr)
        report = json.loads(found.stdout)
        wanted = json.loads((ROOT / "docs" / "schema" / f"{schema}-1.json").read_text())
        self.assertEqual(list(mismatches(wanted, report)), [])
        return report

    def test_plugin_path_names_the_directory(self):
        path = self.run_program("plugin-path").stdout.rstrip("\n")
        report = self.read("plugin-path", 0, "plugin-path", "--json")
        self.assertEqual((report["path"], report["for"], report["ucx"], report["reasons"]), (path, None, [], []))

    def test_plugin_path_has_the_reason_of_a_library_that_does_not_load(self):
        (self.home / "lib").mkdir()
        for name in ["libucs.so.0", "libucp.so.0"]:
            (self.home / "lib" / name).write_text("no library")
        report = self.read("plugin-path", 1, "plugin-path", "--json", "--for", str(self.home))
        self.assertEqual(report["for"], str(self.home))
        self.assertEqual(len(report["reasons"]), 1)
        ucx, = report["ucx"]
        self.assertEqual((ucx["loads"], ucx["version"]), (False, None))
        self.assertIn("it does not load: ", ucx["reason"])

    def test_enable_and_disable_name_the_files_and_their_states(self):
        for command, state in [("enable", "enabled"), ("enable", "enabled_already"), ("disable", "disabled"),
                               ("disable", "unchanged")]:
            report = self.read("enable", 0, command, "--user", "--json")
            self.assertEqual(report["files"], [{"file": str(self.home / "ucx.conf"), "state": state}])
            self.assertEqual(report["reasons"], [])

    def test_enable_has_the_reason_of_a_refusal(self):
        (self.home / "ucx.conf").write_text("UCX_PLUGIN_PATH=/elsewhere\n")
        report = self.read("enable", 1, "enable", "--user", "--json")
        self.assertEqual(report["files"], [])
        self.assertIn("sets UCX_PLUGIN_PATH=/elsewhere already", report["reasons"][0])

    def test_replay_counts_calls_and_lists_differences(self):
        file = str(self.home / "calls.rec")
        on_a_card = ["run", "--cards", "1"]
        recorded = self.run_program(*on_a_card, "--", PROGRAM, "record", "-o", file, "--", sys.executable, "-c",
                                    OPEN_A_CARD)
        self.assertEqual(recorded.returncode, 0, recorded.stderr)
        same = self.read("replay", 0, "replay", "--json", file)
        self.assertEqual((same["software"], same["calls"], same["replayed"], same["lost"], same["differences"]),
                         (True, 1, 1, 0, []))
        other = self.read("replay", 1, *on_a_card, "--faults", "open_by_module_id=EIO", "--", PROGRAM, "replay",
                          "--json", file)
        difference, = other["differences"]
        self.assertEqual((difference["call"], difference["function"], difference["difference"]),
                         (1, "hlthunk_open_by_module_id", "recorded success, replayed EIO"))


if __name__ == "__main__":
    unittest.main()
