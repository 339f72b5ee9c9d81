#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/doctor.md has exactly the checks of ucx_gaudi doctor, and what doctor and dump print fits the schemas."""

import json
import re
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from schema import mismatches  # noqa: E402

PROGRAM = sys.argv.pop(1)


def on_software(*words):
    done = subprocess.run([PROGRAM, "run", "--hca", "--cards", "2", "--", PROGRAM, *words], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=False)
    return json.loads(done.stdout)


def schema(name):
    return json.loads((ROOT / "docs" / "schema" / name).read_text())


class Docs(unittest.TestCase):
    def test_page_lists_every_check(self):
        page = (ROOT / "docs" / "doctor.md").read_text()
        listed = [tuple(row) for row in re.findall(r"^\| (GD\d+) \| ([^|]+) \|", page, re.MULTILINE)]
        self.assertEqual(listed, [(check["id"], check["title"]) for check in on_software("doctor", "--json")["checks"]])

    def test_doctor_fits_its_schema(self):
        self.assertEqual(list(mismatches(schema("doctor-1.json"), on_software("doctor", "--json", "--active"))), [])

    def test_dump_fits_its_schema(self):
        self.assertEqual(list(mismatches(schema("dump-1.json"), on_software("dump", "--active"))), [])


if __name__ == "__main__":
    unittest.main()
