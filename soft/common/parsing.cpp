// SPDX-License-Identifier: BSD-3-Clause
#include "common/parsing.h"

#include "os/errno_names.h"

#include <cstdlib>

namespace soft {

std::string_view env(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

std::optional<int> errno_by_name(std::string_view name) {
    for (const gaudi::os::ErrnoName &known : gaudi::os::kErrnoNames) {
        if (name == known.name)
            return known.code;
    }
    if (name == "ENOTSUPP")
        return 524; // internal to the kernel, but some drivers return it
    if (const auto code = parse_number<int>(name); code && *code > 0 && *code < 4096)
        return code;
    return {};
}

std::string name_errno(int code) {
    for (const gaudi::os::ErrnoName &known : gaudi::os::kErrnoNames) {
        if (code == known.code)
            return known.name;
    }
    return std::to_string(code);
}

bool cut_prefix(std::string_view &text, std::string_view prefix) {
    if (!text.starts_with(prefix))
        return false;
    text.remove_prefix(prefix.size());
    return true;
}

} // namespace soft
