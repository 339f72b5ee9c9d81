// SPDX-License-Identifier: BSD-3-Clause
// Facts of a Gaudi2 server as it should be: two cards and a NIC below each of two switches.
#pragma once

#include "cli/doctor/facts.h"

#include <cerrno>

namespace doctor_test {

inline gaudi::cli::doctor::Facts healthy_server() {
    using namespace gaudi::cli::doctor;
    Facts facts;
    facts.version = "0.0.0";
    facts.kernel = {
        "6.8.0-45-generic", true, {{"CONFIG_PCI_P2PDMA", "y"}, {"CONFIG_DMABUF_MOVE_NOTIFY", "y"}}, "iommu=pt"};
    facts.process.glibc = "2.35";
    facts.process.user = 1000;
    facts.process.open_files = 65536;
    facts.process.shm_total_bytes = facts.process.shm_free_bytes = std::uint64_t{64} << 30;
    facts.process.transparent_huge_pages = "madvise";
    facts.driver = {true, "1.22.0-abc", "production"};
    facts.thunk = {"/usr/lib/habanalabs/libhl-thunk.so",  "1.22.0", false, {}, "",
                   {"/usr/lib/habanalabs/libhl-thunk.so"}};
    constexpr std::uint64_t kMemory = std::uint64_t{96} << 30;
    const char *buses[] = {"0000:19:00.0", "0000:b3:00.0"};
    const std::vector<std::string> bridges[] = {{"0000:16:01.0", "0000:17:00.0", "0000:18:00.0"},
                                                {"0000:b0:01.0", "0000:b1:00.0", "0000:b2:00.0"}};
    for (unsigned i = 0; i < 2; ++i) {
        PciCardFacts pci;
        pci.bus_id = buses[i];
        pci.device_id = "0x1020";
        pci.driver = "habanalabs";
        pci.numa_node = i;
        pci.bar_bytes = std::uint64_t{128} << 30;
        pci.iommu = "identity";
        for (const std::string &bridge : bridges[i])
            pci.bridges.push_back({bridge, 0, ""});
        facts.pci_cards.push_back(pci);
        facts.nodes.push_back({"/dev/accel/accel" + std::to_string(i), "habanalabs", buses[i], true});
        CardFacts card;
        card.number = card.module_id = i;
        card.bus_id = buses[i];
        card.model = "gaudi2";
        card.card_name = "HL225";
        card.state = "operational";
        card.memory_bytes = kMemory;
        card.memory_free_bytes = kMemory;
        card.hard_resets = 0;
        card.takes_submissions = card.completion_by_flag = true;
        if (i == 0)
            card.in_use = true,
            card.holders = {{4711, "python3", std::vector<std::string>{"/usr/lib/libucs.so.0"}, true}};
        facts.cards.push_back(card);
        NicFacts nic;
        nic.name = "mlx5_" + std::to_string(i);
        nic.bus_id = i == 0 ? "0000:1c:00.0" : "0000:b6:00.0";
        nic.numa_node = i;
        nic.active = true;
        nic.dmabuf_errno = EBADF;
        nic.bridges = {bridges[i][0], bridges[i][1], "0000:1b:00.0"};
        for (const std::string &bridge : nic.bridges)
            nic.acs.push_back({bridge, 0, ""});
        facts.nics.push_back(nic);
    }
    facts.module_directory = "/usr/lib/x86_64-linux-gnu/ucx-gaudi";
    facts.ucx.push_back({"loader",
                         "/usr/lib/libucs.so.0",
                         "1.22.0",
                         "",
                         {{facts.module_directory + "/libuct_gaudi.so", "UCX loads only files that end in .so.0"},
                          {facts.module_directory + "/libuct_gaudi.so.0", ""}},
                         "",
                         facts.module_directory,
                         "/etc/ucx/ucx.conf"});
    facts.settings = {{"MLX5_SCATTER_TO_CQE", "0", "environment"},
                      {"RDMAV_FORK_SAFE", "1", "environment"},
                      {"UCX_PLUGIN_PATH", facts.module_directory, "/etc/ucx/ucx.conf"}};
    facts.round_trips = {{1, "", true, "1 MiB to the card and back"}}; // the other card is in use
    return facts;
}

} // namespace doctor_test
