// SPDX-License-Identifier: BSD-3-Clause
#include "pci_server.h"

#include "os/format.h"
#include "thunk/abi.h"

#include <array>
#include <fstream>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

struct Switch {
    unsigned first_card; // bus of the first card; the second card is on the next bus, the HCA two buses further
    unsigned hca;        // number of the HCA
    unsigned socket;
};
constexpr std::array kSwitches = {Switch{0x19, 0, 0}, Switch{0x33, 2, 0}, Switch{0x9a, 1, 1}, Switch{0xb3, 3, 1}};

struct Kind {
    unsigned vendor, device, pci_class;
};
constexpr Kind kRootPort = {0x8086, 0x352a, 0x060400};
constexpr Kind kSwitchPort = {0x1000, 0xc030, 0x060400};
constexpr Kind kGaudi2 = {0x1da3, HL_PCI_ID_GAUDI2, 0x120000};
constexpr Kind kGaudi3 = {0x1da3, HL_PCI_ID_GAUDI3, 0x120000};
constexpr Kind kHca = {0x0000, 0x0001, 0x020700}; // numbers of softhca: UCX must not take it for the device of a vendor

class Writer {
public:
    explicit Writer(fs::path devices) : m_devices(std::move(devices)) {}

    /// Adds the function bus:slot.0 below `parent`; returns its path.
    fs::path add(const fs::path &parent, unsigned bus, unsigned slot, const Kind &kind, unsigned socket) {
        const std::string address = os::format("0000:{:02x}:{:02x}.0", bus, slot);
        fs::path place = parent / address;
        fs::create_directories(m_devices / place);
        write(place / "vendor", os::format("{:#06x}", kind.vendor));
        write(place / "device", os::format("{:#06x}", kind.device));
        write(place / "class", os::format("{:#08x}", kind.pci_class));
        write(place / "numa_node", os::format("{}", socket));
        write(place / "current_link_speed", "16.0 GT/s PCIe");
        write(place / "current_link_width", "16");
        m_functions.push_back({address, place});
        return place;
    }
    void add_directory(const fs::path &place) const { fs::create_directories(m_devices / place); }

    std::vector<PciFunction> take() { return std::move(m_functions); }

private:
    void write(const fs::path &file, std::string_view line) const {
        std::ofstream out;
        out.exceptions(std::ios::badbit | std::ios::failbit);
        out.open(m_devices / file);
        out << line << '\n' << std::flush;
    }

    fs::path m_devices;
    std::vector<PciFunction> m_functions;
};

void add_switch(Writer &writer, const Switch &one, const Kind &card, unsigned hcas) {
    const unsigned bus = one.first_card;
    const fs::path complex = os::format("pci0000:{:02x}", bus - 3);
    const fs::path port = writer.add(complex, bus - 3, 1, kRootPort, one.socket);
    const fs::path up = writer.add(port, bus - 2, 0, kSwitchPort, one.socket);
    const auto add_below = [&](unsigned slot, const Kind &kind) { // each slot is a bus behind a port of its own
        const fs::path down = writer.add(up, bus - 1, slot, kSwitchPort, one.socket);
        return writer.add(down, bus + slot, 0, kind, one.socket);
    };
    add_below(0, card);
    add_below(1, card);
    if (one.hca < hcas)
        writer.add_directory(add_below(3, kHca) / "infiniband" / os::format("softhca{}", one.hca));
}

} // namespace

OrSentence<std::vector<PciFunction>> write_pci_server(const fs::path &devices, bool gaudi3, unsigned hcas) {
    try {
        Writer writer(devices);
        for (const Switch &one : kSwitches)
            add_switch(writer, one, gaudi3 ? kGaudi3 : kGaudi2, hcas);
        return writer.take();
    } catch (const std::exception &error) { // of the file system or of a stream
        return Sentence(os::format("cannot write the PCI tree to {}: {}", devices.string(), error.what()));
    }
}

} // namespace gaudi::cli
