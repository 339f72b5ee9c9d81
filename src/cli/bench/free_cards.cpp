// SPDX-License-Identifier: BSD-3-Clause
#include "free_cards.h"

#include "cli/doctor/collect.h"
#include "os/format.h"

#include <algorithm>

namespace gaudi::cli::bench {
namespace {

std::string describe_use(const doctor::CardFacts &report) {
    return os::format("card {} ({}) is in use by {}", report.module_id, report.bus_id, describe_holders(report));
}

} // namespace

OrSentence<std::vector<Card *>> find_free_cards(const Cards &cards, const std::vector<std::string> &names,
                                                std::vector<std::string> &left_alone) {
    if (cards.empty())
        return Sentence(cards.why_empty());
    const auto reports = doctor::list_cards();
    if (!reports)
        return Sentence(reports.error());
    const auto report_of = [&](const Card &card) {
        return std::ranges::find(*reports, card.bus_id(), &doctor::CardFacts::bus_id);
    };
    std::vector<Card *> found;
    for (const std::string &name : names) {
        const bool is_number = name.find_first_not_of("0123456789") == std::string::npos;
        const auto card = cards.named(is_number ? os::format("module:{}", name) : name);
        if (!card)
            return Sentence(card.error().text);
        if (const auto report = report_of(**card); report != reports->end() && report->in_use)
            return Sentence(
                os::format("{}; end that program, or choose another card with --card", describe_use(*report)));
        if (std::ranges::find(found, *card) == found.end())
            found.push_back(*card);
    }
    if (!names.empty())
        return found;
    for (const doctor::CardFacts &report : *reports) {
        if (!report.in_use && report.state == "operational") {
            found.push_back(cards.by_bus_id(report.bus_id));
            continue;
        }
        left_alone.push_back(report.in_use ? describe_use(report)
                                           : os::format("card {} is {}", report.module_id, report.state));
    }
    if (found.empty())
        return Sentence(os::format("no card is free: {}", os::join(left_alone, "; ")));
    return found;
}

} // namespace gaudi::cli::bench
