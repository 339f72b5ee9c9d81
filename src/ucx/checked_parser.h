// SPDX-License-Identifier: BSD-3-Clause
// One of UCX's parsers with a check behind it: UCX itself reads -1 as a time, and as a size that is the same as "inf".
#pragma once

#include "abi_ucs.h"

namespace gaudi::ucx {

struct CheckedParser {
    ucs_config_parser inner;
    bool (*accepts)(const char *text, const void *value); // checks the value that the inner parser has read
    const char *syntax;                                   // UCX shows it to a user whose value it refuses
};

/// The parser for a row of a configuration table; `checked` lives as long as the table.
ucs_config_parser parser_of(const CheckedParser &checked) noexcept;

} // namespace gaudi::ucx
