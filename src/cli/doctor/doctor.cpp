// SPDX-License-Identifier: BSD-3-Clause
#include "doctor.h"

#include "check.h"
#include "cli/uses_colour.h"
#include "cli/write_stdout.h"
#include "collect.h"
#include "facts_file.h"
#include "os/format.h"
#include "os/printable.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>

namespace gaudi::cli {
namespace {

using namespace doctor;

int refuse(const std::string &sentence) {
    os::print(stderr, "ucx_gaudi: {}\n", sentence);
    return 1;
}

/// Says what will be done to cards before it is done.
void announce(const Facts &facts) {
    std::vector<std::string> free, busy;
    for (const CardFacts &card : facts.cards)
        if (card.in_use || card.state == "operational")
            (card.in_use ? busy : free).push_back(std::to_string(card.module_id));
    if (!free.empty())
        os::print(stderr, "ucx_gaudi: --active opens card {} and copies memory of its own; closing a card resets it\n",
                  os::join(free, ", "));
    if (!busy.empty())
        os::print(stderr, "ucx_gaudi: --active leaves card {} alone: it is in use\n", os::join(busy, ", "));
}

Facts gather(bool active) {
    Facts facts = collect(Machine::here());
    if (active) {
        announce(facts);
        facts.round_trips = collect_round_trips(facts);
    }
    return facts;
}

const char *colour_of(Verdict verdict) {
    switch (verdict) {
    case Verdict::ok:
        return "\033[32m";
    case Verdict::warn:
        return "\033[33m";
    case Verdict::fail:
        return "\033[31m";
    case Verdict::skip:
        return "\033[2m";
    }
    return "";
}

std::string format_lines(const std::vector<Result> &results, bool software) {
    const bool colour = uses_colour();
    std::string text;
    std::size_t counts[4] = {};
    for (const auto &[check, outcome] : results) {
        ++counts[static_cast<int>(outcome.verdict)];
        text += os::format("{}{:<4}{}  {}  {}\n", colour ? colour_of(outcome.verdict) : "", name_of(outcome.verdict),
                           colour ? "\033[0m" : "", check->id, os::printable(outcome.sentence));
        if (!outcome.fix.empty())
            text += os::format("             fix: {}\n", os::printable(outcome.fix));
    }
    text += os::format("\n{} ok, {} warnings, {} failed, {} skipped{}\n", counts[0], counts[1], counts[2], counts[3],
                       software ? "; SOFTWARE: the cards are those of softgaudi, not hardware" : "");
    return text;
}

std::string format_json(const std::vector<Result> &results, const Facts &facts) {
    using Json = nlohmann::ordered_json; // keeps the order for readers
    Json out = {{"schema", 1}, {"version", facts.version}, {"software", facts.thunk.software}};
    out["checks"] = Json::array();
    for (const auto &[check, outcome] : results)
        out["checks"].push_back({{"id", check->id},
                                 {"title", check->title},
                                 {"verdict", name_of(outcome.verdict)},
                                 {"sentence", outcome.sentence},
                                 {"fix", outcome.fix.empty() ? Json() : Json(outcome.fix)}});
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace

int run_doctor(const DoctorOptions &options) {
    const auto facts = options.from.empty() ? gather(options.active) : read_facts_file(options.from);
    if (!facts)
        return refuse(facts.error());
    const std::vector<Result> results = judge(*facts);
    if (!write_stdout(options.json ? format_json(results, *facts) : format_lines(results, facts->thunk.software)))
        return 1;
    const bool bad = std::ranges::any_of(results, [&](const Result &result) {
        return result.outcome.verdict == Verdict::fail || (options.strict && result.outcome.verdict == Verdict::warn);
    });
    return bad ? 1 : 0;
}

int run_dump(const DumpOptions &options) {
    const Facts facts = gather(options.active);
    if (options.output.empty())
        return write_stdout(write_facts(facts)) ? 0 : 1;
    const auto written = write_facts_file(facts, options.output);
    return written ? 0 : refuse(written.error());
}

} // namespace gaudi::cli
