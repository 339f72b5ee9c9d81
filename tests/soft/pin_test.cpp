// SPDX-License-Identifier: BSD-3-Clause
// Host mappings hold the pages that were mapped, as the driver's pins do, whatever the program then does with its
// addresses.
#include "os/system_call.h"
#include "pace.h"
#include "restricted.h"

#include <sys/resource.h>

#include <linux/capability.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>

using namespace soft;

namespace {

uint64_t unpinned_accesses() {
    std::string text;
    std::FILE *pipe = popen(SOFTGAUDI_STAT " --json", "re");
    std::array<char, 4096> piece{};
    while (const size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
        text.append(piece.data(), got);
    EXPECT_EQ(pclose(pipe), 0);
    return nlohmann::json::parse(text)["cards"][0]["unpinned_accesses"].get<uint64_t>();
}

/// Anonymous memory, which the program can replace by other memory at the same address.
class Memory {
public:
    explicit Memory(size_t size, char value = 0) : m_size(size), m_data(map(nullptr, 0)) { fill(value); }
    ~Memory() { unmap(); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    char *data() const { return m_data; }
    size_t size() const { return m_size; }
    void fill(char value) const { std::memset(m_data, value, m_size); }
    void replace(char value) const {
        map(m_data, MAP_FIXED);
        fill(value);
    }
    /// Once: later another thread may have memory at the address.
    void unmap() {
        if (m_data) {
            EXPECT_EQ(munmap(std::exchange(m_data, nullptr), m_size), 0);
        }
    }
    bool holds(char value) const {
        return std::all_of(m_data, m_data + m_size, [&](char byte) { return byte == value; });
    }

private:
    char *map(void *at, int flags) const {
        void *memory = mmap(at, m_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
        EXPECT_NE(memory, MAP_FAILED) << std::strerror(errno);
        return static_cast<char *>(memory);
    }

    size_t m_size;
    char *m_data;
};

class Pin : public SoftTest {
protected:
    Pin() { set("SOFTGAUDI_PIN", "require"); }

    /// Locked memory counts from now on, also for root, and in an account of its own: the kernel has one for each user, and
    /// other tests that run now would share it.
    static void limit_locked_memory(uint64_t bytes) {
        if (geteuid() == 0) {
            ASSERT_EQ(setresuid(100'000 + static_cast<uid_t>(getpid()), 0, 0), 0);
        }
        const rlimit limit{bytes, bytes};
        ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
        __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
        std::array<__user_cap_data_struct, 2> rights{};
        ASSERT_EQ(gaudi::os::system_call(SYS_capget, &header, rights.data()), 0);
        rights[0].effective &= ~(1u << CAP_IPC_LOCK);
        ASSERT_EQ(gaudi::os::system_call(SYS_capset, &header, rights.data()), 0);
    }
};

class PinSize : public Pin, public ::testing::WithParamInterface<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(each, PinSize, ::testing::Values(1, 8, 4096, 12'345, 65'536, 70'001, 3 << 20));

TEST_P(PinSize, copy_down_after_remap_reads_the_mapped_pages) {
    Card card;
    const Memory memory(GetParam() + 8192, 'a');
    std::vector<char> back(GetParam());
    const uint64_t from = card.map(memory.data() + 5, GetParam()), to = card.map(back), device = card.memory();
    memory.replace('b');
    card.run(kDown, Packets().copy(from, device, GetParam()));
    card.run(kUp, Packets().copy(device, to, GetParam()));
    EXPECT_EQ(back, std::vector<char>(GetParam(), 'a'));
    // A new mapping has the new pages.
    card.run(kDown, Packets().copy(card.map(memory.data() + 5, GetParam()), device, GetParam()));
    card.run(kUp, Packets().copy(device, to, GetParam()));
    EXPECT_EQ(back, std::vector<char>(GetParam(), 'b'));
}

TEST_P(PinSize, copy_up_after_remap_leaves_the_new_pages_alone) {
    Card card;
    const Memory memory(GetParam() + 8192, 'a');
    const uint64_t to = card.map(memory.data() + 5, GetParam()), device = card.memory();
    card.run(kOnCard, Packets().fill(0x7a7a7a7a7a7a7a7a, device, GetParam()));
    memory.replace('b');
    card.run(kUp, Packets().copy(device, to, GetParam()));
    EXPECT_TRUE(memory.holds('b'));
    // The old pages have the bytes.
    std::vector<char> back(GetParam());
    card.run(kUp, Packets().copy(to, card.map(back), GetParam()));
    EXPECT_EQ(back, std::vector<char>(GetParam(), 'z'));
}

TEST_F(Pin, every_other_access_after_remap_is_to_the_mapped_pages) {
    Card card;
    const Memory commands(4096), memory(8192, 'a');
    std::vector<uint32_t> flag(1);
    const uint64_t at = card.map(memory.data(), 8192), flag_at = card.map(flag), device = card.memory();
    const uint64_t buffer = card.map(commands.data(), 4096);
    const Packets inner = Packets().message(flag_at, 7);
    std::memcpy(commands.data(), inner.data(), inner.size());
    commands.replace(0);
    memory.replace('b');
    card.run(kDown, Packets()
                        .nested(buffer, inner.size())                      // command fetch
                        .message(at, 0x31313131)                           // message
                        .fill(0x3232323232323232, at + 4, 4)               // fill
                        .copy(at, at + 4096, 12)                           // host to host
                        .copy(at + 4096, device, 12)                       // host to card
                        .copy(device, card.map(commands.data(), 12), 12)); // card to host
    EXPECT_EQ(flag[0], 7u);
    EXPECT_TRUE(memory.holds('b'));
    EXPECT_EQ(std::string(commands.data(), 12), "11112222aaaa");
}

TEST_F(Pin, dropped_pages_are_still_the_cards) {
    Card card;
    const Memory memory(1 << 20, 'a');
    std::vector<char> back(1 << 20);
    const uint64_t from = card.map(memory.data(), memory.size());
    ASSERT_EQ(madvise(memory.data(), memory.size(), MADV_DONTNEED), 0);
    EXPECT_TRUE(memory.holds(0));
    card.run(kDown, Packets().copy(from, card.map(back), 1 << 20));
    EXPECT_EQ(back, std::vector<char>(1 << 20, 'a'));
}

TEST_F(Pin, unmapped_and_protected_memory_is_still_accessed) {
    for (const int rights : {PROT_NONE, PROT_READ}) {
        Card card;
        Memory memory(4 << 20, 'a');
        std::vector<char> back(4 << 20);
        const uint64_t from = card.map(memory.data(), memory.size()), to = card.map(back), device = card.memory();
        ASSERT_EQ(mprotect(memory.data(), memory.size(), rights), 0);
        card.run(kDown, Packets().message(from, 0x62626262).copy(from, device, 4 << 20));
        card.run(kUp, Packets().copy(device, to, 4 << 20));
        EXPECT_EQ(back.front(), 'b');
        EXPECT_EQ(back.back(), 'a');
        memory.unmap();
        card.run(kUp, Packets().copy(device, from, 4 << 20).copy(from, to, 4 << 20));
        EXPECT_EQ(back.front(), 'b');
    }
}

TEST_F(Pin, forked_process_keeps_the_parents_pages_for_the_card) {
    Card card;
    const Memory memory(1 << 20, 'a');
    std::vector<char> back(1 << 20);
    const uint64_t from = card.map(memory.data(), memory.size()), to = card.map(back);
    Child child([&](int socket) {
        receive_byte(socket);
        memory.fill('c');
        send_byte(socket);
        receive_byte(socket);
        return 0;
    });
    memory.fill('p'); // after the fork: with pages shared for copy-on-write, this would be a new page
    send_byte(child.socket());
    receive_byte(child.socket());
    card.run(kDown, Packets().copy(from, to, 1 << 20));
    EXPECT_EQ(back, std::vector<char>(1 << 20, 'p'));
    card.run(kDown, Packets().fill(0x7171717171717171, from, 1 << 20));
    EXPECT_TRUE(memory.holds('q'));
    send_byte(child.socket());
    EXPECT_EQ(child.join(), 0);
}

TEST_F(Pin, memory_of_another_process_is_accessed_in_its_pinned_pages) {
    Child owner([&](int socket) {
        const int fd = receive_descriptor(socket);
        const Memory memory(1 << 20, 'a');
        const uint64_t address = hlthunk_host_memory_map(fd, memory.data(), 0, memory.size());
        memory.replace('b');
        EXPECT_EQ(write(socket, &address, sizeof address), 8);
        receive_byte(socket);
        EXPECT_TRUE(memory.holds('b'));
        return ::testing::Test::HasFailure() ? 1 : 0;
    });
    Card card;
    send_descriptor(owner.socket(), card.fd);
    uint64_t foreign = 0;
    ASSERT_EQ(read(owner.socket(), &foreign, sizeof foreign), 8);
    std::vector<char> back(1 << 20);
    const uint64_t to = card.map(back), device = card.memory();
    for (const uint32_t size : {8u, 4096u, 1u << 20}) {
        back.assign(1 << 20, 0);
        card.run(kDown, Packets().copy(foreign, device, size));
        card.run(kUp, Packets().copy(device, to, size));
        EXPECT_EQ(std::string(back.data(), size), std::string(size, 'a'));
        card.run(kUp, Packets().copy(device, foreign, size).message(foreign, 0x61616161));
    }
    EXPECT_EQ(unpinned_accesses(), 0u);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, foreign), 0);
    send_byte(owner.socket());
    EXPECT_EQ(owner.join(), 0);
}

/// Nothing promises that the kernel writes 4 bytes at once: a reader polls the flag while the card writes values that differ
/// in every byte, at each place of a flag in two cache lines.
TEST_F(Pin, flags_are_never_torn) {
    constexpr std::array<uint32_t, 4> kValues = {0, 0xFFFFFFFF, 0x12345678, 0xEDCBA987};
    constexpr unsigned kRounds = 1000;
    Card card;
    alignas(64) static uint32_t flags[32];
    const uint64_t address = card.map(flags, sizeof flags);
    std::atomic<uint32_t *> polled{flags};
    std::atomic<bool> done{false};
    std::atomic<uint64_t> changes{0};
    uint64_t torn = 0, reads = 0;
    std::thread poller([&] {
        for (uint32_t last = 0; !done.load(std::memory_order_relaxed); ++reads) {
            const uint32_t value = read_value(*polled.load(std::memory_order_relaxed));
            if (value != last)
                changes.fetch_add(1, std::memory_order_relaxed);
            torn += std::find(kValues.begin(), kValues.end(), value) == kValues.end();
            last = value;
        }
    });
    uint64_t writes = 0;
    const auto write = [&](size_t place) {
        polled.store(&flags[place], std::memory_order_relaxed);
        Packets packets;
        for (unsigned i = 0; i < kRounds; ++i)
            for (const uint32_t value : kValues)
                packets.message(address + 4 * place, value);
        card.run(kDown, packets);
        writes += kRounds * kValues.size();
    };
    for (size_t place = 0; place < std::size(flags); ++place)
        write(place);
    for (size_t place = 0; changes < 100; place = (place + 1) % std::size(flags)) // the machine may have been busy
        write(place);
    done = true;
    poller.join();
    EXPECT_GE(writes, 100'000u);
    EXPECT_EQ(torn, 0u) << "of " << reads << " reads during " << writes << " writes, " << changes << " of them changes";
}

TEST_F(Pin, memory_of_more_than_a_gibibyte_takes_several_slots) {
    Card card;
    // The same pages again and again, so that the test needs little memory.
    constexpr uint64_t kFile = 64 * kMiB, kSize = 2 * kGiB + 2 * kFile;
    const int file = memfd_create("test", MFD_CLOEXEC);
    ASSERT_EQ(ftruncate(file, kFile), 0);
    auto *memory = static_cast<char *>(mmap(nullptr, kSize, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    for (uint64_t at = 0; at < kSize; at += kFile)
        ASSERT_NE(mmap(memory + at, kFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0), MAP_FAILED);
    const uint64_t address = card.map(memory + 1, kSize - 1), device = card.memory();
    memory[kFile - 1] = 'x';
    memory[0] = 'y';
    munmap(memory, kSize);
    std::vector<char> back(2);
    const uint64_t to = card.map(back);
    for (const uint64_t boundary : {kGiB, 2 * kGiB, 2 * kGiB + kFile}) {
        back.assign(2, 0);
        card.run(kDown, Packets().copy(address + boundary - 2, device, 2));
        card.run(kUp, Packets().copy(device, to, 2));
        EXPECT_EQ(std::string(back.data(), 2), "xy") << boundary;
    }
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
    close(file);
}

TEST_F(Pin, memory_beyond_that_of_the_machine_is_refused) {
    const Card card;
    const size_t size = 2 * static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * 4096;
    void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    errno = 0;
    EXPECT_EQ(hlthunk_host_memory_map(card.fd, memory, 0, size), 0u);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_NE(hlthunk_host_memory_map(card.fd, memory, 0, 4096), 0u);
}

TEST_F(Pin, close_of_the_card_releases_the_pages) {
    // With a limit on locked memory, what a close did not release would be missing soon.
    constexpr size_t kSize = 1 << 20;
    limit_locked_memory(4 * kSize);
    const Memory memory(kSize);
    for (int round = 0; round < 20; ++round) {
        Card card;
        EXPECT_NE(hlthunk_host_memory_map(card.fd, memory.data(), 0, kSize), 0u) << round;
        const uint64_t second = hlthunk_host_memory_map(card.fd, memory.data(), 0, kSize);
        EXPECT_EQ(hlthunk_memory_unmap(card.fd, second), 0) << round;
        // A mapping that is refused after its memory was pinned.
        EXPECT_EQ(hlthunk_host_memory_map_flags(card.fd, memory.data() + 1, kGiB, kSize - 1, HL_MEM_FORCE_HINT), 0u);
        EXPECT_EQ(errno, EINVAL);
    }
}

// ---- where the kernel does not pin ----------------------------------------------------------------------------------

constexpr DeniedCall kSetup{"io_uring_setup", SYS_io_uring_setup, false};

TEST_F(Pin, without_io_uring_memory_is_mapped_unpinned_with_one_line) {
    unsetenv("SOFTGAUDI_PIN");
    deny(kSetup, EPERM);
    Card card;
    const Memory memory(4096, 'a');
    std::vector<char> back(4096);
    ::testing::internal::CaptureStderr();
    const uint64_t from = card.map(memory.data(), 4096), to = card.map(back);
    EXPECT_EQ(
        ::testing::internal::GetCapturedStderr(),
        "softgaudi: cannot pin host memory (io_uring_setup: EPERM), so a card accesses what is at an address when it "
        "copies, not the pages that were mapped: allow io_uring (Linux 5.19 or later, sysctl "
        "kernel.io_uring_disabled, the seccomp profile of a container) and enough locked memory (ulimit -l, or "
        "CAP_IPC_LOCK)\n");
    memory.replace('b');
    card.run(kDown, Packets().copy(from, to, 4096));
    EXPECT_EQ(back, std::vector<char>(4096, 'b'));
    EXPECT_GE(unpinned_accesses(), 2u);
}

TEST_F(Pin, required_pin_without_io_uring_refuses_the_mapping) {
    deny(kSetup, ENOSYS);
    const Card card;
    const Memory memory(4096);
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(hlthunk_host_memory_map(card.fd, memory.data(), 0, 4096), 0u);
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_EQ(hlthunk_host_memory_map(card.fd, memory.data(), 0, 4096), 0u);
    EXPECT_EQ(
        ::testing::internal::GetCapturedStderr(),
        "softgaudi: cannot pin host memory (io_uring_setup: ENOSYS), so it is not mapped (SOFTGAUDI_PIN=require): "
        "allow io_uring (Linux 5.19 or later, sysctl kernel.io_uring_disabled, the seccomp profile of a container) and "
        "enough locked "
        "memory (ulimit -l, or CAP_IPC_LOCK)\n");
}

TEST_F(Pin, memory_beyond_the_limit_of_locked_memory_is_refused_or_unpinned) {
    for (const bool required : {true, false}) {
        const pid_t child = fork();
        if (child == 0) {
            set("SOFTGAUDI_PIN", required ? "require" : "");
            limit_locked_memory(1 << 20);
            Card card;
            const Memory memory(4 << 20, 'a');
            const bool small = hlthunk_host_memory_map(card.fd, memory.data(), 0, 4096) != 0;
            const bool large = hlthunk_host_memory_map(card.fd, memory.data(), 0, 4 << 20) != 0;
            _exit(small && large != required ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_EQ(status, 0) << required;
    }
}

} // namespace
