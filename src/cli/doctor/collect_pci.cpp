// SPDX-License-Identifier: BSD-3-Clause
#include "collect.h"
#include "os/format.h"

#include <fcntl.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char *kDevices = "/sys/bus/pci/devices";
constexpr const char *kVendor = "0x1da3"; // Habana Labs

/// The length of the BAR that a card's memory is seen through; 0 if it is not shown.
std::uint64_t read_bar(const Machine &machine, const fs::path &device) {
    constexpr int kMemoryBar = 4;
    const std::string text = machine.read(device / "resource").value_or("");
    std::size_t line = 0;
    for (int i = 0; i < kMemoryBar; ++i) {
        line = text.find('\n', line);
        if (line == std::string::npos)
            return 0;
        ++line;
    }
    unsigned long long begin = 0, end = 0;
    return std::sscanf(text.c_str() + line, "%llx %llx", &begin, &end) == 2 && end > begin ? end - begin + 1 : 0;
}

std::uint64_t word_at(const std::string &bytes, std::size_t offset, unsigned size) {
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i)
        value |= std::uint64_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
    return value;
}

/// accel3 of the accel subsystem, or hl3 of the driver's old one; not their control nodes.
bool is_compute_node(const std::string &name, const std::string &prefix) {
    return name.size() > prefix.size() && name.starts_with(prefix) &&
           name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

void add_nodes(const Machine &machine, const fs::path &directory, const std::string &prefix, const fs::path &entries,
               std::vector<NodeFacts> &found) {
    for (const std::string &name : machine.list(directory)) {
        if (!is_compute_node(name, prefix))
            continue;
        NodeFacts node;
        node.path = (directory / name).string();
        node.driver = machine.read_link(entries / name / "device" / "driver").filename().string();
        node.bus_id = machine.read_link(entries / name / "device").filename().string();
        node.accessible = ::faccessat(AT_FDCWD, machine.at(node.path).c_str(), R_OK | W_OK, AT_EACCESS) == 0;
        found.push_back(std::move(node));
    }
}

} // namespace

BridgeFacts read_bridge(const Machine &machine, const std::string &bus_id) {
    BridgeFacts bridge;
    bridge.bus_id = bus_id;
    constexpr std::size_t kExtended = 0x100; // where the list of extended capabilities begins
    constexpr std::uint64_t kAcs = 0x000d;
    constexpr std::size_t kControl = 6; // of the register in the capability
    int error = 0;
    const auto config = machine.read(fs::path(kDevices) / bus_id / "config", &error);
    if (!config) {
        bridge.why_unknown = error == EACCES ? "needs root" : "sysfs does not show the configuration space";
        return bridge;
    }
    if (config->size() <= kExtended) {
        bridge.why_unknown = "needs root"; // others are shown the first 64 bytes
        return bridge;
    }
    std::size_t at = kExtended;
    for (int guard = 0; guard < 64 && at >= kExtended && at + kControl + 2 <= config->size(); ++guard) {
        const std::uint64_t header = word_at(*config, at, 4);
        if ((header & 0xffff) == kAcs) {
            bridge.acs_control = word_at(*config, at + kControl, 2);
            break;
        }
        at = header >> 20;
    }
    return bridge;
}

bool is_bus_id(const std::string &text) {
    constexpr std::string_view kShape = "xxxx:xx:xx.x";
    if (text.size() != kShape.size())
        return false;
    for (std::size_t i = 0; i < text.size(); ++i)
        if (kShape[i] == 'x' ? std::isxdigit(static_cast<unsigned char>(text[i])) == 0 : text[i] != kShape[i])
            return false;
    return true;
}

std::vector<std::string> list_bridges(const Machine &machine, const std::string &bus_id) {
    std::vector<std::string> found;
    for (const fs::path &part : machine.read_link(fs::path(kDevices) / bus_id))
        if (is_bus_id(part.string()) && part.string() != bus_id)
            found.push_back(part.string());
    return found;
}

std::vector<PciCardFacts> collect_pci_cards(const Machine &machine) {
    std::vector<PciCardFacts> found;
    for (const std::string &bus_id : machine.list(kDevices)) {
        const fs::path device = fs::path(kDevices) / bus_id;
        if (machine.read_line(device / "vendor") != kVendor)
            continue;
        PciCardFacts card;
        card.bus_id = bus_id;
        card.device_id = machine.read_line(device / "device");
        card.driver = machine.read_link(device / "driver").filename().string();
        card.numa_node = machine.read_number(device / "numa_node").value_or(-1);
        card.bar_bytes = read_bar(machine, device);
        card.iommu = machine.read_line(device / "iommu_group" / "type");
        for (const std::string &bridge : list_bridges(machine, bus_id))
            card.bridges.push_back(read_bridge(machine, bridge));
        found.push_back(std::move(card));
    }
    return found;
}

std::vector<NodeFacts> collect_nodes(const Machine &machine) {
    std::vector<NodeFacts> found;
    add_nodes(machine, "/dev/accel", "accel", "/sys/class/accel", found);
    add_nodes(machine, "/dev", "hl", "/sys/class/habanalabs", found);
    return found;
}

} // namespace gaudi::cli::doctor
