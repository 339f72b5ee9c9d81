// SPDX-License-Identifier: BSD-3-Clause
// The way between cards and NICs: BAR, IOMMU, ACS, switches.
#include "check.h"
#include "cli/grouped.h"
#include "nic_reasons.h"
#include "os/format.h"

#include <algorithm>
#include <array>
#include <set>

namespace gaudi::cli::doctor {
namespace {

constexpr const char *kNoPciCard = "PCI shows no Gaudi card";

/// Why nothing can be said about PCIe, else empty.
std::string why_no_pci(const Facts &facts) {
    if (facts.thunk.software)
        return "the cards are software (softgaudi): no PCIe traffic";
    return facts.pci_cards.empty() ? kNoPciCard : "";
}

Outcome judge_bar(const Facts &facts) {
    if (const std::string why = why_no_pci(facts); !why.empty())
        return skip(why);
    if (facts.cards.empty())
        return skip("libhl-thunk shows no card whose memory the BAR could be compared with");
    std::vector<std::string> small;
    bool any = false;
    for (const CardFacts &card : facts.cards) {
        const auto pci = std::ranges::find(facts.pci_cards, card.bus_id, &PciCardFacts::bus_id);
        if (pci == facts.pci_cards.end() || pci->bar_bytes == 0)
            continue;
        any = true;
        if (pci->bar_bytes < card.memory_bytes)
            small.push_back(
                os::format("card {}: {} MiB of {} MiB", card.module_id, pci->bar_bytes >> 20, card.memory_bytes >> 20));
    }
    if (!any)
        return skip("sysfs does not show the length of the BAR");
    if (small.empty())
        return ok("the BAR of each card covers its memory");
    return warn(
        os::format("the BAR is shorter than the card's memory, so that long mappings cannot be exported: {}",
                   os::join(small, ", ")),
        "enable 'Above 4G decoding' and resizable BARs in the firmware, or give the virtual machine the whole BAR");
}

Outcome judge_iommu(const Facts &facts) {
    if (const std::string why = why_no_pci(facts); !why.empty())
        return skip(why);
    Grouped<std::string> translated;
    for (const PciCardFacts &card : facts.pci_cards)
        if (!card.iommu.empty() && card.iommu != "identity")
            translated.add(card.iommu, card.bus_id);
    if (translated.empty())
        return ok("no IOMMU translates the addresses of the cards");
    std::vector<std::string> parts;
    for (const auto &[type, cards] : translated)
        parts.push_back(os::format("{} ({})", os::join(cards, ", "), type));
    return warn(
        os::format("an IOMMU translates addresses of {}: peer-to-peer traffic goes through the root complex, or "
                   "not at all",
                   os::join(parts, ", ")),
        "boot with iommu=pt");
}

Outcome judge_acs(const Facts &facts) {
    if (const std::string why = why_no_pci(facts); !why.empty())
        return skip(why);
    constexpr std::uint64_t kRedirect = 0x4 | 0x8; // P2P request redirect, P2P completion redirect
    std::set<std::string> redirecting;
    std::string why_unknown;
    bool known = false;
    const auto look_at = [&](const std::vector<BridgeFacts> &bridges) {
        for (const BridgeFacts &bridge : bridges) {
            if (!bridge.why_unknown.empty())
                why_unknown = bridge.why_unknown;
            known = known || bridge.acs_control;
            if (bridge.acs_control.value_or(0) & kRedirect)
                redirecting.insert(bridge.bus_id);
        }
    };
    for (const PciCardFacts &card : facts.pci_cards)
        look_at(card.bridges);
    for (const NicFacts &nic : facts.nics)
        look_at(nic.acs);
    if (!redirecting.empty())
        return warn(
            os::format("ACS of {} redirects peer-to-peer traffic to the root complex, which halves its speed or "
                       "stops it",
                       os::join(redirecting, ", ")),
            os::format("setpci -s {} ECAP_ACS+6.w=0000, as root, for each of them", *redirecting.begin()));
    if (!why_unknown.empty())
        return skip(os::format("ACS of the bridges is not known: {}", why_unknown));
    return ok(known ? "ACS of no bridge redirects peer-to-peer traffic" : "no bridge above the cards and NICs has ACS");
}

Outcome judge_switch(const Facts &facts) {
    if (const std::string why = why_no_pci(facts); !why.empty())
        return skip(why);
    if (std::ranges::none_of(facts.nics, [](const NicFacts &nic) { return !nic.bus_id.empty(); }))
        return skip("there is no RDMA device with a place on PCIe");
    std::vector<std::string> far;
    for (const PciCardFacts &card : facts.pci_cards) {
        const bool near = std::ranges::any_of(facts.nics, [&](const NicFacts &nic) { return share_switch(card, nic); });
        if (!near)
            far.push_back(card.bus_id);
    }
    if (far.empty())
        return ok("each card has a NIC below the same PCIe switch");
    return warn(os::format("{} share no PCIe switch with a NIC: RDMA crosses the root complex", os::join(far, ", ")),
                "use the cards that are near a NIC, or move the NIC");
}

constexpr std::array kChecks = {
    Check{"GD030", "PCIe BAR", judge_bar},
    Check{"GD031", "IOMMU", judge_iommu},
    Check{"GD032", "ACS", judge_acs},
    Check{"GD033", "common PCIe switch", judge_switch},
};

} // namespace

std::span<const Check> path_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
