#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`ucx_gaudi verify` on software cards and NICs: everything that can be tested holds, the report fits its schema, and it is a
profile that gives the same report again."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from schema import mismatches

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop(1)
SCHEMA = json.loads((ROOT / "docs" / "schema" / "verify-1.json").read_text())

# What software cannot show: a kernel with RDMA, SynapseAI, a Gaudi3, a driver that imports dma-bufs.
ELSEWHERE = {"A14", "A16", "A21", "A22", "A23", "A26", "A27", "A29", "A32"}


def verify(*options, profile=None, soak="0"):
    """The exit code, the output and the report; on cards that behave as another report says."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "report.json"
        if profile:
            (Path(directory) / "profile.json").write_text(json.dumps(profile))
            options = (*options, "--profile", "profile.json")
        done = subprocess.run([PROGRAM, "run", "--hca", "--cards", "2", *options, "--", PROGRAM, "verify", "--soak", soak,
                               "--json", str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, cwd=directory, env={**os.environ, "XDG_CACHE_HOME": directory})
        return done.returncode, done.stdout, json.loads(file.read_text())


def verdicts(report):
    return {one["id"]: one["verdict"] for one in report["assumptions"]}


class Report(unittest.TestCase):
    def check_profile(self, report, soak="0"):
        """Cards that behave as a report says give the same report."""
        _, output, again = verify(profile=report, soak=soak)
        self.assertEqual(verdicts(again), verdicts(report), output)
        for part in ("card", "behaviour"):
            self.assertEqual(again[part], report[part])

    def test_everything_that_can_be_tested_holds(self):
        code, output, report = verify(soak="1")
        self.assertEqual(code, 0, output)
        self.assertEqual(list(mismatches(SCHEMA, report)), [])
        page = (ROOT / "docs" / "assumptions.md").read_text()
        rows = dict(re.findall(r"^\| (A\d+) \|.*\| ([^|]*) \| [^|]* \|$", page, re.MULTILINE))
        wanted = {name: "held" if "step `" in tested and name not in ELSEWHERE else
                  "not testable here" if "step `" in tested else "not testable" for name, tested in rows.items()}
        self.assertEqual(verdicts(report), wanted)
        self.assertEqual({name for step in report["steps"] for name in step["assumptions"]},
                         {name for name, tested in rows.items() if "step `" in tested})
        self.assertTrue(report["software"])
        self.assertIn("SOFTWARE: this card is one of softgaudi, not hardware\n", output)
        self.assertTrue(output.endswith("SOFTWARE: all of this was seen on softgaudi, not on a card\n"))
        for note in ("kernel", "driver", "firmware", "UCX", "BAR", "IOMMU", "ACS"):
            self.assertIn(note, report["notes"])
        self.check_profile(report, soak="1")
        for change in ({"schema": 2}, {"software": 1}, {"steps": [{"step": "x"}]}, {"more": 1}, {"record": []},
                       {"behaviour": {"host": {"pages_kept": "yes"}}}, {"behaviour": {"copies": {"queue_0": 1}}}):
            self.assertTrue(list(mismatches(SCHEMA, {**report, **change})), change)

    def test_writes_that_need_a_flush_are_seen(self):
        code, output, report = verify("--quirks", "posted")
        self.assertEqual(code, 0, output)
        self.assertEqual(verdicts(report)["A11"], "held")
        self.assertRegex(output, r"without a flush [1-9]\d* of 50 were stale, with one 0\n")
        self.check_profile(report)

    def test_flush_that_fails_is_named(self):
        code, _, report = verify("--quirks", "posted", "--faults", "cs_flush_pci_hbw_writes=EIO")
        self.assertEqual((code, verdicts(report)["A11"]), (1, "failed"))
        self.check_profile(report)

    def test_flush_that_does_nothing_is_named(self):
        code, _, report = verify(profile={**verify("--quirks", "posted")[2], "behaviour": {
            "nic": {"stale_without_flush": 50, "stale_with_flush": 50}}})
        self.assertEqual((code, verdicts(report)["A11"]), (1, "failed"))

    def test_export_offset_that_is_ignored_is_seen(self):
        code, output, report = verify("--quirks", "mainline")
        self.assertEqual(code, 0, output)
        self.assertIs(report["behaviour"]["nic"]["export_offset_honoured"], False)
        self.check_profile(report)

    def test_nic_that_is_not_there_is_named(self):
        done = subprocess.run([PROGRAM, "run", "--hca", "--cards", "1", "--", PROGRAM, "verify", "--soak", "0", "--nic",
                               "mlx5_9"], stdout=subprocess.PIPE, text=True, check=False)
        self.assertIn("  saw: there is no RDMA device mlx5_9 that opens\n", done.stdout)


if __name__ == "__main__":
    unittest.main()
