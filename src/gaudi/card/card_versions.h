// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "thunk/library.h"

#include <sys/types.h>

#include <string>

namespace gaudi {

/// What the behaviour of a card depends on. What holds for one card holds for all cards with the same versions.
struct CardVersions {
    std::string model;    // the name that the card reports, and its PCI ids: "HL225 (1020, revision 1)"
    std::string driver;   // as the driver reports it for this card, else the version of libhl-thunk
    std::string firmware; // as the card reports it

    bool operator==(const CardVersions &) const = default;
};

/// `control` is the number of the card's control node, or 0 where that is no device. What nothing reports is "unknown".
CardVersions read_card_versions(const thunk::Library &library, dev_t control, const std::string &bus_id,
                                const hlthunk_hw_ip_info &info);

} // namespace gaudi
