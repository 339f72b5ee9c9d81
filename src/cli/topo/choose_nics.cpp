// SPDX-License-Identifier: BSD-3-Clause
// How UCX chooses the lanes of a transfer: each NIC has the bandwidth of its port, its PCIe link or the way to the card,
// whichever is least. NICs that are slower than the fastest by more than UCX_MULTI_LANE_MAX_RATIO are left out; of the others
// the fastest are used, as many as there are rails.
#include "cli/doctor/nic_reasons.h"
#include "cli/doctor/ucx_list.h"
#include "os/format.h"
#include "server.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>
#include <limits>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;

/// The value of the first of these settings that UCX has, else that of the user; empty if neither is known.
std::string setting_of(const Facts &facts, std::initializer_list<const char *> names) {
    for (const char *name : names) {
        const auto &known = facts.topology.ucx.settings;
        if (const auto found = known.find(name); found != known.end())
            return found->second;
        if (const SettingFacts *setting = facts.setting(name))
            return setting->value;
    }
    return {};
}

double number_of(const std::string &text, double otherwise) {
    char *end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    return end == text.c_str() || !(value > 0) ? otherwise : value;
}

std::size_t rails_of(const std::string &text, double otherwise) {
    constexpr double kMany = 64; // UCX has fewer lanes
    return static_cast<std::size_t>(std::min(number_of(text, otherwise), kMany));
}

bool uses_rdma(const std::string &tls) {
    return tls.empty() || UcxList(tls).selects({"ib", "rc", "rc_v", "rc_x", "rc_verbs", "rc_mlx5", "dc", "dc_x",
                                                "dc_mlx5", "ud", "ud_v", "ud_x", "ud_verbs", "ud_mlx5", "srd"});
}

/// In bytes/s, as UCX estimates it.
double bandwidth_of(const Facts &facts, const Device &card, const Device &nic) {
    constexpr double kUsualRate = 200; // Gbit/s; of NICs that do not say it
    double bandwidth = static_cast<double>(nic.nic->rate_gbit_per_s.value_or(0));
    bandwidth = (bandwidth > 0 ? bandwidth : kUsualRate) * 1e9 / 8;
    if (nic.link_mt_per_s > 0 && nic.link_lanes > 0)
        bandwidth = std::min(bandwidth, static_cast<double>(nic.link_mt_per_s * nic.link_lanes) * 1e6 / 8);
    const DistanceFacts *distance = find_distance(facts, card, nic);
    if (distance && distance->bandwidth_bytes_per_s)
        bandwidth = std::min(bandwidth, static_cast<double>(*distance->bandwidth_bytes_per_s));
    return bandwidth;
}

struct Lane {
    std::string name;
    double bandwidth;
};

std::vector<std::string> take(const std::vector<Lane> &lanes, std::size_t rails) {
    std::vector<std::string> names;
    for (const Lane &lane : lanes)
        if (names.size() < rails)
            names.push_back(lane.name);
    return names;
}

/// Why a NIC carries no memory of cards, else empty.
std::string why_unused(const Device &nic, const std::string &devices) {
    if (!nic.nic->active)
        return "has no active port";
    if (!is_selected(*nic.nic, devices))
        return "is left out by UCX_NET_DEVICES";
    if (nic.nic->dmabuf_errno.value_or(EBADF) != EBADF)
        return "does not register dma-bufs";
    return {};
}

} // namespace

ChosenNics choose_nics(const Facts &facts, const Server &server, const Device &card) {
    ChosenNics chosen;
    const UcxViewFacts &ucx = facts.topology.ucx;
    if (server.devices.size() == server.cards) {
        chosen.why_none = "there is no NIC";
        return chosen;
    }
    if (ucx.has_ib == false) {
        chosen.why_none = os::format("UCX {} ({}) has no module for RDMA, libuct_ib", ucx.version, ucx.source);
        return chosen;
    }
    const std::string tls = setting_of(facts, {"UCX_TLS"});
    if (!uses_rdma(tls)) {
        chosen.why_none = os::format("UCX_TLS={} leaves out the transports of RDMA", tls);
        return chosen;
    }
    const std::string names = setting_of(facts, {"UCX_NET_DEVICES"});
    const std::string devices = names.empty() ? "all" : names;
    std::vector<Lane> lanes;
    std::vector<std::string> unused;
    double fastest = 0;
    bool known = true;
    for (std::size_t i = server.cards; i < server.devices.size(); ++i) {
        const Device &nic = server.devices[i];
        if (const std::string why = why_unused(nic, devices); !why.empty()) {
            unused.push_back(os::format("{} {}", nic.name, why));
            continue;
        }
        lanes.push_back({nic.name, bandwidth_of(facts, card, nic)});
        fastest = std::max(fastest, lanes.back().bandwidth);
        // What has no place on PCIe is near for UCX; of the others it has distances.
        known = known && (nic.place.bus_id.empty() || card.place.bus_id.empty() || find_distance(facts, card, nic));
    }
    if (lanes.empty()) {
        chosen.why_none = os::join(unused, ", ");
        return chosen;
    }
    if (!known && lanes.size() > 1) {
        chosen.known = false;
        chosen.why_none = "UCX's distances are not known";
        return chosen;
    }
    const double ratio = number_of(setting_of(facts, {"UCX_MULTI_LANE_MAX_RATIO"}), 4);
    std::erase_if(lanes, [&](const Lane &lane) { return lane.bandwidth * ratio < fastest; });
    std::ranges::stable_sort(lanes, std::greater(), &Lane::bandwidth);
    chosen.rendezvous = take(lanes, rails_of(setting_of(facts, {"UCX_MAX_RNDV_RAILS", "UCX_MAX_RNDV_LANES"}), 2));
    chosen.put_get = take(lanes, rails_of(setting_of(facts, {"UCX_MAX_RMA_RAILS", "UCX_MAX_RMA_LANES"}), 1));
    return chosen;
}

} // namespace gaudi::cli::topo
