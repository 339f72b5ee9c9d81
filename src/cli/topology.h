// SPDX-License-Identifier: BSD-3-Clause
// What UCX computes the distances of devices from: /sys/bus/pci/devices and, where its links lead, /sys/devices.
#pragma once

#include "sentence.h"

#include <filesystem>

namespace gaudi::cli {

/// Puts the modelled server's PCI devices into the /sys that this process and its children see from now on, in
/// namespaces of its own; what the machine itself has stays there. `room` is an empty directory to build it in.
OrSentence<void> show_topology(const std::filesystem::path &room, bool gaudi3, unsigned hcas);

} // namespace gaudi::cli
