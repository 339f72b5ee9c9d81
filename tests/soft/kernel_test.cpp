// SPDX-License-Identifier: BSD-3-Clause
// A kernel that denies what the software Gaudi needs, as in a container: the library names the call and the remedy.
#include "restricted.h"
#include "soft.h"

#include <memory>

using namespace soft;

namespace {

class Kernel : public SoftTest {
protected:
    /// What the library prints while it counts its cards.
    static std::string printed(int cards) {
        testing::internal::CaptureStderr();
        for (int i = 0; i < 2; ++i)
            EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), cards);
        return testing::internal::GetCapturedStderr();
    }
};

class Call : public Kernel, public testing::WithParamInterface<DeniedCall> {
protected:
    static constexpr const char *kWithout = "no card can access the memory of a program";
    static constexpr const char *kWithoutEvents = "a card's events do not reach another process that shares it";

    /// The sentence up to the remedy.
    static std::string cause(const char *errno_text) {
        return std::string("softgaudi: ") + GetParam().name + " is " + errno_text + ", so " +
               (GetParam().required ? kWithout : kWithoutEvents) +
               ": allow it in the seccomp profile of the container (Docker: --cap-add SYS_PTRACE)";
    }
    static int cards() { return GetParam().required ? 0 : 8; }
};

TEST_P(Call, denied_is_named_once_with_the_remedy) {
    deny(GetParam(), EPERM);
    EXPECT_EQ(printed(cards()), cause("denied (EPERM)") + "\n");
}

TEST_P(Call, missing_is_named_with_the_kernel_that_has_it) {
    deny(GetParam(), ENOSYS);
    const std::string text = printed(cards()), begin = cause("missing or denied (ENOSYS)") + ", or run ";
    EXPECT_EQ(text.substr(0, begin.size()), begin);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

INSTANTIATE_TEST_SUITE_P(Each, Call, testing::ValuesIn(kDeniedCalls),
                         [](const auto &param) { return std::string(param.param.name); });

TEST_F(Kernel, denied_pidfd_getfd_leaves_copies_working) {
    deny(kDeniedCalls.back(), EPERM);
    Card card;
    std::vector<unsigned char> from = pattern(4096), to(from.size());
    const uint64_t memory = card.memory();
    card.run(kDown, Packets().copy(card.map(from), memory, 4096));
    card.run(kUp, Packets().copy(memory, card.map(to), 4096));
    EXPECT_EQ(from, to);
}

TEST_F(Kernel, tmpfs_without_room_is_refused_with_its_size) {
    const LimitedTmpfs tmpfs(dir(), 1024);
    EXPECT_EQ(printed(0), "softgaudi: " + dir() +
                              ": its tmpfs has 1024 KiB free, and 8192 KiB are needed: free space there, enlarge it "
                              "(Docker: --shm-size), or set SOFTGAUDI_DIR to a directory on another tmpfs\n");
}

TEST_F(Kernel, tmpfs_with_the_least_room_is_enough_to_open_every_card) {
    const LimitedTmpfs tmpfs(dir(), 8192);
    testing::internal::CaptureStderr();
    {
        std::vector<std::unique_ptr<Card>> cards(8);
        for (auto &card : cards)
            card = std::make_unique<Card>();
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Kernel, tmpfs_without_a_limit_has_room) {
    const LimitedTmpfs tmpfs(dir(), 0);
    EXPECT_EQ(printed(8), "");
}

} // namespace
