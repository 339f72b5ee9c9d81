// SPDX-License-Identifier: BSD-3-Clause
// The settings of the software HCA, read once from the environment (SOFTHCA_*); see docs/softhca.md.
#pragma once

#include "common/fault_rule.h"
#include "state.h"

#include <string>
#include <string_view>
#include <vector>

namespace softhca {

/// One rule of SOFTHCA_FAULTS: the calls it applies to and its action.
struct FaultRule : soft::CallPattern {
    enum class Action { fail, limit, link_down, link_up, qp_error, device_fatal };

    Action action = Action::fail;
    int error = 0;      // errno of Action::fail
    uint64_t limit = 0; // memory regions that a device can hold
};

/// The link of a device; 0 means unlimited.
struct Pace {
    enum class Mode { unpaced, real, virtual_clock };

    Mode mode = Mode::unpaced;
    double ns_per_byte = 0;
    uint64_t latency_ns = 0;

    bool is_timed() const { return mode != Mode::unpaced; }
};

struct Config {
    unsigned devices = 2;
    std::string dir;
    std::string clock_dir; // directory of the software Gaudi, which owns the virtual clock
    Pace pace;
    std::vector<FaultRule> faults;
};

/// Reads the whole environment; the error is one sentence that names the variable.
tl::expected<Config, std::string> read_config();

tl::expected<Pace, std::string> parse_pace(std::string_view text);
tl::expected<std::vector<FaultRule>, std::string> parse_faults(std::string_view text);

} // namespace softhca
