// SPDX-License-Identifier: BSD-3-Clause
#include "discovery.h"

#include "mapping_table.h"
#include "os/format.h"
#include "thunk/owners.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <utility>

namespace gaudi {
namespace {

constexpr int kMinors = 256;
// The driver gives a card the lowest free minor, which other accelerators have too; no machine has so many of those.
constexpr int kLongestGap = 64;

tl::unexpected<Error> refuse(int code, std::string sentence) {
    return tl::unexpected(Error{code, "discover", std::move(sentence)});
}

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

std::vector<DiscoveredCard> find_cards(const thunk::Library &library) {
    std::vector<DiscoveredCard> found;
    int gap = 0;
    for (int minor = 0; minor < kMinors && gap < kLongestGap; ++minor, ++gap) {
        const auto control = thunk::DeviceFd::open_control(library, minor);
        if (!control)
            continue;
        gap = -1;
        auto bus_id = control->get().bus_id();
        const auto info = control->get().hw_ip();
        if (!bus_id || !info)
            continue;
        found.push_back({std::move(*bus_id), *info, info->module_id, NodeProof(control->get().fd())});
    }
    std::sort(found.begin(), found.end(),
              [](const DiscoveredCard &a, const DiscoveredCard &b) { return a.info.module_id < b.info.module_id; });
    return found;
}

Result<std::vector<DiscoveredCard>> choose_by_table(const std::string &table,
                                                    const std::vector<DiscoveredCard> &found) {
    const auto entries = parse_mapping_table(table);
    if (!entries)
        return refuse(EINVAL, entries.error());
    std::vector<DiscoveredCard> chosen;
    for (const MappingEntry &entry : *entries) {
        const auto card = std::find_if(found.begin(), found.end(),
                                       [&](const DiscoveredCard &known) { return known.bus_id == entry.bus_id; });
        if (card == found.end())
            return refuse(ENODEV, os::format("GAUDI_MAPPING_TABLE: entry with index {}: there is no card at {}; "
                                             "`ucx_gaudi info` lists the cards",
                                             entry.index, entry.bus_id));
        if (card->info.module_id != entry.module_id)
            return refuse(EINVAL,
                          os::format("GAUDI_MAPPING_TABLE: entry with index {}: the card at {} is module {}, not {}",
                                     entry.index, entry.bus_id, card->info.module_id, entry.module_id));
        chosen.push_back(*card);
        chosen.back().number = entry.index;
    }
    return chosen;
}

Result<std::vector<DiscoveredCard>> choose_by_modules(const std::string &visible,
                                                      const std::vector<DiscoveredCard> &found) {
    if (visible == "all")
        return found;
    const auto modules = parse_visible_modules(visible);
    if (!modules)
        return refuse(EINVAL, modules.error());
    std::vector<DiscoveredCard> chosen;
    std::copy_if(found.begin(), found.end(), std::back_inserter(chosen), [&](const DiscoveredCard &card) {
        return std::find(modules->begin(), modules->end(), card.info.module_id) != modules->end();
    });
    return chosen;
}

using Choose = decltype(choose_by_table);

/// Lets a variable of the user choose among the cards, where it is set.
Result<void> choose(Discovery &discovery, const char *name, Choose *by) {
    const std::string value = variable(name);
    if (value.empty())
        return {};
    auto chosen = by(value, discovery.cards);
    if (!chosen)
        return tl::unexpected(chosen.error());
    if (chosen->empty() && !discovery.cards.empty()) {
        std::vector<std::uint32_t> modules;
        for (const DiscoveredCard &card : discovery.cards)
            modules.push_back(card.info.module_id);
        discovery.why_empty = os::format("there is no Gaudi card: {}={} selects none of the modules {}", name, value,
                                         os::join(modules, ", "));
    }
    if (chosen->size() < discovery.cards.size())
        discovery.hidden_by = os::format("{}={}", name, value);
    discovery.cards = std::move(*chosen);
    return {};
}

} // namespace

Result<Discovery> discover_cards() {
    Discovery discovery;
    const auto library = thunk::Library::find();
    if (!library) {
        // A library that the user named and that is not there is a mistake; without a name there are just no cards.
        if (!variable("GAUDI_THUNK").empty())
            return tl::unexpected(library.error());
        return discovery;
    }
    discovery.library = *library;
    discovery.cards = find_cards(**library);
    if (auto chosen = choose(discovery, "GAUDI_MAPPING_TABLE", choose_by_table); !chosen)
        return tl::unexpected(chosen.error());
    if (!variable("GAUDI_MAPPING_TABLE").empty()) {
        discovery.numbered_by_table = true;
        discovery.hidden_by.clear(); // the indexes are the table's own
    }
    if (auto chosen = choose(discovery, "HABANA_VISIBLE_MODULES", choose_by_modules); !chosen)
        return tl::unexpected(chosen.error());
    return discovery;
}

} // namespace gaudi
