// SPDX-License-Identifier: BSD-3-Clause
// dma-bufs of other devices: copied to and from where the driver imports them, refused where it does not. softgaudi's
// driver does not; this test answers the call in its place, as the production driver does.
#include "engine_user.h"

#include "gaudi/copy/mover.h"
#include "os/system_call.h"

#include <sys/ioctl.h>

#include <cstdarg>
#include <optional>

using namespace gaudi;
using namespace gaudi::test;

namespace {

/// The argument of the driver's memory ioctl.
struct MemoryArguments {
    std::uint64_t fd_or_address, size, unused;
    std::uint32_t operation, flags, context, count;
};

bool s_imports = true;
unsigned s_calls = 0;

} // namespace

/// Takes the place of the C library's.
extern "C" int ioctl(int fd, unsigned long request, ...) noexcept {
    va_list args;
    va_start(args, request);
    void *argument = va_arg(args, void *);
    va_end(args);
    if (request != 0xC0286444)
        return static_cast<int>(os::system_call(SYS_ioctl, fd, request, argument));
    auto &arguments = *static_cast<MemoryArguments *>(argument);
    ++s_calls;
    if (arguments.operation != 99 || !s_imports) {
        errno = EINVAL; // an operation that the driver does not know
        return -1;
    }
    void *seen =
        mmap(nullptr, arguments.size, PROT_READ | PROT_WRITE, MAP_SHARED, static_cast<int>(arguments.fd_or_address), 0);
    const auto mapped = thunk::Device(*value(thunk::Library::find()), fd).host_map(seen, arguments.size);
    if (!mapped) {
        errno = mapped.error().code;
        return -1;
    }
    arguments.fd_or_address = *mapped;
    return 0;
}

namespace {

class Import : public GaudiTest {
protected:
    // Where the other device's driver has the memory; no processor reads there.
    static constexpr std::uint64_t kAddress = 0x7000'0000'0000;
    static constexpr std::uint64_t kOffset = 3 * 4096;
    static constexpr std::uint64_t kLength = kMiB;

    Import() {
        if (ftruncate(m_memory.get(), 4 * kMiB) != 0)
            throw std::bad_alloc();
    }
    HostRange make_range() const {
        return HostRange(kAddress, kLength, cards().all().size(), value(m_memory.duplicate()), kOffset);
    }

    const thunk::Fd m_memory{memfd_create("another device", MFD_CLOEXEC)};
};

TEST_F(Import, copies_share_one_import) {
    Mover mover(cards());
    HostRange other = make_range();
    const std::uint64_t device = value(allocate(card(), {.length = kLength}));
    const Bytes bytes = pattern(kLength, 1);
    ASSERT_EQ(pwrite(m_memory.get(), bytes.data(), bytes.size(), kOffset), static_cast<ssize_t>(bytes.size()));
    EXPECT_TRUE(is_ok(run_copy(mover, device, kAddress, kLength, &other)));
    EXPECT_EQ(Window(*find_region(device)).read(device, kLength), bytes);
    EXPECT_TRUE(is_ok(run_copy(mover, kAddress + 100, device, 5000, &other)));
    Bytes back(5000);
    ASSERT_EQ(pread(m_memory.get(), back.data(), back.size(), kOffset + 100), 5000);
    EXPECT_EQ(back, Bytes(bytes.begin(), bytes.begin() + 5000));
    EXPECT_EQ(s_calls, 1u) << "one import serves all copies";
}

TEST_F(Import, driver_without_imports_refuses_the_copy) {
    s_imports = false;
    Mover mover(cards());
    HostRange other = make_range();
    const std::uint64_t device = value(allocate(card(), {.length = kLength}));
    for (const std::uint64_t length : {std::uint64_t{8}, kLength})
        EXPECT_EQ(code_of(run_copy(mover, device, kAddress, length, &other)), EXDEV)
            << "no processor reads the address";
    EXPECT_EQ(s_calls, 1u);
}

TEST_F(Import, copy_beyond_the_range_is_refused) {
    Mover mover(cards());
    HostRange other = make_range();
    const std::uint64_t device = value(allocate(card(), {.length = 2 * kLength}));
    EXPECT_EQ(code_of(run_copy(mover, device, kAddress + 1, kLength, &other)), EXDEV);
    EXPECT_EQ(s_calls, 0u);
}

class CardToCard : public GaudiTest {
protected:
    /// Copies from the first card to the second and checks each byte. Returns the bytes that went through host memory.
    std::uint64_t copy_and_count_staged() {
        if (!m_mover) {
            m_mover.emplace(cards());
            m_first = value(allocate(card(0), {.length = kMiB}));
            m_second = value(allocate(card(1), {.length = kMiB}));
        }
        const Bytes bytes = pattern(kMiB, ++m_round);
        Window(*find_region(m_first)).write(m_first, bytes);
        value(start_engine(card(0))), value(start_engine(card(1))); // their self-tests copy too
        const std::uint64_t before = Counters(card(1))["down_bytes"];
        EXPECT_TRUE(is_ok(run_copy(*m_mover, m_second + 5, m_first, kMiB - 5)));
        EXPECT_EQ(Window(*find_region(m_second)).read(m_second + 5, kMiB - 5), Bytes(bytes.begin(), bytes.end() - 5));
        return Counters(card(1))["down_bytes"] - before;
    }

    std::optional<Mover> m_mover;
    std::uint64_t m_first = 0, m_second = 0, m_round = 0;
};

TEST_F(CardToCard, driver_with_imports_copies_directly) {
    EXPECT_EQ(copy_and_count_staged(), 0u);
    EXPECT_EQ(copy_and_count_staged(), 0u);
    EXPECT_EQ(s_calls, 1u) << "one import serves all copies";
    EXPECT_TRUE(find_region(m_second)->needs_flush()) << "its own engines must flush before they read";
    EXPECT_FALSE(find_region(m_first)->needs_flush());
}

TEST_F(CardToCard, driver_without_imports_is_probed_once_and_staged) {
    s_imports = false;
    EXPECT_EQ(copy_and_count_staged(), kMiB - 5);
    EXPECT_EQ(copy_and_count_staged(), kMiB - 5);
    EXPECT_EQ(s_calls, 1u);
    EXPECT_FALSE(find_region(m_second)->needs_flush());
}

TEST_F(CardToCard, refused_export_is_not_probed_again) {
    set("SOFTGAUDI_FAULTS", "device_mapped_memory_export_dmabuf_fd=EINVAL");
    Mover mover(cards());
    const std::uint64_t first = value(allocate(card(0), {.length = kMiB}));
    const std::uint64_t second = value(allocate(card(1), {.length = kMiB}));
    const std::uint64_t probed = Counters(card(1)).calls("device_mapped_memory_export_dmabuf_fd");
    Tally tally;
    for (unsigned i = 0; i < 3; ++i)
        ASSERT_EQ(mover.post({second, first, kMiB, nullptr, Tally::count, &tally}), Mover::Posted::started);
    EXPECT_TRUE(finish(mover));
    EXPECT_EQ(tally.ended, 3u);
    EXPECT_EQ(tally.failed, 0u);
    EXPECT_EQ(Counters(card(1)).calls("device_mapped_memory_export_dmabuf_fd"), probed);
    EXPECT_EQ(s_calls, 0u);
}

} // namespace
