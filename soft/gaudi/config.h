// SPDX-License-Identifier: BSD-3-Clause
// Everything a user can set, read once from the environment (SOFTGAUDI_*). docs/softgaudi.md explains each.
#pragma once

#include "common/fault_rule.h"
#include "model.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softgaudi {

/// One rule of SOFTGAUDI_FAULTS: what happens at which call of which function.
struct FaultRule : soft::StruckCalls {
    enum class Action { fail, delay, hang, skip, reset, lose };

    Action action = Action::fail;
    int error = 0; // errno for fail
    uint64_t delay_us = 0;
};

/// Speed of the modelled links; 0 is "as fast as this machine".
struct Pace {
    enum class Mode { unpaced, real, virtual_clock, null };

    Mode mode = Mode::unpaced;
    double down_ns_per_byte = 0; // host to card
    double up_ns_per_byte = 0;   // card to host
    double card_ns_per_byte = 0; // within a card
    uint64_t submit_ns = 0;      // each submission, one after another
    uint64_t map_ns = 0;         // each mapping of host or device memory
    uint64_t moved_first = 0;    // bytes of copies that even `null` makes

    bool timed() const { return mode == Mode::real || mode == Mode::virtual_clock; }
};

struct Quirks {
    bool mainline = false; // exports ignore their offset
    bool posted = false;   // writes through a dma-buf reach the card's engines only after a flush
};

struct Config {
    const Model *model = nullptr;
    unsigned cards = kMaxCards;
    std::string dir;
    Quirks quirks;
    Pace pace;
    std::vector<FaultRule> faults;
};

/// The whole environment; the error is one sentence that names the variable.
tl::expected<Config, std::string> read_config();

tl::expected<Pace, std::string> parse_pace(std::string_view text);
tl::expected<std::vector<FaultRule>, std::string> parse_faults(std::string_view text);
tl::expected<Quirks, std::string> parse_quirks(std::string_view text);

} // namespace softgaudi
