#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Builds a UCX from its sources, such as its newest branch, and runs the modules on it:

    ./ucx-gaudi build && tools/try_ucx_source.py DIR

The sources are copied and stay as they are; all that is made is in build/ucx-source/. It takes about ten minutes on two
cores. Exit codes: 0 if the modules work on it, 1 if not, 2 for a mistake in the arguments.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from packages import need_packages
from steps import BUILD, Stop, shown, step

OLDEST = (1, 22)
WORK = BUILD / "ucx-source"
PROGRAMS = BUILD / "release" / "bin"
PACKAGES = ["autoconf", "automake", "g++", "libibverbs-dev", "librdmacm-dev", "libtool", "make"]


def read_version(source):
    """The version that configure.ac defines, as two numbers."""
    file = source / "configure.ac"
    text = file.read_text(errors="replace") if file.is_file() else ""
    found = [re.search(rf"^define\(\[ucx_ver_{part}\], *(\d+)\)", text, re.MULTILINE) for part in ("major", "minor")]
    if not all(found):
        raise Stop(f"{source} has no sources of UCX: there is no configure.ac that defines its version.")
    return tuple(int(number[1]) for number in found)


def check(source):
    version = read_version(source)
    if version < OLDEST:
        raise Stop(f"{source} is UCX {version[0]}.{version[1]}, which does not load modules from UCX_PLUGIN_PATH; "
                   "use 1.22 or later.")
    if not (PROGRAMS / "ucx_gaudi").exists():
        raise Stop(f"there is no {shown(PROGRAMS / 'ucx_gaudi')}: run ./ucx-gaudi build first.")


def build(source):
    """Installs the UCX of the sources and returns the directory."""
    shutil.rmtree(WORK, ignore_errors=True)
    tree, objects, installed = WORK / "tree", WORK / "objects", WORK / "installed"
    shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
    objects.mkdir()
    if not (tree / "configure").exists():
        step("generate configure", [str(tree / "autogen.sh")], "ucx-source-autogen")
    step("configure UCX", ["env", "-C", str(objects), str(tree / "contrib" / "configure-release"), f"--prefix={installed}",
                           "--disable-doxygen-doc", "--without-go", "--without-java"], "ucx-source-configure")
    step("compile UCX", ["make", "-C", str(objects), "-j", str(len(os.sched_getaffinity(0)))], "ucx-source-make")
    step("install UCX", ["make", "-C", str(objects), "install"], "ucx-source-install")
    return installed


def run_on(ucx, expected, *command):
    """Runs a program on the software Gaudi and that UCX; its output must have the expected text."""
    result = subprocess.run([PROGRAMS / "ucx_gaudi", "run", "--cards", "2", "--ucx", ucx, "--", *command],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode != 0 or expected not in result.stdout:
        raise Stop(f"{result.stdout}\n'{command[0]}' failed on this UCX, or did not print '{expected}'.")
    print(result.stdout, end="")


def main(words):
    if len(words) != 1 or words[0].startswith("-"):
        print(__doc__, end="", file=sys.stderr)
        return 2
    source = Path(words[0]).resolve()
    try:
        check(source)
        need_packages(PACKAGES)
        ucx = build(source)
        run_on(ucx, "Memory domain: gaudi_copy", "ucx_info", "-v", "-d", "-t", "gaudi_cpy")
        run_on(ucx, "Final:", "ucx_perftest", "-l", "-t", "tag_bw", "-m", "gaudi", "-s", "1048576", "-n", "1000")
        run_on(ucx, "every byte arrived", PROGRAMS / "ucp_exchange", PROGRAMS / "softgaudi_stat")
    except Stop as stop:
        print(f"try_ucx_source: {stop}", file=sys.stderr)
        return stop.code
    print(f"the modules work on the UCX in {shown(ucx)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
