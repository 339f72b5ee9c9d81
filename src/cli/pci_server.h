// SPDX-License-Identifier: BSD-3-Clause
// The PCI devices of the Gaudi server that softgaudi and softhca model, as files like those of sysfs.
//
// Two sockets with two PCIe switches each; below each switch two cards and one HCA:
//
//     root complex 0000:16 ── root port ── switch ──┬── card 0000:19:00.0
//                                                   ├── card 0000:1a:00.0
//                                                   └── HCA  0000:1c:00.0
#pragma once

#include "sentence.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::cli {

struct PciFunction {
    std::string address;
    std::filesystem::path place; // below /sys/devices
};

/// Writes all 8 cards, the first `hcas` HCAs and the bridges above them to `devices`, which stands for /sys/devices.
/// Returns all functions, bridges included.
OrSentence<std::vector<PciFunction>> write_pci_server(const std::filesystem::path &devices, bool gaudi3, unsigned hcas);

} // namespace gaudi::cli
