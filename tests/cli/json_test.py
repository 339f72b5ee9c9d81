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

    def check(self, schema, text):
        report = json.loads(text)
        wanted = json.loads((ROOT / "docs" / "schema" / f"{schema}-1.json").read_text())
        self.assertEqual(list(mismatches(wanted, report)), [])
        return report

    def read(self, schema, code, *words):
        found = self.run_program(*words)
        self.assertEqual(found.returncode, code, found.stderr)
        return self.check(schema, found.stdout)

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

    def test_run_writes_the_exit_code_and_the_counters_to_a_file(self):
        file = self.home / "run.json"
        program = OPEN_A_CARD + "; print('of the program'); raise SystemExit(3)"
        found = self.run_program("run", "--cards", "2", "--json", str(file), "--", sys.executable, "-c", program)
        self.assertEqual((found.returncode, found.stdout), (3, "of the program\n"), found.stderr)
        report = self.check("run", file.read_text())
        self.assertEqual((report["exit_code"], report["command"]), (3, [sys.executable, "-c", program]))
        self.assertEqual(sorted((card["card"], card["opens"]) for card in report["cards"]), [(0, 1), (1, 0)])
        self.assertEqual((report["nics"], report["reasons"]), ([], []))

    def test_run_without_a_use_of_the_cards_has_the_reason(self):
        file = self.home / "run.json"
        found = self.run_program("run", "--hca", "1", "--json", str(file), "--", "true")
        self.assertEqual((found.returncode, found.stdout), (0, ""), found.stderr)
        report = self.check("run", file.read_text())
        self.assertEqual((report["cards"], report["nics"]), ([], []))
        self.assertEqual([reason.split(":")[0] for reason in report["reasons"]], ["softgaudi_stat", "softhca_stat"])

    def test_run_takes_a_command_that_is_no_utf8(self):
        file = self.home / "run.json"
        command = [PROGRAM, "run", "--json", str(file), "--", "true", b"\xff"]
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
        self.assertEqual(self.check("run", file.read_text())["command"], ["true", "\ufffd"])

    def test_run_and_record_refuse_a_file_before_the_program_starts(self):
        started = self.home / "started"
        for words in (["run"], ["run", "--", PROGRAM, "record", "-o", str(self.home / "calls.rec")]):
            found = self.run_program(*words, "--json", "/nonexistent/a", "--", "touch", str(started))
            self.assertEqual(found.returncode, 1)
            self.assertIn("ucx_gaudi: cannot write /nonexistent/a: No such file or directory\n", found.stderr)
            self.assertFalse(started.exists())

    def test_run_and_record_report_a_disk_that_is_full_at_the_end(self):
        for words in (["run"], ["run", "--", PROGRAM, "record", "-o", str(self.home / "calls.rec")]):
            found = self.run_program(*words, "--json", "/dev/full", "--", "true")
            self.assertEqual(found.returncode, 1)
            self.assertIn("ucx_gaudi: cannot write /dev/full: No space left on device\n", found.stderr)

    def test_record_writes_a_summary_to_a_file(self):
        recording, file = self.home / "calls.rec", self.home / "record.json"
        found = self.run_program("run", "--cards", "1", "--", PROGRAM, "record", "-o", str(recording), "--json", str(file),
                                 "--", sys.executable, "-c", OPEN_A_CARD + "; raise SystemExit(4)")
        self.assertEqual((found.returncode, found.stdout), (4, ""), found.stderr)
        report = self.check("record", file.read_text())
        self.assertEqual((report["exit_code"], report["calls"], report["processes"], report["lost"]), (4, 1, 1, 0))
        self.assertEqual((report["file"], report["software"]), (str(recording), True))

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
