#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/portability.py on what readelf prints, and on programs of this system."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import portability

DYNAMIC = """Dynamic section at offset 0x8e0 contains 20 entries:
  Tag        Type                         Name/Value
 0x000000000000001d (RUNPATH)            Library runpath: [$ORIGIN]
 0x0000000000000001 (NEEDED)             Shared library: [{}]
"""
SYMBOLS = """
Symbol table '.dynsym' contains 3 entries:
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND
"""


def problems(library="libc.so.6", *symbols):
    rows = [f"     {i}: 0000000000000000     0 {row}\n" for i, row in enumerate(symbols, 1)]
    return list(portability.problems(DYNAMIC.format(library), SYMBOLS + "".join(rows)))


class Problems(unittest.TestCase):
    def test_symbols_of_glibc_2_28_are_accepted(self):
        self.assertEqual(problems("libc.so.6", "FUNC    GLOBAL DEFAULT  UND fcntl64@GLIBC_2.28 (2)",
                                  "FUNC    WEAK   DEFAULT  UND __cxa_finalize@GLIBC_2.2.5 (3)",
                                  "NOTYPE  WEAK   DEFAULT  UND __gmon_start__"), [])

    def test_newer_symbol_of_glibc_is_named(self):
        self.assertEqual(problems("libc.so.6", "FUNC    GLOBAL DEFAULT  UND strerrorname_np@GLIBC_2.32 (2)"),
                         ["needs strerrorname_np of GLIBC_2.32, newer than GLIBC_2.28"])

    def test_symbol_of_libstdcxx_is_named(self):
        self.assertEqual(problems("libc.so.6", "FUNC    GLOBAL DEFAULT  UND _ZSt9terminatev@GLIBCXX_3.4 (2)"),
                         ["needs _ZSt9terminatev of GLIBCXX_3.4, which is not of glibc"])

    def test_symbol_of_fmt_is_named(self):
        self.assertEqual(problems("libc.so.6", "FUNC    GLOBAL DEFAULT  UND _ZN3fmt2v97vformatEv"),
                         ["needs the C++ symbol _ZN3fmt2v97vformatEv"])

    def test_exported_cxx_symbols_are_named(self):
        self.assertEqual(problems("libc.so.6", "FUNC    WEAK   DEFAULT   14 _ZN3fmt2v97vformatEv",
                                  "FUNC    GLOBAL DEFAULT   14 __cxa_throw@@CXXABI_1.3",
                                  "FUNC    GLOBAL DEFAULT   14 ibv_open_device@@IBVERBS_1.1"),
                         ["exports the C++ symbol _ZN3fmt2v97vformatEv", "exports the C++ symbol __cxa_throw"])

    def test_other_library_is_named(self):
        self.assertEqual(problems("libfmt.so.9"), ["needs the library libfmt.so.9"])
        self.assertEqual(problems("libgaudi-core.so.1"), [])

    def test_only_the_demo_may_need_ucx(self):
        self.assertEqual(problems("libucp.so.0"), ["needs the library libucp.so.0"])
        self.assertEqual(list(portability.problems(DYNAMIC.format("libucp.so.0"), SYMBOLS, "ucp_exchange")), [])


class Files(unittest.TestCase):
    def test_program_of_this_system_is_not_portable(self):
        with tempfile.TemporaryDirectory() as directory:
            source = Path(directory) / "program.cpp"
            source.write_text("#include <iostream>\nint main() { std::cout << 1; }\n")
            subprocess.run(["c++", source, "-o", source.with_suffix("")], check=True)
            count, found = portability.check(Path(directory))
        self.assertEqual(count, 1)
        self.assertIn("program needs the library libstdc++.so.6", found)


if __name__ == "__main__":
    unittest.main()
