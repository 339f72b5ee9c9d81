// SPDX-License-Identifier: BSD-3-Clause
#include "uses_colour.h"

#include <unistd.h>

#include <cstdlib>

namespace gaudi::cli {

bool uses_colour() {
    const char *no_colour = std::getenv("NO_COLOR");
    return ::isatty(STDOUT_FILENO) == 1 && (!no_colour || !*no_colour);
}

} // namespace gaudi::cli
