// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace gaudi::cli {

/// Whether text on stdout may have colours: on a terminal, unless NO_COLOR is set and not empty.
bool uses_colour();

} // namespace gaudi::cli
