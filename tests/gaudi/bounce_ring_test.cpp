// SPDX-License-Identifier: BSD-3-Clause
// Stretches of the ring never overlap, whatever the order they are given back in, and all of it can be used again.
#include "gaudi/bounce_ring.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

using namespace gaudi;

namespace {

class BounceRingTest : public ::testing::Test {
protected:
    BounceRingTest() { EXPECT_TRUE(m_ready); }
    std::uint64_t start(unsigned stretch) const {
        return static_cast<std::uint64_t>(static_cast<char *>(m_ring.memory(stretch)) - m_base);
    }
    /// The first stretch starts where the memory does.
    char *first() {
        const auto stretch = m_ring.take(1);
        auto *memory = static_cast<char *>(m_ring.memory(*stretch));
        m_ring.give_back(*stretch);
        return memory;
    }

    BounceRing m_ring;
    const bool m_ready = m_ring.set_up(1);
    const char *m_base = first();
};

TEST_F(BounceRingTest, is_full_when_all_of_it_is_taken) {
    const auto all = m_ring.take(BounceRing::kBytes);
    EXPECT_FALSE(all) << "a stretch does not run over the end, and the first line is behind us";
    std::vector<unsigned> taken;
    while (const auto stretch = m_ring.take(BounceRing::kBytes / 16))
        taken.push_back(*stretch);
    EXPECT_EQ(taken.size(), 15u);
    EXPECT_FALSE(m_ring.take(BounceRing::kBytes / 16));
    m_ring.give_back(taken[1]);
    EXPECT_FALSE(m_ring.take(BounceRing::kBytes / 16)) << "the one before it is still taken";
    m_ring.give_back(taken[0]);
    EXPECT_TRUE(m_ring.take(BounceRing::kBytes / 16));
}

TEST_F(BounceRingTest, has_so_many_stretches_and_no_more) {
    for (unsigned i = 0; i < BounceRing::kStretches; ++i)
        ASSERT_TRUE(m_ring.take(64));
    EXPECT_FALSE(m_ring.take(64));
}

TEST_F(BounceRingTest, no_two_stretches_overlap) {
    std::mt19937 random(4);
    std::map<std::uint64_t, std::pair<std::uint64_t, unsigned>> taken; // start: length, number
    std::uint64_t refused = 0;
    for (unsigned i = 0; i < 100'000; ++i) {
        if (!taken.empty() && random() % 2 == 0) {
            const auto one = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
            m_ring.give_back(one->second.second);
            taken.erase(one);
            continue;
        }
        const std::uint64_t length = random() % 4 == 0 ? 1 + random() % (256 << 10) : 1 + random() % 5000;
        const auto stretch = m_ring.take(length);
        if (!stretch) {
            ++refused;
            continue;
        }
        const std::uint64_t begin = start(*stretch);
        ASSERT_LE(begin + length, BounceRing::kBytes);
        const auto after = taken.lower_bound(begin);
        ASSERT_TRUE(after == taken.end() || begin + length <= after->first);
        ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second.first <= begin);
        taken[begin] = {length, *stretch};
    }
    EXPECT_GT(refused, 0u);
    for (const auto &[begin, one] : taken)
        m_ring.give_back(one.second);
    unsigned room = 0;
    while (m_ring.take(BounceRing::kBytes / 16))
        ++room;
    EXPECT_GE(room, 15u) << "all of it came back";
}

} // namespace
