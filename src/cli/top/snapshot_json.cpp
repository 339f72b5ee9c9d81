// SPDX-License-Identifier: BSD-3-Clause
#include "snapshot_text.h"

#include <nlohmann/json.hpp>

namespace gaudi::cli::top {
namespace {

using Json = nlohmann::ordered_json; // keeps the order for readers

Json path_json(const CardSnapshot &card, std::initializer_list<Path> paths) {
    return {{"copies", card.copies_on(paths)}, {"bytes", card.bytes_on(paths)}};
}

Json card_json(const CardSnapshot &card) {
    return {
        {"module_id", card.module_id},
        {"bus_id", card.bus_id},
        {"memory_total_bytes", card.memory_total_bytes},
        {"memory_held_bytes", card.memory_held_bytes},
        {"memory_used_bytes", card.memory_used_bytes},
        {"direct",
         {{"within_card", path_json(card, {Path::within_card})},
          {"down", path_json(card, {Path::down, Path::down_mapped})},
          {"up", path_json(card, {Path::up, Path::up_mapped})},
          {"to_card", path_json(card, {Path::to_card})}}},
        {"staged",
         {{"down", path_json(card, {Path::staged_down})},
          {"up", path_json(card, {Path::staged_up})},
          {"relayed_out", path_json(card, {Path::relayed_out})},
          {"relayed_in", path_json(card, {Path::relayed_in})}}},
        {"exports", card.exports},
        {"exported_bytes", card.exported_bytes},
        {"submissions", card.submissions},
        {"host_mapping_hits", card.mapping_hits()},
        {"host_mapping_misses", card.mapping_misses()},
        {"deferred_unmaps", card.deferred_unmaps},
        {"deferred_unmaps_pending", card.deferred_unmaps_pending},
        {"errors",
         {{"failed_transfers", card.failed_transfers},
          {"failed_allocations", card.failed_allocations},
          {"failed_exports", card.failed_exports},
          {"resets", card.resets}}},
    };
}

} // namespace

std::string format_json(const CounterSnapshot &snapshot) {
    Json out = {{"schema", 1}, {"version", UCX_GAUDI_VERSION}, {"software", snapshot.software()}};
    out["processes"] = Json::array();
    for (const ProcessSnapshot &process : snapshot.processes) {
        Json cards = Json::array();
        for (const CardSnapshot &card : process.cards)
            cards.push_back(card_json(card));
        out["processes"].push_back({{"pid", process.pid},
                                    {"command", process.command},
                                    {"libhl_thunk", process.library},
                                    {"software", process.software},
                                    {"started_unix_seconds", process.started_seconds},
                                    {"mapped_host_bytes", process.mapped_host_bytes},
                                    {"refused_copies", process.refused_copies},
                                    {"cards", std::move(cards)}});
    }
    out["skipped"] = snapshot.skipped;
    // Invalid UTF-8 is replaced: the name of a process may hold any bytes.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gaudi::cli::top
