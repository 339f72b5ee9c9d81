// SPDX-License-Identifier: BSD-3-Clause
// What softgaudi has counted on one card, or on all cards but one: shows that two sides ask a card for the same.
#pragma once

#include "samples.h"

#include <cstdint>
#include <string>

namespace bench {

struct CardCounts {
    std::uint64_t submissions = 0;
    std::uint64_t packets = 0;
    std::uint64_t calls = 0; // of any function

    struct Both; // on the card with that bus id, and on all the others
    static Both so_far(const std::string &stat, const std::string &bus_id);

    CardCounts operator-(const CardCounts &before) const {
        return {submissions - before.submissions, packets - before.packets, calls - before.calls};
    }
    Json per(double operations) const;
};

struct CardCounts::Both {
    CardCounts card, others;
};

} // namespace bench
