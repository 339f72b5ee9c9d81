# SPDX-License-Identifier: BSD-3-Clause
"""The portable build: one set of binaries for every Linux with glibc 2.28 or later, from which all packages are made."""

import os
import shutil
import subprocess
from pathlib import Path

import engines
from packages import need_packages
from steps import BUILD, Stop, shown, step

DIRECTORY = BUILD / "portable"
HEADERS = BUILD / "portable-headers"
ZIG = engines.ENGINES / "zig-0.17" / "ziglang" / "zig"
# Libraries of which only headers are used. CMake's description of fmt names its compiled library, which must exist.
HEADER_PACKAGES = ["libfmt-dev", "libfmt9", "nlohmann-json3-dev", "libexpected-dev", "libcli11-dev", "libibverbs-dev"]


def collect_headers():
    """Copies the files of the header packages into a prefix of their own."""
    if not shutil.which("dpkg-query"):
        raise Stop("the packages are made on Debian: the portable build takes its headers from Debian's packages.")
    shutil.rmtree(HEADERS, ignore_errors=True)
    listing = subprocess.run(["dpkg-query", "-L", *HEADER_PACKAGES], stdout=subprocess.PIPE, text=True, check=True)
    for name in set(listing.stdout.split("\n")):
        source = Path(name)
        wanted = name.startswith("/usr/include/") or "/cmake/" in name or "/libfmt." in name
        if wanted and (source.is_file() or source.is_symlink()):
            target = HEADERS / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def configure(options=()):
    ucx = engines.ENGINES / "rapids-1.22" / "libucx"
    step("configure (portable)",
         ["cmake", "-S", ".", "-B", str(DIRECTORY), "-G", "Ninja", "--toolchain", "cmake/Portable.cmake",
          f"-DUCX_GAUDI_ZIG={ZIG}", f"-DUCX_GAUDI_HEADERS={HEADERS}", f"-DUCX_GAUDI_UCX={ucx}",
          "-DCMAKE_BUILD_TYPE=Release", "-DUCX_GAUDI_PRECOMPILE=OFF", *options],
         "configure-portable")


def build():
    """Makes the portable binaries and returns the directory of the build."""
    need_packages(["cmake", "ninja-build", *HEADER_PACKAGES,
                   *(["python3-pip"] if not engines.complete("portable.txt") and not engines.pip() else [])])
    engines.fetch()
    engines.fetch("portable.txt")
    ZIG.chmod(0o755)
    collect_headers()
    configure()
    step("compile (portable)", ["cmake", "--build", str(DIRECTORY), "--target", "product", "-j", str(len(os.sched_getaffinity(0)))],
         "build-portable", env={"ZIG_GLOBAL_CACHE_DIR": str(BUILD / "zig-cache"),
                                "ZIG_LOCAL_CACHE_DIR": str(BUILD / "zig-cache")})
    print(f"built: {shown(DIRECTORY)}")
    return DIRECTORY
