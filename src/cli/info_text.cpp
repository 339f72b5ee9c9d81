// SPDX-License-Identifier: BSD-3-Clause
#include "info.h"
#include "os/format.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace gaudi::cli {
namespace {

constexpr std::size_t kColumns = 8;
using Row = std::array<std::string, kColumns>;

class Text {
public:
    /// A further value of the key above has an empty key.
    void line(std::string_view key, std::string_view value) {
        const std::string label = key.empty() ? "" : os::format("{}:", key);
        m_text += os::format("{:<17}{}\n", label, value);
    }
    void table(const std::vector<Row> &rows) {
        std::array<std::size_t, kColumns> widths{};
        for (const Row &row : rows)
            for (std::size_t i = 0; i < kColumns; ++i)
                widths[i] = std::max(widths[i], row[i].size());
        for (const Row &row : rows) {
            for (std::size_t i = 0; i + 1 < kColumns; ++i)
                m_text += os::format("{:<{}}  ", row[i], widths[i]);
            m_text += os::format("{}\n", row.back());
        }
    }
    void end_paragraph() { m_text += '\n'; }
    std::string take() { return std::move(m_text); }

private:
    std::string m_text;
};

std::string mebibytes(std::uint64_t bytes) { return os::format("{} MiB", bytes >> 20); }

std::string holder_text(const CardReport &card) {
    if (!card.in_use)
        return "-";
    if (card.holders.empty())
        return "another process";
    std::vector<std::string> all;
    for (const Holder &holder : card.holders)
        all.push_back(os::format("pid {} ({})", holder.pid, holder.command));
    return os::format("{}", os::join(all, ", "));
}

Row row(const CardReport &card) {
    return {std::to_string(card.number),
            std::to_string(card.module_id),
            card.bus_id,
            card.card_name.empty() ? card.model : os::format("{} ({})", card.model, card.card_name),
            mebibytes(card.memory_total),
            card.memory_free ? mebibytes(*card.memory_free) : "unknown",
            card.state,
            holder_text(card)};
}

std::string library_text(const std::optional<LibraryReport> &library) {
    if (!library)
        return "not found";
    return os::format("{}, version {}", library->path, library->version);
}

std::string ucx_text(const UcxReport &ucx) {
    return os::format("{}, {} ({})", ucx.version.empty() ? "does not load" : ucx.version, ucx.libucs, ucx.source);
}

std::string plugin_path_text(const Report &report) {
    if (!report.enabled_in.empty())
        return os::format("is set to the module directory in {}", report.enabled_in);
    return report.in_plugin_path ? "contains the module directory"
                                 : "does not contain the module directory, so UCX does not load the modules; "
                                   "export UCX_PLUGIN_PATH=$(ucx_gaudi plugin-path)";
}

} // namespace

std::string format_text(const Report &report) {
    Text out;
    out.line("libhl-thunk", library_text(report.library));
    if (report.library && report.library->software)
        out.line("", "SOFTWARE: the cards below are those of softgaudi, not hardware");
    if (report.ucx.empty())
        out.line("UCX", "not found; install 1.22 or later, for example with: pip install libucx-cu13");
    for (std::size_t i = 0; i < report.ucx.size(); ++i) {
        out.line(i == 0 ? "UCX" : "", ucx_text(report.ucx[i]));
        if (!report.ucx[i].why_unusable.empty())
            out.line("", os::format("  {}{}", report.ucx[i].version.empty() ? "" : "it ", report.ucx[i].why_unusable));
    }
    out.line("modules", report.module_directory.empty() ? "not found" : report.module_directory);
    for (const std::string &file : report.module_files)
        out.line("", file);
    out.line("UCX_PLUGIN_PATH", plugin_path_text(report));
    for (const std::string &problem : report.problems)
        out.line("problem", problem);
    if (report.cards.empty()) {
        out.line("cards", report.why_no_card);
        return out.take();
    }
    out.line("cards", os::format("{}\n", report.cards.size()));
    std::vector<Row> rows = {{"card", "module", "bus id", "model", "memory", "free", "state", "holder"}};
    for (const CardReport &card : report.cards)
        rows.push_back(row(card));
    out.table(rows);
    out.end_paragraph();
    for (const CardReport &card : report.cards)
        out.line(os::format("completion {}", card.number),
                 os::format("{}: {}", card.completion_by_flag ? "flag" : "driver", card.completion_reason));
    return out.take();
}

} // namespace gaudi::cli
