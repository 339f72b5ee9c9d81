#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The rows of ucx_gaudi demo --json, on a UCX with an ib module. docs/cli.md has the same demo as text."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

from schema import mismatches

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = sys.argv.pop()
LARGE = 64 << 20


def read(code, *words, **environment):
    done = subprocess.run([PROGRAM, "demo", "--json", *words], capture_output=True, text=True, check=False,
                          env={**os.environ, **environment})
    assert done.returncode == code, done.stderr
    report = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs" / "schema" / "demo-1.json").read_text())
    assert not list(mismatches(schema, report)), list(mismatches(schema, report))
    return report


class DemoJson(unittest.TestCase):
    def test_rows_are_those_that_were_measured(self):
        report = read(0, "--ucx", "nixl-1.23")
        self.assertEqual(report["ucx"], {"name": "nixl-1.23", "rdma": True})
        self.assertTrue(all(row["correct"] for row in report["exchanges"] + report["cards"]))
        rdma, within = report["exchanges"][:4], report["exchanges"][4:]
        self.assertEqual([(row["operation"], row["zero_copy"]) for row in rdma],
                         [("put", True), ("put", False), ("send_receive", True), ("send_receive", False)])
        direct, staged = rdma[:2]
        self.assertEqual((direct["card_to_host_bytes"], direct["host_to_card_bytes"]), (0, 0))
        self.assertEqual((staged["card_to_host_bytes"], staged["host_to_card_bytes"]), (LARGE, LARGE))
        self.assertGreater(staged["virtual_time_ns"], direct["virtual_time_ns"])
        self.assertEqual({(row["zero_copy"], row["virtual_time_ns"]) for row in within}, {(False, None)})
        self.assertEqual(sorted(card["card"] for card in report["cards"]), list(range(8)))

    def test_machine_without_ucx_has_the_cards(self):
        report = read(1, GAUDI_ENGINES="/nowhere", PATH="/nowhere")
        self.assertEqual((report["ucx"], report["exchanges"], len(report["cards"])), (None, [], 8))


if __name__ == "__main__":
    unittest.main()
