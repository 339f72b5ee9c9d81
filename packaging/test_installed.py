#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The packages as users get them: installed, used and removed, in a fresh virtual environment and in fresh Debian roots.
Nothing of the build tree is used but build/packages and a UCX. Needs root for the roots."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "build"
PACKAGES = BUILD / "packages"
UCX = BUILD / "engines" / "rapids-1.22" / "libucx"
OLD_UCX = BUILD / "engines" / "rapids-1.21" / "libucx"
ROOTS = BUILD / "roots"
# Nothing that this machine has in its environment may help.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8"}
DEBS = ("ucx-gaudi-tools", "python3-ucx-gaudi", "ucx-gaudi-plugin", "softgaudi", "softhca")

# /dev, /sys and /proc of the machine, for the life of the command only.
IN_ROOT = """mount --rbind /dev "$1/dev" && mount --rbind /sys "$1/sys" && mount -t proc proc "$1/proc" &&
mount --rbind "$2" "$1/mnt" &&
shift_root=$1 && shift 2 && exec chroot "$shift_root" "$@" """

# A recording of a small program, replayed and removed.
RECORDED = ("ucx_gaudi run --cards 1 -- ucx_gaudi record --size 1 -o /tmp/calls.rec -- ucx_gaudi info >/dev/null && "
            "ucx_gaudi replay /tmp/calls.rec && rm /tmp/calls.rec")


def run(*command, check=True, **options):
    result = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False, stdin=subprocess.DEVNULL, **options)
    if check and result.returncode != 0:
        raise AssertionError(f"{command} ended with {result.returncode}:\n{result.stdout}")
    return result.stdout


def files_below(directory):
    """All paths but those that package managers keep for themselves."""
    kept = re.compile(r"^(var/(lib/(dpkg|rpm)|log|cache)|usr/lib/sysimage/rpm|root/\.rpmdb)(/|$)")
    names = (os.path.relpath(os.path.join(top, name), directory)
             for top, folders, files in os.walk(directory) for name in folders + files)
    return {name for name in names if not kept.match(name)}


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.venv = Path(cls.directory.name) / "venv"
        run(sys.executable, "-m", "venv", cls.venv)
        run(cls.venv / "bin/pip", "install", "--no-index", "--no-compile", "--find-links", PACKAGES, "ucx-gaudi")

    @classmethod
    def tearDownClass(cls):
        cls.directory.cleanup()

    def python(self, program, *prefix, env=None, check=True):
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        return run(*prefix, self.venv / "bin/python", "-c", program, env=environment, cwd=self.directory.name, check=check)

    def test_plugin_path_holds_every_name_of_the_modules(self):
        path = Path(self.python("import ucx_gaudi; print(ucx_gaudi.plugin_path())").strip())
        for module in ("uct", "ucm", "ucx_perftest"):
            for suffix in ("so", "so.0", "so.0.0.0"):
                self.assertTrue((path / f"lib{module}_gaudi.{suffix}").is_file())

    def test_programs_run(self):
        version = run(self.venv / "bin/ucx_gaudi", "--version")
        self.assertRegex(version, r"ucx_gaudi \d")
        self.assertEqual(run(self.venv / "bin/python", "-m", "ucx_gaudi", "--version"), version)
        self.assertIn("usage: softgaudi_stat", run(self.venv / "bin/softgaudi_stat", "--help"))
        self.assertIn("usage: softhca_stat", run(self.venv / "bin/softhca_stat", "--help"))

    def test_ucx_loads_the_modules(self):
        output = run(self.venv / "bin/ucx_gaudi", "run", "--cards", "2", "--ucx", UCX, "--", UCX / "bin/ucx_info", "-d")
        self.assertIn("Transport: gaudi_cpy", output)

    def test_recording_replays_without_difference(self):
        program, file = self.venv / "bin/ucx_gaudi", Path(self.directory.name) / "calls.rec"
        recorded = run(program, "run", "--cards", "2", "--ucx", UCX, "--", program, "record", "-o", file, "--",
                       "ucx_perftest", "-l", "-t", "ucp_put_bw", "-m", "gaudi", "-n", "10")
        self.assertRegex(recorded, r"ucx_gaudi: recorded in .*calls\.rec: \d+ calls \(processes: 1\)")
        self.assertIn(": no answer differs\n", run(program, "replay", file))

    def test_verify_holds_on_softgaudi(self):
        program, file = self.venv / "bin/ucx_gaudi", Path(self.directory.name) / "report.json"
        output = run(program, "run", "--cards", "1", "--", program, "verify", "--soak", "1", "--json", file)
        self.assertIn("SOFTWARE: all of this was seen on softgaudi, not on a card\n", output)
        self.assertNotIn("failed", [step["verdict"] for step in json.loads(file.read_text())["steps"]])

    def test_enable_puts_the_modules_first(self):
        output = self.python("import os, ucx_gaudi; ucx_gaudi.enable(); ucx_gaudi.enable(); "
                             "print(os.environ['UCX_PLUGIN_PATH'])", env={"UCX_PLUGIN_PATH": "/other"})
        self.assertRegex(output, r"^/\S+/ucx_gaudi/lib/ucx-gaudi:/other\n$")

    def test_enable_makes_open_mpi_use_ucx_unless_the_user_chose(self):
        names = ("OMPI_MCA_opal_common_ucx_devices", "OMPI_MCA_opal_common_ucx_tls", "OMPI_MCA_pml")
        program = f"import os, ucx_gaudi; ucx_gaudi.enable(); print(*(os.environ[name] for name in {names}))"
        unset = ["env", *(word for name in names for word in ("-u", name))]
        self.assertEqual(self.python(program, *unset), "any any ucx\n")
        self.assertEqual(self.python(program, *unset, "OMPI_MCA_pml=ob1"), "any any ob1\n")

    def test_enable_refuses_after_ucx_was_loaded(self):
        output = self.python(f"import ctypes, ucx_gaudi; ctypes.CDLL('{UCX}/lib/libucs.so.0'); ucx_gaudi.enable()",
                             check=False)
        self.assertRegex(output, r"UcxAlreadyLoaded: \S+libucs\.so\.0\S* is loaded already")

    def test_enable_warns_of_an_old_ucx(self):
        program = "import ucx_gaudi; ucx_gaudi.enable()"
        self.assertRegex(self.python(program, env={"LD_LIBRARY_PATH": f"{OLD_UCX}/lib"}),
                         r"RuntimeWarning: \S+ is UCX 1\.21\.0, which ignores UCX_PLUGIN_PATH")
        self.assertEqual(self.python(program, env={"LD_LIBRARY_PATH": f"{UCX}/lib"}), "")

    def test_buffer_warns_of_an_old_ucx_in_the_process(self):
        program = "import ctypes, ucx_gaudi; ctypes.CDLL('{}/lib/libucp.so.0'); ucx_gaudi.Buffer(1); ucx_gaudi.Buffer(1)"
        on_a_card = (self.venv / "bin/ucx_gaudi", "run", "--cards", "1", "--")
        output = self.python(program.format(OLD_UCX), *on_a_card)
        self.assertEqual(len(re.findall(r"RuntimeWarning: \S+ is UCX 1\.21\.0, which takes Gaudi memory for host memory",
                                        output)), 1, output)
        self.assertNotIn("RuntimeWarning", self.python(program.format(UCX), *on_a_card))

    def test_buffer_holds_what_was_written(self):
        program = """
import array, ucx_gaudi
with ucx_gaudi.Buffer(1 << 20) as buffer:
    buffer.memset(7)
    assert buffer.read() == bytes([7]) * (1 << 20)
    buffer.write(b"abc", offset=5)
    buffer.write(memoryview(bytearray(b"def")), offset=8)
    assert buffer.read(8, offset=4) == b"\\7abcdef\\7"
    target = array.array("d", [0, 0])
    buffer.write(array.array("d", [1.5, -2.5]))
    buffer.read_into(target)
    assert list(target) == [1.5, -2.5]
    ucx_gaudi.flush(buffer), ucx_gaudi.flush(buffer.address), ucx_gaudi.flush()
    assert buffer.address and buffer.nbytes == 1 << 20 and ":" in buffer.card
    for wrong in (lambda: buffer.write(b"ab", offset=(1 << 20) - 1), lambda: buffer.memset(256)):
        try: wrong()
        except ValueError as error: print(error)
try: buffer.read()
except ValueError as error: print(error)
try: ucx_gaudi.flush(4096)
except OSError as error: print(error)
"""
        output = self.python(program, self.venv / "bin/ucx_gaudi", "run", "--cards", "1", "--")
        self.assertIn("2 bytes at offset 1048575 do not fit into a buffer of 1048576 bytes", output)
        self.assertIn("256 is not a byte", output)
        self.assertIn("the buffer of 1048576 bytes is freed already", output)
        self.assertIn("cannot flush the writes to 0x1000", output)

    def test_uninstall_leaves_nothing(self):
        with tempfile.TemporaryDirectory() as directory:
            run(sys.executable, "-m", "venv", directory)
            pip = Path(directory) / "bin/pip"
            before = files_below(directory)
            run(pip, "install", "--no-index", "--find-links", PACKAGES, "ucx-gaudi")
            self.assertIn("bin/ucx_gaudi", files_below(directory))
            run(pip, "uninstall", "-y", "ucx-gaudi")
            left = {name for name in files_below(directory) - before if "__pycache__" not in name}
            self.assertEqual(left, set())


class Root(unittest.TestCase):
    """A fresh copy of a Debian for each test."""

    release = "trixie"

    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(dir=BUILD)
        self.addCleanup(self.directory.cleanup)
        self.root = Path(self.directory.name) / "root"
        run("cp", "-a", ROOTS / self.release, self.root)
        self.before = files_below(self.root)

    def inside(self, *command, **environment):
        return run(*self.entering(), *command, env={**ENVIRONMENT, **environment})

    def entering(self):
        """The beginning of a command that runs in the root."""
        return ("unshare", "--mount", "sh", "-c", IN_ROOT, "sh", self.root, UCX)

    def install_debs(self, *packages):
        for package in packages:
            shutil.copy(package, self.root / "tmp")
        self.inside("dpkg", "-i", *(f"/tmp/{package.name}" for package in packages))
        for package in packages:
            (self.root / "tmp" / package.name).unlink()

    def use(self):
        self.assertIn("Transport: gaudi_cpy", self.inside("ucx_gaudi", "run", "--cards", "2", "--ucx", "/mnt", "--",
                                                          "/mnt/bin/ucx_info", "-d"))
        self.assertIn("usage: softhca_stat", self.inside("softhca_stat", "--help"))
        self.assertIn(": no answer differs\n", self.inside("sh", "-c", RECORDED))


class Deb(Root):
    def test_removal_leaves_nothing(self):
        self.install_debs(*PACKAGES.glob("*.deb"))
        self.use()
        self.assertEqual(self.inside("python3", "-c", "import ucx_gaudi; print(ucx_gaudi.plugin_path())"),
                         "/usr/lib/x86_64-linux-gnu/ucx-gaudi\n")
        self.inside("dpkg", "--purge", *DEBS)
        self.assertEqual(files_below(self.root) - self.before, set())

    def test_removal_undoes_enable(self):
        self.install_debs(*PACKAGES.glob("*.deb"))
        self.inside("ucx_gaudi", "enable", "--system")
        self.install_debs(*PACKAGES.glob("*.deb"))  # as an upgrade does
        self.assertIn("\nUCX_PLUGIN_PATH=/usr/lib/x86_64-linux-gnu/ucx-gaudi\n",
                      (self.root / "etc/ucx/ucx.conf").read_text())
        self.inside("dpkg", "--remove", *DEBS)
        self.assertEqual(files_below(self.root) - self.before, set())

    def test_package_of_upstream_installs_beside_ours(self):
        upstream = Path(self.directory.name) / "upstream"
        for name in ("libuct_gaudi.so.0", "libucx_perftest_gaudi.so.0"):
            file = upstream / "usr/lib/ucx" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("upstream's\n")
        (upstream / "DEBIAN").mkdir()
        (upstream / "DEBIAN/control").write_text("Package: ucx-gaudi\nVersion: 1.22.0\nArchitecture: amd64\n"
                                                 "Maintainer: nobody <nobody@example.invalid>\nDescription: dummy\n")
        package = Path(self.directory.name) / "upstream.deb"
        run("dpkg-deb", "--build", upstream, package)
        self.install_debs(package, *PACKAGES.glob("*.deb"))
        self.inside("dpkg", "--purge", *DEBS)
        self.assertEqual((self.root / "usr/lib/ucx/libuct_gaudi.so.0").read_text(), "upstream's\n")


class Rpm(Root):
    def test_requires_only_glibc(self):
        for package in PACKAGES.glob("*.rpm"):
            for requirement in run("rpm", "-qp", "--requires", package).splitlines():
                version = re.fullmatch(r"(?:lib(?:c|m|dl|pthread|rt)\.so\.\d|ld-linux-x86-64\.so\.2)"
                                       r"\((?:GLIBC_2\.(\d+)[\d.]*)?\)\(64bit\)", requirement)
                if version:
                    self.assertLessEqual(int(version[1] or 0), 28, requirement)
                else:
                    self.assertRegex(requirement, r"^(rpmlib\(|rtld\(GNU_HASH\)|ucx-gaudi-plugin = |/bin/sh$)")

    def test_erasing_leaves_nothing(self):
        rpm = ("rpm", "--root", self.root, "--nodeps")
        run(*rpm, "-i", *PACKAGES.glob("*.rpm"))
        self.use()
        self.inside("ucx_gaudi", "enable", "--system")
        run(*rpm, "-e", "ucx-gaudi-tools", "ucx-gaudi-plugin", "softgaudi", "softhca")
        new = files_below(self.root) - self.before
        self.assertEqual([name for name in new if not (self.root / name).is_dir() or "gaudi" in name], [])


class Sdist(unittest.TestCase):
    def test_builds_with_the_compiler_of_the_system(self):
        python = BUILD / "package-tools/bin/python"
        source, = PACKAGES.glob("*.tar.gz")
        with tempfile.TemporaryDirectory() as directory:
            run(python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "-w", directory, source)
            wheel, = Path(directory).glob("*.whl")
            run(sys.executable, "-m", "venv", f"{directory}/venv")
            run(f"{directory}/venv/bin/pip", "install", "--no-index", wheel)
            self.assertRegex(run(f"{directory}/venv/bin/ucx_gaudi", "--version"), r"ucx_gaudi \d")


CONSUMER = """cmake_minimum_required(VERSION 3.22)
project(consumer C)
set_property(GLOBAL PROPERTY FIND_LIBRARY_USE_LIB64_PATHS TRUE) # as on RHEL: the build was last configured for the rpm
find_package(softgaudi REQUIRED)
add_executable(count count.c)
target_link_libraries(count PRIVATE softgaudi::hl-thunk)
"""
COUNT = """#include <stdio.h>
int hlthunk_get_device_count(int name);
int main(void) { printf("%d cards\\n", hlthunk_get_device_count(4 /* any */)); }
"""


class Install(unittest.TestCase):
    """cmake --install, into a prefix that the build was not configured for."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.server = {**os.environ, "SOFTGAUDI_DIR": tempfile.mkdtemp(dir="/dev/shm"), "SOFTGAUDI_CARDS": "3"}
        self.addCleanup(shutil.rmtree, self.server["SOFTGAUDI_DIR"])

    def install(self, prefix, **environment):
        run("cmake", "--install", BUILD / "portable", "--prefix", prefix, env={**os.environ, **environment})

    def test_installed_programs_run_from_any_prefix(self):
        self.install(self.directory / "p")
        output = run(self.directory / "p/bin/ucx_gaudi", "run", "--ucx", UCX, "--", "ucx_info", "-d")
        self.assertIn("Memory domain: gaudi_copy", output)

    def test_destdir_stands_before_the_prefix(self):
        self.install("/opt/gaudi", DESTDIR=str(self.directory / "stage"))
        self.assertTrue((self.directory / "stage/opt/gaudi/bin/ucx_gaudi").exists())

    def test_cmake_finds_softgaudi(self):
        self.install(self.directory / "p")
        source, build = self.directory / "source", self.directory / "build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CONSUMER)
        (source / "count.c").write_text(COUNT)
        run("cmake", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={self.directory / 'p'}")
        run("cmake", "--build", build)
        self.assertEqual(run(build / "count", env=self.server), "3 cards\n")

    def test_pkg_config_finds_softgaudi(self):
        self.install(self.directory / "p")
        (self.directory / "count.c").write_text(COUNT)
        file, = self.directory.glob("p/lib*/**/softgaudi.pc")
        pkg_config = [shutil.which("pkg-config"), file]
        run("cc", self.directory / "count.c", "-o", self.directory / "count", *run(*pkg_config, "--libs").split())
        library = run(*pkg_config, "--variable=thunk").strip()
        environment = {**self.server, "LD_LIBRARY_PATH": str(Path(library).parent)}
        self.assertEqual(run(self.directory / "count", env=environment), "3 cards\n")


if __name__ == "__main__":
    unittest.main(verbosity=2)
