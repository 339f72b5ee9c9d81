// SPDX-License-Identifier: BSD-3-Clause
// A driver may take seconds to open a card. No other work waits for that.
#include "gaudi.h"

#include <thread>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class SlowOpen : public GaudiTest {
protected:
    SlowOpen() {
        set("SOFTGAUDI_FAULTS", "open#1=delay:3000000");
        Card &slow = card(2);
        m_allocating = std::thread([&slow] { EXPECT_TRUE(is_ok(allocate(slow, {.length = kMiB}))); });
        EXPECT_TRUE(until([&] { return slow.state() == Card::State::opening; }));
    }
    ~SlowOpen() override {
        m_allocating.join();
        EXPECT_TRUE(card(2).is_open());
    }
    /// Whether the driver is still in its open: what came before did not wait for it.
    static bool is_opening() { return card(2).state() == Card::State::opening; }

private:
    std::thread m_allocating;
};

TEST_F(SlowOpen, detection_is_answered_meanwhile) {
    EXPECT_FALSE(resolve(cards(), cards().address_range().base + kMiB, 1));
    EXPECT_FALSE(resolve(cards(), reinterpret_cast<std::uint64_t>(this), 1));
    EXPECT_EQ(card(2).find_session(), nullptr);
    EXPECT_TRUE(is_opening());
}

TEST_F(SlowOpen, other_card_serves_an_allocation_meanwhile) {
    const auto address = allocate(card(5), {.length = kMiB});
    ASSERT_TRUE(is_ok(address));
    EXPECT_EQ(&look_up(*address)->card(), &card(5));
    EXPECT_TRUE(free_on(card(5), *address));
    EXPECT_TRUE(is_opening());
}

TEST_F(SlowOpen, second_thread_gets_the_same_session) {
    const auto session = card(2).open();
    ASSERT_TRUE(is_ok(session));
    EXPECT_EQ(*session, card(2).session());
    EXPECT_EQ(Counters(card(2))["opens"], 1u);
}

} // namespace
