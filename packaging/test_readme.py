# SPDX-License-Identifier: BSD-3-Clause
"""The lines of the README, run as they are printed, by a user who has the packages and a copy of the examples."""

import importlib.machinery
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from doc_lines import as_script, read_commands
from test_installed import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
MAKES_THE_PACKAGES = "./ucx-gaudi package"


def load_script():
    """./ucx-gaudi as a module."""
    loader = importlib.machinery.SourceFileLoader("script", str(ROOT / "ucx-gaudi"))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader("script", loader))
    loader.exec_module(script)
    return script


class Readme(unittest.TestCase):
    def run_sections(self, directory, *headings, shell=("bash", "-c")):
        commands = [line for heading in headings for line in read_commands(README, heading) if line != MAKES_THE_PACKAGES]
        # Open MPI refuses to run as root unless it is told twice.
        environment = {**os.environ, "HOME": directory, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                       "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        done = subprocess.run([*shell, as_script(commands)], cwd=directory, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_lines_do_what_the_text_says(self):
        with tempfile.TemporaryDirectory() as directory:
            shutil.copytree(ROOT / "examples", Path(directory) / "examples")
            (Path(directory) / "build").mkdir()
            (Path(directory) / "build" / "packages").symlink_to(PACKAGES)
            output = self.run_sections(directory, "Install", "The demo", "30 seconds with NIXL", "30 seconds with MPI")
            activated = '. gaudi/bin/activate && ucx_gaudi run --hca --cards 2 -- bash -c "$1"'  # in the place of hardware
            output += self.run_sections(directory, "On real hardware", shell=("bash", "-c", activated, "bash"))
        for expected in ("over RDMA: 0 bytes through host memory; without zero copy 134,217,728, ", "read:  every byte arrived",
                         "write: every byte arrived", "Send and Recv: every byte arrived", "OK    GD023  2 cards", "completion by flag from now on",
                         "enabled in "):
            self.assertIn(expected, output)

    def test_commands_of_the_script_are_known_to_it(self):
        script = load_script()
        words = set(re.findall(r"`\./ucx-gaudi ([^`]+)`", README.read_text(encoding="utf-8")))
        self.assertLessEqual({"demo", "test", "bench"}, words)
        for line in words | {MAKES_THE_PACKAGES.split(" ", 1)[1]}:
            script.parse(line.split())  # raises if it does not know them


if __name__ == "__main__":
    unittest.main(verbosity=2)
