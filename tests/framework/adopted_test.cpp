// SPDX-License-Identifier: BSD-3-Clause
// A card that SynapseAI holds: its memory is found in SynapseAI's pools, and where the self-test of the own engine has no
// memory or fails, SynapseAI's calls copy.
#include "synapse_fixture.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
#include "gaudi/engine_user.h"
#include "gaudi/memory/foreign_mappings.h"

#include <gmock/gmock.h>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class AdoptedCard : public SynapseTest {
protected:
    static bool finish(Mover &mover) {
        return until([&] {
            mover.progress();
            return mover.outstanding() == 0;
        });
    }
    const HostBuffer m_host{32 * kMiB};
};

TEST_F(AdoptedCard, pool_memory_is_found_with_one_probe) {
    const Synapse &framework = acquire(2);
    const std::uint64_t address = allocate(kMiB);
    const std::uint64_t exports = Counters(card(2))["exports"];
    Region *region = look_up(address + 12345);
    ASSERT_NE(region, nullptr);
    const auto pools = framework.pools(framework.descriptor());
    ASSERT_EQ(pools.size(), 1u);
    EXPECT_EQ(region->base(), pools[0].mapping);
    EXPECT_EQ(region->size(), pools[0].reach());
    EXPECT_EQ(&region->card(), &card(2));
    EXPECT_LE(Counters(card(2))["exports"] - exports, 2u) << "one probe of the card, one of the pool";
    EXPECT_TRUE(confirm(*region));
}

TEST_F(AdoptedCard, framework_copies_where_the_self_test_has_no_memory) {
    acquire();
    const std::uint64_t address = allocate(16 * kMiB);
    const Bytes sent = pattern(8 * kMiB, 7);
    m_host.write(0, sent);
    Mover mover(cards());
    Tally tally;
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    // Copies are small and large, registered and not, down, within the card and up.
    ASSERT_EQ(mover.post({address, m_host.address(), sent.size(), &range, Tally::count, &tally}),
              Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    EXPECT_STREQ(started_engine(card())->name(), "synapse");
    ASSERT_EQ(mover.post({address + 8 * kMiB, address, sent.size(), nullptr, Tally::count, &tally}),
              Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    ASSERT_TRUE(is_ok(mover.copy_now(m_host.address(8 * kMiB), address + 8 * kMiB, sent.size())));
    EXPECT_TRUE(m_host.read(8 * kMiB, sent.size()) == sent);
    ASSERT_EQ(mover.post({m_host.address(16 * kMiB), address + 77, 1000, nullptr, Tally::count, &tally}),
              Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    EXPECT_TRUE(m_host.read(16 * kMiB, 1000) == Bytes(sent.begin() + 77, sent.begin() + 1077));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(Counters(card())["opens"], 1u);
}

TEST_F(AdoptedCard, framework_copies_where_the_self_test_fails) {
    set("STANDIN_SPARES_A_PAGE", "1");
    set("SOFTGAUDI_FAULTS",
        "command_submission#1=skip;command_submission#3=skip"); // with the completion flag, then by the driver
    acquire();
    const std::uint64_t address = allocate(kMiB);
    const Bytes sent = pattern(kMiB, 3);
    m_host.write(0, sent);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(address, m_host.address(), kMiB)));
    EXPECT_STREQ(started_engine(card())->name(), "synapse");
    ASSERT_TRUE(is_ok(mover.copy_now(m_host.address(kMiB), address, kMiB)));
    EXPECT_TRUE(m_host.read(kMiB, kMiB) == sent);
}

TEST_F(AdoptedCard, own_engine_copies_where_the_self_test_passes) {
    set("STANDIN_SPARES_A_PAGE", "1");
    acquire();
    const std::uint64_t address = allocate(kMiB);
    ASSERT_TRUE(is_ok(Mover(cards()).copy_now(address, m_host.address(), kMiB)));
    EXPECT_STREQ(started_engine(card())->name(), "cs");
}

TEST_F(AdoptedCard, gaudi3_is_copied_by_the_framework_only) {
    set("SOFTGAUDI_MODEL", "gaudi3");
    EXPECT_FALSE(has_copy_path(card())) << "no framework holds the card";
    acquire();
    EXPECT_TRUE(has_copy_path(card()));
    const std::uint64_t address = allocate(4 * kMiB);
    const Bytes sent = pattern(2 * kMiB, 9);
    m_host.write(0, sent);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(address + 7, m_host.address(), sent.size())));
    ASSERT_TRUE(is_ok(mover.copy_now(address + 2 * kMiB, address + 7, sent.size())));
    ASSERT_TRUE(is_ok(mover.copy_now(m_host.address(8 * kMiB), address + 2 * kMiB, sent.size())));
    EXPECT_TRUE(m_host.read(8 * kMiB, sent.size()) == sent);
    EXPECT_EQ(Counters(card())["submissions"], 0u);
}

TEST_F(AdoptedCard, copy_refused_by_the_framework_fails_alone) {
    acquire();
    const std::uint64_t address = allocate(kMiB);
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(address, m_host.address(), kMiB)));
    ASSERT_STREQ(started_engine(card())->name(), "synapse");
    set("STANDIN_FAULT", "synMemCopyAsync:1"); // synInvalidArgument
    const auto refused = mover.copy_now(address, m_host.address(), kMiB);
    EXPECT_EQ(code_of(refused), EIO);
    EXPECT_THAT(text_of(refused), HasSubstr("synMemCopyAsync"));
    unsetenv("STANDIN_FAULT");
    EXPECT_TRUE(is_ok(mover.copy_now(address, m_host.address(), kMiB)));
}

TEST_F(AdoptedCard, adjacent_copies_of_two_registrations_are_not_merged) {
    acquire();
    const std::uint64_t address = allocate(kMiB);
    const Bytes sent = pattern(kMiB, 11);
    Mover mover(cards());
    m_host.write(8 * kMiB, sent);
    ASSERT_TRUE(is_ok(mover.copy_now(address, m_host.address(8 * kMiB), kMiB)));
    HostRange first(m_host.address(), 128 * kKiB, cards().all().size());
    HostRange second(m_host.address(128 * kKiB), 128 * kKiB, cards().all().size());
    Tally tally;
    const auto up = [&](std::uint64_t offset, HostRange &range) {
        return mover.post({m_host.address(offset), address + offset, 64 * kKiB, &range, Tally::count, &tally});
    };
    ASSERT_EQ(up(0, first), Mover::Posted::started); // keeps the stream busy, so that the next two are queued
    ASSERT_EQ(up(64 * kKiB, first), Mover::Posted::started);
    ASSERT_EQ(up(128 * kKiB, second), Mover::Posted::started);
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_TRUE(m_host.read(0, 192 * kKiB) == Bytes(sent.begin(), sent.begin() + 192 * kKiB));
}

TEST_F(AdoptedCard, framework_copy_sees_rdma_writes) {
    set("SOFTGAUDI_QUIRKS", "posted");
    acquire();
    const std::uint64_t address = allocate(kMiB);
    Region *region = look_up(address);
    ASSERT_NE(region, nullptr);
    const thunk::Fd exported = value(region->dmabuf());
    const Bytes sent = pattern(kMiB, 12);
    ASSERT_EQ(pwrite(exported.get(), sent.data(), sent.size(), static_cast<off_t>(address - region->base())),
              static_cast<ssize_t>(sent.size()));
    Mover mover(cards());
    ASSERT_TRUE(is_ok(mover.copy_now(m_host.address(), address, kMiB)));
    ASSERT_STREQ(started_engine(card())->name(), "synapse");
    EXPECT_TRUE(m_host.read(0, kMiB) == sent);
}

TEST_F(AdoptedCard, without_framework_copy_call_has_no_copy_path) {
    acquire(0, STANDIN_OLD_SYNAPSE); // has no generic streams
    Mover mover(cards());
    const std::uint64_t address = allocate(kMiB);
    const auto refused = mover.copy_now(address, m_host.address(), 100);
    EXPECT_EQ(code_of(refused), ENOTSUP);
    EXPECT_THAT(text_of(refused), HasSubstr("holds all of its memory: the DMA self-test has none to run in"));
    const std::uint64_t calls = Counters(card()).calls("host_memory_map");
    EXPECT_FALSE(mover.copy_now(address, m_host.address(), 100));
    EXPECT_EQ(Counters(card()).calls("host_memory_map"), calls) << "the self-test runs only once";
}

TEST_F(AdoptedCard, outstanding_copy_fails_when_the_framework_releases_it) {
    acquire();
    const std::uint64_t address = allocate(16 * kMiB);
    Mover mover(cards());
    Tally tally;
    HostRange range(m_host.address(), m_host.size(), cards().all().size());
    ASSERT_EQ(mover.post({address, m_host.address(), 16 * kMiB, &range, Tally::count, &tally}), Mover::Posted::started);
    const int fd = Synapse::loaded()->descriptor();
    card().before_close(fd);
    card().after_close(fd);
    ASSERT_TRUE(finish(mover));
    EXPECT_EQ(tally.failed, 1u);
    EXPECT_EQ(find_region(address), nullptr);
}

} // namespace
