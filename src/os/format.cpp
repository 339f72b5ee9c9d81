// SPDX-License-Identifier: BSD-3-Clause
#include "format.h"

#include <fmt/format.h>

namespace gaudi::os {

std::string format_values(fmt::string_view text, fmt::format_args values) { return fmt::vformat(text, values); }

} // namespace gaudi::os
