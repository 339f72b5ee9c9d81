# SPDX-License-Identifier: BSD-3-Clause
"""Making UCX load the modules of this package."""

import os
import warnings

from . import ucx_versions
from .places import find

# Open MPI opens UCX only on devices that it knows, and its other transports read the memory of cards with the processor,
# which crashes.
_OPEN_MPI = {"OMPI_MCA_pml": "ucx", "OMPI_MCA_opal_common_ucx_tls": "any", "OMPI_MCA_opal_common_ucx_devices": "any"}


class UcxAlreadyLoaded(RuntimeError):
    """UCX reads its settings when it is loaded, so enable() comes too late."""


def plugin_path():
    """The directory of the modules, for UCX_PLUGIN_PATH."""
    return find("lib", "ucx-gaudi")


def enable():
    """Puts plugin_path() first in UCX_PLUGIN_PATH of this process and its children, and makes Open MPI use UCX, where its
    settings (OMPI_MCA_*) are not set already. Call it before UCX is loaded, which importing nixl, ucxx or mpi4py's MPI
    does. Where only a UCX older than 1.22 can be found, which ignores the variable without a word, it warns."""
    path = plugin_path()
    before = [entry for entry in os.environ.get("UCX_PLUGIN_PATH", "").split(":") if entry]
    loaded = ucx_versions.list_loaded("libucs")
    if loaded and path not in before:
        raise UcxAlreadyLoaded(f"{loaded[0]} is loaded already and will not see the Gaudi modules; call ucx_gaudi.enable() "
                               f"before the first import that loads UCX, or set UCX_PLUGIN_PATH={path} for the process")
    os.environ["UCX_PLUGIN_PATH"] = ":".join([path, *(entry for entry in before if entry != path)])
    for name, value in _OPEN_MPI.items():
        os.environ.setdefault(name, value)
    for library, version in ucx_versions.find_too_old():
        warnings.warn(f"{library} is UCX {version}, which ignores UCX_PLUGIN_PATH: Gaudi memory needs UCX 1.22 or later",
                      RuntimeWarning, stacklevel=2)
