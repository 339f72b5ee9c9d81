// SPDX-License-Identifier: BSD-3-Clause
// Other people's dma-bufs: copied to and from where the driver imports them, refused where it does not. The software
// driver does not; here the call that would ask it is answered by the test, as the production driver does it.
#include "engine.h"

#include "gaudi/mover.h"
#include "os/system_call.h"

#include <sys/ioctl.h>

#include <cstdarg>

using namespace gaudi;
using namespace gaudi::test;

namespace {

struct Asked {
    std::uint64_t fd_or_address, size, unused;
    std::uint32_t operation, flags, context, count;
};

bool s_imports = true;
unsigned s_asked = 0;

} // namespace

/// In front of the C library's.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (request != 0xC0286444)
        return static_cast<int>(os::system_call(SYS_ioctl, fd, request, argument));
    auto &asked = *static_cast<Asked *>(argument);
    ++s_asked;
    if (asked.operation != 99 || !s_imports) {
        errno = EINVAL; // an operation that the driver does not know
        return -1;
    }
    void *seen =
        mmap(nullptr, asked.size, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(asked.fd_or_address), 0);
    const auto mapped = thunk::Device(*value(thunk::Library::find()), fd).host_map(seen, asked.size);
    if (!mapped) {
        errno = mapped.error().code;
        return -1;
    }
    asked.fd_or_address = *mapped;
    return 0;
}

namespace {

class Import : public GaudiTest {
protected:
    static constexpr std::uint64_t kAddress =
        0x7000'0000'0000; // where the other device's driver has it; nobody reads there
    static constexpr std::uint64_t kOffset = 3 * 4096;
    static constexpr std::uint64_t kLength = kMiB;

    Import() {
        if (ftruncate(m_memory.get(), 4 * kMiB) != 0)
            throw std::bad_alloc();
    }
    static int copy(Mover &mover, std::uint64_t destination, std::uint64_t source, std::uint64_t length,
                    HostRange &range) {
        int result = -1;
        const auto done = [](void *user, int error) { *static_cast<int *>(user) = error; };
        const Mover::Posted posted = mover.post({destination, source, length, &range, done, &result});
        if (posted != Mover::Posted::started)
            return posted == Mover::Posted::not_imported ? ENOTSUP : EIO;
        until([&] {
            mover.progress();
            return result >= 0;
        });
        return result;
    }
    HostRange range() const {
        return HostRange(kAddress, kLength, cards().all().size(), value(m_memory.duplicate()), kOffset);
    }

    const thunk::Fd m_memory{memfd_create("another device", MFD_CLOEXEC)};
};

TEST_F(Import, is_copied_through_where_the_driver_does_it) {
    Mover mover(cards());
    HostRange other = range();
    const std::uint64_t device = value(card().arena().allocate({.length = kLength}));
    const Bytes bytes = pattern(kLength, 1);
    ASSERT_EQ(pwrite(m_memory.get(), bytes.data(), bytes.size(), kOffset), static_cast<ssize_t>(bytes.size()));
    EXPECT_EQ(copy(mover, device, kAddress, kLength, other), 0);
    EXPECT_EQ(Window(*cards().find(device)).read(device, kLength), bytes);
    EXPECT_EQ(copy(mover, kAddress + 100, device, 5000, other), 0);
    Bytes back(5000);
    ASSERT_EQ(pread(m_memory.get(), back.data(), back.size(), kOffset + 100), 5000);
    EXPECT_EQ(back, Bytes(bytes.begin(), bytes.begin() + 5000));
    EXPECT_EQ(s_asked, 1u) << "one import serves all copies";
}

TEST_F(Import, is_refused_where_the_driver_does_not_know_it_and_asked_once) {
    s_imports = false;
    Mover mover(cards());
    HostRange other = range();
    const std::uint64_t device = value(card().arena().allocate({.length = kLength}));
    for (const std::uint64_t length : {std::uint64_t{8}, kLength})
        EXPECT_EQ(copy(mover, device, kAddress, length, other), ENOTSUP) << "and nobody touches the address";
    EXPECT_EQ(s_asked, 1u);
}

TEST_F(Import, nothing_beyond_the_range_is_copied) {
    Mover mover(cards());
    HostRange other = range();
    const std::uint64_t device = value(card().arena().allocate({.length = 2 * kLength}));
    EXPECT_EQ(copy(mover, device, kAddress + 1, kLength, other), ENOTSUP);
    EXPECT_EQ(s_asked, 0u);
}

class CardToCard : public GaudiTest {
protected:
    /// Copies from the first card to the second and checks every byte; bytes that came up to the host and went down.
    std::uint64_t staged() {
        if (!m_mover) {
            m_mover.emplace(cards());
            m_first = value(card(0).arena().allocate({.length = kMiB}));
            m_second = value(card(1).arena().allocate({.length = kMiB}));
        }
        const Bytes bytes = pattern(kMiB, ++m_round);
        Window(*cards().find(m_first)).write(m_first, bytes);
        value(card(0).copier()), value(card(1).copier()); // their self-tests copy too
        const std::uint64_t before = Counters(card(1))["down_bytes"];
        Tally tally;
        EXPECT_EQ(m_mover->post({m_second + 5, m_first, kMiB - 5, nullptr, Tally::count, &tally}),
                  Mover::Posted::started);
        EXPECT_TRUE(until([&] {
            m_mover->progress();
            return tally.ended == 1;
        }));
        EXPECT_EQ(tally.failed, 0u);
        EXPECT_EQ(Window(*cards().find(m_second)).read(m_second + 5, kMiB - 5), Bytes(bytes.begin(), bytes.end() - 5));
        return Counters(card(1))["down_bytes"] - before;
    }

    std::optional<Mover> m_mover;
    std::uint64_t m_first = 0, m_second = 0, m_round = 0;
};

TEST_F(CardToCard, goes_directly_where_the_driver_imports_the_other_cards_memory) {
    EXPECT_EQ(staged(), 0u);
    EXPECT_EQ(staged(), 0u);
    EXPECT_EQ(s_asked, 1u) << "one import serves all copies";
    EXPECT_TRUE(cards().find(m_second)->needs_flush()) << "its own engines must flush before they read";
    EXPECT_FALSE(cards().find(m_first)->needs_flush());
}

TEST_F(CardToCard, goes_through_host_memory_where_it_does_not_and_asks_once) {
    s_imports = false;
    EXPECT_EQ(staged(), kMiB - 5);
    EXPECT_EQ(staged(), kMiB - 5);
    EXPECT_EQ(s_asked, 1u);
    EXPECT_FALSE(cards().find(m_second)->needs_flush());
}

TEST_F(CardToCard, asks_for_no_export_again_where_there_is_none) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    Mover mover(cards());
    const std::uint64_t first = value(card(0).arena().allocate({.length = kMiB}));
    const std::uint64_t second = value(card(1).arena().allocate({.length = kMiB}));
    const std::uint64_t asked = Counters(card(1)).calls("device_mapped_memory_export_dmabuf_fd");
    Tally tally;
    for (unsigned i = 0; i < 3; ++i)
        ASSERT_EQ(mover.post({second, first, kMiB, nullptr, Tally::count, &tally}), Mover::Posted::started);
    EXPECT_TRUE(until([&] {
        mover.progress();
        return tally.ended == 3;
    }));
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(Counters(card(1)).calls("device_mapped_memory_export_dmabuf_fd"), asked);
    EXPECT_EQ(s_asked, 0u);
}

} // namespace
