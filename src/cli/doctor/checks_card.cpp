// SPDX-License-Identifier: BSD-3-Clause
// libhl-thunk and the cards that it shows.
#include "check.h"
#include "cli/grouped.h"
#include "os/format.h"

#include <algorithm>
#include <array>

namespace gaudi::cli::doctor {
namespace {

Outcome judge_thunk(const Facts &facts) {
    const ThunkFacts &thunk = facts.thunk;
    if (!thunk.path.empty() && thunk.why_not.empty())
        return ok(os::format("{}, version {}{}", thunk.path, thunk.version,
                             thunk.software ? " (SOFTWARE: softgaudi, not hardware)" : ""));
    if (!thunk.why_not.empty())
        return fail(thunk.why_not, "install a newer libhl-thunk, or name one in GAUDI_THUNK");
    if (facts.pci_cards.empty())
        return warn("no libhl-thunk was found, and PCI shows no Gaudi card",
                    "on software: ucx_gaudi run -- ucx_gaudi doctor");
    return fail("no libhl-thunk was found",
                "install the libraries of the Gaudi driver, or name the file in GAUDI_THUNK");
}

Outcome judge_thunk_functions(const Facts &facts) {
    if (facts.thunk.path.empty())
        return skip("no libhl-thunk was found");
    if (facts.thunk.missing.empty())
        return ok("libhl-thunk has every function that is used");
    const auto lacks_any = [&](const char *part) {
        return std::ranges::any_of(facts.thunk.missing,
                                   [&](const std::string &name) { return name.find(part) != std::string::npos; });
    };
    std::vector<std::string> effects;
    if (lacks_any("export_dmabuf"))
        effects.emplace_back("no memory is exported, RDMA goes through the host");
    if (lacks_any("cs_flush"))
        effects.emplace_back("what a NIC wrote cannot be flushed, so nothing is exported");
    if (lacks_any("notifier"))
        effects.emplace_back("a reset of a card is noticed only when copies fail");
    const std::string lacks = os::format("{} lacks {}", facts.thunk.path, os::join(facts.thunk.missing, ", "));
    if (effects.empty())
        return ok(os::format("{}, which matters little", lacks));
    return warn(os::format("{}: {}", lacks, os::join(effects, "; ")), "install a newer libhl-thunk");
}

Outcome judge_thunk_copies(const Facts &facts) {
    if (facts.thunk.copies.size() < 2)
        return facts.thunk.copies.empty() ? skip("no libhl-thunk was found") : ok("one libhl-thunk is in reach");
    return warn(os::format("several libhl-thunk are in reach: {}; a framework may load another than UCX does, and each "
                           "opens cards of its own",
                           os::join(facts.thunk.copies, ", ")),
                "keep one, or name it in GAUDI_THUNK and put its directory first in LD_LIBRARY_PATH");
}

Outcome judge_cards(const Facts &facts) {
    if (facts.cards.empty()) {
        if (facts.thunk.path.empty())
            return skip("no libhl-thunk was found");
        return fail(explain_no_card(facts), "see GD010 to GD014, and GD027 and GD028 for variables");
    }
    std::vector<std::string> bad;
    for (const CardFacts &card : facts.cards)
        if (card.state != "operational")
            bad.push_back(os::format("card {} ({}) is {}", card.module_id, card.bus_id, card.state));
    if (bad.empty())
        return ok(os::format("{} cards, all operational", facts.cards.size()));
    return fail(os::format("{}", os::join(bad, ", ")),
                "hl-smi -r resets a card; dmesg | grep habanalabs has the cause");
}

Outcome judge_resets(const Facts &facts) {
    if (facts.cards.empty())
        return skip("there is no card");
    std::vector<std::string> seen;
    for (const CardFacts &card : facts.cards)
        if (card.hard_resets.value_or(0) > 0)
            seen.push_back(os::format("card {}: {}", card.module_id, *card.hard_resets));
    if (seen.empty())
        return ok("no card was reset by an error since the driver was loaded");
    return warn(os::format("cards were reset by errors since the driver was loaded: {}", os::join(seen, ", ")),
                "dmesg | grep habanalabs");
}

Outcome judge_busy(const Facts &facts) {
    if (facts.cards.empty())
        return skip("there is no card");
    std::vector<std::string> busy;
    for (const CardFacts &card : facts.cards) {
        if (!card.in_use)
            continue;
        busy.push_back(os::format("card {} by {}", card.module_id, describe_holders(card)));
    }
    if (busy.empty())
        return ok(os::format("all {} cards are free", facts.cards.size()));
    const std::string sentence = os::format("in use: {}", os::join(busy, "; "));
    if (busy.size() < facts.cards.size())
        return ok(sentence);
    return warn(os::format("{}; no card is free for another process", sentence), "end one of them, or wait");
}

Outcome judge_verification(const Facts &facts) {
    Grouped<std::uint64_t> unverified;
    bool any = false;
    for (const CardFacts &card : facts.cards) {
        any = any || card.takes_submissions;
        if (card.takes_submissions && !card.completion_by_flag)
            unverified.add(card.completion_reason, card.module_id);
    }
    if (!any)
        return skip("no card takes command submissions");
    if (unverified.empty())
        return ok("the completion flag was verified on these cards, driver and firmware");
    std::string sentence = "the driver is asked for the end of each copy, which is slower for small copies";
    for (const auto &[reason, numbers] : unverified)
        sentence += os::format("; {}: {}", name_cards(numbers), reason);
    return warn(sentence, "ucx_gaudi verify");
}

Outcome judge_mapping_table(const Facts &facts) {
    if (!facts.mapping_table_error.empty())
        return fail(facts.mapping_table_error, "correct the variable, or unset it");
    const SettingFacts *table = facts.setting("GAUDI_MAPPING_TABLE");
    if (!table)
        return ok("cards are numbered by module id; GAUDI_MAPPING_TABLE is not set");
    return ok(os::format("GAUDI_MAPPING_TABLE numbers {} cards", facts.cards.size()));
}

Outcome judge_visible(const Facts &facts) {
    for (const char *name : {"HABANA_VISIBLE_MODULES", "HLS_MODULE_ID"})
        if (const SettingFacts *setting = facts.setting(name))
            return facts.cards.empty()
                       ? fail(os::format("{}={} leaves no card", name, setting->value), os::format("unset {}", name))
                       : ok(os::format("{}={}: {} cards are left", name, setting->value, facts.cards.size()));
    const SettingFacts *devices = facts.setting("HABANA_VISIBLE_DEVICES");
    if (devices && !facts.process.container.empty())
        return ok(os::format("HABANA_VISIBLE_DEVICES={} is for the runtime of this container", devices->value));
    if (devices)
        return warn(os::format("HABANA_VISIBLE_DEVICES={} is a setting of the container runtime, nothing in a process "
                               "reads it",
                               devices->value),
                    "use HABANA_VISIBLE_MODULES");
    return ok("no variable hides cards");
}

constexpr std::array kChecks = {
    Check{"GD020", "libhl-thunk", judge_thunk},
    Check{"GD021", "functions of libhl-thunk", judge_thunk_functions},
    Check{"GD022", "copies of libhl-thunk", judge_thunk_copies},
    Check{"GD023", "state of the cards", judge_cards},
    Check{"GD024", "resets of the cards", judge_resets},
    Check{"GD025", "processes that hold cards", judge_busy},
    Check{"GD026", "verification of the cards", judge_verification},
    Check{"GD027", "mapping table", judge_mapping_table},
    Check{"GD028", "visible cards", judge_visible},
};

} // namespace

std::string explain_no_card(const Facts &facts) {
    constexpr std::string_view kNone = "there is no Gaudi card"; // a longer sentence names a variable
    if (facts.why_no_card != kNone || facts.pci_cards.empty() || facts.thunk.path.empty() || facts.thunk.software)
        return facts.why_no_card;
    return os::format("libhl-thunk shows none of the {} Gaudi cards on PCI", facts.pci_cards.size());
}

std::span<const Check> card_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
