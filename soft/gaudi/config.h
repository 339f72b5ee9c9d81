// SPDX-License-Identifier: BSD-3-Clause
// The settings of the software Gaudi, read once from the environment (SOFTGAUDI_*); see docs/softgaudi.md.
#pragma once

#include "behaviour.h"
#include "common/fault_rule.h"
#include "model.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace softgaudi {

/// One rule of SOFTGAUDI_FAULTS: the calls it applies to and its action.
struct FaultRule : soft::CallPattern {
    enum class Action { fail, delay, hang, skip, reset, lose };

    Action action = Action::fail;
    int error = 0; // errno of Action::fail
    uint64_t delay_us = 0;
    uint64_t timeout_ns = 0; // of a submission that hangs; 0: its own
};

/// Speed of the modelled links; 0 means unlimited.
struct Pace {
    enum class Mode { unpaced, real, virtual_clock, null };

    Mode mode = Mode::unpaced;
    double down_ns_per_byte = 0; // host to card
    double up_ns_per_byte = 0;   // card to host
    double card_ns_per_byte = 0; // within a card
    uint64_t submit_ns = 0;      // each submission, one after another
    uint64_t map_ns = 0;         // each mapping of host or device memory
    uint64_t moved_first = 0;    // bytes that copies move even in mode null

    bool is_timed() const { return mode == Mode::real || mode == Mode::virtual_clock; }
};

struct Config {
    Model model = gaudi2();
    unsigned cards = kMaxCards;
    std::string dir;
    Quirks quirks;
    Behaviour behaviour;
    Pace pace;
    bool pin_required = false; // host memory that cannot be pinned is not mapped
    std::vector<FaultRule> faults;
};

/// Reads the whole environment; the error is one sentence that names the variable.
tl::expected<Config, std::string> read_config();

tl::expected<Pace, std::string> parse_pace(std::string_view text);
tl::expected<std::vector<FaultRule>, std::string> parse_faults(std::string_view text);
tl::expected<Quirks, std::string> parse_quirks(std::string_view text);
/// Whether host memory must be pinned.
tl::expected<bool, std::string> parse_pin(std::string_view text);
/// The bytes of the BAR; `usual` where the text is empty.
tl::expected<uint64_t, std::string> parse_bar(std::string_view text, uint64_t usual = UINT64_MAX);

} // namespace softgaudi
