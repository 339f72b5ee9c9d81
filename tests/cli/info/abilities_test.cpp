// SPDX-License-Identifier: BSD-3-Clause
// What ucx_gaudi info says that a card can do, from facts.
#include "cli/info/abilities.h"

#include "../doctor/healthy.h"

#include <gmock/gmock.h>

#include <functional>

namespace gaudi::cli::info {
namespace {

using namespace doctor;
using ::testing::HasSubstr;
using ::testing::StartsWith;

/// The abilities of card 0 of a server after a change.
Abilities after(const std::function<void(Facts &)> &change) {
    Facts facts = doctor_test::healthy_server();
    change(facts);
    return abilities_of(facts.cards.at(0), facts, judge(facts));
}

void set(Facts &facts, const char *name, const char *value) { facts.settings.push_back({name, value, "environment"}); }

TEST(Abilities, healthy_card_does_all) {
    const Abilities card = after([](Facts &) {});
    EXPECT_TRUE(card.copies.possible);
    EXPECT_TRUE(card.dmabuf_export.possible);
    EXPECT_TRUE(card.zero_copy.possible);
    ASSERT_EQ(card.nics.size(), 2U);
    EXPECT_TRUE(card.nics[0].zero_copy && card.nics[0].same_switch);
    EXPECT_TRUE(card.nics[1].zero_copy && !card.nics[1].same_switch);
    EXPECT_FALSE(card.nics[0].tried);
}

TEST(Abilities, card_that_cannot_be_opened_does_nothing) {
    for (const Abilities &card : {after([](Facts &f) { f.cards[0].state = "in reset"; }),
                                  after([](Facts &f) { f.nodes[0].accessible = false; })}) {
        for (const Ability &ability : {card.copies, card.dmabuf_export, card.zero_copy}) {
            EXPECT_FALSE(ability.possible);
            EXPECT_THAT(ability.sentence,
                        ::testing::AnyOf("the card is in reset", "this user may not open /dev/accel/accel0"));
        }
    }
}

TEST(Abilities, fault_of_ucx_forbids_copies_with_the_id_of_its_check) {
    const auto reason = [](const std::function<void(Facts &)> &change) {
        const Abilities card = after(change);
        EXPECT_FALSE(card.copies.possible);
        EXPECT_FALSE(card.zero_copy.possible);
        EXPECT_EQ(card.zero_copy.sentence, "as for copies");
        return card.copies.sentence;
    };
    EXPECT_THAT(reason([](Facts &f) { set(f, "UCX_TLS", "rc,sm"); }), StartsWith("GD050: UCX_TLS=rc,sm"));
    EXPECT_THAT(reason([](Facts &f) { set(f, "UCX_MODULES", "^gaudi"); }), StartsWith("GD053: "));
    EXPECT_THAT(reason([](Facts &f) { f.ucx.clear(); }), StartsWith("GD040: "));
    EXPECT_EQ(reason([](Facts &f) { f.ucx[0].files.clear(); }), "no UCX here loads the modules");
    EXPECT_EQ(reason([](Facts &f) {
                  f.round_trips = {{0, "", false, "other bytes came back than were sent"}};
              }),
              "other bytes came back than were sent");
}

TEST(Abilities, gaudi3_copies_by_the_framework) {
    const Abilities card = after([](Facts &f) { f.cards[0].takes_submissions = false; });
    EXPECT_TRUE(card.copies.possible);
    EXPECT_THAT(card.copies.sentence, HasSubstr("SynapseAI"));
}

TEST(Abilities, export_depends_on_the_library_the_setting_and_the_bar) {
    const Abilities old = after([](Facts &f) { f.thunk.missing = {"hlthunk_device_mapped_memory_export_dmabuf_fd"}; });
    EXPECT_FALSE(old.dmabuf_export.possible);
    EXPECT_EQ(old.zero_copy.sentence, "as for export");
    EXPECT_FALSE(old.nics[0].zero_copy);
    const Abilities off = after([](Facts &f) { set(f, "UCX_GAUDI_COPY_DMABUF", "n"); });
    EXPECT_THAT(off.dmabuf_export.sentence, StartsWith("GD055: "));
    const Abilities small = after([](Facts &f) { f.pci_cards[0].bar_bytes = 256 << 20; });
    EXPECT_TRUE(small.dmabuf_export.possible);
    EXPECT_THAT(small.dmabuf_export.sentence, HasSubstr("256 MiB"));
}

TEST(Abilities, kernel_and_settings_forbid_zero_copy_and_no_copies) {
    for (const auto &[id, change] : std::vector<std::pair<std::string, std::function<void(Facts &)>>>{
             {"GD001", [](Facts &f) { f.kernel.release = "5.4.0"; }},
             {"GD050", [](Facts &f) { set(f, "UCX_TLS", "tcp,gaudi_cpy"); }},
             {"GD051", [](Facts &f) { set(f, "UCX_NET_DEVICES", "eth0"); }},
             {"GD055", [](Facts &f) { set(f, "UCX_IB_GPU_DIRECT_RDMA", "n"); }}}) {
        const Abilities card = after(change);
        EXPECT_TRUE(card.copies.possible) << id;
        EXPECT_FALSE(card.zero_copy.possible) << id;
        EXPECT_THAT(card.zero_copy.sentence, StartsWith(id + ": "));
    }
    EXPECT_EQ(after([](Facts &f) { f.nics.clear(); }).zero_copy.sentence, "there is no RDMA device");
}

TEST(Abilities, each_nic_has_its_reason) {
    const auto reason = [](const std::function<void(Facts &)> &change) {
        const Abilities card = after(change);
        EXPECT_FALSE(card.nics.at(0).zero_copy);
        EXPECT_TRUE(card.nics.at(1).zero_copy);
        EXPECT_TRUE(card.zero_copy.possible);
        return card.nics.at(0).why_not;
    };
    EXPECT_EQ(reason([](Facts &f) { f.nics[0].active = false; }), "no active port");
    EXPECT_THAT(reason([](Facts &f) { f.nics[0].dmabuf_errno = 524; }), StartsWith("524 (ENOTSUPP"));
    EXPECT_THAT(reason([](Facts &f) { f.nics[0].name = "hbl_0"; }), StartsWith("a port of a card"));
    EXPECT_EQ(reason([](Facts &f) { set(f, "UCX_NET_DEVICES", "mlx5_1:1"); }), "UCX_NET_DEVICES leaves it out");
    EXPECT_EQ(reason([](Facts &f) { set(f, "UCX_NET_DEVICES", "^mlx5_0"); }), "UCX_NET_DEVICES leaves it out");
    EXPECT_EQ(reason([](Facts &f) { f.round_trips->push_back({0, "mlx5_0", false, "EFAULT"}); }), "EFAULT");
    EXPECT_TRUE(after([](Facts &f) { f.round_trips->push_back({0, "mlx5_1", true, ""}); }).nics.at(1).tried);
}

} // namespace
} // namespace gaudi::cli::info
