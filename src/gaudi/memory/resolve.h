// SPDX-License-Identifier: BSD-3-Clause
// The one way from an address to the mapping that holds it. Queries, registrations, copies and remote keys all use it.
#pragma once

#include "gaudi/card/cards.h"
#include "live_mappings.h"
#include "region.h"

#include <cstdint>

namespace gaudi {

/// A mapping as it was when an address was resolved.
class Resolved {
public:
    Resolved() = default;
    Resolved(Region &region, std::uint64_t generation) : m_region(&region), m_generation(generation) {}

    explicit operator bool() const { return m_region != nullptr; }
    Region &region() const { return *m_region; }
    Session &session() const { return m_region->session(); }
    std::uint64_t generation() const { return m_generation; }
    /// Where the address lies in the mapping.
    std::uint64_t offset(std::uint64_t address) const { return address - m_region->base(); }
    bool contains(std::uint64_t address, std::uint64_t length) const { return m_region->contains(address, length); }
    /// Whether the mapping is still the same. A caller that reads several fields of the region asks afterwards.
    bool is_current() const { return m_region->generation() == m_generation; }

private:
    Region *m_region = nullptr;
    std::uint64_t m_generation = 0;
};

namespace detail {
Resolved resolve_slowly(Cards &cards, std::uint64_t address, std::uint64_t length);
}

/// The mapping that held `address` at a moment during the call, and all of [address, address + length) if any mapping did;
/// none if no mapping held the address. Memory that the hooks do not see is confirmed by the driver in that moment, which
/// costs system calls; host memory and memory that the hooks see cost no lock and no system call.
inline Resolved resolve(Cards &cards, std::uint64_t address, std::uint64_t length) {
    if (Region *region = LiveMappings::get().find(address)) {
        const std::uint64_t generation = region->generation_with(address);
        if (generation != 0 && region->origin() != Region::Origin::probed && region->generation() == generation)
            return {*region, generation};
    } else if (!cards.is_card_address(address)) {
        return {};
    }
    return detail::resolve_slowly(cards, address, length);
}

} // namespace gaudi
