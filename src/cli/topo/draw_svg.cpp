// SPDX-License-Identifier: BSD-3-Clause
// The server as a picture: a panel for each NUMA node, in it root complexes side by side, below them switches, and in the last
// row cards and NICs.
#include "os/format.h"
#include "show.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;

// Lengths in pixels.
constexpr int kMargin = 24;
constexpr int kPadding = 20; // within a panel
constexpr int kHeader = 34;  // of a panel
constexpr int kGap = 14;     // between boxes of one row
constexpr int kRise = 26;    // between rows, for the links
constexpr int kBar = 30;     // height of root complexes and switches
constexpr int kLeafWidth = 124, kLeafHeight = 84;
constexpr int kPanelGap = 46; // between panels, for the link of the NUMA nodes
constexpr int kTitle = 70, kLegend = 92;
constexpr int kWidest = 1200; // root complexes beyond it go to a further row

/// A root complex, a switch, or a device.
struct Node {
    std::string label;
    const Device *device = nullptr;
    std::vector<Node> children;
    std::size_t index = 0; // of the device in the server
};

struct Panel {
    std::int64_t node = -1; // NUMA node
    std::string title, subtitle;
    std::vector<Node> complexes;
};

std::string escape(const std::string &text) {
    std::string out;
    for (const char letter : text) {
        if (letter == '&')
            out += "&amp;";
        else if (letter == '<')
            out += "&lt;";
        else if (letter == '>')
            out += "&gt;";
        else if (letter == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(letter) >= ' ' && static_cast<unsigned char>(letter) < 127)
            out += letter;
        else
            out += '?'; // names are ASCII; XML forbids most control characters
    }
    return out;
}

// ---- the tree ----------------------------------------------------------------------------------------------------

Node &child_of(std::vector<Node> &nodes, const std::string &label) {
    const auto found = std::ranges::find(nodes, label, &Node::label);
    if (found != nodes.end())
        return *found;
    nodes.push_back({label, nullptr, {}, 0});
    return nodes.back();
}

void add_device(Panel &panel, const Device &device, std::size_t index) {
    Node *node = &child_of(panel.complexes, "root complex " + root_complex_of(device.place));
    // Behind the root port, a switch is two bridges on a path: its upstream port, which names it, and a downstream port.
    for (std::size_t i = 1; i < device.place.bridges.size(); i += 2)
        node = &child_of(node->children, "PCIe switch " + device.place.bridges[i]);
    node->children.push_back({device.name, &device, {}, index});
}

std::vector<Panel> make_panels(const Facts &facts, const Server &server) {
    std::vector<std::size_t> order(server.devices.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return server.devices[i].place.bus_id; });
    std::map<std::int64_t, Panel> by_node;
    Panel unplaced;
    unplaced.title = "Place on PCIe not known";
    for (const std::size_t i : order) {
        const Device &device = server.devices[i];
        if (device.place.bus_id.empty())
            child_of(unplaced.complexes, "").children.push_back({device.name, &device, {}, i});
        else
            add_device(by_node[device.place.numa_node], device, i);
    }
    std::vector<Panel> panels;
    for (auto &[number, panel] : by_node) {
        panel.node = number;
        panel.title = number < 0 ? "NUMA node not known" : os::format("NUMA node {}", number);
        const auto node = std::ranges::find(facts.topology.numa_nodes, number, &NumaNodeFacts::node);
        if (node != facts.topology.numa_nodes.end() && !node->cpus.empty())
            panel.subtitle = "CPUs " + node->cpus;
        panels.push_back(std::move(panel));
    }
    if (!unplaced.complexes.empty())
        panels.push_back(std::move(unplaced));
    return panels;
}

int width_of(const Node &node) {
    if (node.device)
        return kLeafWidth;
    int width = -kGap;
    for (const Node &child : node.children)
        width += width_of(child) + kGap;
    return std::max(width, 2 * kLeafWidth);
}

/// The rows of switches below a root complex.
int depth_of(const Node &node) {
    int depth = 0;
    for (const Node &child : node.children)
        if (!child.device)
            depth = std::max(depth, 1 + depth_of(child));
    return depth;
}

int height_of(const Node &complex, int depth) {
    const int bar = complex.label.empty() ? 0 : kBar + kRise;
    return bar + depth * (kBar + kRise) + kLeafHeight;
}

/// Root complexes in rows that are not too wide.
std::vector<std::vector<const Node *>> make_rows(const Panel &panel) {
    std::vector<std::vector<const Node *>> rows;
    int width = kWidest;
    for (const Node &complex : panel.complexes) {
        const int more = width_of(complex) + 2 * kGap;
        if (rows.empty() || width + more > kWidest) {
            rows.emplace_back();
            width = 0;
        }
        rows.back().push_back(&complex);
        width += more;
    }
    return rows;
}

int width_of(const std::vector<const Node *> &row) {
    int width = -2 * kGap;
    for (const Node *complex : row)
        width += width_of(*complex) + 2 * kGap;
    return width;
}

int height_of(const std::vector<const Node *> &row) {
    int depth = 0, height = 0;
    for (const Node *complex : row)
        depth = std::max(depth, depth_of(*complex));
    for (const Node *complex : row)
        height = std::max(height, height_of(*complex, depth));
    return height;
}

int height_of(const Panel &panel) {
    int height = kHeader + kPadding / 2;
    for (const auto &row : make_rows(panel))
        height += height_of(row) + kPadding;
    return height;
}

// ---- the picture -------------------------------------------------------------------------------------------------

class Picture {
public:
    explicit Picture(const Server &server) : m_server(server) {}

    void add(const std::string &element) { m_text += "  " + element + "\n"; }
    void box(int x, int y, int width, int height, const char *style) {
        add(os::format(R"(<rect x="{}" y="{}" width="{}" height="{}" rx="6" class="{}"/>)", x, y, width, height,
                       style));
    }
    void text(int x, int y, const char *style, const std::string &words) {
        add(os::format(R"(<text x="{}" y="{}" class="{}">{}</text>)", x, y, style, escape(words)));
    }
    /// From the middle of a lower edge to the middle of an upper edge.
    void link(int from_x, int from_y, int to_x, int to_y) {
        add(os::format(R"(<path d="M{} {}V{}H{}V{}" class="link"/>)", from_x, from_y, (from_y + to_y) / 2, to_x, to_y));
    }
    void draw_panel(const Panel &panel, int y, int width);
    std::string take() { return std::move(m_text); }

private:
    void draw_node(const Node &node, int x, int y, int leaf_y);
    void draw_device(const Node &node, int x, int y);

    const Server &m_server;
    std::string m_text;
};

std::string describe_link(const Device &device) {
    if (device.link_mt_per_s == 0 || device.link_lanes == 0)
        return {};
    return os::format("PCIe {}{} GT/s x{}", device.link_mt_per_s / 1000, device.link_mt_per_s % 1000 == 500 ? ".5" : "",
                      device.link_lanes);
}

void Picture::draw_device(const Node &node, int x, int y) {
    const Device &device = *node.device;
    const bool down = device.nic && !device.nic->active;
    box(x, y, kLeafWidth, kLeafHeight, device.is_card ? "card" : down ? "down" : "nic");
    const int middle = x + kLeafWidth / 2;
    // A long name is squeezed into its box.
    const int room = kLeafWidth - 12;
    const bool is_long = device.name.size() > 14;
    add(os::format(R"(<text x="{}" y="{}" class="name"{}>{}</text>)", middle, y + 22,
                   is_long ? os::format(R"( textLength="{}" lengthAdjust="spacingAndGlyphs")", room) : "",
                   escape(device.name)));
    std::string last;
    if (device.nic) {
        const auto &rate = device.nic->rate_gbit_per_s;
        last = down ? "no active port" : rate ? os::format("{} Gbit/s", *rate) : "";
    } else {
        const auto [relation, nearest] = m_server.nearest_nics(node.index);
        last = nearest.empty()       ? ""
               : nearest.size() == 1 ? os::format("{} {}", name_of(relation), nearest.front())
                                     : os::format("{} {} NICs", name_of(relation), nearest.size());
    }
    int line = y + 40;
    for (const std::string &words : {device.bus_id, describe_link(device), last})
        if (!words.empty() && words != device.name) {
            text(middle, line, "small", words);
            line += 16;
        }
}

void Picture::draw_node(const Node &node, int x, int y, int leaf_y) {
    const int width = width_of(node);
    int below = y;
    if (!node.label.empty()) {
        box(x, y, width, kBar, node.label.starts_with("root") ? "root" : "switch");
        text(x + width / 2, y + 20, "bar", node.label);
        below = y + kBar;
    }
    int content = -kGap;
    for (const Node &child : node.children)
        content += width_of(child) + kGap;
    int left = x + (width - content) / 2;
    for (const Node &child : node.children) {
        const int middle = left + width_of(child) / 2;
        const int top = child.device ? leaf_y : below + kRise;
        if (!node.label.empty())
            link(middle, below, middle, top);
        if (child.device)
            draw_device(child, left, top);
        else
            draw_node(child, left, top, leaf_y);
        left += width_of(child) + kGap;
    }
}

void Picture::draw_panel(const Panel &panel, int y, int width) {
    box(kMargin, y, width, height_of(panel), "panel");
    add(os::format(R"(<text x="{}" y="{}" class="head">{}<tspan class="sub" dx="12">{}</tspan></text>)",
                   kMargin + kPadding, y + 28, escape(panel.title), escape(panel.subtitle)));
    int top = y + kHeader + kPadding / 2;
    for (const auto &row : make_rows(panel)) {
        const int height = height_of(row);
        int left = kMargin + (width - width_of(row)) / 2;
        for (const Node *complex : row) {
            draw_node(*complex, left, top, top + height - kLeafHeight);
            left += width_of(*complex) + 2 * kGap;
        }
        top += height + kPadding;
    }
}

constexpr const char *kStyle =
    "text{font-family:system-ui,'Segoe UI','Helvetica Neue',Arial,sans-serif;fill:#1f2328}"
    ".title{font-size:20px;font-weight:600}.sub{font-size:13px;font-weight:400;fill:#59636e}"
    ".head{font-size:15px;font-weight:600}.bar{font-size:12px;text-anchor:middle}"
    ".name{font-size:14px;font-weight:600;text-anchor:middle}.small{font-size:11px;text-anchor:middle;fill:#3d444d}"
    ".key{font-size:12px}"
    ".panel{fill:#f6f8fa;stroke:#d1d9e0}.root{fill:#e6eaef;stroke:#818b98}.switch{fill:#fff8c5;stroke:#bf8700}"
    ".card{fill:#ddf4ff;stroke:#0969da}.nic{fill:#dafbe1;stroke:#1a7f37}"
    ".down{fill:#ffffff;stroke:#818b98;stroke-dasharray:4 3}"
    ".link{fill:none;stroke:#59636e;stroke-width:1.5}.sys{fill:none;stroke:#59636e;stroke-width:4}";

void draw_legend(Picture &picture, int y) {
    int x = kMargin;
    for (const auto &[style, words] : {std::pair{"card", "card"},
                                       {"nic", "NIC"},
                                       {"down", "NIC without an active port"},
                                       {"switch", "PCIe switch"}}) {
        picture.box(x, y, 16, 16, style);
        picture.text(x + 22, y + 13, "key", words);
        x += 48 + 6 * static_cast<int>(std::string_view(words).size());
    }
    picture.text(kMargin, y + 40, "key",
                 "Between two devices: PIX one switch, PXB several switches, PHB a root complex,");
    picture.text(kMargin, y + 57, "key",
                 "NODE root complexes of a NUMA node, SYS the link of NUMA nodes. A card names its nearest NIC.");
}

} // namespace

std::string draw_svg(const Facts &facts, const Server &server) {
    const std::vector<Panel> panels = make_panels(facts, server);
    constexpr int kNarrowest = 600; // for the legend
    int width = kNarrowest;
    for (const Panel &panel : panels)
        for (const auto &row : make_rows(panel))
            width = std::max(width, width_of(row) + 2 * kPadding);
    Picture picture(server);
    picture.text(kMargin, 34, "title", "Cards and NICs on PCIe");
    picture.text(kMargin, 54, "sub",
                 facts.thunk.software ? "SOFTWARE: softgaudi, not hardware" : "ucx_gaudi " + facts.version);
    int y = kTitle;
    if (panels.empty())
        picture.text(kMargin, y += 20, "key", "There is no card and no RDMA NIC.");
    for (std::size_t i = 0; i < panels.size(); ++i) {
        picture.draw_panel(panels[i], y, width);
        y += height_of(panels[i]);
        if (i + 1 == panels.size())
            break;
        if (panels[i].node >= 0 && panels[i + 1].node >= 0) {
            const int middle = kMargin + width / 2;
            picture.add(os::format(R"(<path d="M{} {}v{}" class="sys"/>)", middle, y, kPanelGap));
            picture.text(middle + 12, y + kPanelGap / 2 + 4, "key", "SYS");
        }
        y += kPanelGap;
    }
    draw_legend(picture, y + kMargin);
    return os::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n"
        "  <style>{2}</style>\n"
        "  <rect width=\"{0}\" height=\"{1}\" fill=\"#ffffff\"/>\n{3}</svg>\n",
        width + 2 * kMargin, y + kMargin + kLegend, kStyle, picture.take());
}

} // namespace gaudi::cli::topo
