// SPDX-License-Identifier: BSD-3-Clause
#include "resolve.h"

#include "foreign_mappings.h"
#include "foreign_probe.h"

namespace gaudi {

Resolved detail::resolve_slowly(Cards &cards, std::uint64_t address, std::uint64_t length) {
    while (true) {
        Region *region = LiveMappings::get().find(address);
        if (!region && !cards.is_card_address(address))
            return {};
        const bool was_known = region != nullptr;
        if (!region)
            region = probe_mapping(cards, address);
        if (!region)
            return {};
        const std::uint64_t generation = region->generation_with(address);
        if (generation == 0)
            continue; // it ended meanwhile
        if (was_known && region->origin() == Region::Origin::probed && region->generation() == generation) {
            if (!confirm(*region, generation))
                continue;
            if (!region->contains(address, length) && !LiveMappings::get().is_notifying()) {
                // The driver confirms a start and a length. A longer mapping may have replaced it.
                if (ForeignMappings *foreign = region->session().find<ForeignMappings>())
                    foreign->withdraw(*region, generation);
                region = probe_mapping(cards, address);
                if (!region)
                    return {};
                if (const std::uint64_t anew = region->generation_with(address); anew != 0)
                    return {*region, anew};
                continue;
            }
        }
        if (region->generation() == generation)
            return {*region, generation};
    }
}

} // namespace gaudi
