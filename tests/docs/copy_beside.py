#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Copies 64 MiB to a card and back, then runs another program while it still holds the memory.

usage: copy_beside.py PROGRAM [ARGUMENTS]
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SIZE = 64 << 20


def main():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as counters:  # other processes of the user do not matter here
        os.environ["GAUDI_COUNTERS_DIR"] = counters
        modules = subprocess.run(["ucx_gaudi", "plugin-path"], stdout=subprocess.PIPE, text=True, check=True).stdout
        core = ctypes.CDLL(str(Path(modules.strip()) / "libgaudi-core.so.1"))
        core.gaudi_buffer_allocate.argtypes = [ctypes.c_char_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p),
                                               ctypes.c_char_p, ctypes.c_size_t]
        for name in ("gaudi_buffer_write", "gaudi_buffer_read"):
            getattr(core, name).argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_char_p,
                                            ctypes.c_size_t]
        problem, card, host = ctypes.create_string_buffer(1024), ctypes.c_void_p(), ctypes.create_string_buffer(SIZE)
        if (core.gaudi_buffer_allocate(None, SIZE, ctypes.byref(card), problem, len(problem)) != 0
                or core.gaudi_buffer_write(card, host, SIZE, problem, len(problem)) != 0
                or core.gaudi_buffer_read(host, card, SIZE, problem, len(problem)) != 0):
            sys.exit(problem.value.decode())
        return subprocess.run(sys.argv[1:], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
