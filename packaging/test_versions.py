# SPDX-License-Identifier: BSD-3-Clause
"""Two versions of ucx-gaudi: beside each other in one process, and one after the other while a process runs."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from test_installed import BUILD, DEBS, ENVIRONMENT, PACKAGES, UCX, Root, run

OTHER_PACKAGES = BUILD / "other" / "packages"
OTHER = "9.9.9"
OWN = re.search(r"-([0-9.]+)-py3", next(PACKAGES.glob("*.whl")).name)[1]

# Uses UCX and a buffer, in the order that it is told, and again for each line that it reads.
PROGRAM = """
import ctypes, re, sys, ucx_gaudi

class Attributes(ctypes.Structure):
    _fields_ = [("field_mask", ctypes.c_uint64), ("name", ctypes.c_char * 16), ("rest", ctypes.c_char * 1024)]

def load_ucx():
    uct = ctypes.CDLL(sys.argv[1] + "/lib/libuct.so.0")
    components, count = ctypes.POINTER(ctypes.c_void_p)(), ctypes.c_uint()
    assert uct.uct_query_components(ctypes.byref(components), ctypes.byref(count)) == 0
    names = []
    for component in components[:count.value]:
        attributes = Attributes(field_mask=1)
        assert uct.uct_component_query(ctypes.c_void_p(component), ctypes.byref(attributes)) == 0
        names.append(attributes.name.decode())
    assert "gaudi_copy" in names, names

def use_buffers():
    with ucx_gaudi.Buffer(1 << 20) as buffer:
        buffer.memset(7)
        buffer.write(b"abc", offset=1)
        assert buffer.read(5) == b"\\7abc\\7"

for use in sys.argv[2:]:
    {"ucx": load_ucx, "buffer": use_buffers}[use]()
kept = ucx_gaudi.Buffer(1 << 20)
kept.memset(3)
cores = {line.split()[5] for line in open("/proc/self/maps") if "/libgaudi-core.so" in line}
print("cores:", *cores, flush=True)
for line in sys.stdin:
    assert kept.read() == bytes([3]) * kept.nbytes
    load_ucx()
    use_buffers()
    print("works", flush=True)
"""


class Running:
    """PROGRAM in a process that goes on until it is told to end."""

    def __init__(self, test, ucx_gaudi, python, *prefix, ucx=UCX, env=None):
        words = [*prefix, ucx_gaudi, "run", "--cards", "1", "--ucx", ucx, "--", python, "-B", "-c", PROGRAM, ucx, "ucx",
                 "buffer"]
        self._test = test
        self._process = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=subprocess.STDOUT, text=True, env=env)
        test.addCleanup(self._process.communicate)
        test.assertRegex(self._read(), "^cores: /")

    def _read(self):
        """The next line of the program; `run` and UCX may say something before it."""
        said = []
        for line in self._process.stdout:
            if re.match("cores:|works", line):
                return line
            said.append(line)
        return self._test.fail(f"the program ended: {''.join(said)}")

    def expect_works(self):
        self._process.stdin.write("again\n")
        self._process.stdin.flush()
        self._test.assertEqual(self._read(), "works\n")


class Versions(unittest.TestCase):
    """The wheel in a virtual environment."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.venv = Path(directory.name)
        run(sys.executable, "-m", "venv", self.venv)
        self.install(OWN)

    def install(self, version):
        run(self.venv / "bin/pip", "install", "--no-index", "--find-links", PACKAGES, "--find-links", OTHER_PACKAGES,
            f"ucx-gaudi=={version}")

    def start(self):
        return Running(self, self.venv / "bin/ucx_gaudi", self.venv / "bin/python")

    def expect_version(self, version):
        self.assertEqual(run(self.venv / "bin/ucx_gaudi", "--version"), f"ucx_gaudi {version}\n")

    def test_running_process_survives_upgrade_and_downgrade(self):
        first = self.start()
        self.install(OTHER)
        first.expect_works()
        self.expect_version(OTHER)
        second = self.start()
        self.install(OWN)
        for running in (first, second):
            running.expect_works()
        self.expect_version(OWN)
        self.start().expect_works()

    def test_running_process_survives_uninstall(self):
        running = self.start()
        run(self.venv / "bin/pip", "uninstall", "-y", "ucx-gaudi")
        running.expect_works()
        self.assertFalse((self.venv / "bin/ucx_gaudi").exists())

    def test_core_of_another_interface_is_refused(self):
        for interface, described in ((2, f"(ucx-gaudi {OTHER}, interface 2)"),
                                     (None, "(ucx-gaudi of an unknown version, interface 0)")):
            core = self.make_core(interface)
            output = run(self.venv / "bin/python", "-c", "import ucx_gaudi; ucx_gaudi.Buffer(1)", check=False,
                         env={**os.environ, "LD_PRELOAD": str(core)})
            self.assertRegex(output, rf"RuntimeError: {self.venv}/\S+/ucx_gaudi \(ucx-gaudi {OWN}, interface 1\) cannot use "
                                     rf"{re.escape(f'{core} {described}')}, which this process loaded first")

    def make_core(self, interface):
        """A library with the name of the core, and of an interface; None: of a time when it could not be asked."""
        core = self.venv / f"interface-{interface}" / "libgaudi-core.so.1"
        core.parent.mkdir()
        source = core.with_suffix(".c")
        source.write_text("" if interface is None else "unsigned gaudi_core_interface(const char **version) "
                          f'{{ *version = "{OTHER}"; return {interface}; }}\n')
        run("cc", "-shared", "-fPIC", f"-Wl,-soname,{core.name}", "-o", core, source)
        return core


class DebVersions(Root):
    """The deb of one version, and the wheel of another beside it."""

    def install(self, packages):
        self.install_debs(*packages.glob("*.deb"))

    def start(self):
        return Running(self, "ucx_gaudi", "python3", *self.entering(), ucx="/mnt", env=ENVIRONMENT)

    def expect_version(self, version):
        self.assertEqual(self.inside("ucx_gaudi", "--version"), f"ucx_gaudi {version}\n")

    def test_running_process_survives_upgrade_downgrade_and_removal(self):
        self.install(PACKAGES)
        first = self.start()
        self.install(OTHER_PACKAGES)
        first.expect_works()
        self.expect_version(OTHER)
        second = self.start()
        self.install(PACKAGES)
        second.expect_works()
        self.expect_version(OWN)
        self.inside("dpkg", "--remove", *DEBS)
        for running in (first, second):
            running.expect_works()

    def run_mixed(self, *uses):
        """What a process says whose UCX finds the modules of the deb and whose Python package is the wheel."""
        program = ("/opt/wheel/bin/python", "-c", PROGRAM, "/mnt", *uses)
        return self.inside("ucx_gaudi", "run", "--cards", "1", "--ucx", "/mnt", "--", *program, UCX_LOG_LEVEL="info")

    def test_wheel_and_deb_share_the_core_that_came_first(self):
        self.install(OTHER_PACKAGES)
        wheel, = PACKAGES.glob("*.whl")
        (self.root / "opt" / wheel.name).write_bytes(wheel.read_bytes())
        self.inside("python3", "-m", "venv", "/opt/wheel")
        self.inside("/opt/wheel/bin/pip", "install", "--no-index", f"/opt/{wheel.name}")

        of_deb = "/usr/lib/x86_64-linux-gnu/ucx-gaudi"
        of_wheel = "/opt/wheel/lib/python3.13/site-packages/ucx_gaudi/lib/ucx-gaudi"
        output = self.run_mixed("buffer", "ucx")
        self.assertIn(f"\ncores: {of_wheel}/libgaudi-core.so.1\n", output)
        self.assertIn(f"{of_deb}/libuct_gaudi.so.0 (ucx-gaudi {OTHER}) works on {of_wheel}/libgaudi-core.so.1 "
                      f"(ucx-gaudi {OWN}), which this process loaded first", output)
        output = self.run_mixed("ucx", "buffer")
        self.assertIn(f"\ncores: {of_deb}/libgaudi-core.so.1\n", output)
        self.assertNotIn("works on", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
