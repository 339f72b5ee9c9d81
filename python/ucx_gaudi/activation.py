# SPDX-License-Identifier: BSD-3-Clause
"""Making UCX load the modules of this package."""

import os
import re
import warnings

from . import ucx_versions
from .places import find

_LIBUCS = re.compile(r"libucs(-[0-9a-f]+)?\.so(\.[0-9.]+)?")


class UcxAlreadyLoaded(RuntimeError):
    """UCX reads its settings when it is loaded, so enable() comes too late."""


def plugin_path():
    """The directory of the modules, for UCX_PLUGIN_PATH."""
    return find("lib", "ucx-gaudi")


def _loaded_ucx():
    """The path of a libucs in this process, or None."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            fields = line.rstrip("\n").split(None, 5)
            if len(fields) == 6 and _LIBUCS.fullmatch(os.path.basename(fields[5])):
                return fields[5]
    return None


def enable():
    """Puts plugin_path() first in UCX_PLUGIN_PATH of this process and its children. Call it before UCX is loaded, which
    importing nixl, ucxx or mpi4py's MPI does. Where only a UCX older than 1.22 can be found, which ignores the variable
    without a word, it warns."""
    path = plugin_path()
    before = [entry for entry in os.environ.get("UCX_PLUGIN_PATH", "").split(":") if entry]
    loaded = _loaded_ucx()
    if loaded and path not in before:
        raise UcxAlreadyLoaded(f"{loaded} is loaded already and will not see the Gaudi modules; call ucx_gaudi.enable() "
                               f"before the first import that loads UCX, or set UCX_PLUGIN_PATH={path} for the process")
    os.environ["UCX_PLUGIN_PATH"] = ":".join([path, *(entry for entry in before if entry != path)])
    for library, version in ucx_versions.find_too_old():
        warnings.warn(f"{library} is UCX {version}, which ignores UCX_PLUGIN_PATH: Gaudi memory needs UCX 1.22 or later",
                      RuntimeWarning, stacklevel=2)
