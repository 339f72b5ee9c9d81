// SPDX-License-Identifier: BSD-3-Clause
#include "info.h"

#include <nlohmann/json.hpp>

namespace gaudi::cli {
namespace {

using Json = nlohmann::ordered_json; // keeps the order for readers

Json card_json(const CardReport &card) {
    Json holders = Json::array();
    for (const Holder &holder : card.holders)
        holders.push_back({{"pid", holder.pid}, {"command", holder.command}});
    return {
        {"index", card.number},
        {"module_id", card.module_id},
        {"bus_id", card.bus_id},
        {"model", card.model},
        {"card_name", card.card_name},
        {"memory_total_bytes", card.memory_total},
        {"memory_free_bytes", card.memory_free ? Json(*card.memory_free) : Json()},
        {"state", card.state},
        {"completion", card.completion_by_flag ? "flag" : "driver"},
        {"completion_reason", card.completion_reason},
        {"in_use", card.in_use},
        {"holders", std::move(holders)},
    };
}

} // namespace

std::string format_json(const Report &report) {
    Json out = {{"schema", 1}, {"version", UCX_GAUDI_VERSION}};
    out["software"] = report.library && report.library->software;
    out["libhl_thunk"] = nullptr;
    if (report.library)
        out["libhl_thunk"] = {{"path", report.library->path},
                              {"version", report.library->version},
                              {"software", report.library->software}};
    out["cards"] = Json::array();
    for (const CardReport &card : report.cards)
        out["cards"].push_back(card_json(card));
    out["why_no_card"] = report.cards.empty() ? Json(report.why_no_card) : Json();
    out["ucx"] = Json::array();
    for (const UcxReport &ucx : report.ucx)
        out["ucx"].push_back({{"source", ucx.source},
                              {"libucs", ucx.libucs},
                              {"version", ucx.version.empty() ? Json() : Json(ucx.version)},
                              {"supported", ucx.why_unusable.empty()},
                              {"why_unusable", ucx.why_unusable.empty() ? Json() : Json(ucx.why_unusable)}});
    out["modules"] = {
        {"directory", report.module_directory.empty() ? Json() : Json(report.module_directory)},
        {"files", report.module_files},
        {"in_plugin_path", report.in_plugin_path},
        {"enabled_in", report.enabled_in.empty() ? Json() : Json(report.enabled_in)},
    };
    out["problems"] = report.problems;
    // Invalid UTF-8 is replaced: the name of a process may hold any bytes.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gaudi::cli
