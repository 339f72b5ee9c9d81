# SPDX-License-Identifier: BSD-3-Clause
"""The packaged programs. Each takes the place of this process, so signals and exit codes are its own."""

import os
import sys

from .places import find


def _become(program):
    path = find("bin", program)
    os.execv(path, [program, *sys.argv[1:]])


def ucx_gaudi():
    _become("ucx_gaudi")


def softgaudi_stat():
    _become("softgaudi_stat")


def softhca_stat():
    _become("softhca_stat")
