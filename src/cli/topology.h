// SPDX-License-Identifier: BSD-3-Clause
// The files from which UCX computes distances of devices: /sys/bus/pci/devices and, where its links lead, /sys/devices.
#pragma once

#include "sentence.h"

#include <filesystem>

namespace gaudi::cli {

/// Adds the PCI devices of the modelled server to the /sys that this process and its children see from now on, in
/// namespaces of its own; the devices of the machine stay visible. `room` is an empty directory to build the tree in.
OrSentence<void> show_topology(const std::filesystem::path &room, bool gaudi3, unsigned hcas);

} // namespace gaudi::cli
