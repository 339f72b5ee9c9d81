// SPDX-License-Identifier: BSD-3-Clause
// ucx_gaudi run --topology: the modelled server's PCI devices, for the program alone.
#include "command.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

namespace cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

const std::string kLinks = "/sys/bus/pci/devices/";

Words with_topology(Words more) {
    more.insert(more.begin(), "--topology");
    return more;
}

/// The output of a shell that sees the tree.
std::string seen(const std::string &script, Words options = {}) {
    const Result got = result(run(with_topology(std::move(options)), shell(script)));
    EXPECT_EQ(got.code, 0) << script << '\n' << got.err;
    return got.out;
}

std::vector<std::string> lines(const std::string &text) {
    std::vector<std::string> out;
    for (std::size_t at = 0, end = 0; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
        out.push_back(text.substr(at, end - at));
    return out;
}

TEST(Topology, devices_have_the_bus_ids_of_the_libraries) {
    const Result cards = result(run(with_topology({}), {UCX_GAUDI_COMMAND, "info", "--json"}));
    const Json info = Json::parse(cards.out);
    ASSERT_EQ(info.at("cards").size(), 8u);
    for (const Json &card : info.at("cards")) {
        const std::string place = kLinks + card.at("bus_id").get<std::string>();
        EXPECT_EQ(seen("cat " + place + "/vendor " + place + "/device"), "0x1da3\n0x1020\n");
    }
    // softhca_stat only looks at HCAs that a program has used.
    const std::string use = "python3 -c 'import ctypes; ctypes.CDLL(None).ibv_get_device_list(None)' && ";
    const Result hcas =
        result(run(with_topology({"--hca", "4"}), {"sh", "-c", use + SOFTHCA_STAT + std::string(" --json")}));
    const Json stat = Json::parse(hcas.out);
    ASSERT_EQ(stat.at("devices").size(), 4u);
    for (const Json &hca : stat.at("devices"))
        seen("test -d " + kLinks + hca.at("bus_id").get<std::string>() + "/infiniband/" +
                 hca.at("device").get<std::string>(),
             {"--hca", "4"});
}

TEST(Topology, number_of_hcas_is_that_of_the_option) {
    const std::string count = "ls -d " + kLinks + "*/infiniband/softhca* 2>/dev/null | wc -l";
    EXPECT_EQ(seen(count), "0\n");
    EXPECT_EQ(seen(count, {"--hca"}), "2\n");
    EXPECT_EQ(seen(count, {"--hca", "4"}), "4\n");
}

TEST(Topology, hca_is_below_the_switch_of_two_cards) {
    const std::vector<std::string> places =
        lines(seen("cd " + kLinks + "; realpath 0000:19:00.0 0000:1a:00.0 0000:1c:00.0 0000:9d:00.0", {"--hca"}));
    ASSERT_EQ(places.size(), 4u);
    EXPECT_EQ(places[0], "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0");
    const std::string upstream = "/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/";
    EXPECT_THAT(places[1], StartsWith(upstream));
    EXPECT_THAT(places[2], StartsWith(upstream));
    EXPECT_THAT(places[3], StartsWith("/sys/devices/pci0000:97/"));
}

TEST(Topology, files_that_ucx_reads_have_values) {
    EXPECT_EQ(
        seen("cd " + kLinks + "0000:9d:00.0; cat numa_node class current_link_speed current_link_width", {"--hca"}),
        "1\n0x020700\n16.0 GT/s PCIe\n16\n");
    EXPECT_EQ(seen("cat " + kLinks + "0000:34:00.0/numa_node"), "0\n");
    EXPECT_EQ(seen("cat " + kLinks + "0000:34:00.0/device", {"--model", "gaudi3"}), "0x1060\n");
}

TEST(Topology, user_and_group_stay) {
    EXPECT_EQ(seen("id -u; id -g"), std::to_string(::getuid()) + "\n" + std::to_string(::getgid()) + "\n");
}

TEST(Topology, devices_of_the_machine_stay) {
    const std::string list = "cd /sys/devices && ls -d *; cd /sys/bus/pci/devices && ls; ls /sys/devices/system/cpu";
    const std::vector<std::string> before = lines(result(shell(list), "/usr/bin/env").out);
    const std::vector<std::string> inside = lines(seen(list));
    const std::set<std::string> there(inside.begin(), inside.end());
    for (const std::string &entry : before)
        EXPECT_EQ(there.count(entry), 1u) << entry;
    EXPECT_EQ(seen("cd " + kLinks + "; for one in *; do test -f $one/vendor || echo $one; done"), "");
}

TEST(Topology, other_processes_do_not_see_the_devices) {
    Command command(
        run({"--topology"}, shell("test -d " + kLinks + "0000:19:00.0/ && echo there; exec tail -f /dev/null")));
    EXPECT_EQ(command.out().line(), "there");
    EXPECT_FALSE(fs::exists(kLinks + "0000:19:00.0/infiniband"));
    EXPECT_FALSE(fs::exists("/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0"));
    command.kill(SIGTERM);
    EXPECT_EQ(command.wait(), 128 + SIGTERM);
}

TEST(Topology, run_leaves_no_files) {
    const Result got = result(run({"--topology", "--hca"}, shell("dirname $SOFTGAUDI_DIR; ls $SOFTGAUDI_DIR/../pci")));
    EXPECT_EQ(lines(got.out).size(), 1u) << "the tree is where UCX looks and nowhere else: " << got.out;
    EXPECT_FALSE(fs::exists(lines(got.out).at(0)));
}

// ---- refusals ---------------------------------------------------------------------------------------------------

/// In a user namespace in which `prepare` was done first.
Result refused(const std::string &prepare) {
    return result({"--user", "--map-root-user", "--mount", "sh", "-c",
                   prepare + "; exec " UCX_GAUDI_COMMAND " run --topology -- echo started"},
                  "/usr/bin/unshare");
}

void expect_refusal(const Result &got, const std::string &sentence, int code = 1) {
    EXPECT_EQ(got.code, code);
    EXPECT_EQ(got.out, "");
    EXPECT_THAT(got.err, AllOf(StartsWith("ucx_gaudi: --topology: "), HasSubstr(sentence)));
    EXPECT_EQ(std::count(got.err.begin(), got.err.end(), '\n'), 1) << got.err;
}

TEST(Topology, forbidden_namespaces_are_refused) {
    expect_refusal(refused("echo 0 >/proc/sys/user/max_user_namespaces"),
                   "user and mount namespaces are not allowed on this machine: ");
}

TEST(Topology, machine_without_pci_is_refused) {
    expect_refusal(refused("mount -t tmpfs none /sys/bus"), "there is no /sys/bus/pci/devices on this machine");
}

TEST(Topology, hcas_of_a_shared_directory_are_refused) {
    const std::string shared = "/dev/shm/cli-topology-test-" + std::to_string(::getpid());
    expect_refusal(result(run({"--topology", "--hca", "--dir", shared}, {"echo", "started"})),
                   "not with --hca and --dir together", 2);
    EXPECT_EQ(result(run({"--topology", "--dir", shared}, {"true"})).code, 0);
    fs::remove_all(shared);
}

} // namespace
} // namespace cli
