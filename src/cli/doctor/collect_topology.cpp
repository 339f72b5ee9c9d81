// SPDX-License-Identifier: BSD-3-Clause
// Where cards and NICs are: their places on PCIe, their links, and the processors near them.
#include "collect.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char *kDevices = "/sys/bus/pci/devices";

/// The last bus id in a path of sysfs with its links followed: that of the function which a device belongs to.
std::string find_bus_id(const Machine &machine, const fs::path &path) {
    std::error_code error;
    std::string found;
    for (const fs::path &part : fs::canonical(machine.at(path), error))
        if (is_bus_id(part.string()))
            found = part.string();
    return found;
}

PciDeviceFacts read_device(const Machine &machine, const std::string &bus_id) {
    const fs::path path = fs::path(kDevices) / bus_id;
    PciDeviceFacts device;
    device.bus_id = bus_id;
    device.cpus = machine.read_line(path / "local_cpulist");
    const double giga_transfers = std::strtod(machine.read_line(path / "current_link_speed").c_str(), nullptr);
    if (giga_transfers > 0 && giga_transfers < 1e6) // "Unknown" where there is no link
        device.link_mt_per_s = static_cast<std::uint64_t>(std::llround(giga_transfers * 1000));
    const std::int64_t lanes = machine.read_number(path / "current_link_width").value_or(0);
    device.link_lanes = lanes > 0 ? static_cast<std::uint64_t>(lanes) : 0;
    return device;
}

} // namespace

void collect_nic_places(const Machine &machine, std::vector<NicFacts> &nics) {
    for (NicFacts &nic : nics) {
        const fs::path path =
            nic.sysfs_path.empty() ? fs::path("/sys/class/infiniband") / nic.name : fs::path(nic.sysfs_path);
        std::string bus_id = find_bus_id(machine, path);
        if (bus_id.empty())
            bus_id = find_bus_id(machine, path / "device");
        if (bus_id.empty())
            continue;
        nic.bus_id = bus_id;
        nic.numa_node = machine.read_number(fs::path(kDevices) / bus_id / "numa_node").value_or(-1);
        nic.bridges = list_bridges(machine, bus_id);
        for (const std::string &bridge : nic.bridges)
            nic.acs.push_back(read_bridge(machine, bridge));
    }
}

std::vector<NumaNodeFacts> collect_numa_nodes(const Machine &machine) {
    const fs::path directory = "/sys/devices/system/node";
    std::vector<NumaNodeFacts> found;
    for (const std::string &name : machine.list(directory)) {
        constexpr std::string_view kStart = "node";
        NumaNodeFacts node;
        const char *const end = name.data() + name.size();
        if (!name.starts_with(kStart) || std::from_chars(name.data() + kStart.size(), end, node.node).ptr != end ||
            name.size() == kStart.size())
            continue;
        node.cpus = machine.read_line(directory / name / "cpulist");
        found.push_back(std::move(node));
    }
    std::ranges::sort(found, {}, &NumaNodeFacts::node); // node10 is listed before node2
    return found;
}

std::vector<PciDeviceFacts> collect_pci_devices(const Machine &machine, const Facts &facts) {
    std::vector<PciDeviceFacts> found;
    for (const PciCardFacts &card : facts.pci_cards)
        found.push_back(read_device(machine, card.bus_id));
    for (const NicFacts &nic : facts.nics)
        if (!nic.bus_id.empty() && std::ranges::find(found, nic.bus_id, &PciDeviceFacts::bus_id) == found.end())
            found.push_back(read_device(machine, nic.bus_id));
    return found;
}

} // namespace gaudi::cli::doctor
