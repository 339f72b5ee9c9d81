// SPDX-License-Identifier: BSD-3-Clause
#include "common/settings.h"

#include "os/format.h"

namespace soft {

Expected<unsigned> read_count(const char *variable, unsigned usual, unsigned most) {
    const std::string_view text = env(variable);
    if (text.empty())
        return usual;
    const auto count = parse_number<unsigned>(text);
    if (!count || *count > most)
        return Unexpected(gaudi::os::format("{}={}: expected a number from 0 to {}", variable, text, most));
    return *count;
}

} // namespace soft
