# SPDX-License-Identifier: BSD-3-Clause
"""The library that serves UCX's modules and buffers, of which a process has one."""

import ctypes
import os

from .places import find

_NAME = "libgaudi-core.so.1"
_INTERFACE = 1  # GAUDI_CORE_INTERFACE of src/core/core.h


def open_core():
    """The core that the process has, of whichever installation, else the one of this package. UCX's modules do the same: of
    two cores, neither would know the memory of the other."""
    try:
        core = ctypes.CDLL(_NAME, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
    except OSError:
        core = ctypes.CDLL(find("lib", "ucx-gaudi", _NAME))
    _check_interface(core)
    return core


def _check_interface(core):
    version = ctypes.c_char_p(b"of an unknown version")
    interface = core.gaudi_core_interface(ctypes.byref(version)) if hasattr(core, "gaudi_core_interface") else 0
    if interface == _INTERFACE:
        return
    import importlib.metadata  # takes longer than all the rest of this package
    raise RuntimeError(
        f"{os.path.dirname(os.path.abspath(__file__))} (ucx-gaudi {importlib.metadata.version('ucx-gaudi')}, interface "
        f"{_INTERFACE}) cannot use {_loaded_file()} (ucx-gaudi {version.value.decode()}, interface {interface}), which this "
        "process loaded first; use one installation only")


def _loaded_file():
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        return next(line.rstrip("\n").split(None, 5)[5] for line in maps if f"/{_NAME}" in line)
