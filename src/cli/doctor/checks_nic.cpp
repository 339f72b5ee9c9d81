// SPDX-License-Identifier: BSD-3-Clause
// RDMA devices.
#include "check.h"
#include "cli/grouped.h"
#include "nic_reasons.h"
#include "os/format.h"
#include "ucx_list.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace gaudi::cli::doctor {
namespace {

Outcome judge_nics(const Facts &facts) {
    if (!facts.why_no_verbs.empty())
        return skip(os::format("no RDMA device can be used: {}", facts.why_no_verbs));
    if (facts.nics.empty())
        return skip("there is no RDMA device: transfers to other machines go through host memory");
    std::vector<std::string> active, inactive;
    for (const NicFacts &nic : facts.nics)
        if (!is_gaudi_port(nic))
            (nic.active ? active : inactive).push_back(nic.name);
    if (active.empty() && inactive.empty())
        return skip("the only RDMA devices are ports of the cards");
    if (active.empty())
        return fail(os::format("no RDMA device has an active port: {}", os::join(inactive, ", ")),
                    "ibv_devinfo; check the cables");
    if (inactive.empty())
        return ok(os::format("RDMA devices with an active port: {}", os::join(active, ", ")));
    return warn(os::format("without an active port: {}; active: {}", os::join(inactive, ", "), os::join(active, ", ")),
                "ibv_devinfo; check the cables");
}

Outcome judge_dmabuf(const Facts &facts) {
    Grouped<std::string> refused;
    std::vector<std::string> unprobed;
    bool supported = false;
    for (const NicFacts &nic : facts.nics) {
        if (is_gaudi_port(nic))
            continue;
        if (!nic.dmabuf_errno)
            unprobed.push_back(os::format("{}: {}", nic.name, nic.why_unprobed));
        else if (*nic.dmabuf_errno == EBADF)
            supported = true;
        else
            refused.add(explain_dmabuf_errno(*nic.dmabuf_errno), nic.name);
    }
    std::string sentence;
    for (const auto &[answer, names] : refused)
        sentence += os::format("{} answer{} {}; ", os::join(names, ", "), names.size() == 1 ? "s" : "", answer);
    if (!refused.empty())
        return fail(
            sentence + "RDMA there goes through host memory",
            "install a newer driver of the NIC (mlx5 has dma-bufs from Linux 5.12 on), or choose another NIC in "
            "UCX_NET_DEVICES");
    if (!unprobed.empty())
        return skip(os::format("not probed: {}", os::join(unprobed, "; ")));
    return supported ? ok("each RDMA device registers dma-bufs") : skip("there is no RDMA device");
}

Outcome judge_gaudi_ports(const Facts &facts) {
    std::vector<std::string> ports;
    for (const NicFacts &nic : facts.nics)
        if (is_gaudi_port(nic))
            ports.push_back(nic.name);
    if (ports.empty())
        return ok("no port of a card is shown as an RDMA device");
    const SettingFacts *devices = facts.setting("UCX_NET_DEVICES");
    if (devices && !UcxList(devices->value).selects({"all"}))
        return ok(os::format("ports of cards are shown as RDMA devices ({}); UCX_NET_DEVICES={} chooses others",
                             os::join(ports, ", "), devices->value));
    const auto nic = std::ranges::find_if_not(facts.nics, is_gaudi_port);
    return warn(os::format("the cards' own ports are shown as RDMA devices ({}), and UCX may choose them",
                           os::join(ports, ", ")),
                os::format("export UCX_NET_DEVICES={}:1", nic == facts.nics.end() ? "mlx5_0" : nic->name));
}

constexpr std::array kChecks = {
    Check{"GD060", "RDMA devices", judge_nics},
    Check{"GD061", "dma-bufs of the RDMA devices", judge_dmabuf},
    Check{"GD062", "ports of the cards", judge_gaudi_ports},
};

} // namespace

std::span<const Check> nic_checks() { return kChecks; }

} // namespace gaudi::cli::doctor
