// SPDX-License-Identifier: BSD-3-Clause
// Collectors of the facts. None opens a card for compute; collect_round_trips does, and is called only on request.
#pragma once

#include "facts.h"
#include "machine.h"

namespace gaudi::cli::doctor {

/// All facts but the round trips.
Facts collect(const Machine &machine);

void collect_kernel(const Machine &machine, KernelFacts &kernel);
void collect_process(const Machine &machine, ProcessFacts &process);
void collect_driver(const Machine &machine, DriverFacts &driver);
std::vector<NodeFacts> collect_nodes(const Machine &machine);
std::vector<PciCardFacts> collect_pci_cards(const Machine &machine);
/// The settings that UCX, libhl-thunk and frameworks read, of each name the one that counts for the UCX in this directory.
std::vector<SettingFacts> collect_settings(const Machine &machine, const std::filesystem::path &ucx_libraries);
/// The files that the UCX with this libucs finds for our modules.
std::vector<ModuleFileFacts> collect_module_files(const Machine &machine, const std::filesystem::path &libucs);
/// The bridges above a PCI function, from the root down.
std::vector<std::string> list_bridges(const Machine &machine, const std::string &bus_id);
/// Fills in the places of NICs by their names.
void collect_nic_places(const Machine &machine, std::vector<NicFacts> &nics);

// These ask libraries and other processes, wherever the root of the machine is.
void collect_cards(const Machine &machine, Facts &facts);
void collect_ucx(const Machine &machine, Facts &facts);
void collect_nics(Facts &facts);

/// Opens each free card, and copies, exports and imports memory of its own.
std::vector<RoundTripFacts> collect_round_trips(const Facts &facts);

} // namespace gaudi::cli::doctor
