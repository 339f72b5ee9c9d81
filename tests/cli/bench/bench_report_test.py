#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""ucx_gaudi bench runs every test on softgaudi and softhca; its JSON is as docs/schema/bench-1.json says."""

import json
import os
import pty
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from schema import mismatches

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = sys.argv.pop()
SCHEMA = json.loads((ROOT / "docs" / "schema" / "bench-1.json").read_text())


def run(*options, **streams):
    words = [PROGRAM, "run", "--cards", "2", "--hca", "1", "--", PROGRAM, "bench", "--samples", "5", *options]
    return subprocess.run(words, check=False, stdin=subprocess.DEVNULL, **streams)


class Bench(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def test_every_test_runs_and_its_report_is_as_the_schema_says(self):
        report, picture = self.directory / "a.json", self.directory / "a.svg"
        done = run("--sizes", "8,4K", "--json", str(report), "--plot", str(picture), stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0)
        results = json.loads(report.read_text())
        self.assertEqual(list(mismatches(SCHEMA, results)), [])
        names = [line.split()[0] for line in subprocess.run(
            [PROGRAM, "bench", "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
        self.assertEqual([(row["test"], row["size_bytes"]) for row in results["results"]],
                         [(name, size) for name in names for size in (8, 4096)])
        for row in results["results"]:
            self.assertTrue(row["data_correct"], row)
            busy = "bidirectional" in row["test"] or "_all_" in row["test"] or row["test"].startswith("all_")
            self.assertEqual(row["latency_us"] is None, busy, row["test"])
            self.assertEqual(row["nic"] is not None, row["test"].startswith("rdma_"), row["test"])
        self.assertEqual(results["skipped"], [])
        heads = [line for line in done.stdout.splitlines() if ": " in line and line.split(":")[0] in names]
        self.assertEqual(len(heads), len(names))
        self.assertTrue(all(line.endswith(" (SOFTWARE)") for line in heads), heads)
        texts = ["".join(element.itertext()) for element in xml.parse(picture).iter("{http://www.w3.org/2000/svg}text")]
        for name in names:
            self.assertEqual(sum(text.startswith(name + ":") for text in texts), 1, name)

        done = run("-t", "rdma_write_device", "--sizes", "8", "--json", "--compare", str(report), stdout=subprocess.PIPE)
        compared = json.loads(done.stdout)
        self.assertEqual(list(mismatches(SCHEMA, compared)), [])
        self.assertEqual([row["figure"] for row in compared["comparison"]["rows"]], ["bandwidth", "latency"])

    def test_progress_is_shown_on_a_terminal_and_cleared(self):
        ours, theirs = pty.openpty()
        done = run("-t", "device_local_copy", "--sizes", "8", stdout=subprocess.PIPE, stderr=theirs, text=True)
        os.close(theirs)
        shown = b""
        try:
            while piece := os.read(ours, 65536):
                shown += piece
        except OSError:  # the end of a terminal
            pass
        os.close(ours)
        self.assertEqual(done.returncode, 0)
        self.assertIn(b"\r\x1b[K[........", shown)
        self.assertIn(b"device_local_copy (within card 0), 8 B", shown)
        self.assertTrue(shown.endswith(b"\r\x1b[K"), shown)
        self.assertNotIn("\r", done.stdout)


if __name__ == "__main__":
    unittest.main()
