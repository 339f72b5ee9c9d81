// SPDX-License-Identifier: BSD-3-Clause
// How near copies come to the speed of the links, on softgaudi's virtual clock: work of the host takes no time there,
// and waiting does. None of it depends on the machine.
#include "device_time.h"
#include "engine_user.h"

#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"

namespace {

using namespace gaudi;
using namespace gaudi::test;

constexpr double kLink = 25; // GB/s each way, and so bytes per nanosecond

class LinkSpeed : public GaudiTest {
protected:
    LinkSpeed() {
        set("SOFTGAUDI_PACE", "virtual:down:25,up:25,card:1000,submit:5,map:20");
        HostCache::get().enable();
    }
    static std::uint64_t device(std::uint64_t length, std::size_t index = 0) {
        return value(allocate(card(index), {.length = length}));
    }
    static std::uint64_t now() { return device_time(value(card().open())->device()); }

    /// Nanoseconds until everything that `post` posts has ended.
    double time(const std::function<void()> &post) {
        const std::uint64_t before = now();
        post();
        EXPECT_TRUE(finish(*m_mover));
        EXPECT_EQ(m_tally.failed, 0u);
        return static_cast<double>(now() - before);
    }
    void copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length, HostRange *range = nullptr) {
        if (!m_mover)
            m_mover.emplace(cards());
        ASSERT_EQ(m_mover->post({destination, source, length, range, Tally::count, &m_tally}), Mover::Posted::started);
    }
    /// Starts the engine and maps the range.
    void warm_up(std::uint64_t memory, const HostBuffer &host, HostRange &range) {
        time([&] {
            copy(memory, host.address(), kMiB, &range);
            copy(host.address(kMiB), memory, kMiB, &range);
        });
    }

    std::optional<Mover> m_mover;
    Tally m_tally;
};

TEST_F(LinkSpeed, one_direction_fills_its_link) {
    const HostBuffer host(64 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device(64 * kMiB);
    warm_up(memory, host, range);
    const double link = 64 * kMiB / kLink;
    EXPECT_GE(link / time([&] { copy(memory, host.address(), 64 * kMiB, &range); }), 0.99);
    EXPECT_GE(link / time([&] { copy(host.address(), memory, 64 * kMiB, &range); }), 0.99);
}

TEST_F(LinkSpeed, both_directions_together_are_almost_twice_as_fast) {
    const HostBuffer host(128 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t one = device(64 * kMiB), other = device(64 * kMiB);
    warm_up(one, host, range);
    const double alone = time([&] { copy(one, host.address(), 64 * kMiB, &range); });
    const double both = time([&] {
        copy(one, host.address(), 64 * kMiB, &range);
        copy(host.address(64 * kMiB), other, 64 * kMiB, &range);
    });
    EXPECT_GE(2 * alone / both, 1.9);
}

TEST_F(LinkSpeed, copy_between_cards_fills_the_slower_link) {
    set("SOFTGAUDI_PACE", "virtual:down:20,up:25,card:1000,submit:5,map:20");
    const HostBuffer host(2 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t one = device(64 * kMiB, 0), other = device(64 * kMiB, 1);
    warm_up(one, host, range);
    warm_up(other, host, range);
    time([&] { copy(other, one, kMiB); }); // maps the bounce ring
    for (const std::uint64_t size : {16 * kMiB, 64 * kMiB})
        EXPECT_GE(static_cast<double>(size) / 20 / time([&] { copy(other, one, size); }), 0.95) << size;
}

TEST_F(LinkSpeed, unregistered_memory_is_at_most_5_percent_slower) {
    const HostBuffer host(64 * kMiB);
    const HostBuffer unregistered(64 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device(64 * kMiB);
    warm_up(memory, host, range);
    const double registered = time([&] { copy(memory, host.address(), 64 * kMiB, &range); });
    EXPECT_GE(registered / time([&] { copy(memory, unregistered.address(), 64 * kMiB); }), 0.95) << "the first copy";
    EXPECT_GE(registered / time([&] { copy(memory, unregistered.address(), 64 * kMiB); }), 0.95);
    EXPECT_GE(registered / time([&] { copy(unregistered.address(), memory, 64 * kMiB); }), 0.95);
}

TEST_F(LinkSpeed, staged_memory_is_at_most_5_percent_slower) {
    const HostBuffer host(64 * kMiB);
    const HostBuffer unregistered(64 * kMiB);
    HostRange range(host.address(), host.size(), cards().all().size());
    const std::uint64_t memory = device(64 * kMiB);
    warm_up(memory, host, range);
    time([&] { copy(memory, unregistered.address(), 4096); }); // maps the bounce ring
    const double registered = time([&] { copy(memory, host.address(), 64 * kMiB, &range); });
    set("SOFTGAUDI_FAULTS", "host_memory_map=EFAULT");
    EXPECT_GE(registered / time([&] { copy(memory, unregistered.address(), 64 * kMiB); }), 0.95);
    EXPECT_GE(registered / time([&] { copy(unregistered.address(), memory, 64 * kMiB); }), 0.95);
}

} // namespace
