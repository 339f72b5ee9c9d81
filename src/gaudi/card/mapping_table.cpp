// SPDX-License-Identifier: BSD-3-Clause
#include "mapping_table.h"

#include "os/format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>

namespace gaudi {
namespace {

using Sentence = tl::unexpected<std::string>;

tl::expected<std::uint32_t, std::string> number(const nlohmann::json &entry, const char *key, std::size_t position) {
    const auto found = entry.find(key);
    if (found == entry.end())
        return Sentence(os::format("GAUDI_MAPPING_TABLE: entry {} has no \"{}\"", position, key));
    // hl-smi prints numbers, scripts around it often make strings of them; neither is worth a refusal.
    if (found->is_string()) {
        const auto &text = found->get_ref<const std::string &>();
        std::uint32_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error == std::errc() && end == text.data() + text.size() && !text.empty())
            return value;
    } else if (found->is_number_unsigned() && found->get<std::uint64_t>() <= UINT32_MAX) {
        return found->get<std::uint32_t>();
    }
    return Sentence(os::format("GAUDI_MAPPING_TABLE: \"{}\" of entry {} is {}, not a number from 0 up", key, position,
                               found->dump()));
}

} // namespace

tl::expected<std::vector<MappingEntry>, std::string> parse_mapping_table(std::string_view text) {
    const auto table = nlohmann::json::parse(text, nullptr, false);
    if (table.is_discarded())
        return Sentence("GAUDI_MAPPING_TABLE is not JSON");
    if (!table.is_array())
        return Sentence("GAUDI_MAPPING_TABLE is not a JSON array");
    std::vector<MappingEntry> entries;
    for (std::size_t i = 0; i < table.size(); ++i) {
        const auto &given = table[i];
        if (!given.is_object())
            return Sentence(os::format("GAUDI_MAPPING_TABLE: entry {} is not an object", i));
        const auto index = number(given, "index", i);
        if (!index)
            return Sentence(index.error());
        const auto module = number(given, "module_id", i);
        if (!module)
            return Sentence(module.error());
        const auto bus = given.find("bus_id");
        if (bus == given.end() || !bus->is_string() || bus->get_ref<const std::string &>().empty())
            return Sentence(os::format("GAUDI_MAPPING_TABLE: \"bus_id\" of entry {} is not a bus id", i));
        MappingEntry entry{*index, *module, bus->get<std::string>()};
        for (const MappingEntry &other : entries) {
            const char *twice = other.index == entry.index           ? "index"
                                : other.module_id == entry.module_id ? "module_id"
                                : other.bus_id == entry.bus_id       ? "bus_id"
                                                                     : nullptr;
            if (twice)
                return Sentence(os::format("GAUDI_MAPPING_TABLE: entry {} repeats the {} of another", i, twice));
        }
        entries.push_back(std::move(entry));
    }
    std::sort(entries.begin(), entries.end(),
              [](const MappingEntry &a, const MappingEntry &b) { return a.index < b.index; });
    return entries;
}

tl::expected<std::vector<std::uint32_t>, std::string> parse_visible_modules(std::string_view text) {
    std::vector<std::uint32_t> modules;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        std::string_view piece = text.substr(0, comma);
        text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
        while (!piece.empty() && piece.front() == ' ')
            piece.remove_prefix(1);
        while (!piece.empty() && piece.back() == ' ')
            piece.remove_suffix(1);
        std::uint32_t module = 0;
        const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), module);
        if (error != std::errc() || end != piece.data() + piece.size() || piece.empty())
            return Sentence(os::format("HABANA_VISIBLE_MODULES: '{}' is not a module id", piece));
        modules.push_back(module);
    }
    return modules;
}

} // namespace gaudi
