// SPDX-License-Identifier: BSD-3-Clause
#include "snapshot_text.h"

#include "os/format.h"

#include <algorithm>
#include <array>

namespace gaudi::cli::top {
namespace {

constexpr std::size_t kColumns = 14;
using Row = std::array<std::string, kColumns>;
constexpr std::size_t kLeftAligned = 3; // the columns before it: command and card are texts

const Row kHeader = {"PID",      "COMMAND", "CARD",        "USED", "HELD",   "DIRECT",   "STAGED",
                     "EXPORTED", "COPIES",  "SUBMISSIONS", "HITS", "MISSES", "DEFERRED", "ERRORS"};

std::string bytes_text(std::uint64_t bytes) {
    constexpr const char *kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    auto scaled = static_cast<double>(bytes);
    std::size_t unit = 0;
    for (; scaled >= 1024 && unit + 1 < std::size(kUnits); ++unit)
        scaled /= 1024;
    return unit == 0 ? os::format("{} B", bytes) : os::format("{:.1f} {}", scaled, kUnits[unit]);
}

Row card_row(const CardSnapshot &card, std::uint64_t errors) {
    return {"",
            "",
            "",
            bytes_text(card.memory_used_bytes),
            bytes_text(card.memory_held_bytes),
            bytes_text(card.direct_bytes()),
            bytes_text(card.staged_bytes()),
            bytes_text(card.exported_bytes),
            std::to_string(card.direct_copies() + card.staged_copies()),
            std::to_string(card.submissions),
            std::to_string(card.mapping_hits()),
            std::to_string(card.mapping_misses()),
            os::format("{}/{}", card.deferred_unmaps_pending, card.deferred_unmaps),
            std::to_string(errors)};
}

std::string rate_text(const ProcessSnapshot &now, const CounterSnapshot &earlier, double seconds) {
    const auto before =
        std::find_if(earlier.processes.begin(), earlier.processes.end(), [&](const ProcessSnapshot &process) {
            return process.pid == now.pid && process.started_seconds == now.started_seconds;
        });
    if (before == earlier.processes.end() || seconds <= 0)
        return "";
    const CardSnapshot ended = now.total(), begun = before->total();
    const auto rate = [&](std::uint64_t to, std::uint64_t from) {
        return bytes_text(static_cast<std::uint64_t>(static_cast<double>(to - std::min(to, from)) / seconds));
    };
    return os::format("  {}/s direct, {}/s staged", rate(ended.direct_bytes(), begun.direct_bytes()),
                      rate(ended.staged_bytes(), begun.staged_bytes()));
}

} // namespace

std::string format_table(const CounterSnapshot &snapshot, const CounterSnapshot *earlier, double seconds) {
    if (snapshot.processes.empty())
        return "no process of this user has a Gaudi card open through ucx-gaudi\n";
    std::vector<Row> rows = {kHeader};
    std::vector<std::string> remarks = {""};
    for (const ProcessSnapshot &process : snapshot.processes) {
        Row row = card_row(process.total(), process.errors());
        row[0] = std::to_string(process.pid);
        row[1] = process.command;
        row[2] = "all";
        rows.push_back(row);
        remarks.push_back((process.software ? "  SOFTWARE" : "") +
                          (earlier ? rate_text(process, *earlier, seconds) : ""));
        for (const CardSnapshot &card : process.cards) {
            rows.push_back(card_row(card, card.errors()));
            rows.back()[2] = std::to_string(card.module_id);
            remarks.emplace_back();
        }
    }
    std::array<std::size_t, kColumns> widths{};
    for (const Row &row : rows)
        for (std::size_t i = 0; i < kColumns; ++i)
            widths[i] = std::max(widths[i], row[i].size());
    std::string text;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::size_t j = 0; j < kColumns; ++j)
            text += j > 0 && j < kLeftAligned ? os::format("  {:<{}}", rows[i][j], widths[j])
                                              : os::format("{}{:>{}}", j > 0 ? "  " : "", rows[i][j], widths[j]);
        text += remarks[i] + "\n";
    }
    if (snapshot.software())
        text += "\nSOFTWARE: the cards of these processes are those of softgaudi, not hardware\n";
    return text;
}

} // namespace gaudi::cli::top
