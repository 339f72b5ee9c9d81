// SPDX-License-Identifier: BSD-3-Clause
#include "nic_reasons.h"

#include "os/format.h"
#include "ucx_list.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi::cli::doctor {

bool is_gaudi_port(const NicFacts &nic) { return nic.name.starts_with("hbl_"); }

std::string explain_dmabuf_errno(std::int64_t error) {
    constexpr std::int64_t kNotSupported = 524; // ENOTSUPP, which the kernel keeps to itself and glibc does not know
    switch (error) {
    case kNotSupported:
        return "524 (ENOTSUPP, an errno of the kernel): its driver cannot register dma-bufs";
    case EOPNOTSUPP:
        return "EOPNOTSUPP: its driver cannot register dma-bufs";
    case ENOSYS:
        return "ENOSYS: libibverbs has no ibv_reg_dmabuf_mr";
    case EPROTONOSUPPORT:
        return "EPROTONOSUPPORT: the kernel does not know the call";
    default:
        return os::format("{} ({})", error, std::strerror(static_cast<int>(error)));
    }
}

std::string why_no_dmabufs(const NicFacts &nic) {
    if (is_gaudi_port(nic))
        return "a port of a card, which registers no dma-bufs";
    if (!nic.why_unprobed.empty())
        return nic.why_unprobed;
    if (!nic.active)
        return "no active port";
    if (!nic.dmabuf_errno)
        return "it was not probed";
    return *nic.dmabuf_errno == EBADF ? "" : explain_dmabuf_errno(*nic.dmabuf_errno);
}

bool is_selected(const NicFacts &nic, const std::string &net_devices) {
    return UcxList(net_devices).selects({nic.name, nic.name + ":1", nic.name + ":any"});
}

bool share_switch(const PciCardFacts &card, const NicFacts &nic) {
    // Two devices that share a bridge below the root port are below one switch.
    return std::ranges::any_of(card.bridges, [&](const BridgeFacts &bridge) {
        return &bridge != &card.bridges.front() && std::ranges::count(nic.bridges, bridge.bus_id) > 0;
    });
}

} // namespace gaudi::cli::doctor
