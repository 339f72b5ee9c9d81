# SPDX-License-Identifier: BSD-3-Clause
"""Where the files of this package are."""

import os


def find(*names):
    """The path of a file or directory of this package. Links lead out of a package of Debian, to those of the system."""
    path = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *names))
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is missing; install ucx-gaudi again: the sources alone have no modules")
    return path
