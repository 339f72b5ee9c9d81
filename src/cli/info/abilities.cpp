// SPDX-License-Identifier: BSD-3-Clause
#include "abilities.h"

#include "cli/doctor/nic_reasons.h"
#include "os/format.h"

#include <algorithm>
#include <initializer_list>

namespace gaudi::cli::info {
namespace {

using namespace doctor;

/// The first of these checks that found a fault, as a sentence; empty if none did.
std::string find_fault(const std::vector<Result> &results, std::initializer_list<std::string_view> ids) {
    for (const auto &[check, outcome] : results)
        if (std::ranges::find(ids, check->id) != ids.end() &&
            (outcome.verdict == Verdict::fail || outcome.verdict == Verdict::warn))
            return os::format("{}: {}", check->id, outcome.sentence);
    return {};
}

std::string why_unusable(const CardFacts &card, const Facts &facts) {
    if (card.state != "operational")
        return os::format("the card is {}", card.state);
    for (const NodeFacts &node : facts.nodes)
        if (node.bus_id == card.bus_id && !node.accessible)
            return os::format("this user may not open {}", node.path);
    return {};
}

/// Why no UCX here moves memory of any card.
std::string why_no_ucx(const Facts &facts, const std::vector<Result> &results) {
    if (std::string fault = find_fault(results, {"GD040", "GD043"}); !fault.empty())
        return fault;
    if (std::ranges::none_of(facts.ucx, loads_modules))
        return "no UCX here loads the modules";
    for (const auto &[check, outcome] : results) // a warning of these leaves copies alone
        if (outcome.verdict == Verdict::fail &&
            (check->id == "GD046" || check->id == "GD050" || check->id == "GD052" || check->id == "GD053"))
            return os::format("{}: {}", check->id, outcome.sentence);
    return {};
}

const RoundTripFacts *find_trip(const Facts &facts, const CardFacts &card, const std::string &nic) {
    if (facts.round_trips)
        for (const RoundTripFacts &trip : *facts.round_trips)
            if (trip.card == card.module_id && trip.nic == nic)
                return &trip;
    return nullptr;
}

Ability judge_copies(const CardFacts &card, const Facts &facts, const std::vector<Result> &results) {
    if (std::string why = why_no_ucx(facts, results); !why.empty())
        return {false, std::move(why)};
    if (const RoundTripFacts *trip = find_trip(facts, card, ""); trip && !trip->good)
        return {false, trip->sentence};
    if (!card.takes_submissions)
        return {true, "by SynapseAI, in the process of a framework that has opened the card"};
    return {true, "by the DMA engines of the card"};
}

Ability judge_export(const CardFacts &card, const Facts &facts, const std::vector<Result> &results) {
    for (const char *function : {"hlthunk_device_mapped_memory_export_dmabuf_fd", "hlthunk_cs_flush_pci_hbw_writes"})
        if (std::ranges::find(facts.thunk.missing, function) != facts.thunk.missing.end())
            return {false, os::format("libhl-thunk lacks {}", function)};
    if (const SettingFacts *dmabuf = facts.setting("UCX_GAUDI_COPY_DMABUF"))
        if (std::string fault = find_fault(results, {"GD055"}); fault.find(dmabuf->name) != std::string::npos)
            return {false, std::move(fault)};
    const auto pci = std::ranges::find(facts.pci_cards, card.bus_id, &PciCardFacts::bus_id);
    if (pci != facts.pci_cards.end() && pci->bar_bytes > 0 && pci->bar_bytes < card.memory_bytes)
        return {true, os::format("as dma-bufs, of the {} MiB behind the BAR only", pci->bar_bytes >> 20)};
    return {true, "as dma-bufs"};
}

NicAbility judge_nic(const NicFacts &nic, const CardFacts &card, const Facts &facts) {
    NicAbility ability;
    ability.nic = nic.name;
    const auto pci = std::ranges::find(facts.pci_cards, card.bus_id, &PciCardFacts::bus_id);
    ability.same_switch = pci != facts.pci_cards.end() && share_switch(*pci, nic);
    ability.why_not = why_no_dmabufs(nic);
    const SettingFacts *devices = facts.setting("UCX_NET_DEVICES");
    if (ability.why_not.empty() && devices && !is_selected(nic, devices->value))
        ability.why_not = "UCX_NET_DEVICES leaves it out";
    if (const RoundTripFacts *trip = find_trip(facts, card, nic.name)) {
        ability.tried = true;
        if (ability.why_not.empty() && !trip->good)
            ability.why_not = trip->sentence;
    }
    ability.zero_copy = ability.why_not.empty();
    return ability;
}

Ability judge_zero_copy(const Abilities &abilities, const Facts &facts, const std::vector<Result> &results) {
    if (!abilities.copies.possible)
        return {false, "as for copies"};
    if (!abilities.dmabuf_export.possible)
        return {false, "as for export"};
    if (std::string fault = find_fault(results, {"GD001", "GD002", "GD050", "GD051", "GD055"}); !fault.empty())
        return {false, std::move(fault)};
    if (facts.nics.empty())
        return {false, facts.why_no_verbs.empty() ? "there is no RDMA device" : facts.why_no_verbs};
    const bool any = std::ranges::any_of(abilities.nics, &NicAbility::zero_copy);
    return {any, any ? "with RDMA devices that register dma-bufs" : "no RDMA device reaches the card"};
}

} // namespace

bool loads_modules(const UcxFacts &ucx) {
    return ucx.why_unusable.empty() && ucx.load_error.empty() &&
           std::ranges::any_of(ucx.files, [](const ModuleFileFacts &file) { return file.why_skipped.empty(); });
}

Abilities abilities_of(const CardFacts &card, const Facts &facts, const std::vector<Result> &results) {
    Abilities abilities;
    if (const std::string why = why_unusable(card, facts); !why.empty()) {
        abilities.copies = abilities.dmabuf_export = abilities.zero_copy = {false, why};
        return abilities;
    }
    abilities.copies = judge_copies(card, facts, results);
    abilities.dmabuf_export = judge_export(card, facts, results);
    for (const NicFacts &nic : facts.nics)
        abilities.nics.push_back(judge_nic(nic, card, facts));
    abilities.zero_copy = judge_zero_copy(abilities, facts, results);
    if (!abilities.zero_copy.possible)
        for (NicAbility &nic : abilities.nics)
            if (nic.zero_copy)
                nic = {nic.nic, false, nic.same_switch, nic.tried, abilities.zero_copy.sentence};
    return abilities;
}

} // namespace gaudi::cli::info
