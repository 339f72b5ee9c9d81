// SPDX-License-Identifier: BSD-3-Clause
// The collectors of ucx_gaudi doctor on a tree of files in the place of the machine.
#include "cli/doctor/collect.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Tree : public ::testing::Test {
protected:
    Tree() {
        std::string name = (fs::temp_directory_path() / "doctor-XXXXXX").string();
        EXPECT_NE(::mkdtemp(name.data()), nullptr);
        m_machine.root = name;
        m_machine.kernel_release = "6.1.0";
        m_machine.working_directory = "/work dir";
    }
    ~Tree() override { fs::remove_all(m_machine.root); }

    void write(const fs::path &path, const std::string &text) {
        fs::create_directories(m_machine.at(path).parent_path());
        std::ofstream(m_machine.at(path), std::ios::binary) << text;
    }
    void link(const fs::path &path, const fs::path &target) {
        fs::create_directories(m_machine.at(path).parent_path());
        fs::create_symlink(target, m_machine.at(path));
    }
    /// A function in /sys/devices with the link to it that sysfs has.
    void add_function(const std::string &bus_id, const std::string &place, const std::string &vendor) {
        link("/sys/bus/pci/devices/" + bus_id, "../../../devices/" + place);
        write("/sys/devices/" + place + "/vendor", vendor + "\n");
    }

    Machine m_machine;
};

/// A configuration space with an ACS capability behind another one.
std::string config_with_acs(std::uint16_t control) {
    std::string bytes(4096, '\0');
    const auto put = [&](std::size_t at, std::uint32_t value) {
        for (unsigned i = 0; i < 4; ++i)
            bytes[at + i] = static_cast<char>(value >> (8 * i));
    };
    put(0x100, 0x0001 | 1u << 16 | 0x148u << 20); // AER, then the one at 0x148
    put(0x148, 0x000d | 1u << 16);
    put(0x14c, std::uint32_t{control} << 16); // capabilities, then control
    return bytes;
}

TEST_F(Tree, card_is_found_with_its_path) {
    const std::string root = "pci0000:16/0000:16:01.0", up = root + "/0000:17:00.0", down = up + "/0000:18:00.0";
    const std::string card = down + "/0000:19:00.0";
    add_function("0000:16:01.0", root, "0x8086");
    add_function("0000:17:00.0", up, "0x1000");
    add_function("0000:18:00.0", down, "0x1000");
    add_function("0000:19:00.0", card, "0x1da3");
    write("/sys/devices/" + root + "/config", std::string(64, '\0')); // as a user without privileges sees it
    write("/sys/devices/" + up + "/config", config_with_acs(0x1d));
    write("/sys/devices/" + down + "/config", std::string(4096, '\0'));
    write("/sys/devices/" + card + "/device", "0x1020\n");
    write("/sys/devices/" + card + "/numa_node", "1\n");
    std::string lines;
    for (int i = 0; i < 4; ++i)
        lines += "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    write("/sys/devices/" + card + "/resource", lines + "0x0000380000000000 0x0000381fffffffff 0x000000000014220c\n");
    link("/sys/devices/" + card + "/driver", "../../../../../../bus/pci/drivers/habanalabs");
    write("/sys/devices/" + card + "/iommu_group/type", "DMA-FQ\n");

    const auto cards = collect_pci_cards(m_machine);
    ASSERT_EQ(cards.size(), 1U);
    EXPECT_EQ(cards[0].bus_id, "0000:19:00.0");
    EXPECT_EQ(cards[0].device_id, "0x1020");
    EXPECT_EQ(cards[0].driver, "habanalabs");
    EXPECT_EQ(cards[0].numa_node, 1);
    EXPECT_EQ(cards[0].bar_bytes, std::uint64_t{128} << 30);
    EXPECT_EQ(cards[0].iommu, "DMA-FQ");
    ASSERT_EQ(cards[0].bridges.size(), 3U);
    EXPECT_EQ(cards[0].bridges[0].why_unknown, "needs root");
    EXPECT_EQ(cards[0].bridges[1].acs_control, std::uint64_t{0x1d});
    EXPECT_EQ(cards[0].bridges[2].acs_control, std::nullopt);
    EXPECT_EQ(cards[0].bridges[2].why_unknown, "");
}

TEST_F(Tree, damaged_configuration_space_ends) {
    add_function("0000:16:01.0", "pci0000:16/0000:16:01.0", "0x8086");
    add_function("0000:19:00.0", "pci0000:16/0000:16:01.0/0000:19:00.0", "0x1da3");
    std::string loop(4096, '\0');
    loop[0x100] = 1; // a capability whose next one is itself
    loop[0x103] = 0x10;
    write("/sys/devices/pci0000:16/0000:16:01.0/config", loop);
    EXPECT_EQ(collect_pci_cards(m_machine).at(0).bridges.at(0).acs_control, std::nullopt);
}

TEST_F(Tree, nodes_name_their_driver) {
    write("/dev/accel/accel0", "");
    write("/dev/accel/accel1", "");
    write("/dev/accel/accel_controlD1", "");
    write("/sys/class/accel/accel0/x", "");
    link("/sys/class/accel/accel1/device", "../../../0000:19:00.0");
    link("/sys/class/accel/0000:19:00.0/driver", "x");
    write("/sys/0000:19:00.0/x", "");
    link("/sys/0000:19:00.0/driver", "../bus/pci/drivers/habanalabs");
    const auto nodes = collect_nodes(m_machine);
    ASSERT_EQ(nodes.size(), 2U);
    EXPECT_EQ(nodes[0].driver, "");
    EXPECT_EQ(nodes[1].path, "/dev/accel/accel1");
    EXPECT_EQ(nodes[1].bus_id, "0000:19:00.0");
    EXPECT_EQ(nodes[1].driver, "habanalabs");
    EXPECT_TRUE(nodes[1].accessible);
}

TEST_F(Tree, kernel_and_driver_are_read) {
    write("/boot/config-6.1.0", "# a comment\nCONFIG_PCI_P2PDMA=y\n# CONFIG_DMABUF_MOVE_NOTIFY is not set\n");
    write("/proc/cmdline", "root=/dev/sda iommu=pt intel_iommu=on quiet\n");
    write("/proc/kallsyms", "0000000000000000 T ib_umem_dmabuf_get_pinned\t[ib_uverbs]\n");
    write("/sys/module/habanalabs/version", "1.22.0\n");
    write("/sys/module/habanalabs/taint", "OE\n");
    KernelFacts kernel;
    collect_kernel(m_machine, kernel);
    EXPECT_EQ(kernel.options["CONFIG_PCI_P2PDMA"], "y");
    EXPECT_EQ(kernel.options["CONFIG_DMABUF_MOVE_NOTIFY"], "n");
    EXPECT_EQ(kernel.iommu_parameters, "iommu=pt intel_iommu=on");
    EXPECT_EQ(kernel.has_umem_dmabuf, false); // the name of another function begins so
    write("/proc/kallsyms", "0000000000000000 T ib_umem_dmabuf_get\t[ib_uverbs]\n");
    collect_kernel(m_machine, kernel);
    EXPECT_EQ(kernel.has_umem_dmabuf, true);
    fs::remove(m_machine.at("/proc/kallsyms"));
    collect_kernel(m_machine, kernel);
    EXPECT_EQ(kernel.has_umem_dmabuf, std::nullopt);

    DriverFacts driver;
    collect_driver(m_machine, driver);
    EXPECT_EQ(driver.kind, "production");
    EXPECT_EQ(driver.version, "1.22.0");
    write("/sys/module/habanalabs/taint", "\n");
    collect_driver(m_machine, driver);
    EXPECT_EQ(driver.kind, "mainline");
}

TEST_F(Tree, container_and_namespace_are_recognised) {
    ProcessFacts process;
    collect_process(m_machine, process);
    EXPECT_EQ(process.container, "");
    EXPECT_TRUE(process.initial_pid_namespace);
    write("/.dockerenv", "");
    link("/proc/self/ns/pid", "pid:[4026532201]");
    write("/proc/sys/vm/nr_hugepages", "12\n");
    write("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    collect_process(m_machine, process);
    EXPECT_EQ(process.container, "docker");
    EXPECT_FALSE(process.initial_pid_namespace);
    EXPECT_EQ(process.huge_pages, 12U);
    EXPECT_EQ(process.transparent_huge_pages, "madvise");
    m_machine.environment["KUBERNETES_SERVICE_HOST"] = "10.0.0.1";
    collect_process(m_machine, process);
    EXPECT_EQ(process.container, "kubernetes");
}

TEST_F(Tree, settings_win_in_the_order_of_ucx) {
    const auto source_of = [&](const std::string &name) {
        for (const SettingFacts &setting : collect_settings(m_machine, "/opt/ucx/lib"))
            if (setting.name == name)
                return setting.value + " of " + setting.source;
        return std::string("not set");
    };
    EXPECT_EQ(source_of("UCX_TLS"), "not set");
    write("/etc/ucx/ucx.conf", "# UCX_TLS=comment\nUCX_TLS = system \n[section]\nUCX_MODULES=some machines\n");
    EXPECT_EQ(source_of("UCX_TLS"), "system of /etc/ucx/ucx.conf");
    EXPECT_EQ(source_of("UCX_MODULES"), "not set");
    write("/opt/ucx/etc/ucx/ucx.conf", "UCX_TLS=beside\n");
    EXPECT_EQ(source_of("UCX_TLS"), "beside of /opt/ucx/etc/ucx/ucx.conf");
    m_machine.environment["HOME"] = "/home/user";
    write("/home/user/ucx.conf", "UCX_TLS=home\n");
    EXPECT_EQ(source_of("UCX_TLS"), "home of /home/user/ucx.conf");
    m_machine.environment["UCX_CONFIG_DIR"] = "/conf";
    write("/conf/ucx.conf", "UCX_TLS=directory\n");
    EXPECT_EQ(source_of("UCX_TLS"), "directory of /conf/ucx.conf");
    write("/work dir/ucx.conf", "UCX_TLS=here\n");
    EXPECT_EQ(source_of("UCX_TLS"), "here of ./ucx.conf");
    m_machine.environment["UCX_TLS"] = "variable";
    EXPECT_EQ(source_of("UCX_TLS"), "variable of environment");
}

TEST_F(Tree, variables_of_others_are_not_collected) {
    m_machine.environment = {{"AWS_SECRET_ACCESS_KEY", "x"}, {"HLS_MODULE_ID", "3"}, {"SOFTGAUDI_DIR", "/dev/shm/x"}};
    std::vector<std::string> names;
    for (const SettingFacts &setting : collect_settings(m_machine, ""))
        names.push_back(setting.name);
    EXPECT_THAT(names, ElementsAre("HLS_MODULE_ID", "SOFTGAUDI_DIR"));
}

TEST_F(Tree, skipped_module_files_have_a_reason) {
    m_machine.environment["UCX_PLUGIN_PATH"] = "/none:/plug";
    for (const char *name : {"libuct_gaudi.so", "libuct_gaudi.so.0", "libuct_gaudi_copy.so.0", "libuct_cuda.so.0"})
        write(fs::path("/plug") / name, "");
    write("/ucx/lib/ucx/libuct_gaudi.so.0", "");
    std::map<std::string, std::string> why;
    for (const ModuleFileFacts &file :
         collect_module_files(m_machine, "/ucx/lib/libucs.so.0", collect_settings(m_machine, "/ucx/lib")))
        why[file.path] = file.why_skipped;
    EXPECT_EQ(why.size(), 5U);
    EXPECT_THAT(why["/none"], HasSubstr("does not exist"));
    EXPECT_THAT(why["/plug/libuct_gaudi.so"], HasSubstr("end in .so.0"));
    EXPECT_EQ(why["/plug/libuct_gaudi.so.0"], "");
    EXPECT_THAT(why["/plug/libuct_gaudi_copy.so.0"], HasSubstr("further _"));
    EXPECT_THAT(why["/ucx/lib/ucx/libuct_gaudi.so.0"], HasSubstr("found before"));
}

TEST_F(Tree, nics_have_their_places) {
    link("/sys/class/infiniband/mlx5_0/device", "../../../devices/pci0000:16/0000:16:01.0/0000:1c:00.0");
    add_function("0000:1c:00.0", "pci0000:16/0000:16:01.0/0000:1c:00.0", "0x15b3");
    write("/sys/devices/pci0000:16/0000:16:01.0/0000:1c:00.0/numa_node", "0\n");
    std::vector<NicFacts> nics(2);
    nics[0].name = "mlx5_0";
    nics[1].name = "softhca0";
    collect_nic_places(m_machine, nics);
    EXPECT_EQ(nics[0].bus_id, "0000:1c:00.0");
    EXPECT_THAT(nics[0].bridges, ElementsAre("0000:16:01.0"));
    EXPECT_EQ(nics[0].acs.at(0).why_unknown, "sysfs does not show the configuration space");
    EXPECT_EQ(nics[1].bus_id, "");
}

TEST_F(Tree, libraries_of_holders_are_read) {
    write("/proc/7/maps", "7f0000000000-7f0000001000 r-xp 00000000 08:01 12 /usr/lib/libucs.so.0.0.0\n"
                          "7f0000001000-7f0000002000 r--p 00001000 08:01 12 /usr/lib/libucs.so.0.0.0\n"
                          "7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n"
                          "7f0000003000-7f0000004000 r-xp 00000000 08:01 13 /venv/nixl.libs/libucs-14c2.so.0.0.0\n"
                          "7f0000004000-7f0000005000 r-xp 00000000 08:01 14 /opt/libuct_gaudi.so.0.0.0\n"
                          "7f0000005000-7f0000006000 r-xp 00000000 08:01 15 /opt/libucs_signal.so.0\n");
    std::vector<CardFacts> cards(1);
    cards[0].holders = {{7, "python", {}, false}, {8, "root's", {}, false}};
    collect_holder_ucx(m_machine, cards);
    EXPECT_THAT(cards[0].holders[0].libucs.value(),
                ElementsAre("/usr/lib/libucs.so.0.0.0", "/venv/nixl.libs/libucs-14c2.so.0.0.0"));
    EXPECT_TRUE(cards[0].holders[0].has_modules);
    EXPECT_EQ(cards[0].holders[1].libucs, std::nullopt);
}

TEST_F(Tree, nics_are_placed_by_the_path_of_libibverbs) {
    const std::string place = "pci0000:16/0000:16:01.0/0000:1c:00.0";
    add_function("0000:1c:00.0", place, "0x15b3");
    write("/sys/devices/" + place + "/numa_node", "1\n");
    write("/sys/devices/" + place + "/infiniband/mlx5_0/x", "");
    link("/sys/class/infiniband/mlx5_0", "../../devices/" + place + "/infiniband/mlx5_0");
    std::vector<NicFacts> nics(3);
    nics[0].sysfs_path = "/sys/class/infiniband/mlx5_0";
    nics[1].sysfs_path = "/sys/bus/pci/devices/0000:1c:00.0/infiniband/mlx5_0";
    nics[2].sysfs_path = "/sys/bus/pci/devices/0000:9d:00.0/infiniband/mlx5_1"; // not there
    collect_nic_places(m_machine, nics);
    for (const NicFacts &nic : {nics[0], nics[1]}) {
        EXPECT_EQ(nic.bus_id, "0000:1c:00.0");
        EXPECT_EQ(nic.numa_node, 1);
        EXPECT_THAT(nic.bridges, ElementsAre("0000:16:01.0"));
    }
    EXPECT_EQ(nics[2].bus_id, "");
}

TEST_F(Tree, numa_nodes_are_in_the_order_of_their_numbers) {
    for (const char *node : {"node0", "node2", "node10"})
        write(std::string("/sys/devices/system/node/") + node + "/cpulist", std::string("of ") + node + "\n");
    write("/sys/devices/system/node/node", "");
    write("/sys/devices/system/node/node1x/cpulist", "x\n");
    write("/sys/devices/system/node/possible", "0-10\n");
    std::vector<std::string> found;
    for (const NumaNodeFacts &node : collect_numa_nodes(m_machine))
        found.push_back(std::to_string(node.node) + " " + node.cpus);
    EXPECT_THAT(found, ElementsAre("0 of node0", "2 of node2", "10 of node10"));
}

TEST_F(Tree, links_and_processors_of_devices_are_read) {
    const std::string card = "/sys/bus/pci/devices/0000:19:00.0/", nic = "/sys/bus/pci/devices/0000:1c:00.0/";
    write(card + "local_cpulist", "0-31,64-95\n");
    write(card + "current_link_speed", "16.0 GT/s PCIe\n");
    write(card + "current_link_width", "16\n");
    write(nic + "current_link_speed", "Unknown\n");
    write(nic + "current_link_width", "-1\n");
    Facts facts;
    facts.pci_cards.resize(1);
    facts.pci_cards[0].bus_id = "0000:19:00.0";
    facts.nics.resize(3); // the second port of a NIC has its bus id, and one has no place
    facts.nics[0].bus_id = facts.nics[1].bus_id = "0000:1c:00.0";
    const auto devices = collect_pci_devices(m_machine, facts);
    ASSERT_EQ(devices.size(), 2U);
    EXPECT_EQ(devices[0].cpus, "0-31,64-95");
    EXPECT_EQ(devices[0].link_mt_per_s, 16000U);
    EXPECT_EQ(devices[0].link_lanes, 16U);
    EXPECT_EQ(devices[1].cpus, "");
    EXPECT_EQ(devices[1].link_mt_per_s, 0U);
    EXPECT_EQ(devices[1].link_lanes, 0U);
}

} // namespace
} // namespace gaudi::cli::doctor
