// SPDX-License-Identifier: BSD-3-Clause
#include "config.h"

#include "common/directory.h"
#include "common/pace.h"
#include "common/settings.h"
#include "functions.h"

namespace softhca {
namespace {

using soft::assign;
using soft::env;
using soft::parse_number;
using soft::Unexpected;

bool is_known_function(std::string_view function) { return function_index(function).has_value(); }

constexpr soft::FaultGrammar kFaults{.variable = "SOFTHCA_FAULTS",
                                     .form = "FUNCTION[@DEVICE][#NTH[+]]=ACTION",
                                     .prefix = "ibv_",
                                     .device = "device",
                                     .devices = kMaxDevices,
                                     .is_known = is_known_function};

/// Parses an action; returns what is wrong with it, or nothing.
std::string_view parse_action(std::string_view action, FaultRule &rule) {
    using Action = FaultRule::Action;
    if (action == "link_down") {
        rule.action = Action::link_down;
    } else if (action == "link_up") {
        rule.action = Action::link_up;
    } else if (action == "device_fatal") {
        rule.action = Action::device_fatal;
    } else if (action == "qp_error") {
        if (rule.function != "post_send" && rule.function != "post_recv")
            return "qp_error is for post_send and post_recv";
        rule.action = Action::qp_error;
    } else if (soft::cut_prefix(action, "limit:")) {
        const auto limit = parse_number<uint64_t>(action);
        if (!limit || (rule.function != "reg_mr" && rule.function != "reg_dmabuf_mr"))
            return "limit:COUNT is for reg_mr and reg_dmabuf_mr";
        rule.action = Action::limit;
        rule.limit = *limit;
    } else if (const auto code = soft::errno_by_name(action)) {
        rule.error = *code;
    } else {
        return "unknown action; expected an errno name, limit:COUNT, link_down, link_up, qp_error or device_fatal";
    }
    return {};
}

} // namespace

tl::expected<Pace, std::string> parse_pace(std::string_view text) {
    Pace pace;
    if (text.empty())
        return pace;
    pace.mode = soft::cut_prefix(text, "virtual:") ? Pace::Mode::virtual_clock : Pace::Mode::real;
    const auto done =
        soft::parse_figures("SOFTHCA_PACE", text, {{"link", &pace.ns_per_byte}}, {{"latency", &pace.latency_ns}});
    if (!done)
        return Unexpected(done.error());
    return pace;
}

tl::expected<std::vector<FaultRule>, std::string> parse_faults(std::string_view text) {
    return soft::parse_rules(text, kFaults, parse_action);
}

tl::expected<Config, std::string> read_config() {
    Config config;
    std::string wrong;
    if (!assign(soft::read_count("SOFTHCA_DEVICES", config.devices, kMaxDevices), config.devices, wrong) ||
        !assign(parse_pace(env("SOFTHCA_PACE")), config.pace, wrong) ||
        !assign(parse_faults(env("SOFTHCA_FAULTS")), config.faults, wrong) ||
        !assign(soft::make_directory("SOFTHCA_DIR", "softhca", "processes share its files"), config.dir, wrong))
        return Unexpected(wrong);
    config.clock_dir = soft::directory_name("SOFTGAUDI_DIR", "softgaudi");
    return config;
}

} // namespace softhca
