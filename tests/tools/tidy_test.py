#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/tidy.py on outputs as clang-tidy writes them, and on a list of compiled sources."""

import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import tidy
from steps import ROOT

HEADER = "src/a.h:1:2: error: copied but never changed [performance-for-range-copy]\n  for (auto x : y)\n       ^\n"
SOURCE = "src/a.cpp:3:4: error: used after it was moved [bugprone-use-after-move]\n  x\n  ^\n"
NOTE = "src/a.cpp:2:4: note: move occurred here\n"


class Findings(unittest.TestCase):
    def test_output_is_split_at_errors_and_keeps_notes(self):
        self.assertEqual(tidy.findings(HEADER + SOURCE + NOTE), [HEADER, SOURCE + NOTE])

    def test_empty_output_has_none(self):
        self.assertEqual(tidy.findings("\n"), [])


class CompiledSources(unittest.TestCase):
    def test_only_product_and_models_once_each(self):
        files = [ROOT / name for name in ("src/a.cpp", "src/a.cpp", "soft/b.cpp", "tests/c.cpp", "bench/d.cpp")]
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "compile_commands.json").write_text(json.dumps([{"file": str(file)} for file in files]))
            self.assertEqual(tidy.compiled_sources(Path(directory)), [str(ROOT / "soft/b.cpp"), str(ROOT / "src/a.cpp")])


if __name__ == "__main__":
    unittest.main()
