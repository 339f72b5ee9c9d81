#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""./ucx-gaudi in a copy of its own: exit codes, one sentence for each mistake, and children that end with it."""

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Script(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = Path(temporary.name)
        shutil.copy(ROOT / "ucx-gaudi", self.root)
        shutil.copy(ROOT / "CMakeLists.txt", self.root)
        for folder in ("tools", "cmake"):
            shutil.copytree(ROOT / folder, self.root / folder)
        (self.root / "tests" / "one").mkdir(parents=True)
        (self.root / "tests" / "one" / "CMakeLists.txt").write_text("test(LABELS one other ENV x)\n")
        (self.root / "ucx" / "lib").mkdir(parents=True)
        (self.root / "ucx" / "lib" / "libucs.so.0").touch()
        (self.root / "bin").mkdir()  # all of PATH: no package manager, no compiler
        self.environment = {"PATH": str(self.root / "bin")}

    def run_script(self, *words):
        return subprocess.run([sys.executable, self.root / "ucx-gaudi", *words], env=self.environment, text=True,
                              capture_output=True, check=False)

    def expect(self, code, sentence, *words):
        got = self.run_script(*words)
        self.assertEqual(got.returncode, code, got.stderr)
        self.assertIn(sentence, got.stderr)
        self.assertNotIn("Traceback", got.stderr)

    def test_mistake_in_the_arguments_is_2(self):
        self.expect(2, "there is no command 'walk'", "walk")
        self.expect(2, "--walk", "build", "--walk")

    def test_unknown_test_group_is_refused_before_the_build(self):
        self.expect(2, "there is no test group 'three'; there are: one, other.", "test", "one", "three")
        self.assertFalse((self.root / "build").exists())

    def test_version_is_that_of_the_project(self):
        got = self.run_script("--version")
        self.assertEqual(got.returncode, 0)
        self.assertRegex(got.stdout, r"^ucx-gaudi \d+\.\d+\.\d+\n$")

    def test_build_folder_that_cannot_be_made_is_one_sentence(self):
        (self.root / "build").touch()
        self.expect(1, "ucx-gaudi: ", "build", "--ucx", str(self.root / "ucx"))

    def test_ucx_is_looked_for_in_each_directory_of_libraries(self):
        self.expect(1, f"--ucx {self.root}: there is no UCX: no libucs.so.0 in its lib, lib64, lib/x86_64-linux-gnu.",
                    "build", "--ucx", str(self.root))
        (self.root / "build").touch()  # so that it stops after the look
        (self.root / "ucx" / "lib" / "libucs.so.0").unlink()
        for libraries in ("lib64", "lib/x86_64-linux-gnu"):
            directory = self.root / "ucx" / libraries
            directory.mkdir(parents=True)
            (directory / "libucs.so.0").touch()
            got = self.run_script("build", "--ucx", str(self.root / "ucx"))
            self.assertNotIn("there is no UCX", got.stderr)
            (directory / "libucs.so.0").unlink()

    def test_missing_git_is_named(self):
        (self.root / "bin" / "clang-format").symlink_to("/bin/true")
        self.expect(1, "ucx-gaudi: git: it is not installed", "format")

    def test_signal_ends_the_children(self):
        (self.root / "bin" / "cmake").write_text(f"#!/bin/sh\n/bin/sleep 1000 &\necho $! > {self.root}/pipe\nwait\n")
        (self.root / "bin" / "cmake").chmod(0o755)
        os.mkfifo(self.root / "pipe")
        for number in (signal.SIGTERM, signal.SIGINT):
            script = subprocess.Popen([sys.executable, self.root / "ucx-gaudi", "build", "--ucx", self.root / "ucx"],
                                      env=self.environment, stdout=subprocess.DEVNULL)
            grandchild = os.pidfd_open(int((self.root / "pipe").read_text()))
            script.send_signal(number)
            self.assertEqual(script.wait(60), 128 + number)
            self.assertTrue(select.select([grandchild], [], [], 60)[0], "the grandchild still runs")
            os.close(grandchild)


if __name__ == "__main__":
    unittest.main()
