// SPDX-License-Identifier: BSD-3-Clause
// Slices of the ring never overlap, in whatever order they are released, and all of its memory is used again.
#include "gaudi/host/bounce_ring.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

using namespace gaudi;

namespace {

class BounceRingTest : public ::testing::Test {
protected:
    BounceRingTest() { EXPECT_TRUE(m_ready); }
    std::uint64_t start_of(unsigned slice) const {
        return static_cast<std::uint64_t>(static_cast<char *>(m_ring.memory(slice)) - m_base);
    }
    /// The first slice starts where the memory does.
    char *find_base() {
        const auto slice = m_ring.take(1);
        auto *memory = static_cast<char *>(m_ring.memory(*slice));
        m_ring.release(*slice);
        return memory;
    }

    BounceRing m_ring;
    const bool m_ready = m_ring.set_up(1);
    const char *m_base = find_base();
};

TEST_F(BounceRingTest, full_ring_refuses_until_its_oldest_slice_is_released) {
    const auto all = m_ring.take(BounceRing::kBytes);
    EXPECT_FALSE(all) << "a slice does not wrap around, and the ring stands behind its first line";
    std::vector<unsigned> taken;
    while (const auto slice = m_ring.take(BounceRing::kBytes / 16))
        taken.push_back(*slice);
    EXPECT_EQ(taken.size(), 15u);
    EXPECT_FALSE(m_ring.take(BounceRing::kBytes / 16));
    m_ring.release(taken[1]);
    EXPECT_FALSE(m_ring.take(BounceRing::kBytes / 16)) << "the slice before it is still taken";
    m_ring.release(taken[0]);
    EXPECT_TRUE(m_ring.take(BounceRing::kBytes / 16));
}

TEST_F(BounceRingTest, slice_beyond_the_maximum_is_refused) {
    for (unsigned i = 0; i < BounceRing::kSlices; ++i)
        ASSERT_TRUE(m_ring.take(64));
    EXPECT_FALSE(m_ring.take(64));
}

TEST_F(BounceRingTest, slices_never_overlap) {
    std::mt19937 random(4);
    std::map<std::uint64_t, std::pair<std::uint64_t, unsigned>> taken; // start: length, number
    std::uint64_t refused = 0;
    for (unsigned i = 0; i < 100'000; ++i) {
        if (!taken.empty() && random() % 2 == 0) {
            const auto one = std::next(taken.begin(), static_cast<std::ptrdiff_t>(random() % taken.size()));
            m_ring.release(one->second.second);
            taken.erase(one);
            continue;
        }
        const std::uint64_t length = random() % 4 == 0 ? 1 + random() % (256 << 10) : 1 + random() % 5000;
        const auto slice = m_ring.take(length);
        if (!slice) {
            ++refused;
            continue;
        }
        const std::uint64_t begin = start_of(*slice);
        ASSERT_LE(begin + length, BounceRing::kBytes);
        const auto after = taken.lower_bound(begin);
        ASSERT_TRUE(after == taken.end() || begin + length <= after->first);
        ASSERT_TRUE(after == taken.begin() || std::prev(after)->first + std::prev(after)->second.first <= begin);
        taken[begin] = {length, *slice};
    }
    EXPECT_GT(refused, 0u);
    for (const auto &[begin, one] : taken)
        m_ring.release(one.second);
    unsigned room = 0;
    while (m_ring.take(BounceRing::kBytes / 16))
        ++room;
    EXPECT_GE(room, 15u) << "all of the ring is free again";
}

} // namespace
