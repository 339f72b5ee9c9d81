// SPDX-License-Identifier: BSD-3-Clause
#include "summary.h"

#include "cli/utc_time.h"
#include "os/format.h"

#include <nlohmann/json.hpp>

namespace gaudi::cli::verify {
namespace {

using Json = nlohmann::ordered_json; // keeps the order for readers

std::string name_generation(const hlthunk_hw_ip_info &info) {
    return info.device_id == HL_PCI_ID_GAUDI2   ? "gaudi2"
           : info.device_id == HL_PCI_ID_GAUDI3 ? "gaudi3"
                                                : os::format("{:#x}", info.device_id);
}

/// By step and name.
Json format_behaviour(const Findings &findings) {
    Json steps = Json::object();
    for (const Measurement &one : findings.measurements())
        std::visit([&](const auto &value) { steps[one.step][one.name] = value; }, one.value);
    return steps;
}

} // namespace

std::string format_table(const Summary &summary) {
    std::string text = os::format("\n{:<5}{:<19}assumption\n", "id", "result");
    for (const Assumption &assumption : assumptions())
        text += os::format("{:<5}{:<19}{}\n", assumption.id,
                           assumption.has_step() ? name_of(summary.findings.about(assumption)) : "not testable",
                           assumption.sentence);
    return text;
}

std::string format_report(const Summary &summary) {
    Json out = {
        {"schema", 1}, {"tool", "ucx_gaudi verify"}, {"version", UCX_GAUDI_VERSION}, {"time", format_utc_time()}};
    out["software"] = summary.software;
    out["interrupted"] = summary.interrupted;
    out["library"] = {{"path", summary.card.library().path()},
                      {"version", summary.card.library().version().value_or("unknown")}};
    const CardVersions &versions = summary.card.versions();
    const hlthunk_hw_ip_info &info = summary.card.info();
    out["card"] = {{"module", summary.card.module_id()},
                   {"bus_id", summary.card.bus_id()},
                   {"generation", name_generation(info)},
                   {"model", versions.model},
                   {"driver", versions.driver},
                   {"firmware", versions.firmware},
                   {"memory_bytes", info.dram_size},
                   {"memory_base", info.dram_base_address},
                   {"page_bytes", summary.card.page_size()},
                   {"edma_mask", info.edma_enabled_mask}};
    out["options"] = {{"soak_seconds", summary.options.soak_seconds},
                      {"with_synapse", summary.options.with_synapse},
                      {"nic", summary.options.nic}};
    out["notes"] = Json::object();
    for (const auto &[name, value] : summary.findings.notes())
        out["notes"][name] = value;
    out["behaviour"] = format_behaviour(summary.findings);
    out["steps"] = Json::array();
    for (const Finding &finding : summary.findings.all())
        out["steps"].push_back({{"step", finding.step},
                                {"assumptions", finding.ids},
                                {"did", finding.did},
                                {"saw", finding.saw},
                                {"verdict", name_of(finding.verdict)}});
    out["assumptions"] = Json::array();
    for (const Assumption &assumption : assumptions()) {
        const Verdict verdict = summary.findings.about(assumption);
        out["assumptions"].push_back({{"id", assumption.id},
                                      {"assumption", assumption.sentence},
                                      {"verdict", assumption.has_step() ? name_of(verdict) : "not testable"},
                                      {"consequence", consequence_of(assumption, verdict)}});
    }
    out["record"] = nullptr;
    if (!summary.record.empty())
        out["record"] = {{"path", summary.record},
                         {"order_held", summary.record_order_held},
                         {"soak_seconds", summary.record_seconds}};
    return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace gaudi::cli::verify
