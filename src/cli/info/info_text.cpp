// SPDX-License-Identifier: BSD-3-Clause
#include "abilities.h"
#include "cli/grouped.h"
#include "info.h"
#include "os/format.h"
#include "os/printable.h"

#include <algorithm>
#include <functional>
#include <set>

namespace gaudi::cli::info {
namespace {

using namespace doctor;
using Row = std::vector<std::string>;

class Text {
public:
    /// A further value of the key above has an empty key.
    void line(std::string_view key, std::string_view value) {
        const std::string label = key.empty() ? "" : os::format("{}:", key);
        m_text += os::format("{:<17}{}\n", label, os::printable(value));
    }
    void table(const std::vector<Row> &rows) {
        std::vector<std::size_t> widths(rows.front().size());
        for (const Row &row : rows)
            for (std::size_t i = 0; i < row.size(); ++i)
                widths[i] = std::max(widths[i], row[i].size());
        for (const Row &row : rows) {
            for (std::size_t i = 0; i + 1 < row.size(); ++i)
                m_text += os::format("{:<{}}  ", os::printable(row[i]), widths[i]);
            m_text += os::format("{}\n", os::printable(row.back()));
        }
    }
    void end_paragraph() { m_text += '\n'; }
    std::string take() { return std::move(m_text); }

private:
    std::string m_text;
};

std::string mebibytes(std::uint64_t bytes) { return os::format("{} MiB", bytes >> 20); }

std::string kernel_text(const Facts &facts) {
    if (facts.thunk.software)
        return facts.kernel.release;
    if (!facts.driver.loaded)
        return os::format("{}, without the driver habanalabs", facts.kernel.release);
    return os::format("{}, driver habanalabs {} ({})", facts.kernel.release, facts.driver.version, facts.driver.kind);
}

std::string thunk_text(const ThunkFacts &thunk) {
    if (thunk.path.empty())
        return thunk.why_not.empty() ? "not found" : thunk.why_not;
    return os::format("{}, version {}", thunk.path, thunk.version);
}

std::string modules_text(const Facts &facts) {
    if (facts.module_directory.empty())
        return "not found";
    if (facts.missing_modules.empty())
        return facts.module_directory;
    return os::format("{}, without {}", facts.module_directory, os::join(facts.missing_modules, ", "));
}

/// Whether a UCX takes the modules, and why.
std::string modules_in(const UcxFacts &ucx) {
    if (!ucx.why_unusable.empty())
        return os::format("{}{}", ucx.version.empty() ? "" : "it ", ucx.why_unusable);
    const std::string path =
        ucx.plugin_path_source.empty()
            ? "UCX_PLUGIN_PATH is not set"
            : os::format("UCX_PLUGIN_PATH is from {}",
                         ucx.plugin_path_source == "environment" ? "the environment" : ucx.plugin_path_source);
    if (!ucx.load_error.empty())
        return os::format("cannot load the modules: {}", ucx.load_error);
    if (loads_modules(ucx))
        return os::format("loads the modules; {}", path);
    return os::format("does not load the modules; {}", path);
}

void add_ucx(Text &out, const std::vector<UcxFacts> &all) {
    if (all.empty())
        out.line("UCX", "not found; install 1.22 or later, for example with: pip install libucx-cu13");
    std::set<std::string> listed;
    for (const UcxFacts &ucx : all) {
        const bool fetched = ucx.source.starts_with("--ucx"); // for `ucx_gaudi run`
        if (!listed.insert(ucx.libucs).second && fetched)
            continue;
        out.line(
            &ucx == &all.front() ? "UCX" : "",
            os::format("{}, {} ({})", ucx.version.empty() ? "does not load" : ucx.version, ucx.libucs, ucx.source));
        if (!fetched || !ucx.why_unusable.empty())
            out.line("", os::format("  {}", modules_in(ucx)));
    }
}

std::string holder_text(const CardFacts &card) { return card.in_use ? describe_holders(card) : "-"; }

/// Only GAUDI_MAPPING_TABLE gives cards other numbers than their module ids.
bool is_renumbered(const std::vector<CardFacts> &cards) {
    return std::ranges::any_of(cards, [](const CardFacts &card) { return card.number != card.module_id; });
}

void add_table(Text &out, const std::vector<CardFacts> &cards) {
    const bool renumbered = is_renumbered(cards);
    std::vector<Row> rows = {{"card", "bus id", "model", "memory", "used", "free", "state", "holder"}};
    for (const CardFacts &card : cards) {
        const auto free = card.memory_free_bytes;
        rows.push_back({std::to_string(card.module_id), card.bus_id,
                        card.card_name.empty() ? card.model : os::format("{} ({})", card.model, card.card_name),
                        mebibytes(card.memory_bytes),
                        free ? mebibytes(card.memory_bytes - std::min(*free, card.memory_bytes)) : "unknown",
                        free ? mebibytes(*free) : "unknown", card.state, holder_text(card)});
    }
    if (renumbered) {
        rows.front().insert(rows.front().begin() + 1, "index");
        for (std::size_t i = 0; i < cards.size(); ++i)
            rows[i + 1].insert(rows[i + 1].begin() + 1, std::to_string(cards[i].number));
    }
    out.table(rows);
}

/// A line for all cards of which the same is to be said.
void add_grouped(Text &out, std::string_view key, const std::vector<CardFacts> &cards,
                 const std::function<std::string(std::size_t)> &text_of) {
    Grouped<std::uint64_t> groups;
    for (std::size_t i = 0; i < cards.size(); ++i)
        groups.add(text_of(i), cards[i].module_id);
    for (const auto &[text, group] : groups) {
        std::vector<std::uint64_t> numbers = group;
        std::ranges::sort(numbers);
        out.line(&text == &groups.begin()->first ? key : "", os::format("{}: {}", name_cards(numbers), text));
    }
}

std::string ability_text(const Ability &ability) {
    return ability.possible ? ability.sentence : os::format("no: {}", ability.sentence);
}

std::string zero_copy_text(const Abilities &abilities) {
    if (!abilities.zero_copy.possible && std::ranges::none_of(abilities.nics, [&](const NicAbility &nic) {
            return nic.why_not != abilities.zero_copy.sentence;
        }))
        return ability_text(abilities.zero_copy);
    std::vector<std::string> parts;
    for (const NicAbility &nic : abilities.nics) {
        if (!nic.zero_copy)
            continue;
        const char *remarks = nic.same_switch && nic.tried ? " (same switch, tried)"
                              : nic.same_switch            ? " (same switch)"
                              : nic.tried                  ? " (tried)"
                                                           : "";
        parts.push_back(nic.nic + remarks);
    }
    std::string text = parts.empty() ? ability_text(abilities.zero_copy) : "with " + os::join(parts, ", ");
    Grouped<std::string> reasons;
    for (const NicAbility &nic : abilities.nics)
        if (!nic.zero_copy && nic.why_not != abilities.zero_copy.sentence)
            reasons.add(nic.why_not, nic.nic);
    for (const auto &[reason, nics] : reasons)
        text += os::format("; not {}: {}", os::join(nics, ", "), reason);
    return text;
}

void add_cards(Text &out, const Facts &facts, const std::vector<Result> &results) {
    const std::vector<CardFacts> &cards = facts.cards;
    if (cards.empty()) {
        out.line("cards", explain_no_card(facts));
        std::vector<std::string> on_pci;
        for (const PciCardFacts &card : facts.pci_cards)
            on_pci.push_back(card.bus_id);
        if (!on_pci.empty())
            out.line("", os::format("on PCI: {}", os::join(on_pci, ", ")));
        return;
    }
    out.line("cards", os::format("{}; the number of a card is its module id, in every command{}", cards.size(),
                                 is_renumbered(cards) ? "; settings and messages of UCX have the index, by "
                                                        "GAUDI_MAPPING_TABLE"
                                                      : ", setting and message"));
    out.end_paragraph();
    add_table(out, cards);
    out.end_paragraph();

    std::vector<Abilities> abilities;
    for (const CardFacts &card : cards)
        abilities.push_back(abilities_of(card, facts, results));
    add_grouped(out, "firmware", cards, [&](std::size_t i) { return cards[i].firmware; });
    add_grouped(out, "copies", cards, [&](std::size_t i) { return ability_text(abilities[i].copies); });
    add_grouped(out, "completion", cards, [&](std::size_t i) {
        return os::format("{}: {}", cards[i].completion_by_flag ? "flag" : "driver", cards[i].completion_reason);
    });
    add_grouped(out, "export", cards, [&](std::size_t i) { return ability_text(abilities[i].dmabuf_export); });
    add_grouped(out, "zero copy", cards, [&](std::size_t i) { return zero_copy_text(abilities[i]); });
}

/// Faults in a line each, warnings by their number: doctor has the rest.
void add_problems(Text &out, const std::vector<Result> &results) {
    std::size_t failed = 0, warned = 0;
    for (const auto &[check, outcome] : results) {
        failed += outcome.verdict == Verdict::fail ? 1 : 0;
        warned += outcome.verdict == Verdict::warn ? 1 : 0;
        if (outcome.verdict == Verdict::fail)
            out.line("problem", os::format("{}: {}", check->id, outcome.sentence));
    }
    if (failed + warned == 0)
        out.line("doctor", "no fault");
    else
        out.line("doctor", os::format("{} failed, {} warning{}; ucx_gaudi doctor says what to do", failed, warned,
                                      warned == 1 ? "" : "s"));
}

} // namespace

std::string format_text(const Facts &facts, const std::vector<Result> &results) {
    Text out;
    out.line("ucx_gaudi", facts.version);
    out.line("kernel", kernel_text(facts));
    out.line("libhl-thunk", thunk_text(facts.thunk));
    if (facts.thunk.software)
        out.line("", "SOFTWARE: the cards below are those of softgaudi, not hardware");
    out.line("modules", modules_text(facts));
    add_ucx(out, facts.ucx);
    add_cards(out, facts, results);
    out.end_paragraph();
    add_problems(out, results);
    return out.take();
}

} // namespace gaudi::cli::info
