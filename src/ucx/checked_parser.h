// SPDX-License-Identifier: BSD-3-Clause
// A parser of UCX's that accepts fewer values: UCX reads -1 as a time, and as a size that is the same as "inf".
#pragma once

#include "abi_ucs.h"

namespace gaudi::ucx {

struct CheckedParser {
    ucs_config_parser inner;
    bool (*accepts)(const char *text, const void *value); // of what the inner parser has understood
    const char *syntax;                                   // for the user, whose value UCX refuses with this text
};

/// For a row of a configuration table; `checked` lives as long as the table.
ucs_config_parser parser_of(const CheckedParser &checked) noexcept;

} // namespace gaudi::ucx
