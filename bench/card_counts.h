// SPDX-License-Identifier: BSD-3-Clause
// Counters of softgaudi for one card and for all others: prove that both sides of a comparison do the same work.
#pragma once

#include "samples.h"

#include <cstdint>
#include <string>

namespace bench {

struct CardCounts {
    std::uint64_t submissions = 0;
    std::uint64_t packets = 0;
    std::uint64_t calls = 0; // calls of all functions
    std::uint64_t bytes = 0; // moved by the card's engines

    struct Both; // the card with that bus id, and all others
    static Both so_far(const std::string &stat, const std::string &bus_id);

    CardCounts operator-(const CardCounts &before) const {
        return {submissions - before.submissions, packets - before.packets, calls - before.calls, bytes - before.bytes};
    }
    Json per(double operations) const;
};

struct CardCounts::Both {
    CardCounts card, others;
};

} // namespace bench
