// SPDX-License-Identifier: BSD-3-Clause
// Which NIC the RDMA tests of ucx_gaudi bench use.
#include "cli/bench/nearest_nic.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace {

using namespace gaudi::cli;

constexpr const char *kCard = "0000:19:00.0";

doctor::NicFacts nic(const char *name, const char *bus_id, std::vector<std::string> bridges, std::int64_t numa_node) {
    doctor::NicFacts nic;
    nic.name = name;
    nic.bus_id = bus_id;
    nic.numa_node = numa_node;
    nic.active = true;
    nic.dmabuf_errno = EBADF;
    nic.bridges = std::move(bridges);
    return nic;
}

/// A card under a switch, with one NIC on the other socket and one under the same switch.
doctor::Facts two_nics() {
    doctor::Facts facts;
    doctor::PciCardFacts card;
    card.bus_id = kCard;
    card.numa_node = 0;
    for (const char *bridge : {"0000:16:01.0", "0000:17:00.0", "0000:18:00.0"})
        card.bridges.emplace_back().bus_id = bridge;
    facts.pci_cards.push_back(card);
    facts.nics = {nic("mlx5_0", "0000:b3:00.0", {"0000:b0:01.0"}, 1),
                  nic("mlx5_1", "0000:1b:00.0", {"0000:16:01.0", "0000:17:00.0", "0000:18:01.0"}, 0)};
    return facts;
}

TEST(NearestNic, under_the_same_switch_is_chosen) {
    EXPECT_EQ(bench::find_nearest_nic(two_nics(), kCard).value(), "mlx5_1");
}

TEST(NearestNic, without_dmabufs_is_passed_over) {
    doctor::Facts facts = two_nics();
    facts.nics[1].dmabuf_errno = EOPNOTSUPP;
    EXPECT_EQ(bench::find_nearest_nic(facts, kCard).value(), "mlx5_0");
}

TEST(NearestNic, is_the_first_where_the_card_has_no_place) {
    EXPECT_EQ(bench::find_nearest_nic(two_nics(), "0000:34:00.0").value(), "mlx5_0");
}

TEST(NearestNic, none_that_is_usable_is_refused_with_each_reason) {
    doctor::Facts facts = two_nics();
    facts.nics[0].active = false;
    facts.nics[1].name = "hbl_0";
    EXPECT_EQ(bench::find_nearest_nic(facts, kCard).error(), "hbl_0 is a port of a card, mlx5_0 has no active port");
    facts.nics.clear();
    EXPECT_EQ(bench::find_nearest_nic(facts, kCard).error(), "there is no RDMA device");
}

} // namespace
