// SPDX-License-Identifier: BSD-3-Clause
#include "explanation.h"

#include "os/format.h"

#include <algorithm>
#include <sstream>

namespace gaudi::cli::explain {
namespace {

/// What follows `mark` in the first line of a log that has it; empty if none has.
std::string find_in_log(const SidesResult &result, std::string_view mark, bool with_mark) {
    for (const SideResult &side : result.sides) {
        std::istringstream lines(side.log);
        for (std::string line; std::getline(lines, line);)
            if (const std::size_t at = line.find(mark); at != std::string::npos)
                return line.substr(with_mark ? at : at + mark.size());
    }
    return {};
}

std::string memory_name(const End &end) { return end.card ? "gaudi" : "host"; }

/// The process that starts the transfer, and the one that takes its bytes.
const SideResult &initiator(const Transfer &transfer, const SidesResult &result) {
    return transfer.operation == Operation::get ? result.sides.back() : result.sides.front();
}

/// The words in the title of the table for this operation.
std::vector<std::string> title_words(const Transfer &transfer) {
    switch (transfer.operation) {
    case Operation::tag:
        return {"ucp_tag_send* ", os::format("from {} memory", memory_name(transfer.from))};
    case Operation::put:
        return {"ucp_put* ", os::format("from {} memory to {}", memory_name(transfer.from), memory_name(transfer.to))};
    case Operation::get:
        return {"ucp_get* ",
                os::format("into {} memory from {}", memory_name(transfer.to), memory_name(transfer.from))};
    }
    return {};
}

void read_tables(Explanation &out, const SidesResult &result) {
    const ProtocolInfo own = parse_protocol_info(initiator(out.transfer, result).log);
    const std::vector<std::string> words = title_words(out.transfer);
    const ProtocolTable *table = find_table(own.tables, {words.begin(), words.end()});
    out.sender = parse_request(out.request, table, out.transfer.bytes);
    out.unknown_tables = own.unknown;
    if (table)
        out.tables.push_back(*table);
    if (out.transfer.operation != Operation::tag || !out.sender.protocol.starts_with("rendezvous"))
        return;
    const ProtocolInfo other = parse_protocol_info(result.sides.back().log);
    const ProtocolTable *fetch = find_table(
        other.tables, {"rendezvous data fetch", os::format("into {} memory from {}", memory_name(out.transfer.to),
                                                           memory_name(out.transfer.from))});
    const ProtocolRange *range = fetch ? fetch->find(out.transfer.bytes) : nullptr;
    if (!range)
        return;
    out.receiver = range->protocol;
    out.sender.lanes = range->lanes;
    out.tables.push_back(*fetch);
}

void read_copies(Explanation &out, const SidesResult &result) {
    CopiedBytes sum;
    for (const SideResult &side : result.sides) {
        if (!side.report || !side.report->copied)
            return;
        sum.up += side.report->copied->up;
        sum.down += side.report->copied->down;
        sum.bounced += side.report->copied->bounced;
    }
    out.copied = sum;
    // Within a process a card copies from or to the host memory of the user itself, which is no detour.
    const bool ends_in_host = !out.transfer.from.card || !out.transfer.to.card;
    const std::string &protocol = out.receiver.empty() ? out.sender.protocol : out.receiver;
    const std::uint64_t on_the_way = !out.transfer.is_between_processes() && ends_in_host && is_zero_copy(protocol)
                                         ? sum.bounced
                                         : std::max(sum.up, sum.down);
    out.host_bytes = std::min(on_the_way, out.transfer.bytes);
}

/// Why there was no transfer; empty if there was one.
std::string problem_of(const SidesResult &result) {
    for (const SideResult &side : result.sides) // a crash is the reason of what the other side says
        if (!side.ending.empty())
            return os::format("a process of the transfer {}", side.ending);
    const std::string error = find_in_log(result, "UCX  ERROR ", false);
    for (const SideResult &side : result.sides)
        if (side.report && !side.report->problem.empty())
            return error.empty() ? side.report->problem : os::format("{}; UCX says: {}", side.report->problem, error);
    for (const SideResult &side : result.sides)
        if (side.report && !side.report->knows_gaudi.value_or(true))
            return "this UCX does not know Gaudi memory";
    return {};
}

} // namespace

Explanation explain_result(const Transfer &transfer, const SidesResult &result) {
    Explanation out;
    out.transfer = transfer;
    out.problem = problem_of(result);
    for (const SideResult &side : result.sides) {
        if (!side.report)
            continue;
        out.ucx_version = side.report->ucx_version;
        if (!side.report->request.empty())
            out.request = side.report->request;
        if (side.report->intact)
            out.intact = side.report->intact;
        if (!side.report->why_unchecked.empty())
            out.why_unchecked = side.report->why_unchecked;
    }
    read_tables(out, result);
    if (!out.problem.empty())
        return out;
    read_copies(out, result);
    const std::string &protocol = out.receiver.empty() ? out.sender.protocol : out.receiver;
    const bool direct = out.host_bytes ? *out.host_bytes == 0 : is_zero_copy(protocol);
    out.way = direct ? Way::zero_copy : Way::staged;
    return out;
}

Evidence evidence_of(const Explanation &explanation, const SidesResult &result) {
    Evidence evidence;
    for (const SideResult &side : result.sides)
        evidence.knows_gaudi = evidence.knows_gaudi && (!side.report || side.report->knows_gaudi.value_or(true));
    evidence.bounced = explanation.copied && explanation.copied->bounced != 0;
    evidence.refused_export = find_in_log(result, "RDMA devices reach Gaudi memory through host memory only: ", false);
    evidence.refused_registration = find_in_log(result, "ibv_reg_dmabuf_mr(", true);
    evidence.protocol = explanation.receiver.empty() ? explanation.sender.protocol : explanation.receiver;
    if (!explanation.tables.empty())
        for (const ProtocolRange &range : explanation.tables.front().ranges)
            if (range.first > explanation.transfer.bytes && is_zero_copy(range.protocol) && !evidence.zero_copy_from)
                evidence.zero_copy_from = range.first;
    return evidence;
}

} // namespace gaudi::cli::explain
