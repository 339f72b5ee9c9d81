// SPDX-License-Identifier: BSD-3-Clause
#include "run_counters.h"

#include "os/format.h"
#include "os/printable.h"
#include "output_of.h"
#include "places.h"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace gaudi::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Source {
    const char *program;
    const char *device; // that it counts for
    const char *key;    // of its list of devices in JSON
};
constexpr Source kCards{"softgaudi_stat", "card", "cards"};
constexpr Source kNics{"softhca_stat", "NIC", "devices"};

/// The output of the program; its error is why there is none.
OrSentence<std::string> read_counters(const Source &source, bool json) {
    const auto path = find_program(source.program);
    if (!path)
        return Sentence(path.error());
    std::vector<std::string> command = {path->string()};
    if (json)
        command.emplace_back("--json");
    auto [succeeded, text] = full_output_of(command);
    if (succeeded)
        return text;
    // The program says itself that no program has used its device, or what else is wrong.
    text = os::printable_lines(text);
    while (text.ends_with('\n'))
        text.pop_back();
    return Sentence(text.empty() ? os::format("{} cannot be run", source.program) : text);
}

void print_counters_of(const Source &source) {
    const auto text = read_counters(source, false);
    if (!text)
        os::print(stderr, "ucx_gaudi: no counters: {}\n", text.error());
    else if (text->empty())
        os::print(stderr, "ucx_gaudi: {} has no counters: no {} was used\n", source.program, source.device);
    else
        os::print(stderr, "ucx_gaudi: counters of {}:\n{}", source.program, *text);
}

/// The program's report; where it has none, an empty one, and the reason in `reasons`.
Json read_report(const Source &source, Json &reasons) {
    const auto text = read_counters(source, true);
    Json report = text ? Json::parse(*text, nullptr, false) : Json();
    if (report.is_object() && report.contains(source.key))
        return report;
    reasons.push_back(text ? os::format("{} printed no report", source.program) : text.error());
    return {{source.key, Json::array()}};
}

} // namespace

void print_counters(bool with_nics) {
    print_counters_of(kCards);
    if (with_nics)
        print_counters_of(kNics);
}

std::string describe_run(const std::vector<std::string> &command, int code, bool with_nics) {
    Json reasons = Json::array();
    const Json cards = read_report(kCards, reasons);
    const Json nics = with_nics ? read_report(kNics, reasons) : Json{{kNics.key, Json::array()}};
    const Json report = {
        {"schema", 1},
        {"software", true},
        {"command", command},
        {"exit_code", code},
        {"virtual_clock_ns", cards.contains("clock_ns") ? cards["clock_ns"] : Json()},
        {"cards", cards[kCards.key]},
        {"nics", nics[kNics.key]},
        {"reasons", reasons}, // why counters are missing
    };
    return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; // a command may be any bytes
}

} // namespace gaudi::cli
