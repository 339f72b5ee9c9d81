// SPDX-License-Identifier: BSD-3-Clause
#include "explanation.h"
#include "os/format.h"

#include <algorithm>

namespace gaudi::cli::explain {
namespace {

/// 1,048,576
std::string group_digits(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    std::string text;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i != 0 && (digits.size() - i) % 3 == 0)
            text.push_back(',');
        text.push_back(digits[i]);
    }
    return text;
}

/// As UCX writes sizes: whole K, M and G, else bytes.
std::string size_name(std::uint64_t bytes) {
    if (bytes == kNoLimit)
        return "inf";
    for (const auto &[shift, unit] : {std::pair{30u, 'G'}, {20u, 'M'}, {10u, 'K'}})
        if (bytes != 0 && (bytes & ((std::uint64_t{1} << shift) - 1)) == 0)
            return os::format("{}{}", bytes >> shift, unit);
    return std::to_string(bytes);
}

std::string range_name(const ProtocolRange &range) {
    return range.first == range.last ? size_name(range.first)
                                     : os::format("{}..{}", size_name(range.first), size_name(range.last));
}

std::string format_table(const ProtocolTable &table, std::uint64_t bytes) {
    std::string text = os::format("\nsizes      {}\n", table.title);
    std::size_t widest = 0, longest = 0;
    for (const ProtocolRange &range : table.ranges) {
        widest = std::max(widest, range_name(range).size());
        longest = std::max(longest, range.protocol.size() + (range.estimated ? 4 : 0));
    }
    const ProtocolRange *taken = table.find(bytes);
    for (const ProtocolRange &range : table.ranges) {
        std::string line =
            os::format("{} {:>{}}  {:<{}}  {}", &range == taken ? "  >" : "   ", range_name(range), widest,
                       os::format("{}{}", range.estimated ? "(?) " : "", range.protocol), longest, range.lanes);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

bool has_estimate(const Explanation &explanation) {
    return std::ranges::any_of(explanation.tables, [](const ProtocolTable &table) {
        return std::ranges::any_of(table.ranges, &ProtocolRange::estimated);
    });
}

std::string data_line(const Explanation &explanation) {
    if (!explanation.intact)
        return os::format("not compared: {}",
                          explanation.why_unchecked.empty() ? "nothing arrived" : explanation.why_unchecked);
    return *explanation.intact ? "every byte arrived" : "OTHER BYTES ARRIVED than were sent";
}

} // namespace

std::string verdict_of(const Explanation &explanation) {
    const std::string all = group_digits(explanation.transfer.bytes);
    const bool cards_only = explanation.transfer.from.card && explanation.transfer.to.card;
    const char *where = cards_only ? "through host memory" : "through further host memory";
    switch (explanation.way) {
    case Way::zero_copy:
        return explanation.host_bytes ? os::format("zero copy: 0 of {} bytes go {}", all, where)
                                      : "zero copy, by UCX's words: the bytes were not counted";
    case Way::staged:
        return explanation.host_bytes
                   ? os::format("staged: {} of {} bytes go {}", group_digits(*explanation.host_bytes), all, where)
                   : "staged, by UCX's words: the bytes were not counted";
    case Way::failed:
        return os::format("no transfer: {}", explanation.problem);
    }
    return {};
}

std::string path_of(const Explanation &explanation) {
    if (explanation.way == Way::failed)
        return {};
    const Transfer &transfer = explanation.transfer;
    std::vector<std::string> places = {name_of(transfer.from)};
    std::vector<std::string> lanes;
    for (const Lane &lane : parse_lanes(explanation.sender.lanes))
        lanes.push_back(lane.name);
    const CopiedBytes copied =
        explanation.way == Way::staged && explanation.copied ? *explanation.copied : CopiedBytes{};
    if (transfer.is_between_processes() && transfer.from.card && copied.up != 0)
        places.emplace_back("host memory");
    if (!lanes.empty())
        places.push_back(os::join(lanes, ", "));
    if (transfer.is_between_processes() ? transfer.to.card && copied.down != 0 : copied.up + copied.down != 0)
        places.emplace_back("host memory");
    places.push_back(name_of(transfer.to));
    return os::join(places, " -> ");
}

std::string format_text(const Explanation &explanation, bool colour) {
    const Transfer &transfer = explanation.transfer;
    const char *paint = explanation.way == Way::zero_copy ? "\033[32m"
                        : explanation.way == Way::staged  ? "\033[33m"
                                                          : "\033[31m";
    std::string text = os::format("{}{}{}\n\n", colour ? paint : "", verdict_of(explanation), colour ? "\033[0m" : "");
    text += os::format("transfer   {} of {} bytes{}\n", name_of(transfer.operation), group_digits(transfer.bytes),
                       transfer.is_between_processes() ? " to another process, without self and shared memory"
                                                       : " within one process");
    text += os::format("UCX        {} in {} ({})\n", explanation.ucx_version, explanation.ucx.libraries,
                       explanation.ucx.source);
    if (explanation.way != Way::failed) {
        text += os::format("path       {}\n", path_of(explanation));
        text += os::format("protocol   {}\n", explanation.sender.protocol);
        if (!explanation.receiver.empty())
            text += os::format("receiver   {}\n", explanation.receiver);
        if (!explanation.sender.lanes.empty())
            text += os::format("lanes      {}\n", explanation.sender.lanes);
        if (explanation.copied)
            text += os::format("copies     {} bytes from cards to host memory, {} from there to cards\n",
                               group_digits(explanation.copied->up), group_digits(explanation.copied->down));
        text += os::format("data       {}\n", data_line(explanation));
    }
    for (const ProtocolTable &table : explanation.tables)
        text += format_table(table, transfer.bytes);
    if (has_estimate(explanation))
        text += "(?): what UCX expects of the other side, which decides\n";
    if (!explanation.unknown_tables.empty())
        text += os::format("\nUCX prints tables of an unknown form:\n{}", explanation.unknown_tables);
    if (explanation.cause) {
        text += os::format("\ncause: {}{}\n", explanation.cause->sentence,
                           explanation.cause->id.empty() ? "" : os::format(" ({})", explanation.cause->id));
        text += os::format("fix: {}\n", explanation.cause->fix);
    }
    if (explanation.software)
        text += "\nSOFTWARE: the cards are those of softgaudi, not hardware\n";
    return text;
}

} // namespace gaudi::cli::explain
