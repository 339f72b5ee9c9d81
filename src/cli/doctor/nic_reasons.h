// SPDX-License-Identifier: BSD-3-Clause
// Why an RDMA device does not reach the memory of a card, in words that follow its name.
#pragma once

#include "facts.h"

namespace gaudi::cli::doctor {

/// The cards' own ports, which the driver habanalabs_ib shows as RDMA devices.
bool is_gaudi_port(const NicFacts &nic);

/// The meaning of an errno that a dma-buf registration returned.
std::string explain_dmabuf_errno(std::int64_t error);

/// Empty if the device has an active port and registers dma-bufs.
std::string why_no_dmabufs(const NicFacts &nic);

/// Whether UCX uses the first port of a device with this UCX_NET_DEVICES; ports are named as in mlx5_0:1.
bool is_selected(const NicFacts &nic, const std::string &net_devices);

/// Whether the card and the device are below one PCIe switch.
bool share_switch(const PciCardFacts &card, const NicFacts &nic);

} // namespace gaudi::cli::doctor
