// SPDX-License-Identifier: BSD-3-Clause
#include "plot.h"

#include "os/format.h"
#include "sizes.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <vector>

namespace gaudi::cli::bench {
namespace {

constexpr double kPanelWidth = 420, kPanelHeight = 320, kTop = 92, kLeft = 72, kGap = 96;
constexpr double kWidth = kLeft + 2 * kPanelWidth + kGap + 24;
constexpr double kLegendLine = 20;
// Colours that colour-blind readers tell apart; further lines are dashed.
constexpr const char *kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"};
constexpr const char *kDashes[] = {"", "6 3", "2 3"};

struct Point {
    double size, value;
    double low, high; // what the samples reach
};

struct Line {
    std::string name;
    std::vector<Point> bandwidth, latency;
};

std::string escape(const std::string &text) {
    std::string out;
    for (const char c : text)
        out += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
    return out;
}

std::vector<Line> collect_lines(const Results &results) {
    std::vector<Line> lines;
    for (const Row &row : results.rows) {
        const std::string name = os::format("{}: {}", row.test, row.route);
        auto line = std::ranges::find(lines, name, &Line::name);
        if (line == lines.end())
            line = lines.insert(lines.end(), {name, {}, {}});
        const auto size = static_cast<double>(row.size), bytes = static_cast<double>(row.burst_bytes) / 1000;
        if (row.burst_us && row.burst_us->p0 > 0) // a virtual clock may not have moved
            line->bandwidth.push_back(
                {size, row.bandwidth_gb_per_s(), bytes / row.burst_us->p75, bytes / row.burst_us->p25});
        if (row.latency_us && row.latency_us->p0 > 0)
            line->latency.push_back({size, row.latency_us->p50, row.latency_us->p0, row.latency_us->p99});
    }
    return lines;
}

/// One of the two diagrams.
class Panel {
public:
    Panel(double left, const char *title, std::vector<double> sizes, double low, double high)
        : m_left(left), m_title(title), m_sizes(std::move(sizes)), m_low(std::floor(std::log10(low))),
          m_high(std::ceil(std::log10(high))) {
        if (m_high <= m_low)
            m_high = m_low + 1;
    }

    std::string axes() const {
        std::string text =
            os::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"title\">{}</text>\n", m_left, kTop - 14, m_title);
        for (double decade = m_low; decade <= m_high; ++decade) {
            const double at = y(std::pow(10, decade));
            text += os::format("<path d=\"M{:.1f} {:.1f}h{:.0f}\" class=\"grid\"/><text x=\"{:.1f}\" y=\"{:.1f}\" "
                               "class=\"end\">{:g}</text>\n",
                               m_left, at, kPanelWidth, m_left - 8, at + 4, std::pow(10, decade));
        }
        double last = -1e9;
        for (const double size : m_sizes) {
            const double at = x(size);
            text += os::format("<path d=\"M{:.1f} {:.1f}v{:.0f}\" class=\"grid\"/>", at, kTop, kPanelHeight);
            if (at - last < 50) // no room for its label
                continue;
            last = at;
            text += os::format("<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"middle\">{}</text>\n", at,
                               kTop + kPanelHeight + 18, format_size(static_cast<std::uint64_t>(size)));
        }
        return text + os::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"{:.0f}\" "
                                 "class=\"frame\"/>\n",
                                 m_left, kTop, kPanelWidth, kPanelHeight);
    }

    std::string line(const std::vector<Point> &points, const std::string &style) const {
        std::string path, marks;
        for (const Point &point : points) {
            path += os::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(point.size), y(point.value));
            marks +=
                os::format("<path d=\"M{:.1f} {:.1f}V{:.1f}\" class=\"reach\"/><circle cx=\"{:.1f}\" cy=\"{:.1f}\" "
                           "r=\"3\" fill=\"currentColor\" stroke=\"none\"/>",
                           x(point.size), y(point.low), y(point.high), x(point.size), y(point.value));
        }
        return os::format("<g {}><path d=\"{}\"/><g stroke-dasharray=\"none\">{}</g></g>\n", style, path, marks);
    }

private:
    double x(double size) const {
        const double low = std::log2(m_sizes.front()), high = std::log2(m_sizes.back());
        constexpr double kMargin = 20;
        return high <= low ? m_left + kPanelWidth / 2
                           : m_left + kMargin + (std::log2(size) - low) / (high - low) * (kPanelWidth - 2 * kMargin);
    }
    double y(double value) const {
        const double part = (std::log10(value) - m_low) / (m_high - m_low);
        return kTop + kPanelHeight * (1 - std::clamp(part, 0.0, 1.0));
    }

    double m_left;
    const char *m_title;
    std::vector<double> m_sizes; // ascending
    double m_low, m_high;        // decades
};

std::optional<Panel> make_panel(double left, const char *title, const std::vector<Line> &lines,
                                std::vector<Point> Line::*points) {
    std::vector<double> sizes;
    double low = INFINITY, high = 0;
    for (const Line &line : lines)
        for (const Point &point : line.*points) {
            sizes.push_back(point.size);
            low = std::min(low, point.low);
            high = std::max(high, point.high);
        }
    if (sizes.empty())
        return {};
    std::ranges::sort(sizes);
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return Panel(left, title, std::move(sizes), low, high);
}

std::string style_of(std::size_t number) {
    const char *dash = kDashes[number / std::size(kColours) % std::size(kDashes)];
    return os::format("class=\"line\" color=\"{}\" stroke-dasharray=\"{}\"", kColours[number % std::size(kColours)],
                      *dash ? dash : "none");
}

constexpr const char *kStyle = R"(<style>
text { font: 12px sans-serif; fill: #222 }
.title { font-weight: bold; font-size: 13px }
.head { font-weight: bold; font-size: 15px }
.software { font-weight: bold; fill: #b00020 }
.end { text-anchor: end }
.middle { text-anchor: middle }
.grid { stroke: #e2e2e2; fill: none }
.frame { stroke: #888; fill: none }
.line { stroke: currentColor; fill: none; stroke-width: 1.8 }
.reach { stroke-width: 1; opacity: 0.45 }
</style>
)";

} // namespace

std::string draw(const Results &results) {
    const std::vector<Line> lines = collect_lines(results);
    const double below = kTop + kPanelHeight + 44;
    const std::size_t legend_rows = (lines.size() + 1) / 2; // below each diagram one half
    const double height = below + kLegendLine * static_cast<double>(legend_rows) + 12;
    std::string text = os::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
                                  "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n",
                                  kWidth, height);
    text += kStyle;
    text += "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    text += os::format("<text x=\"24\" y=\"30\" class=\"head\">ucx_gaudi bench: {}, {}</text>\n", escape(results.host),
                       escape(results.time));
    if (results.software)
        text +=
            os::format("<text x=\"24\" y=\"52\" class=\"software\">SOFTWARE: measured on softgaudi, not on a card: the "
                       "figures are {}</text>\n",
                       results.virtual_clock ? "those of its virtual clock and pace" : "the processor's");
    const auto bandwidth = make_panel(kLeft, "bandwidth, GB/s (median; bar: middle half)", lines, &Line::bandwidth);
    const auto latency =
        make_panel(kLeft + kPanelWidth + kGap, "latency, µs (P50; bar: P0 to P99)", lines, &Line::latency);
    if (bandwidth)
        text += bandwidth->axes();
    if (latency)
        text += latency->axes();
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const std::string style = style_of(i);
        if (bandwidth && !lines[i].bandwidth.empty())
            text += bandwidth->line(lines[i].bandwidth, style);
        if (latency && !lines[i].latency.empty())
            text += latency->line(lines[i].latency, style);
        const double at = below + kLegendLine * static_cast<double>(i % legend_rows);
        const double left = i < legend_rows ? kLeft : kLeft + kPanelWidth + kGap;
        text += os::format("<g {}><path d=\"M{:.0f} {:.1f}h36\"/></g><text x=\"{:.0f}\" y=\"{:.1f}\">{}</text>\n",
                           style, left, at, left + 46, at + 4, escape(lines[i].name));
    }
    return text + "</svg>\n";
}

} // namespace gaudi::cli::bench
