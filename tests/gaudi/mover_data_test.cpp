// SPDX-License-Identifier: BSD-3-Clause
// Every byte arrives, and none beside it: all directions, sizes and alignments, from and to every kind of host memory.
#include "engine_user.h"

#include "gaudi/card/settings.h"
#include "gaudi/copy/mover.h"
#include "gaudi/host/host_cache.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>

using namespace gaudi;
using namespace gaudi::test;

namespace {

// The last one is more than the bounce ring, and more than one batch holds; in release builds also more than the engine's
// streams hold at once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kLargest = 17 * kMiB;
#else
constexpr std::uint64_t kLargest = 65 * kMiB;
#endif
constexpr std::array<std::uint64_t, 7> kSizes = {0, 1, 7, 4095, 65536, kMiB + 3, kLargest};
constexpr std::uint64_t kGuard = 64; // bytes on either side that must stay
constexpr std::uint64_t kRoom = kSizes.back() + 2 * kMiB;

enum class Host { registered, cached, uncached, unpinnable };
enum class Completion { flag, driver };

std::string name(Host host) {
    switch (host) {
    case Host::registered:
        return "registered";
    case Host::cached:
        return "cached";
    case Host::uncached:
        return "uncached";
    default:
        return "unpinnable";
    }
}

class MoverData : public GaudiTest {
protected:
    void begin(Host host, Completion completion) {
        change_settings([&](Settings &settings) {
            settings.completion = completion == Completion::driver ? CompletionMode::driver : CompletionMode::flag;
        });
        // The command ring, two mappings of the self-test, the bounce ring, and then the user's memory.
        if (host == Host::unpinnable)
            set("SOFTGAUDI_FAULTS", "host_memory_map#5=EFAULT");
        if (host == Host::cached)
            HostCache::get().enable();
        m_mover = std::make_unique<Mover>(cards());
        if (host == Host::unpinnable)
            copy(device(), m_host.address(), 100);
        if (host == Host::registered || host == Host::unpinnable)
            m_range = std::make_unique<HostRange>(m_host.address(), m_host.size(), cards().all().size());
    }
    std::uint64_t device(std::size_t index = 0) { return value(allocate(card(index), {.length = kRoom})); }

    void copy(std::uint64_t destination, std::uint64_t source, std::uint64_t length) {
        if (length == 0) {
            ASSERT_EQ(m_mover->post({destination, source, length, m_range.get(), Tally::count, nullptr}),
                      Mover::Posted::done);
            return;
        }
        ASSERT_TRUE(is_ok(run_copy(*m_mover, destination, source, length, m_range.get())));
        ASSERT_EQ(m_mover->outstanding(), 0u);
    }

    /// Calls `check(size, offset of the source, offset of the destination)` for all of them.
    template <class Check>
    static void for_all(Check &&check) {
        for (const std::uint64_t size : kSizes) {
            for (const auto &[from, to] : {std::pair{4096, 8192}, {4097, 8192 + 4095}}) {
                if (size > kMiB + 3 && from == 4096)
                    continue; // large sizes once, at the odd offset
                SCOPED_TRACE("size " + std::to_string(size) + " from " + std::to_string(from));
                check(size, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to));
                if (HasFatalFailure())
                    return;
            }
        }
    }
    /// Fills the destination and its guards, runs the copy, and compares all of it.
    template <class Write, class Read, class Copy>
    static void expect_arrives(std::uint64_t size, const Bytes &sent, Write &&write, Read &&read, Copy &&run) {
        const Bytes before = pattern(size + 2 * kGuard, 77);
        write(before);
        run();
        if (HasFatalFailure())
            return;
        Bytes expected = before;
        std::copy(sent.begin(), sent.end(), expected.begin() + kGuard);
        EXPECT_TRUE(read(expected.size()) == expected);
    }

    const HostBuffer m_host{kRoom};
    std::unique_ptr<Mover> m_mover;
    std::unique_ptr<HostRange> m_range;
};

class HostAndCard : public MoverData, public ::testing::WithParamInterface<std::tuple<Host, Completion>> {
protected:
    void SetUp() override { begin(std::get<0>(GetParam()), std::get<1>(GetParam())); }
};

TEST_P(HostAndCard, each_byte_arrives_on_the_card) {
    const std::uint64_t memory = device();
    const Window window(*find_region(memory));
    for_all([&](std::uint64_t size, std::uint64_t from, std::uint64_t to) {
        const Bytes sent = pattern(size, size + from);
        m_host.write(from, sent);
        expect_arrives(
            size, sent, [&](const Bytes &bytes) { window.write(memory + to - kGuard, bytes); },
            [&](std::size_t length) { return window.read(memory + to - kGuard, length); },
            [&] { copy(memory + to, m_host.address(from), size); });
    });
    if (std::get<0>(GetParam()) == Host::unpinnable) {
        EXPECT_TRUE(m_range->is_refused(*card().session())) << "else the test copied without staging";
    }
}

TEST_P(HostAndCard, each_byte_arrives_in_host_memory) {
    const std::uint64_t memory = device();
    const Window window(*find_region(memory));
    for_all([&](std::uint64_t size, std::uint64_t from, std::uint64_t to) {
        const Bytes sent = pattern(size, size + from);
        window.write(memory + from, sent);
        expect_arrives(
            size, sent, [&](const Bytes &bytes) { m_host.write(to - kGuard, bytes); },
            [&](std::size_t length) { return m_host.read(to - kGuard, length); },
            [&] { copy(m_host.address(to), memory + from, size); });
    });
    if (std::get<0>(GetParam()) == Host::unpinnable) {
        EXPECT_TRUE(m_range->is_refused(*card().session())) << "else the test copied without staging";
    }
}

INSTANTIATE_TEST_SUITE_P(All, HostAndCard,
                         ::testing::Combine(::testing::Values(Host::registered, Host::cached, Host::uncached,
                                                              Host::unpinnable),
                                            ::testing::Values(Completion::flag, Completion::driver)),
                         [](const auto &one) {
                             return name(std::get<0>(one.param)) +
                                    (std::get<1>(one.param) == Completion::flag ? "_by_flag" : "_by_driver");
                         });

class CardAndCard : public MoverData, public ::testing::WithParamInterface<Completion> {
protected:
    void SetUp() override { begin(Host::uncached, GetParam()); }

    void expect_all_arrive(std::uint64_t source, std::uint64_t destination) {
        const Window window(*find_region(source)), other(*find_region(destination));
        for_all([&](std::uint64_t size, std::uint64_t from, std::uint64_t to) {
            const Bytes sent = pattern(size, size + from);
            window.write(source + from, sent);
            expect_arrives(
                size, sent, [&](const Bytes &bytes) { other.write(destination + to - kGuard, bytes); },
                [&](std::size_t length) { return other.read(destination + to - kGuard, length); },
                [&] { copy(destination + to, source + from, size); });
        });
    }
};

TEST_P(CardAndCard, copy_within_a_card_arrives) { expect_all_arrive(device(), device()); }

TEST_P(CardAndCard, copy_to_another_card_arrives) { expect_all_arrive(device(0), device(5)); }

TEST_P(CardAndCard, blocking_copies_arrive_in_all_directions) {
    const std::uint64_t first = device(0), second = device(1);
    const Window window(*find_region(first)), other(*find_region(second));
    for_all([&](std::uint64_t size, std::uint64_t from, std::uint64_t to) {
        const Bytes sent = pattern(size, size + from);
        m_host.write(from, sent);
        ASSERT_TRUE(is_ok(m_mover->copy_now(first + to, m_host.address(from), size)));
        EXPECT_TRUE(window.read(first + to, size) == sent) << "host to card";
        if (size <= 64 * kMiB) {
            ASSERT_TRUE(is_ok(m_mover->copy_now(first + 100 * kMiB + from, first + to, size)));
            EXPECT_TRUE(window.read(first + 100 * kMiB + from, size) == sent) << "within a card";
        }
        ASSERT_TRUE(is_ok(m_mover->copy_now(second + from, first + to, size)));
        EXPECT_TRUE(other.read(second + from, size) == sent) << "card to card";
        m_host.write(to, Bytes(size));
        ASSERT_TRUE(is_ok(m_mover->copy_now(m_host.address(to), second + from, size)));
        EXPECT_TRUE(m_host.read(to, size) == sent) << "card to host";
    });
}

INSTANTIATE_TEST_SUITE_P(All, CardAndCard, ::testing::Values(Completion::flag, Completion::driver),
                         [](const auto &one) { return one.param == Completion::flag ? "by_flag" : "by_driver"; });

} // namespace
