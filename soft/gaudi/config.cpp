// SPDX-License-Identifier: BSD-3-Clause
#include "config.h"

#include "common/directory.h"
#include "common/pace.h"
#include "common/settings.h"
#include "functions.h"
#include "os/format.h"
#include "profile.h"

#include <utility>

namespace softgaudi {
namespace {

using soft::assign;
using soft::env;
using soft::parse_number;
using soft::Unexpected;

bool is_known_function(std::string_view function) {
    return function == "*" || function_index(function) != kFunctions.size();
}

constexpr soft::FaultGrammar kFaults{.variable = "SOFTGAUDI_FAULTS",
                                     .form = "FUNCTION[@CARD][#NTH[+]]=ACTION",
                                     .prefix = "hlthunk_",
                                     .device = "card",
                                     .devices = kMaxCards,
                                     .is_known = is_known_function};

constexpr std::pair<std::string_view, bool Quirks::*> kQuirks[] = {
    {"mainline", &Quirks::mainline},     {"posted", &Quirks::posted}, {"fallback", &Quirks::fallback},
    {"early_flag", &Quirks::early_flag}, {"nested", &Quirks::nested}, {"kill", &Quirks::kill},
};

/// Parses an action; returns what is wrong with it, or nothing.
std::string_view parse_action(std::string_view action, FaultRule &rule) {
    using Action = FaultRule::Action;
    const bool hangs = action == "hang" || action.starts_with("hang:");
    if (hangs || action == "skip") {
        if (!rule.function.starts_with("command_submission"))
            return hangs ? "only command_submission and command_submission_timeout can hang"
                         : "only command_submission and command_submission_timeout can skip";
        rule.action = hangs ? Action::hang : Action::skip;
        if (soft::cut_prefix(action, "hang:")) {
            const auto milliseconds = parse_number<uint32_t>(action);
            if (!milliseconds || *milliseconds == 0)
                return "expected hang:MILLISECONDS";
            rule.timeout_ns = uint64_t{*milliseconds} * 1'000'000;
        }
    } else if (action == "reset") {
        rule.action = Action::reset;
    } else if (action == "lose") {
        rule.action = Action::lose;
    } else if (soft::cut_prefix(action, "delay:")) {
        const auto delay = parse_number<uint64_t>(action);
        if (!delay)
            return "expected delay:MICROSECONDS";
        rule.action = Action::delay;
        rule.delay_us = *delay;
    } else if (const auto code = soft::errno_by_name(action)) {
        rule.error = *code;
    } else {
        return "unknown action; expected an errno name, delay:MICROSECONDS, hang, hang:MILLISECONDS, skip, reset or "
               "lose";
    }
    return {};
}

} // namespace

tl::expected<Pace, std::string> parse_pace(std::string_view text) {
    Pace pace;
    if (text.empty())
        return pace;
    if (text == "null" || text.starts_with("null:")) {
        pace.mode = Pace::Mode::null;
        if (soft::cut_prefix(text, "null:")) {
            const auto mebibytes = soft::parse_number<uint64_t>(text);
            if (!mebibytes || *mebibytes > 1'000'000)
                return tl::unexpected(
                    gaudi::os::format("SOFTGAUDI_PACE: 'null:{}': expected null:MIB with at most 1000000 MiB", text));
            pace.moved_first = *mebibytes << 20;
        }
        return pace;
    }
    pace.mode = soft::cut_prefix(text, "virtual:") ? Pace::Mode::virtual_clock : Pace::Mode::real;
    const auto done = soft::parse_figures(
        "SOFTGAUDI_PACE", text,
        {{"down", &pace.down_ns_per_byte}, {"up", &pace.up_ns_per_byte}, {"card", &pace.card_ns_per_byte}},
        {{"submit", &pace.submit_ns}, {"map", &pace.map_ns}});
    if (!done)
        return Unexpected(done.error());
    return pace;
}

tl::expected<std::vector<FaultRule>, std::string> parse_faults(std::string_view text) {
    return soft::parse_rules(text, kFaults, parse_action);
}

tl::expected<Quirks, std::string> parse_quirks(std::string_view text) {
    Quirks quirks;
    const auto done = soft::split(text, ',', [&](std::string_view piece) -> tl::expected<void, std::string> {
        if (std::string_view seconds = piece; soft::cut_prefix(seconds, "kill:")) {
            const auto window = parse_number<uint32_t>(seconds);
            if (!window)
                return Unexpected(gaudi::os::format("SOFTGAUDI_QUIRKS: '{}': expected kill:SECONDS", piece));
            quirks.kill = true;
            quirks.window_s = *window;
            return {};
        }
        for (const auto &[name, quirk] : kQuirks)
            if (piece == name) {
                quirks.*quirk = true;
                return {};
            }
        std::vector<std::string_view> names;
        for (const auto &[name, quirk] : kQuirks)
            names.push_back(name);
        return Unexpected(gaudi::os::format("SOFTGAUDI_QUIRKS: '{}': unknown quirk; expected one or more of {}", piece,
                                            gaudi::os::join(names, ", ")));
    });
    if (!done)
        return Unexpected(done.error());
    return quirks;
}

tl::expected<bool, std::string> parse_pin(std::string_view text) {
    if (!text.empty() && text != "require")
        return Unexpected(gaudi::os::format("SOFTGAUDI_PIN={}: expected require, or nothing", text));
    return !text.empty();
}

tl::expected<uint64_t, std::string> parse_bar(std::string_view text, uint64_t usual) {
    if (text.empty())
        return usual;
    const auto mebibytes = parse_number<uint32_t>(text);
    if (!mebibytes || *mebibytes == 0)
        return Unexpected(gaudi::os::format("SOFTGAUDI_BAR={}: expected a number of MiB, 1 or more", text));
    return uint64_t{*mebibytes} << 20;
}

tl::expected<Config, std::string> read_config() {
    Config config;

    const std::string_view model = env("SOFTGAUDI_MODEL");
    if (model.empty() || model == "gaudi2")
        config.model = gaudi2();
    else if (model == "gaudi3")
        config.model = gaudi3();
    else
        return Unexpected(gaudi::os::format("SOFTGAUDI_MODEL={}: unknown model; expected gaudi2 or gaudi3", model));

    if (const std::string file(env("SOFTGAUDI_PROFILE")); !file.empty()) {
        auto profile = read_profile(file);
        if (profile && !model.empty() && profile->model.name != config.model.name)
            profile = Unexpected(gaudi::os::format("it is not of a {}, as SOFTGAUDI_MODEL is", model));
        if (!profile)
            return Unexpected(gaudi::os::format("SOFTGAUDI_PROFILE={}: {}", file, profile.error()));
        config.model = profile->model;
        config.quirks = profile->quirks;
        config.behaviour = std::move(profile->behaviour);
    }

    std::string wrong;
    Quirks quirks;
    if (!assign(soft::read_count("SOFTGAUDI_CARDS", config.cards, kMaxCards), config.cards, wrong) ||
        !assign(parse_quirks(env("SOFTGAUDI_QUIRKS")), quirks, wrong) ||
        !assign(parse_pin(env("SOFTGAUDI_PIN")), config.pin_required, wrong) ||
        !assign(parse_bar(env("SOFTGAUDI_BAR"), config.behaviour.bar_bytes), config.behaviour.bar_bytes, wrong) ||
        !assign(parse_pace(env("SOFTGAUDI_PACE")), config.pace, wrong) ||
        !assign(parse_faults(env("SOFTGAUDI_FAULTS")), config.faults, wrong) ||
        !assign(soft::make_directory("SOFTGAUDI_DIR", "softgaudi", "it holds the memory of the cards"), config.dir,
                wrong))
        return Unexpected(wrong);
    for (const auto &[name, quirk] : kQuirks) // those of the profile stay
        config.quirks.*quirk = config.quirks.*quirk || quirks.*quirk;
    return config;
}

} // namespace softgaudi
