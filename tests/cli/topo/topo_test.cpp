// SPDX-License-Identifier: BSD-3-Clause
// What ucx_gaudi topo makes of facts.
#include "cli/topo/show.h"

#include "../doctor/healthy.h"

#include <gmock/gmock.h>

#include <cerrno>

namespace gaudi::cli::topo {
namespace {

using namespace doctor;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Names = std::vector<std::string>;

Place place(const std::string &bus_id, Names bridges, std::int64_t node = 0) {
    return {bus_id, std::move(bridges), node};
}

Relation between(const Place &first, const Place &second, bool one_node = false) {
    const Relation relation = relation_of(first, second, one_node);
    EXPECT_EQ(relation_of(second, first, one_node), relation) << first.bus_id << ' ' << second.bus_id;
    return relation;
}

void make_all_near(Facts &facts) {
    for (DistanceFacts &distance : facts.topology.ucx.distances)
        distance = {distance.card, distance.nic, 0, {}};
}

/// The two cards, each with a NIC at its switch, and UCX's distances as they are then.
Facts two_sockets() {
    Facts facts = doctor_test::healthy_server();
    facts.nics[1].bridges.back() = "0000:b2:03.0";
    facts.topology.numa_nodes = {{0, "0-31"}, {1, "32-63"}};
    UcxViewFacts &ucx = facts.topology.ucx;
    ucx.source = "loader";
    ucx.version = "1.22.0";
    ucx.has_ib = true;
    for (const PciCardFacts &card : facts.pci_cards)
        for (const NicFacts &nic : facts.nics) {
            DistanceFacts distance{card.bus_id, nic.bus_id, 0, {}};
            if (card.numa_node != nic.numa_node) {
                distance.latency_ns = 500;
                distance.bandwidth_bytes_per_s = 230686720;
            }
            ucx.distances.push_back(distance);
        }
    return facts;
}

// ---- relations ---------------------------------------------------------------------------------------------------

const Place kCard = place("0000:19:00.0", {"0000:16:01.0", "0000:17:00.0", "0000:18:00.0"});

TEST(Relation, one_switch_is_pix) {
    EXPECT_EQ(between(kCard, place("0000:1c:00.0", {"0000:16:01.0", "0000:17:00.0", "0000:18:03.0"})), Relation::pix);
}

TEST(Relation, functions_of_one_device_are_pix) {
    EXPECT_EQ(between(kCard, place("0000:19:00.1", kCard.bridges)), Relation::pix);
}

TEST(Relation, second_switch_is_pxb) {
    const Names deeper = {"0000:16:01.0", "0000:17:00.0", "0000:18:01.0", "0000:1d:00.0", "0000:1e:00.0"};
    EXPECT_EQ(between(kCard, place("0000:1f:00.0", deeper)), Relation::pxb);
}

TEST(Relation, root_ports_of_one_root_complex_are_phb) {
    EXPECT_EQ(between(kCard, place("0000:40:00.0", {"0000:16:02.0"})), Relation::phb);
    EXPECT_EQ(between(kCard, place("0000:16:05.0", {})), Relation::phb); // at the host bridge itself
    EXPECT_EQ(between(place("0000:00:05.0", {}), place("0000:00:06.0", {}, -1)),
              Relation::phb); // as in virtual machines
}

TEST(Relation, same_bus_of_another_domain_is_another_root_complex) {
    EXPECT_EQ(between(place("0000:00:05.0", {}, 0), place("0001:00:05.0", {}, 1)), Relation::sys);
}

TEST(Relation, root_complexes_are_node_or_sys_by_the_numa_nodes) {
    EXPECT_EQ(between(kCard, place("0000:36:00.0", {"0000:30:01.0"}, 0)), Relation::node);
    EXPECT_EQ(between(kCard, place("0000:9d:00.0", {"0000:97:01.0"}, 1)), Relation::sys);
}

TEST(Relation, missing_numa_node_is_unknown_unless_there_is_one_node) {
    const Place other = place("0000:36:00.0", {"0000:30:01.0"}, -1);
    EXPECT_EQ(between(kCard, other), Relation::unknown);
    EXPECT_EQ(between(kCard, other, true), Relation::node);
}

TEST(Relation, missing_place_is_unknown) {
    EXPECT_EQ(between(kCard, place("", {}, 0), true), Relation::unknown);
    EXPECT_STREQ(name_of(Relation::unknown), "?");
}

// ---- the server --------------------------------------------------------------------------------------------------

TEST(Server, devices_are_cards_by_number_then_nics) {
    Facts facts = two_sockets();
    std::swap(facts.cards[0], facts.cards[1]);
    const Server server = make_server(facts);
    Names names;
    for (const Device &device : server.devices)
        names.push_back(device.name);
    EXPECT_THAT(names, ElementsAre("GAUDI_0", "GAUDI_1", "mlx5_0", "mlx5_1"));
    EXPECT_THAT(server.relations[0], ElementsAre(Relation::self, Relation::sys, Relation::pix, Relation::sys));
    EXPECT_THAT(server.relations[3], ElementsAre(Relation::sys, Relation::pix, Relation::sys, Relation::self));
    EXPECT_EQ(server.devices[0].cpus, "0-31"); // of the NUMA node
    EXPECT_THAT(server.nearest_nics(1).second, ElementsAre("mlx5_1"));
    EXPECT_THAT(server.warnings, IsEmpty());
}

TEST(Server, processors_of_the_function_win_over_those_of_its_node) {
    Facts facts = two_sockets();
    facts.topology.devices = {{"0000:19:00.0", "8-15", 16000, 16}};
    EXPECT_EQ(make_server(facts).devices[0].cpus, "8-15");
}

TEST(Server, card_that_only_pci_shows_is_named_by_its_bus_id) {
    Facts facts = two_sockets();
    facts.cards.erase(facts.cards.begin());
    const Server server = make_server(facts);
    EXPECT_EQ(server.cards, 2U);
    EXPECT_EQ(server.devices[0].name, "GAUDI_1");
    EXPECT_EQ(server.devices[1].name, "19:00.0");
    EXPECT_THAT(server.nearest_nics(1).second, ElementsAre("mlx5_0"));
}

TEST(Server, card_that_pci_does_not_show_has_no_place) {
    Facts facts = two_sockets();
    facts.pci_cards.clear();
    const Server server = make_server(facts);
    EXPECT_EQ(server.relations[0][2], Relation::unknown);
    EXPECT_THAT(server.nearest_nics(0).second, IsEmpty());
    EXPECT_THAT(format_text(facts, server), HasSubstr("?     not known"));
}

TEST(Server, ports_of_cards_are_no_nics) {
    Facts facts = two_sockets();
    facts.nics[0].name = "hbl_0";
    facts.nics[0].bus_id = "0000:19:00.0";
    const Server server = make_server(facts);
    EXPECT_THAT(server.ports, ElementsAre("hbl_0"));
    EXPECT_EQ(server.devices.size(), 3U);
    EXPECT_THAT(format_text(facts, server), HasSubstr("Not shown are ports of the cards: hbl_0"));
}

TEST(Server, cards_without_numa_node_are_known_below_their_switch_only) {
    Facts facts = two_sockets();
    for (PciCardFacts &card : facts.pci_cards)
        card.numa_node = -1;
    const Server server = make_server(facts);
    EXPECT_THAT(server.relations[0], ElementsAre(Relation::self, Relation::unknown, Relation::pix, Relation::unknown));
    facts.topology.numa_nodes.pop_back(); // a machine with one node
    facts.nics[0].numa_node = facts.nics[1].numa_node = 0;
    EXPECT_EQ(make_server(facts).relations[0][1], Relation::node);
}

TEST(Server, empty_machine_is_said_in_a_sentence) {
    const Facts facts;
    const Server server = make_server(facts);
    EXPECT_EQ(format_text(facts, server), "There is no card and no RDMA NIC.\n");
    EXPECT_THAT(draw_svg(facts, server), HasSubstr("There is no card and no RDMA NIC."));
}

TEST(Server, cards_without_nics_have_no_nearest_one) {
    Facts facts = two_sockets();
    facts.nics.clear();
    const std::string text = format_text(facts, make_server(facts));
    EXPECT_THAT(text, HasSubstr("\nUCX moves the memory of all cards through host memory: there is no NIC\n"));
    EXPECT_THAT(text, Not(HasSubstr("Distances")));
}

TEST(Server, nics_without_cards_are_shown) {
    Facts facts = two_sockets();
    facts.cards.clear();
    facts.pci_cards.clear();
    const std::string text = format_text(facts, make_server(facts));
    EXPECT_THAT(text, AllOf(HasSubstr("mlx5_0  X       SYS"), Not(HasSubstr("nearest"))));
}

TEST(Server, missing_distances_are_said_with_the_reason) {
    Facts facts = two_sockets();
    facts.topology.ucx.distances.clear();
    facts.topology.ucx.why_unknown = "it has no ucs_topo_get_distance";
    EXPECT_THAT(format_text(facts, make_server(facts)),
                HasSubstr("\nUCX 1.22.0 (loader) gives no distances: it has no ucs_topo_get_distance\n"));
    facts.topology = {}; // as in a file of an older version
    EXPECT_THAT(format_text(facts, make_server(facts)),
                HasSubstr("UCX's own distances are not known: the file has none\n"));
}

// ---- UCX against PCIe --------------------------------------------------------------------------------------------

TEST(Distances, equal_ones_where_pcie_differs_give_one_warning) {
    Facts facts = two_sockets();
    make_all_near(facts);
    facts.settings.push_back({"UCX_TOPO_PRIO", "default", "environment"});
    const Server server = make_server(facts);
    EXPECT_THAT(
        server.warnings,
        ElementsAre("UCX takes all NICs to be equally near to GAUDI_0, GAUDI_1, PCIe does not: UCX does not choose "
                    "the nearest; UCX_TOPO_PRIO=default (environment) is set"));
    EXPECT_THAT(format_text(facts, server), HasSubstr("\nWARN  UCX takes all NICs"));
}

TEST(Distances, reversed_order_gives_a_warning_for_the_card) {
    Facts facts = two_sockets();
    auto &distances = facts.topology.ucx.distances;
    std::swap(distances[0].nic, distances[1].nic);
    EXPECT_THAT(make_server(facts).warnings,
                ElementsAre("PCIe and UCX differ about the NICs of GAUDI_0: mlx5_0 PIX and 500 ns and 230 MB/s, mlx5_1 "
                            "SYS and 0 ns"));
}

TEST(Distances, unequal_ones_of_equal_relations_give_a_warning) {
    Facts facts = two_sockets();
    facts.nics[1] = facts.nics[0];
    facts.nics[1].name = "mlx5_1";
    facts.nics[1].bus_id = "0000:1c:00.1";
    facts.topology.ucx.distances = {{"0000:19:00.0", "0000:1c:00.0", 0, {}},
                                    {"0000:19:00.0", "0000:1c:00.1", 300, 1000}};
    EXPECT_EQ(make_server(facts).warnings.size(), 1U);
}

TEST(Distances, number_of_switches_is_no_difference) {
    Facts facts = two_sockets();
    facts.nics[1] = facts.nics[0];
    facts.nics[1].name = "mlx5_1";
    facts.nics[1].bus_id = "0000:1f:00.0";
    facts.nics[1].bridges = {"0000:16:01.0", "0000:17:00.0", "0000:18:01.0", "0000:1d:00.0", "0000:1e:00.0"};
    facts.topology.ucx.distances = {{"0000:19:00.0", "0000:1c:00.0", 0, {}}, {"0000:19:00.0", "0000:1f:00.0", 0, {}}};
    const Server server = make_server(facts);
    EXPECT_EQ(server.relations[0][3], Relation::pxb);
    EXPECT_THAT(server.warnings, IsEmpty());
}

// ---- the NICs that UCX chooses -----------------------------------------------------------------------------------

TEST(ChosenNics, slow_way_is_left_out) {
    Facts facts = two_sockets();
    facts.topology.ucx.settings = {{"UCX_MAX_RNDV_RAILS", "2"}, {"UCX_MAX_RMA_RAILS", "2"}};
    EXPECT_THAT(make_server(facts).chosen[0].put_get, ElementsAre("mlx5_0"));
    facts.topology.ucx.settings["UCX_MULTI_LANE_MAX_RATIO"] = "1000";
    EXPECT_THAT(make_server(facts).chosen[0].put_get, ElementsAre("mlx5_0", "mlx5_1"));
    EXPECT_THAT(make_server(facts).chosen[1].put_get, ElementsAre("mlx5_1", "mlx5_0"));
}

TEST(ChosenNics, rails_limit_their_number) {
    Facts facts = two_sockets();
    make_all_near(facts);
    EXPECT_THAT(make_server(facts).chosen[1].rendezvous, ElementsAre("mlx5_0", "mlx5_1"));
    EXPECT_THAT(make_server(facts).chosen[1].put_get, ElementsAre("mlx5_0"));
    facts.settings.push_back({"UCX_MAX_RNDV_RAILS", "1", "environment"}); // a file without UCX's own settings
    EXPECT_THAT(make_server(facts).chosen[1].rendezvous, ElementsAre("mlx5_0"));
}

TEST(ChosenNics, slow_port_and_narrow_link_come_last) {
    Facts facts = two_sockets();
    make_all_near(facts);
    facts.nics[0].rate_gbit_per_s = 100;
    EXPECT_THAT(make_server(facts).chosen[0].rendezvous, ElementsAre("mlx5_1", "mlx5_0"));
    facts.topology.devices = {{"0000:b6:00.0", "", 8000, 8}}; // 64 Gbit/s
    EXPECT_THAT(make_server(facts).chosen[0].rendezvous, ElementsAre("mlx5_0", "mlx5_1"));
}

TEST(ChosenNics, net_devices_are_obeyed) {
    Facts facts = two_sockets();
    facts.topology.ucx.settings["UCX_NET_DEVICES"] = "mlx5_1:1,eth0";
    EXPECT_THAT(make_server(facts).chosen[0].rendezvous, ElementsAre("mlx5_1"));
    facts.topology.ucx.settings["UCX_NET_DEVICES"] = "^mlx5_1:1";
    EXPECT_THAT(make_server(facts).chosen[1].rendezvous, ElementsAre("mlx5_0"));
    facts.topology.ucx.settings["UCX_NET_DEVICES"] = "eth0";
    EXPECT_EQ(make_server(facts).chosen[0].why_none,
              "mlx5_0 is left out by UCX_NET_DEVICES, mlx5_1 is left out by UCX_NET_DEVICES");
}

TEST(ChosenNics, unknown_distances_leave_them_unknown) {
    Facts facts = two_sockets();
    facts.topology.ucx.distances.clear();
    const Server server = make_server(facts);
    EXPECT_FALSE(server.chosen[0].known);
    EXPECT_THAT(server.chosen[0].rendezvous, IsEmpty());
    EXPECT_THAT(format_text(facts, server), HasSubstr("UCX uses for all cards are not known: UCX's distances are"));
    facts.nics.pop_back(); // there is no choice
    EXPECT_THAT(make_server(facts).chosen[1].rendezvous, ElementsAre("mlx5_0"));
}

TEST(ChosenNics, devices_without_a_place_are_near) {
    Facts facts = two_sockets();
    facts.topology.ucx.distances.clear();
    facts.pci_cards.clear();
    EXPECT_THAT(make_server(facts).chosen[1].rendezvous, ElementsAre("mlx5_0", "mlx5_1"));
}

TEST(ChosenNics, unusable_nics_have_a_reason) {
    Facts facts = two_sockets();
    facts.nics[0].active = false;
    facts.nics[1].dmabuf_errno = EOPNOTSUPP;
    const Server server = make_server(facts);
    EXPECT_EQ(server.chosen[0].why_none, "mlx5_0 has no active port, mlx5_1 does not register dma-bufs");
    EXPECT_THAT(format_text(facts, server), HasSubstr("through host memory: mlx5_0 has no active"));
}

TEST(ChosenNics, ucx_without_rdma_chooses_none) {
    Facts facts = two_sockets();
    facts.topology.ucx.settings["UCX_TLS"] = "tcp,gaudi_cpy";
    EXPECT_EQ(make_server(facts).chosen[0].why_none, "UCX_TLS=tcp,gaudi_cpy leaves out the transports of RDMA");
    facts.topology.ucx.has_ib = false;
    EXPECT_EQ(make_server(facts).chosen[0].why_none, "UCX 1.22.0 (loader) has no module for RDMA, libuct_ib");
}

// ---- the picture -------------------------------------------------------------------------------------------------

TEST(Picture, has_switches_and_numa_nodes_and_what_has_no_place) {
    Facts facts = two_sockets();
    facts.nics.emplace_back().name = "odd<&\"name\x01";
    const std::string svg = draw_svg(facts, make_server(facts));
    EXPECT_THAT(svg, AllOf(HasSubstr("PCIe switch 0000:17:00.0"), HasSubstr("root complex 0000:b0"),
                           HasSubstr("NUMA node 1<"), HasSubstr("CPUs 32-63"), HasSubstr("Place on PCIe not known"),
                           HasSubstr("odd&lt;&amp;&quot;name?")));
}

TEST(Picture, labels_software) {
    Facts facts = two_sockets();
    EXPECT_THAT(draw_svg(facts, make_server(facts)), Not(HasSubstr("SOFTWARE")));
    facts.thunk.software = true;
    EXPECT_THAT(draw_svg(facts, make_server(facts)), HasSubstr("SOFTWARE"));
    EXPECT_THAT(format_text(facts, make_server(facts)), HasSubstr("SOFTWARE"));
}

} // namespace
} // namespace gaudi::cli::topo
