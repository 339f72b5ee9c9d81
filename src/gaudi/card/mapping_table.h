// SPDX-License-Identifier: BSD-3-Clause
// GAUDI_MAPPING_TABLE: which cards to use, and in which order, as a JSON array of {"index", "module_id", "bus_id"}.
#pragma once

#include <tl/expected.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gaudi {

struct MappingEntry {
    std::uint32_t index = 0;
    std::uint32_t module_id = 0;
    std::string bus_id;
};

/// Entries by index, or one sentence that says which entry is wrong and why.
tl::expected<std::vector<MappingEntry>, std::string> parse_mapping_table(std::string_view text);

/// A list of module ids as in HABANA_VISIBLE_MODULES ("0,1,5"), or one sentence.
tl::expected<std::vector<std::uint32_t>, std::string> parse_visible_modules(std::string_view text);

} // namespace gaudi
