#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What binaries need of the system they are loaded on: reads the symbols of ELF files with readelf and names all that a
glibc 2.28 or a program with another C++ library would not stand."""

import argparse
import re
import subprocess
import sys
from pathlib import Path

NEWEST_GLIBC = (2, 28)
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
CORE = "libgaudi-core.so.1"
# An ordinary UCX program, of the demo, and what it needs of UCX.
DEMO = "ucp_exchange"
UCX = {"libucp.so.0", "libucs.so.0"}
# C++ names, {fmt}'s among them, and the run-time library of C++.
CXX_SYMBOL = re.compile(r"_Z|__cxa_|__gxx_|_Unwind_")


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def elf_files(directory):
    """The ELF files below a directory, links left out."""
    return [path for path in sorted(directory.rglob("*")) if path.is_file() and not path.is_symlink() and is_elf(path)]


def parse_symbols(text):
    """(defined, undefined) of `readelf --dyn-syms`: names, and pairs of a name and its version, which may be empty."""
    defined, undefined = set(), set()
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not re.fullmatch(r"\d+:", fields[0]) or fields[4] not in ("GLOBAL", "WEAK"):
            continue
        name, _, version = fields[7].partition("@")
        if fields[6] == "UND":
            undefined.add((name, version))
        else:
            defined.add(name)
    return defined, undefined


def is_too_new(version):
    match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
    return match is not None and (int(match[1]), int(match[2])) > NEWEST_GLIBC


def problems(dynamic, symbols, name=""):
    """Sentences about the file of that name, from what `readelf -d` and `readelf --dyn-syms` print."""
    defined, undefined = parse_symbols(symbols)
    for library in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        if library not in GLIBC | {CORE} and not (name == DEMO and library in UCX):
            yield f"needs the library {library}"
    for symbol, version in sorted(undefined):
        if is_too_new(version):
            yield f"needs {symbol} of {version}, newer than GLIBC_{NEWEST_GLIBC[0]}.{NEWEST_GLIBC[1]}"
        elif version and not version.startswith("GLIBC_"):
            yield f"needs {symbol} of {version}, which is not of glibc"
        elif CXX_SYMBOL.match(symbol) and version != "GLIBC_2.2.5":  # glibc has some __cxa_ functions of its own
            yield f"needs the C++ symbol {symbol}"
    for symbol in sorted(defined):
        if CXX_SYMBOL.match(symbol):
            yield f"exports the C++ symbol {symbol}"


def check(*directories):
    """The number of ELF files below the directories, and a sentence for each of their problems."""
    files = [(path, directory) for directory in directories for path in elf_files(directory)]
    found = []
    for path, directory in files:
        output = [subprocess.run(["readelf", "-W", option, path], stdout=subprocess.PIPE, text=True, check=True).stdout
                  for option in ("--dynamic", "--dyn-syms")]
        found += [f"{path.relative_to(directory)} {problem}" for problem in problems(*output, path.name)]
    return len(files), found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory
    count, found = check(directory)
    for problem in found:
        print(problem)
    if not count:
        print(f"{directory} has no ELF file")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main())
