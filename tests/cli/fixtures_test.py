#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the commands say of the machines in fixtures/, byte for byte.

fixtures/NAME.json is a file of ucx_gaudi dump, and NAME.COMMAND.txt what ucx_gaudi COMMAND --from NAME.json prints. With
--write the texts that are there are written anew, for a developer to look at with git diff.
"""

import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "cli" / "fixtures"
sys.path.insert(0, str(ROOT / "tests" / "cli"))
from schema import mismatches  # noqa: E402

WRITE = "--write" in sys.argv
PROGRAM = str(Path([word for word in sys.argv[1:] if word != "--write"][0]).resolve())
NAMES = sorted(path.stem for path in FIXTURES.glob("*.json"))


def schema(name):
    return json.loads((ROOT / "docs" / "schema" / f"{name}-1.json").read_text())


def replay(command, name, *options):
    """As on any other machine: nothing of this one is to matter."""
    return subprocess.run([PROGRAM, command, "--from", f"{name}.json", *options], cwd=FIXTURES, capture_output=True, text=True,
                          check=False, env={**os.environ, "GAUDI_THUNK": "/no/such", "UCX_TLS": "none", "LC_ALL": "C"})


class Fixtures(unittest.TestCase):
    def test_each_command_prints_the_expected_text(self):
        for expected in sorted(FIXTURES.glob("*.txt")):
            name, command = expected.stem.rsplit(".", 1)
            with self.subTest(name=name, command=command):
                done = replay(command, name)
                self.assertEqual(done.stderr, "")
                if WRITE:
                    expected.write_text(done.stdout)
                self.assertEqual(done.stdout, expected.read_text())
                failed = command == "doctor" and "\nFAIL" in f"\n{done.stdout}"
                self.assertEqual(done.returncode, 1 if failed else 0)

    def test_each_fixture_has_the_text_of_doctor_info_and_topo(self):
        self.assertGreaterEqual(len(NAMES), 6)
        for name in NAMES:
            for command in ("doctor", "info", "topo"):
                self.assertTrue((FIXTURES / f"{name}.{command}.txt").exists(), f"{name}.{command}.txt")

    def test_each_fixture_is_a_file_of_dump(self):
        for name in NAMES:
            self.assertEqual(list(mismatches(schema("dump"), json.loads((FIXTURES / f"{name}.json").read_text()))), [], name)

    def test_json_fits_the_schemas(self):
        for name in NAMES:
            for command in ("doctor", "info", "topo"):
                out = json.loads(replay(command, name, "--json").stdout)
                self.assertEqual(list(mismatches(schema(command), out)), [], f"{command} of {name}")

    def test_healthy_machine_has_no_fault(self):
        text = (FIXTURES / "healthy.doctor.txt").read_text()
        self.assertNotIn("WARN", text)
        self.assertNotIn("FAIL", text)
        self.assertEqual(replay("doctor", "healthy", "--strict").returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
