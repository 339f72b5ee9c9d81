// SPDX-License-Identifier: BSD-3-Clause
#include "abilities.h"
#include "cli/path_list.h"
#include "info.h"
#include "os/format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace gaudi::cli::info {
namespace {

using namespace doctor;
using Json = nlohmann::ordered_json; // keeps the order for readers

Json or_null(const std::string &text) { return text.empty() ? Json() : Json(text); }

Json ability_json(const Ability &ability) { return {{"possible", ability.possible}, {"sentence", ability.sentence}}; }

Json nic_json(const NicAbility &nic) {
    return {{"nic", nic.nic},
            {"zero_copy", nic.zero_copy},
            {"same_switch", nic.same_switch},
            {"tried", nic.tried},
            {"why_not", or_null(nic.why_not)}};
}

Json card_json(const CardFacts &card, const Abilities &abilities) {
    Json holders = Json::array(), nics = Json::array();
    for (const HolderFacts &holder : card.holders)
        holders.push_back({{"pid", holder.pid}, {"command", holder.command}});
    for (const NicAbility &nic : abilities.nics)
        nics.push_back(nic_json(nic));
    const auto free = card.memory_free_bytes;
    return {
        {"index", card.number},
        {"module_id", card.module_id},
        {"bus_id", card.bus_id},
        {"model", card.model},
        {"card_name", card.card_name},
        {"memory_total_bytes", card.memory_bytes},
        {"memory_used_bytes", free ? Json(card.memory_bytes - std::min(*free, card.memory_bytes)) : Json()},
        {"memory_free_bytes", free ? Json(*free) : Json()},
        {"state", card.state},
        {"hard_resets", card.hard_resets ? Json(*card.hard_resets) : Json()},
        {"firmware", or_null(card.firmware)},
        {"completion", card.completion_by_flag ? "flag" : "driver"},
        {"completion_reason", card.completion_reason},
        {"completion_record", or_null(card.completion_record)},
        {"in_use", card.in_use},
        {"holders", std::move(holders)},
        {"copies", ability_json(abilities.copies)},
        {"export", ability_json(abilities.dmabuf_export)},
        {"zero_copy", ability_json(abilities.zero_copy)},
        {"nics", std::move(nics)},
    };
}

/// By their names: a replay looks at no file.
bool names_directory(const std::string &list, const std::string &directory) {
    const auto plain = [](const std::filesystem::path &path) { return (path / "").lexically_normal(); };
    return std::ranges::any_of(split_path_list(list), [&](const std::filesystem::path &one) {
        return !one.empty() && plain(one) == plain(directory);
    });
}

Json modules_json(const Facts &facts) {
    Json out = {{"directory", or_null(facts.module_directory)},
                {"files", facts.module_files},
                {"in_plugin_path", false},
                {"enabled_in", Json()}};
    const auto consider = [&](const std::string &value, const std::string &source) {
        if (facts.module_directory.empty() || !names_directory(value, facts.module_directory))
            return;
        if (source == "environment")
            out["in_plugin_path"] = true;
        else
            out["enabled_in"] = source;
    };
    if (const SettingFacts *path = facts.setting("UCX_PLUGIN_PATH"))
        consider(path->value, path->source);
    for (const UcxFacts &ucx : facts.ucx)
        consider(ucx.plugin_path, ucx.plugin_path_source);
    return out;
}

} // namespace

std::string format_json(const Facts &facts, const std::vector<Result> &results) {
    Json out = {{"schema", 1}, {"version", facts.version}, {"software", facts.thunk.software}};
    out["kernel"] = facts.kernel.release;
    out["driver"] = nullptr;
    if (facts.driver.loaded)
        out["driver"] = {{"version", or_null(facts.driver.version)}, {"kind", facts.driver.kind}};
    out["libhl_thunk"] = nullptr;
    if (!facts.thunk.path.empty())
        out["libhl_thunk"] = {
            {"path", facts.thunk.path}, {"version", facts.thunk.version}, {"software", facts.thunk.software}};
    out["cards"] = Json::array();
    for (const CardFacts &card : facts.cards)
        out["cards"].push_back(card_json(card, abilities_of(card, facts, results)));
    out["why_no_card"] = facts.cards.empty() ? Json(facts.why_no_card) : Json();
    out["pci_cards"] = Json::array();
    for (const PciCardFacts &card : facts.pci_cards)
        out["pci_cards"].push_back(card.bus_id);
    out["ucx"] = Json::array();
    for (const UcxFacts &ucx : facts.ucx)
        out["ucx"].push_back({{"source", ucx.source},
                              {"libucs", ucx.libucs},
                              {"version", or_null(ucx.version)},
                              {"supported", ucx.why_unusable.empty()},
                              {"why_unusable", or_null(ucx.why_unusable)},
                              {"loads_modules", loads_modules(ucx)},
                              {"plugin_path", or_null(ucx.plugin_path)},
                              {"plugin_path_source", or_null(ucx.plugin_path_source)}});
    out["modules"] = modules_json(facts);
    out["problems"] = Json::array();
    for (const auto &[check, outcome] : results)
        if (outcome.verdict == Verdict::fail || outcome.verdict == Verdict::warn)
            out["problems"].push_back(os::format("{}: {}; {}", check->id, outcome.sentence, outcome.fix));
    // Invalid UTF-8 is replaced: the name of a process may hold any bytes.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gaudi::cli::info
