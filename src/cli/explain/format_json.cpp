// SPDX-License-Identifier: BSD-3-Clause
#include "explanation.h"

#include <nlohmann/json.hpp>

namespace gaudi::cli::explain {
namespace {

using Json = nlohmann::ordered_json; // keeps the order for readers

template <class T>
Json or_null(const std::optional<T> &value) {
    return value ? Json(*value) : Json();
}
Json or_null(const std::string &text) { return text.empty() ? Json() : Json(text); }

const char *name_of_way(Way way) {
    switch (way) {
    case Way::zero_copy:
        return "zero_copy";
    case Way::staged:
        return "staged";
    case Way::failed:
        return "failed";
    }
    return "?";
}

Json json_of(const ProtocolTable &table, std::uint64_t bytes) {
    Json out = {{"title", table.title}, {"ranges", Json::array()}};
    const ProtocolRange *taken = table.find(bytes);
    for (const ProtocolRange &range : table.ranges)
        out["ranges"].push_back({{"first_bytes", range.first},
                                 {"last_bytes", range.last == kNoLimit ? Json() : Json(range.last)},
                                 {"protocol", range.protocol},
                                 {"estimated", range.estimated},
                                 {"lanes", range.lanes},
                                 {"taken", &range == taken}});
    return out;
}

} // namespace

std::string format_json(const Explanation &explanation, const std::string &version) {
    const Transfer &transfer = explanation.transfer;
    Json out = {{"schema", 1}, {"version", version}, {"software", explanation.software}};
    out["transfer"] = {{"from", name_of(transfer.from)},
                       {"to", name_of(transfer.to)},
                       {"bytes", transfer.bytes},
                       {"operation", name_of(transfer.operation)}};
    out["ucx"] = {{"version", or_null(explanation.ucx_version)},
                  {"libraries", explanation.ucx.libraries},
                  {"source", explanation.ucx.source}};
    out["verdict"] = name_of_way(explanation.way);
    out["sentence"] = verdict_of(explanation);
    out["host_bytes"] = or_null(explanation.host_bytes);
    out["copies"] = Json();
    if (explanation.copied)
        out["copies"] = {{"up_bytes", explanation.copied->up},
                         {"down_bytes", explanation.copied->down},
                         {"bounced_bytes", explanation.copied->bounced}};
    out["path"] = or_null(path_of(explanation));
    out["request"] = or_null(explanation.request);
    out["protocol"] = or_null(explanation.sender.protocol);
    out["receiver_protocol"] = or_null(explanation.receiver);
    out["lanes"] = Json::array();
    for (const Lane &lane : parse_lanes(explanation.sender.lanes))
        out["lanes"].push_back({{"name", lane.name}, {"share_percent", lane.percent}});
    out["tables"] = Json::array();
    for (const ProtocolTable &table : explanation.tables)
        out["tables"].push_back(json_of(table, transfer.bytes));
    out["unknown_tables"] = or_null(explanation.unknown_tables);
    out["data_intact"] = or_null(explanation.intact);
    out["why_data_unchecked"] = explanation.intact ? Json() : or_null(explanation.why_unchecked);
    out["cause"] = Json();
    if (explanation.cause)
        out["cause"] = {{"id", or_null(explanation.cause->id)},
                        {"sentence", explanation.cause->sentence},
                        {"fix", explanation.cause->fix}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gaudi::cli::explain
