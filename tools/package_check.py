# SPDX-License-Identifier: BSD-3-Clause
"""What the packages and sources work with, tried in roots of Debian: compilers, releases, programs of others. Writes the
results into docs/clients.md."""

import datetime
import re
import subprocess

import package
import package_test
import roots
from steps import BUILD, ROOT, Stop, shown, step

DOCUMENT = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- begin: package --check -->", "<!-- end: package --check -->"

# The compilers of the releases, as (package, C compiler, C++ compiler). A clang takes the C++ library of the newest g++.
COMPILERS = {
    "bookworm": [*((f"g++-{n}", f"gcc-{n}", f"g++-{n}") for n in (11, 12)),
                 *((f"clang-{n}", f"clang-{n}", f"clang++-{n}") for n in (14, 15, 16, 19))],
    "trixie": [*((f"g++-{n}", f"gcc-{n}", f"g++-{n}") for n in (13, 14)),
               *((f"clang-{n}", f"clang-{n}", f"clang++-{n}") for n in (17, 18))]}
BUILD_PACKAGES = ["cmake", "ninja-build", "python3-venv", "libc6-dev", "libfmt-dev", "nlohmann-json3-dev", "libexpected-dev",
                  "libcli11-dev", "libibverbs-dev"]
OLDEST_CMAKE = "3.22.*"

# The root, the sources, a directory for the build, then a command.
IN_ROOT = """set -e
root=$1
mount --rbind /dev "$root/dev"
mount -t proc proc "$root/proc"
mkdir -p "$root/src" "$root/out"
mount --bind "$2" "$root/src"
mount -o remount,bind,ro "$root/src"
mount --bind "$3" "$root/out"
shift 3
exec chroot "$root" "$@"
"""
CONFIGURE = ["-S", "/src", "-B", "/out/build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
             "-DUCX_GAUDI_PRECOMPILE=OFF"]

# Group of tests, release, package and program, in the order of the table.
CLIENTS = [("WheelMpiBullseye", "bullseye", "wheel", "Open MPI"), ("DebMpiBullseye", "bullseye", "deb", "Open MPI"),
           ("WheelNixlBookworm", "bookworm", "wheel", "NIXL"), ("WheelMpiBookworm", "bookworm", "wheel", "Open MPI"),
           ("DebMpiBookworm", "bookworm", "deb", "Open MPI"),
           ("WheelNixl", "trixie", "wheel", "NIXL"), ("WheelMpi", "trixie", "wheel", "Open MPI"),
           ("DebMpi", "trixie", "deb", "Open MPI")]


def compile_in(root, release, name, c, cxx, cmake="cmake"):
    """Compiles the sources in a root. Returns what was seen, or None if it failed."""
    out = BUILD / "check" / name.replace(" ", "-")
    package.make_empty(out)
    enter = ["unshare", "--mount", "sh", "-c", IN_ROOT, "sh", str(root), str(ROOT), str(out)]
    script = (f"{cmake} \"$@\" -DCMAKE_C_COMPILER={c} -DCMAKE_CXX_COMPILER={cxx} && "
              f"{cmake} --build /out/build --target product -- -k 0")
    code, log = step(f"{roots.RELEASES[release]}: {name}", [*enter, "sh", "-c", script, "sh", *CONFIGURE],
                     f"check-{out.name}", may_fail=True)
    package.make_empty(out)
    output = log.read_text(errors="replace")
    warnings = re.findall(r"^.*: warning: .*$", output, re.MULTILINE)
    print("\n".join(warnings) if code == 0 else output[-4000:], end="\n" if warnings or code else "")
    if code != 0:
        return None
    return f"compiles, {len(warnings) or 'no'} warning{'s' * (len(warnings) != 1)}"


def oldest_cmake(root):
    """Puts the oldest CMake that is promised into a root, and returns its path there."""
    if not (root / "opt/cmake/bin/cmake").exists():
        pip = [str(package.TOOLS / "bin/python"), "-m", "pip"]
        step(f"fetch CMake {OLDEST_CMAKE}",
             [*pip, "download", "--no-deps", "--dest", str(root / "opt/wheels"), f"cmake=={OLDEST_CMAKE}"], "check-fetch-cmake")
        install = "python3 -m venv /opt/cmake && /opt/cmake/bin/pip install --no-index --find-links /opt/wheels cmake"
        step(f"install CMake {OLDEST_CMAKE}", ["chroot", str(root), "sh", "-c", install], "check-install-cmake")
    return "/opt/cmake/bin/cmake"


def check_compilers():
    """Rows of the table: (compiler, release, CMake, what was seen)."""
    rows = []
    for release, compilers in COMPILERS.items():
        root = roots.make(f"{release}-compilers", release, [*BUILD_PACKAGES, *(found[0] for found in compilers)])
        for name, c, cxx in compilers:
            rows.append((name, release, "its own", compile_in(root, release, name, c, cxx)))
        if release == "bookworm":
            rows.append(("g++-12", release, OLDEST_CMAKE,
                         compile_in(root, release, "g++-12 CMake", "gcc-12", "g++-12", oldest_cmake(root))))
    return rows


def check_clients():
    """Rows of the table: (release, package, program, what was seen)."""
    for release in roots.RELEASES:
        roots.make(release, release, package_test.ROOT_PACKAGES)
    return [(release, kind, program, package_test.run_tests("test_roots", group) and "every byte arrived")
            for group, release, kind, program in CLIENTS]


def git(*words):
    return subprocess.run(["git", *words], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def table(clients, compilers):
    """The text between the marks in the document."""
    commit = git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain") else "")
    lines = [f"{datetime.date.today()}, commit {commit}, on softgaudi and softhca:", "",
             "| release | package | program | seen |", "|---|---|---|---|"]
    lines += [f"| {roots.RELEASES[release]} | {kind} | {program} | {seen or '**failed**'} |"
              for release, kind, program, seen in clients]
    lines += ["", "| compiler | release | CMake | seen |", "|---|---|---|---|"]
    lines += [f"| {name} | {roots.RELEASES[release]} | {cmake} | {seen or '**failed**'} |"
              for name, release, cmake, seen in compilers]
    return "\n".join(lines) + "\n"


def write(text):
    before, rest = DOCUMENT.read_text().split(BEGIN + "\n")
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}{END}{rest.split(END)[1]}")


def check():
    roots.need_root()
    package.make()
    clients, compilers = check_clients(), check_compilers()
    write(table(clients, compilers))
    print(f"the results are in {shown(DOCUMENT)}")
    if not all(row[-1] for row in clients + compilers):
        raise Stop("some of it failed; the output is above.")
