#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""packaging/doc_lines.py on a page of its own."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "packaging"))

import doc_lines

PAGE = """# Page

    before

## Cakes

    mix flour \\
        and eggs
    bake      # for an hour

- a bullet
    that goes on, indented

### Icing

    ice

```
    # printed
## Cakes
    printed too
```

    eat

## Bread

    knead

## Nothing
"""


class DocLines(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.page = Path(directory.name) / "page.md"
        self.page.write_text(PAGE)

    def test_commands_are_the_indented_blocks_of_the_section(self):
        self.assertEqual(doc_lines.read_commands(self.page, "Cakes"),
                         ["mix flour \\\n    and eggs", "bake      # for an hour", "ice", "eat"])

    def test_section_ends_at_the_next_heading_of_its_level(self):
        self.assertEqual(doc_lines.read_commands(self.page, "Icing"), ["ice", "eat"])

    def test_missing_heading_is_refused(self):
        with self.assertRaisesRegex(ValueError, "has no heading 'Pies'"):
            doc_lines.read_commands(self.page, "Pies")

    def test_section_without_commands_is_refused(self):
        with self.assertRaisesRegex(ValueError, "has no commands below 'Nothing'"):
            doc_lines.read_commands(self.page, "Nothing")

    def run_script(self, *commands):
        return subprocess.run(["bash", "-c", doc_lines.as_script(commands)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, check=False)

    def test_script_keeps_the_state_of_the_shell(self):
        self.assertEqual(self.run_script("cd /", "word=held  # a remark", "echo $word in $PWD").stdout, "held in /\n")

    def test_script_ends_with_the_first_failure(self):
        ended = self.run_script("false && true", "echo reached")
        self.assertEqual((ended.returncode, ended.stdout), (1, ""))


if __name__ == "__main__":
    unittest.main()
