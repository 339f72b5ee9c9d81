#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/try_ucx_source.py on trees that look like UCX's sources and take no time to build."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# It writes the Makefile of a UCX whose installation is one file.
CONFIGURE = """#!/bin/sh
for word; do case $word in --prefix=*) prefix=${word#--prefix=};; esac; done
printf 'all:\\n\\ttrue\\ninstall:\\n\\tmkdir -p %s && touch %s/installed\\n' "$prefix" "$prefix" > Makefile
"""
# It stands for ucx_gaudi, and prints what programs print on a UCX that loads the modules.
UCX_GAUDI = """#!/bin/sh
test -e "$5/installed" || exit 1
echo "Memory domain: gaudi_copy; Final: 1; every byte arrived"
"""


class TryUcxSource(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        shutil.copytree(ROOT / "tools", self.root / "tools")
        self.source = self.root / "ucx"
        self.programs = self.root / "build" / "release" / "bin"
        self.add_program(self.programs / "ucx_gaudi", UCX_GAUDI)
        self.add_program(self.root / "bin" / "dpkg-query", '#!/bin/sh\nshift 3\nfor name; do echo "$name installed"; done\n')

    def add_program(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def add_source(self, minor):
        self.source.mkdir()
        (self.source / "configure.ac").write_text(
            f"define([ucx_ver_major], 1)  # Major version\ndefine([ucx_ver_minor], {minor})\n")
        self.add_program(self.source / "autogen.sh", '#!/bin/sh\ntouch "$(dirname "$0")/configure"\n')
        self.add_program(self.source / "contrib" / "configure-release", CONFIGURE)

    def run_tool(self):
        path = f"{self.root / 'bin'}:{os.environ['PATH']}"
        return subprocess.run([sys.executable, "-B", self.root / "tools" / "try_ucx_source.py", self.source], text=True,
                              env={**os.environ, "PATH": path}, capture_output=True, check=False)

    def refuses(self, sentence):
        got = self.run_tool()
        self.assertEqual(got.returncode, 1, got.stdout + got.stderr)
        self.assertIn(sentence, got.stderr)
        self.assertNotIn("Traceback", got.stderr)

    def test_modules_run_on_what_was_built(self):
        self.add_source(23)
        before = sorted(self.source.rglob("*"))
        got = self.run_tool()
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertIn("the modules work on the UCX in build/ucx-source/installed\n", got.stdout)
        self.assertEqual(sorted(self.source.rglob("*")), before, "the sources were changed")

    def test_ucx_without_the_modules_is_a_failure(self):
        self.add_source(23)
        self.add_program(self.programs / "ucx_gaudi", "#!/bin/sh\necho no memory domain\n")
        self.refuses("no memory domain\n\n'ucx_info' failed on this UCX, or did not print 'Memory domain: gaudi_copy'.")

    def test_older_ucx_is_refused_before_the_build(self):
        self.add_source(21)
        self.refuses("is UCX 1.21, which does not load modules from UCX_PLUGIN_PATH; use 1.22 or later.")
        self.assertFalse((self.root / "build" / "ucx-source").exists())

    def test_other_directory_is_refused(self):
        self.refuses("has no sources of UCX: there is no configure.ac that defines its version.")

    def test_missing_modules_are_named(self):
        self.add_source(23)
        (self.programs / "ucx_gaudi").unlink()
        self.refuses("there is no build/release/bin/ucx_gaudi: run ./ucx-gaudi build first.")

    def test_failed_build_is_named(self):
        self.add_source(23)
        self.add_program(self.source / "contrib" / "configure-release", "#!/bin/sh\necho no compiler\nexit 1\n")
        self.refuses("no compiler\n\n'configure UCX' failed; all of its output: build/logs/ucx-source-configure.log")


if __name__ == "__main__":
    unittest.main()
