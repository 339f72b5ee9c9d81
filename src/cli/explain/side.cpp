// SPDX-License-Identifier: BSD-3-Clause
#include "side.h"

#include "side_memory.h"
#include "ucp_side.h"

#include <nlohmann/json.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>

namespace gaudi::cli::explain {
namespace {

using Json = nlohmann::json;

SideTask read_task(const std::string &text) {
    const Json json = Json::parse(text);
    SideTask task;
    task.libucp = json.at("libucp");
    task.has_from = json.at("has_from");
    task.has_to = json.at("has_to");
    task.from_card = json.at("from_card");
    task.to_card = json.at("to_card");
    task.bytes = json.at("bytes");
    task.operation = static_cast<Operation>(json.at("operation").get<int>());
    task.peer = json.at("peer");
    task.report = json.at("report");
    return task;
}

void write_report(int file, const SideReport &report) {
    Json json = {{"problem", report.problem},
                 {"ucx_version", report.ucx_version},
                 {"request", report.request},
                 {"why_unchecked", report.why_unchecked}};
    if (report.knows_gaudi)
        json["knows_gaudi"] = *report.knows_gaudi;
    if (report.copied)
        json["copied"] = {report.copied->up, report.copied->down, report.copied->bounced};
    if (report.intact)
        json["intact"] = *report.intact;
    const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    [[maybe_unused]] const ssize_t written = ::write(file, text.data(), text.size());
}

ucs_memory_type_t type_of(const SideMemory &memory) {
    return memory.is_on_card() ? ucx::UCS_MEMORY_TYPE_GAUDI : ucx::UCS_MEMORY_TYPE_HOST;
}

/// The transfer as this process sees it.
class Side {
public:
    Side(const SideTask &task, const UcpLibrary &library, SideReport &report)
        : m_task(task), m_library(library), m_report(report), m_peer(task.peer), m_ucp(library, m_peer) {}

    void run() {
        const bool knows_gaudi = m_ucp.knows_gaudi();
        m_report.knows_gaudi = knows_gaudi;
        // An end without cards must not wait for one whose UCX refuses them.
        if (m_peer.trade(knows_gaudi ? "1" : "0") != "1" || !knows_gaudi)
            return;
        m_ucp.connect();
        set_up_memory();
        m_ucp.flush(); // connected with all lanes, which the protocol is chosen for
        m_ucp.meet();
        const auto before = read_counters();
        transfer();
        m_ucp.meet();
        const auto after = read_counters();
        if (before && after)
            m_report.copied = *after - *before;
        else if (!m_core)
            m_report.copied = CopiedBytes{}; // no card takes part in this process
        compare();
        m_ucp.meet(); // neither side closes what the other still uses
    }

private:
    std::optional<CopiedBytes> read_counters() const { return m_core ? read_copied_bytes() : std::nullopt; }

    void set_up_memory() {
        if ((m_task.has_from && !m_task.from_card.empty()) || (m_task.has_to && !m_task.to_card.empty()))
            m_core = std::make_unique<Core>();
        if (m_task.has_from)
            m_from = std::make_unique<SideMemory>(m_core.get(), m_task.from_card, m_task.bytes);
        if (m_task.has_to)
            m_to = std::make_unique<SideMemory>(m_core.get(), m_task.to_card, m_task.bytes);
        m_filled = (!m_from || m_from->fill_with_pattern(m_report.why_unchecked)) &&
                   (!m_to || m_to->fill_with_zeros(m_report.why_unchecked));
        m_filled = m_peer.trade(m_filled ? "1" : "0") == "1" && m_filled;
        if (m_task.operation != Operation::tag)
            trade_keys();
    }

    /// Programs that put and get register their memory once and pass the handles, as NIXL does.
    void trade_keys() {
        const SideMemory *passive = m_task.operation == Operation::put ? m_to.get() : m_from.get();
        const SideMemory *active = m_task.operation == Operation::put ? m_from.get() : m_to.get();
        std::string key;
        if (passive) {
            key = m_ucp.pack_key(m_ucp.map(passive->address(), m_task.bytes, type_of(*passive)));
            m_remote_address = reinterpret_cast<std::uint64_t>(passive->address());
        }
        std::string address(reinterpret_cast<const char *>(&m_remote_address), sizeof m_remote_address);
        const std::string other = m_peer.trade(address + key);
        if (!active)
            return;
        if (other.size() < sizeof m_remote_address)
            throw SideFailure("the process of the other end sent no key");
        std::memcpy(&m_remote_address, other.data(), sizeof m_remote_address);
        m_key = m_ucp.unpack_key(other.substr(sizeof m_remote_address));
        m_handle = m_ucp.map(active->address(), m_task.bytes, type_of(*active));
    }

    void transfer() {
        UcpRequestParam param{};
        param.op_attr_mask = UcpRequestParam::kNoImmediateCompletion; // so that there is a request to query
        constexpr std::uint64_t kTag = 1;
        RequestPointer receive = nullptr, request = nullptr;
        switch (m_task.operation) {
        case Operation::tag:
            if (m_to)
                receive =
                    m_library.ucp_tag_recv_nbx(m_ucp.worker(), m_to->address(), m_task.bytes, kTag, ~0ull, &param);
            if (m_from)
                request = m_library.ucp_tag_send_nbx(m_ucp.ep(), m_from->address(), m_task.bytes, kTag, &param);
            break;
        case Operation::put:
            param.op_attr_mask |= UcpRequestParam::kMemh;
            param.memh = m_handle;
            if (m_from)
                request =
                    m_library.ucp_put_nbx(m_ucp.ep(), m_from->address(), m_task.bytes, m_remote_address, m_key, &param);
            break;
        case Operation::get:
            param.op_attr_mask |= UcpRequestParam::kMemh;
            param.memh = m_handle;
            if (m_to)
                request =
                    m_library.ucp_get_nbx(m_ucp.ep(), m_to->address(), m_task.bytes, m_remote_address, m_key, &param);
            break;
        }
        m_report.request = m_ucp.describe(request);
        m_ucp.finish(request, name_of(m_task.operation));
        m_ucp.finish(receive, "receive");
        m_ucp.flush();
    }

    void compare() {
        if (!m_to || !m_filled)
            return;
        bool intact = false;
        if (m_to->has_pattern(intact, m_report.why_unchecked))
            m_report.intact = intact;
    }

    const SideTask &m_task;
    const UcpLibrary &m_library;
    SideReport &m_report;
    const Peer m_peer;
    std::unique_ptr<Core> m_core;
    std::unique_ptr<SideMemory> m_from, m_to; // after the UCP that registers them, in the order of destruction
    UcpSide m_ucp;
    bool m_filled = false;
    std::uint64_t m_remote_address = 0;
    ucp_rkey *m_key = nullptr;
    ucp_mem *m_handle = nullptr;
};

} // namespace

std::string write_task(const SideTask &task) {
    return Json{{"libucp", task.libucp},
                {"has_from", task.has_from},
                {"has_to", task.has_to},
                {"from_card", task.from_card},
                {"to_card", task.to_card},
                {"bytes", task.bytes},
                {"operation", static_cast<int>(task.operation)},
                {"peer", task.peer},
                {"report", task.report}}
        .dump();
}

std::optional<SideReport> read_report(const std::string &text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object())
        return {};
    SideReport report;
    report.problem = json.at("problem");
    report.ucx_version = json.at("ucx_version");
    report.request = json.at("request");
    report.why_unchecked = json.at("why_unchecked");
    if (json.contains("knows_gaudi"))
        report.knows_gaudi = json["knows_gaudi"].get<bool>();
    if (json.contains("copied"))
        report.copied = CopiedBytes{json["copied"].at(0), json["copied"].at(1), json["copied"].at(2)};
    if (json.contains("intact"))
        report.intact = json["intact"];
    return report;
}

void run_side(const std::string &text) {
    const SideTask task = read_task(text);
    SideReport report;
    try {
        const auto library = UcpLibrary::load(task.libucp);
        if (!library)
            throw SideFailure(library.error());
        report.ucx_version = library->ucp_get_version_string();
        Side(task, *library, report).run();
    } catch (const std::exception &error) {
        report.problem = error.what();
    }
    write_report(task.report, report);
    std::fflush(nullptr);
    // Destructors of libraries that a wheel bundles may crash at exit, and the process has nothing left to release.
    ::_exit(report.problem.empty() ? 0 : 1);
}

} // namespace gaudi::cli::explain
