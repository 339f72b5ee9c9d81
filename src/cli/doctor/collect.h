// SPDX-License-Identifier: BSD-3-Clause
// Collectors of the facts. None opens a card for compute; collect_round_trips does, and is called only on request.
#pragma once

#include "facts.h"
#include "machine.h"

namespace gaudi::cli::doctor {

/// All facts but the round trips.
Facts collect(const Machine &machine);

/// All but the UCX in reach and the round trips; settings are those that the UCX in `ucx_libraries` reads.
void collect_machine(const Machine &machine, const std::filesystem::path &ucx_libraries, Facts &facts);

void collect_kernel(const Machine &machine, KernelFacts &kernel);
void collect_process(const Machine &machine, ProcessFacts &process);
void collect_driver(const Machine &machine, DriverFacts &driver);
std::vector<NodeFacts> collect_nodes(const Machine &machine);
std::vector<PciCardFacts> collect_pci_cards(const Machine &machine);
/// The settings that UCX, libhl-thunk and frameworks read, of each name the one that counts for the UCX in this directory.
std::vector<SettingFacts> collect_settings(const Machine &machine, const std::filesystem::path &ucx_libraries);
/// The files that the UCX with this libucs and these settings finds for our modules.
std::vector<ModuleFileFacts> collect_module_files(const Machine &machine, const std::filesystem::path &libucs,
                                                  const std::vector<SettingFacts> &settings);
/// Whether a text is the bus id of a PCI function, as in 0000:19:00.0.
bool is_bus_id(const std::string &text);
/// The bridges above a PCI function, from the root down.
std::vector<std::string> list_bridges(const Machine &machine, const std::string &bus_id);
/// The ACS control register of a bridge, from its configuration space.
BridgeFacts read_bridge(const Machine &machine, const std::string &bus_id);
/// Fills in which UCX the processes that hold cards have loaded.
void collect_holder_ucx(const Machine &machine, std::vector<CardFacts> &cards);
/// Fills in the places of NICs by their paths in sysfs.
void collect_nic_places(const Machine &machine, std::vector<NicFacts> &nics);
std::vector<NumaNodeFacts> collect_numa_nodes(const Machine &machine);
/// The links and near processors of these cards and NICs, as far as they have places.
std::vector<PciDeviceFacts> collect_pci_devices(const Machine &machine, const Facts &facts);

// These ask libraries and other processes, wherever the root of the machine is.
/// The cards that libhl-thunk shows. The error is about a variable that names cards or the library.
OrSentence<std::vector<CardFacts>> list_cards();
/// Each UCX that programs of this user may get, without the files that it finds. It forks: to be called before a library of
/// a vendor is loaded.
std::vector<UcxFacts> list_ucx();
void collect_cards(const Machine &machine, Facts &facts);
/// Each UCX in reach, the settings of the first usable one, and our modules.
void collect_ucx(const Machine &machine, Facts &facts);
/// Our modules alone.
void collect_modules(const Machine &machine, Facts &facts);
void collect_nics(Facts &facts);

/// Opens each free card, and copies, exports and imports memory of its own.
std::vector<RoundTripFacts> collect_round_trips(const Facts &facts);

} // namespace gaudi::cli::doctor
