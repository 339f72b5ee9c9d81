# SPDX-License-Identifier: BSD-3-Clause
"""Intel Gaudi support for stock UCX: where its modules are, how UCX comes to load them, and memory of cards.

Importing this package loads no library and changes nothing, so it may come before or after any user of UCX.
"""

from .activation import UcxAlreadyLoaded, enable, plugin_path
from .buffer import Buffer, flush

__all__ = ["Buffer", "UcxAlreadyLoaded", "enable", "flush", "plugin_path"]
