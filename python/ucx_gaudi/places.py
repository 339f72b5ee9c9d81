# SPDX-License-Identifier: BSD-3-Clause
"""Where the files of this package are."""

import os


def find(*names):
    """The path of a file or directory of this package."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), *names)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path} is missing; install the wheel ucx-gaudi again: the sources alone have no modules")
    return path
