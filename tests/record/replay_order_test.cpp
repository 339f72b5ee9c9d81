// SPDX-License-Identifier: BSD-3-Clause
// Calls whose records were written later than they took effect.
#include "cli/replay_order.h"

#include <gmock/gmock.h>

#include <array>
#include <deque>

namespace {

using gaudi::cli::RecordedCall;
using gaudi::record::Function;
using ::testing::ElementsAre;

constexpr std::uint64_t kAddress = 0x1000'0000;

class ReplayOrder : public ::testing::Test {
protected:
    void map(std::uint64_t start_ns, std::uint64_t end_ns) {
        add(Function::device_memory_map, start_ns, end_ns, 1, kAddress);
    }
    void unmap(std::uint64_t start_ns, std::uint64_t end_ns, int result = 0) {
        add(Function::memory_unmap, start_ns, end_ns, kAddress, static_cast<std::uint64_t>(result));
    }
    std::vector<std::size_t> order() const { return gaudi::cli::replay_order(m_events); }

    std::uint32_t m_process = 1;

private:
    void add(Function function, std::uint64_t start_ns, std::uint64_t end_ns, std::uint64_t argument,
             std::uint64_t result) {
        gaudi::record::Record &head = m_heads.emplace_back();
        head.process = m_process;
        head.start_ns = start_ns;
        head.end_ns = end_ns;
        head.result = result;
        head.node = 7;
        const auto &arguments = m_arguments.emplace_back(std::array<std::uint64_t, 3>{5, argument, 0});
        m_events.push_back({&head, false, function, arguments, {}, {}});
    }

    std::deque<gaudi::record::Record> m_heads;
    std::deque<std::array<std::uint64_t, 3>> m_arguments;
    std::vector<RecordedCall> m_events;
};

TEST_F(ReplayOrder, calls_of_one_thread_keep_theirs) {
    map(1, 2);
    unmap(3, 4);
    map(5, 6);
    unmap(7, 8);
    EXPECT_THAT(order(), ElementsAre(0, 1, 2, 3));
}

TEST_F(ReplayOrder, late_unmap_goes_before_the_map_that_got_its_address) {
    map(1, 2);
    map(5, 6); // by another thread, while the unmap below is under way
    unmap(7, 8);
    map(9, 10);
    unmap(11, 12);
    unmap(3, 13); // of the first mapping
    EXPECT_THAT(order(), ElementsAre(0, 5, 1, 2, 3, 4));
}

TEST_F(ReplayOrder, unmap_that_began_later_stays) {
    map(1, 2);
    map(3, 4); // the driver gives an address twice only by mistake: nothing to repair
    unmap(5, 6);
    unmap(7, 8);
    EXPECT_THAT(order(), ElementsAre(0, 1, 2, 3));
}

TEST_F(ReplayOrder, refused_unmap_frees_nothing) {
    map(1, 2);
    map(5, 6);
    unmap(3, 7, -1);
    EXPECT_THAT(order(), ElementsAre(0, 1, 2));
}

TEST_F(ReplayOrder, unmap_of_another_process_stays) {
    map(1, 2);
    map(5, 6);
    m_process = 2;
    unmap(3, 7);
    EXPECT_THAT(order(), ElementsAre(0, 1, 2));
}

} // namespace
