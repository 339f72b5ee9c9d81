// SPDX-License-Identifier: BSD-3-Clause
// A card whose completion flag overtakes the data, rarely and under load: an idle self-test does not see it, and completion by
// the driver is right all the same.
#include "engine_user.h"

#include "gaudi/card/settings.h"

#include <algorithm>
#include <array>

using namespace gaudi;
using namespace gaudi::test;

namespace {

class EarlyFlag : public GaudiTest {
protected:
    static constexpr std::size_t kLength = 512 * kKiB, kCopies = 8;

    EarlyFlag() { set("SOFTGAUDI_QUIRKS", "early_flag"); }

    static void complete_by(CompletionMode mode) {
        change_settings([&](Settings &settings) { settings.completion = mode; });
    }

    /// Copies to the host, several at once; returns how many ended before their bytes were there.
    static unsigned count_wrong(unsigned rounds, bool stops_at_first) {
        struct Copy {
            const volatile unsigned char *last;
            unsigned char expected;
            unsigned wrong;
        };
        Mover mover(cards());
        const HostBuffer source(kLength), host(kCopies * kLength);
        HostRange range(host.address(), host.size(), cards().all().size());
        const std::uint64_t memory = value(allocate(card(), {.length = kLength}));
        std::array<Copy, kCopies> copies{};
        unsigned wrong = 0;
        for (unsigned round = 0; round < rounds && !(stops_at_first && wrong != 0); ++round) {
            const auto byte = static_cast<unsigned char>(1 + round % 255);
            std::fill_n(source.data(), kLength, byte);
            value(mover.copy_now(memory, source.address(), kLength));
            for (std::size_t i = 0; i < kCopies; ++i) {
                copies[i] = {host.data() + (i + 1) * kLength - 1, byte, 0};
                const auto check = [](void *user, const Error *error) {
                    auto &copy = *static_cast<Copy *>(user);
                    copy.wrong = error || *copy.last != copy.expected ? 1 : 0;
                };
                value(mover.post({host.address(i * kLength), memory, kLength, &range, check, &copies[i]}));
            }
            if (!finish(mover))
                throw std::runtime_error("copies do not end");
            for (const Copy &copy : copies)
                wrong += copy.wrong;
            // All bytes arrive in the end; the next round must not begin before.
            if (!until([&] {
                    return std::all_of(copies.begin(), copies.end(),
                                       [](const Copy &copy) { return *copy.last == copy.expected; });
                }))
                throw std::runtime_error("bytes are missing");
        }
        return wrong;
    }
};

TEST_F(EarlyFlag, idle_self_test_does_not_see_it) {
    complete_by(CompletionMode::flag);
    EXPECT_TRUE(uses_completion_flags(*value(start_engine(card()))));
}

TEST_F(EarlyFlag, copies_that_end_by_the_flag_end_too_early_under_load) {
    complete_by(CompletionMode::flag);
    EXPECT_GT(count_wrong(20'000, true), 0u);
}

TEST_F(EarlyFlag, copies_that_end_by_the_driver_are_right_under_load) {
    complete_by(CompletionMode::driver);
    EXPECT_EQ(count_wrong(300, false), 0u);
    EXPECT_FALSE(uses_completion_flags(*started_engine(card())));
}

TEST_F(EarlyFlag, default_does_not_trust_flags_of_an_unverified_firmware) {
    complete_by(CompletionMode::automatic);
    EXPECT_FALSE(uses_completion_flags(*value(start_engine(card()))));
}

/// Queues whose nested command buffers run late: the engine uses none.
using NestedBuffers = GaudiTest;

TEST_F(NestedBuffers, engine_needs_no_order_of_them) {
    set("SOFTGAUDI_QUIRKS", "nested");
    Mover mover(cards());
    const HostBuffer host(2 * kMiB);
    const std::uint64_t memory = value(allocate(card(), {.length = kMiB}));
    const Bytes sent = pattern(kMiB, 3);
    host.write(0, sent);
    ASSERT_TRUE(is_ok(run_copy(mover, memory, host.address(), kMiB)));
    ASSERT_TRUE(is_ok(run_copy(mover, host.address(kMiB), memory, kMiB)));
    EXPECT_TRUE(host.read(kMiB, kMiB) == sent);
    EXPECT_TRUE(uses_completion_flags(*started_engine(card()))) << "the self-test saw a flag before its copies";
}

} // namespace
