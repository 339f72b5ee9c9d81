// SPDX-License-Identifier: BSD-3-Clause
#include "proto_info.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace gaudi::cli::explain {
namespace {

std::string_view trim(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
    std::vector<std::string_view> parts;
    while (true) {
        const std::size_t end = text.find(separator);
        parts.push_back(text.substr(0, end));
        if (end == std::string_view::npos)
            return parts;
        text.remove_prefix(end + 1);
    }
}

/// "8248", "512K", "inf".
std::optional<std::uint64_t> parse_limit(std::string_view text) {
    if (text == "inf")
        return kNoLimit;
    constexpr std::string_view kUnits = "KMGT";
    unsigned shift = 0;
    if (!text.empty())
        if (const std::size_t unit = kUnits.find(text.back()); unit != std::string_view::npos) {
            shift = 10 * (static_cast<unsigned>(unit) + 1);
            text.remove_suffix(1);
        }
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number > (kNoLimit >> shift))
        return {};
    return number << shift;
}

/// The cells of "| a | b |", or nothing if the line is no row.
std::vector<std::string_view> cells_of(std::string_view line) {
    if (line.size() < 2 || !line.starts_with('|') || !line.ends_with('|'))
        return {};
    std::vector<std::string_view> cells = split(line.substr(1, line.size() - 2), '|');
    std::ranges::transform(cells, cells.begin(), trim);
    return cells;
}

std::optional<ProtocolRange> parse_range(std::string_view line) {
    const auto cells = cells_of(line);
    if (cells.size() != 3)
        return {};
    const std::size_t dots = cells[0].find("..");
    const auto first = parse_limit(cells[0].substr(0, dots));
    const auto last = dots == std::string_view::npos ? first : parse_limit(cells[0].substr(dots + 2));
    if (!first || !last || *first > *last)
        return {};
    constexpr std::string_view kEstimated = "(?) ";
    const bool estimated = cells[1].starts_with(kEstimated);
    return ProtocolRange{*first, *last, std::string(estimated ? cells[1].substr(kEstimated.size()) : cells[1]),
                         estimated, std::string(cells[2])};
}

/// Puts tables together line by line: a rule, the titles, a rule, the names of the columns, a rule, the rows, and a rule,
/// which lacks if there is no row.
class TableParser {
public:
    explicit TableParser(ProtocolInfo &info) : m_info(info) {}

    void take(std::string_view line) {
        m_seen.append(line).push_back('\n');
        if (line.starts_with('+'))
            take_rule();
        else
            take_row(line);
    }
    /// A line that is in no box, or the end.
    void end() {
        if (m_state == State::rows && m_table.ranges.empty())
            reset(State::outside);
        else if (m_state != State::outside)
            give_up();
        m_seen.clear();
    }

private:
    enum class State { outside, titles, columns, before_rows, rows };

    void take_rule() {
        switch (m_state) {
        case State::outside:
            return reset(State::titles);
        case State::titles:
            if (!m_table.title.empty())
                m_state = State::columns;
            return; // else the rule above closed a table without rows
        case State::before_rows:
            m_state = State::rows;
            return;
        case State::rows:
            if (m_table.ranges.empty())
                return reset(State::titles);
            m_info.tables.push_back(std::move(m_table));
            return reset(State::outside);
        case State::columns:
            return give_up();
        }
    }
    void take_row(std::string_view line) {
        const auto cells = cells_of(line);
        if (m_state == State::titles && cells.size() == 1) {
            m_table.title = std::string(cells[0]); // the last line; the first has the context and the configuration
        } else if (m_state == State::columns && cells.size() == 3 && cells[0] == "Range") {
            m_state = State::before_rows;
        } else if (const auto range = parse_range(line); m_state == State::rows && range) {
            m_table.ranges.push_back(*range);
        } else {
            give_up();
        }
    }
    void give_up() {
        m_info.unknown += m_seen;
        reset(State::outside);
    }
    void reset(State state) {
        m_state = state;
        m_table = {};
        if (state == State::outside)
            m_seen.clear();
    }

    ProtocolInfo &m_info;
    State m_state = State::outside;
    ProtocolTable m_table;
    std::string m_seen; // of the table so far
};

} // namespace

const ProtocolRange *ProtocolTable::find(std::uint64_t bytes) const {
    const auto found = std::ranges::find_if(
        ranges, [&](const ProtocolRange &range) { return range.first <= bytes && bytes <= range.last; });
    return found == ranges.end() ? nullptr : &*found;
}

std::string_view strip_log_prefix(std::string_view line) {
    while (true) {
        line = trim(line);
        const std::size_t end = line.find(']');
        if (!line.starts_with('[') || end == std::string_view::npos)
            return line;
        line.remove_prefix(end + 1);
    }
}

ProtocolInfo parse_protocol_info(std::string_view log) {
    ProtocolInfo info;
    TableParser parser(info);
    for (const std::string_view whole : split(log, '\n')) {
        const std::string_view line = strip_log_prefix(whole);
        if (line.starts_with('+') || line.starts_with('|'))
            parser.take(line);
        else
            parser.end();
    }
    parser.end();
    return info;
}

const ProtocolTable *find_table(const std::vector<ProtocolTable> &tables, const std::vector<std::string_view> &words) {
    const auto has_all = [&](const ProtocolTable &table) {
        return std::ranges::all_of(words,
                                   [&](std::string_view word) { return table.title.find(word) != std::string::npos; });
    };
    const auto found = std::find_if(tables.rbegin(), tables.rend(), has_all);
    return found == tables.rend() ? nullptr : &*found;
}

RequestInfo parse_request(std::string_view request, const ProtocolTable *table, std::uint64_t bytes) {
    // "{flags} tag_send from gaudi memory length 64 eager copy-in copy-out tcp/lo 0.5 MB/s 130.10 us"
    constexpr std::string_view kLength = " length ";
    if (const std::size_t at = request.find(kLength); at != std::string_view::npos) {
        request.remove_prefix(at + kLength.size());
        request.remove_prefix(std::min(request.find(' '), request.size()));
    }
    if (const std::size_t at = request.find(" MB/s"); at != std::string_view::npos) {
        request = request.substr(0, at);
        request = request.substr(0, request.rfind(' '));
    }
    request = trim(request);
    RequestInfo info{std::string(request), {}};
    const ProtocolRange *range = table ? table->find(bytes) : nullptr;
    if (range && request.starts_with(range->protocol)) {
        info.protocol = range->protocol;
        info.lanes = std::string(trim(request.substr(range->protocol.size())));
    }
    return info;
}

bool is_zero_copy(std::string_view protocol) {
    const auto has = [&](std::string_view word) { return protocol.find(word) != std::string_view::npos; };
    return has("zero-copy") && !has("copy-in") && !has("copy-out") && !has("frag") && !has("pipeline");
}

std::vector<Lane> parse_lanes(std::string_view lanes) {
    // "rc_verbs/mlx5_0:1", or "50% on rc_verbs/mlx5_0:1 and 50% on rc_verbs/mlx5_1:1"
    std::vector<Lane> found;
    unsigned percent = 100;
    for (std::string_view word : split(lanes, ' ')) {
        while (word.ends_with(','))
            word.remove_suffix(1);
        if (word.ends_with('%')) {
            if (const auto [end, error] = std::from_chars(word.data(), word.data() + word.size() - 1, percent);
                error != std::errc())
                percent = 100;
        } else if (word.find('/') != std::string_view::npos) {
            found.push_back({std::string(word), percent});
        }
    }
    return found;
}

} // namespace gaudi::cli::explain
