// SPDX-License-Identifier: BSD-3-Clause
#include "results_json.h"

#include "cli/read_file.h"
#include "os/format.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <stdexcept>

namespace gaudi::cli::bench {
namespace {

using Json = nlohmann::ordered_json; // keeps the order for readers

constexpr const char *kTool = "ucx_gaudi bench", *kVirtual = "virtual";

Json statistics_json(const std::optional<Statistics> &figures) {
    if (!figures)
        return nullptr;
    return {{"samples", figures->samples}, {"p0", figures->p0},   {"p25", figures->p25},
            {"p50", figures->p50},         {"p75", figures->p75}, {"p99", figures->p99}};
}

Json row_json(const Row &row) {
    return {{"test", row.test},
            {"route", row.route},
            {"cards", row.cards},
            {"nic", row.nic.empty() ? Json() : Json(row.nic)},
            {"size_bytes", row.size},
            {"window", row.window},
            {"burst_bytes", row.burst_bytes},
            {"data_correct", row.data_correct},
            {"latency_us", statistics_json(row.latency_us)},
            {"burst_us", statistics_json(row.burst_us)},
            {"bandwidth_gb_per_s_median", row.burst_us ? Json(row.bandwidth_gb_per_s()) : Json()}};
}

Json comparison_json(const Comparison &comparison) {
    Json rows = Json::array();
    for (const ComparedRow &row : comparison.rows)
        rows.push_back({{"test", row.test},
                        {"route", row.route},
                        {"size_bytes", row.size},
                        {"figure", row.figure},
                        {"before", row.before},
                        {"now", row.now},
                        {"noise", std::isfinite(row.noise) ? Json(row.noise) : Json()},
                        {"verdict", name_of(row.change)}});
    return {{"file", comparison.file},
            {"time", comparison.time},
            {"host", comparison.host},
            {"unmatched_rows", comparison.unmatched},
            {"rows", std::move(rows)}};
}

std::optional<Statistics> read_statistics(const Json &json) {
    if (json.is_null())
        return {};
    const Statistics figures{json.at("samples").get<std::uint64_t>(),
                             json.at("p0").get<double>(),
                             json.at("p25").get<double>(),
                             json.at("p50").get<double>(),
                             json.at("p75").get<double>(),
                             json.at("p99").get<double>()};
    if (!(figures.p0 >= 0 && figures.p0 <= figures.p25 && figures.p25 <= figures.p50 && figures.p50 <= figures.p75 &&
          figures.p75 <= figures.p99))
        throw std::runtime_error("its percentiles are not in order");
    return figures;
}

Row read_row(const Json &json) {
    Row row;
    row.test = json.at("test").get<std::string>();
    row.route = json.at("route").get<std::string>();
    row.size = json.at("size_bytes").get<std::uint64_t>();
    row.window = json.at("window").get<std::uint64_t>();
    row.burst_bytes = json.at("burst_bytes").get<std::uint64_t>();
    row.data_correct = json.at("data_correct").get<bool>();
    row.latency_us = read_statistics(json.at("latency_us"));
    row.burst_us = read_statistics(json.at("burst_us"));
    return row;
}

} // namespace

std::string format_json(const Results &results, const Comparison *comparison) {
    Json out = {{"schema", 1}, {"tool", kTool}, {"version", results.version}, {"time", results.time}};
    out["software"] = results.software;
    out["clock"] = results.virtual_clock ? kVirtual : "host";
    out["interrupted"] = results.interrupted;
    out["host"] = {{"name", results.host}, {"kernel", results.kernel}, {"processor", results.processor}};
    out["library"] = {{"path", results.library}, {"version", results.library_version}};
    out["cards"] = Json::array();
    for (const CardResult &card : results.cards)
        out["cards"].push_back({{"card", card.module_id},
                                {"bus_id", card.bus_id},
                                {"model", card.model},
                                {"driver", card.driver},
                                {"firmware", card.firmware}});
    out["settings"] = {{"sizes_bytes", results.sizes}, {"samples", results.samples}, {"quick", results.quick}};
    out["results"] = Json::array();
    for (const Row &row : results.rows)
        out["results"].push_back(row_json(row));
    out["skipped"] = Json::array();
    for (const Results::Skipped &skipped : results.skipped)
        out["skipped"].push_back({{"test", skipped.test}, {"reason", skipped.reason}});
    out["comparison"] = comparison ? comparison_json(*comparison) : Json();
    // Invalid UTF-8 is replaced: a path may hold any bytes.
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

OrSentence<Results> parse_results(const std::string &text, const std::string &path) {
    const auto refuse = [&](const std::string &why) {
        return Sentence(os::format("{} is no report of {} --json: {}", path, kTool, why));
    };
    const Json json = Json::parse(text, nullptr, false);
    if (json.is_discarded())
        return refuse("it is not JSON, or cut off");
    if (!json.is_object() || json.value("tool", Json()) != kTool)
        return refuse(os::format("it does not name {} as its tool", kTool));
    if (json.value("schema", Json()) != 1)
        return refuse("its schema is another than 1");
    try {
        Results results;
        results.time = json.at("time").get<std::string>();
        results.software = json.at("software").get<bool>();
        results.virtual_clock = json.at("clock").get<std::string>() == kVirtual;
        results.host = json.at("host").at("name").get<std::string>();
        for (const Json &row : json.at("results"))
            results.rows.push_back(read_row(row));
        return results;
    } catch (const std::exception &error) {
        return refuse(error.what());
    }
}

OrSentence<Results> read_results(const std::string &path) {
    const auto text = read_file(path);
    if (!text)
        return Sentence(text.error());
    return parse_results(*text, path);
}

} // namespace gaudi::cli::bench
