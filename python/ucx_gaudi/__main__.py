# SPDX-License-Identifier: BSD-3-Clause
"""`python -m ucx_gaudi` is the program ucx_gaudi."""

from .programs import ucx_gaudi

ucx_gaudi()
