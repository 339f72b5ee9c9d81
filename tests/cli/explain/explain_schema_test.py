#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What ucx_gaudi explain --json prints fits its schema: zero copy, staged, and without a transfer."""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from schema import mismatches

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = sys.argv.pop(1)
SCHEMA = json.loads((ROOT / "docs" / "schema" / "explain-1.json").read_text())


def explain(*server, **variables):
    done = subprocess.run([PROGRAM, "run", "--cards", "2", *server, "--", PROGRAM, "explain", "gaudi:0", "remote:gaudi:1",
                           "1M", "--ucx", "nixl-1.23", "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False, env={**os.environ, **variables})
    return json.loads(done.stdout)


class Schema(unittest.TestCase):
    def check(self, report, verdict):
        self.assertEqual(list(mismatches(SCHEMA, report)), [])
        self.assertEqual(report["verdict"], verdict)

    def test_zero_copy(self):
        self.check(explain("--hca"), "zero_copy")

    def test_staged(self):
        self.check(explain(), "staged")

    def test_failed(self):
        self.check(explain(UCX_TLS="tcp"), "failed")


if __name__ == "__main__":
    unittest.main()
