# SPDX-License-Identifier: BSD-3-Clause
"""The lines of docs/clients.md and docs/vllm-gaudi.md, run as printed."""

import os
import tempfile
import unittest
from pathlib import Path

import doc_lines
from test_installed import run
from throwaway import run_in_copy

ROOT = Path(__file__).resolve().parent.parent
# Open MPI refuses to run as root unless it is told twice, and to run more ranks than the machine has cores.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
       "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}


class Lines(unittest.TestCase):
    def setUp(self):
        """A directory that looks like that of the project, in which the lines leave their virtual environments."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        for name in ("build", "examples"):
            (self.directory / name).symlink_to(ROOT / name)

    def run_in_copy(self, script):
        mount_point = self.directory / "copy"
        mount_point.mkdir()
        return run_in_copy(f"cd {self.directory}\n{script}", ROOT, mount_point)

    def script(self, heading, file="clients.md"):
        return doc_lines.as_script(doc_lines.read_commands(ROOT / "docs" / file, heading))


class MpiLines(Lines):
    def test_ranks_exchange_card_memory(self):
        output = run("bash", "-c", self.script("Open MPI"), cwd=self.directory, env={**os.environ, **MPI})
        self.assertEqual(output.count("Send and Recv: every byte arrived"), 2, output)
        self.assertEqual(output.count("Bcast: every byte arrived"), 2, output)


class UcxxLines(Lines):
    def test_processes_exchange_card_memory(self):
        output = run("bash", "-c", self.script("UCXX"), cwd=self.directory)
        self.assertIn("there: every byte arrived", output)
        self.assertIn("back: every byte arrived", output)


class TorchLines(Lines):
    def test_tensor_comes_back(self):
        output = self.run_in_copy(self.script("PyTorch"))
        self.assertRegex(output, r"2097152 bytes to card \S+ and back: every byte arrived")


# vllm-gaudi's image has numpy, and needs no virtual environment.
VLLM_IMAGE = "python3 -m venv gaudi && . gaudi/bin/activate && pip install numpy\n"
# Its questions, its import and its launch line; the program calls nothing of ours.
VLLM_LAUNCH = """set -e
pip show nixl > /dev/null
[[ -f /tmp/ucx_install/lib/ucx/libuct_gaudi.so ]]
python -c 'from nixl._api import nixl_agent, nixl_agent_config'
sed '/ucx_gaudi.enable()/d' examples/python/nixl_pair.py > pair.py
export LD_LIBRARY_PATH=/tmp/ucx_install/lib:/usr/lib/habanalabs:$LD_LIBRARY_PATH
export UCX_TLS=ib,rc,gaudi_gdr UCX_MEMTYPE_CACHE=0
ucx_gaudi run --cards 2 --hca -- env -u UCX_PLUGIN_PATH python pair.py
"""


class VllmGaudiLines(Lines):
    def test_launch_line_works_after_the_lines_for_the_image(self):
        output = self.run_in_copy(VLLM_IMAGE + self.script("In the image", "vllm-gaudi.md") + VLLM_LAUNCH)
        self.assertRegex(output, r"read: +every byte arrived")
        self.assertRegex(output, r"write: +every byte arrived")
        self.assertNotRegex(output, r"UCX +(WARN|ERROR)")


del Lines  # has no tests of its own

if __name__ == "__main__":
    unittest.main(verbosity=2)
