// SPDX-License-Identifier: BSD-3-Clause
// Copies through the transport: every direction, size and alignment, posted, flushed, fenced and awaited by event.
#include "uct_side.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace uct_side;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

class Copy : public ::testing::Test {
protected:
    static unsigned count_wait_threads() {
        unsigned count = 0;
        for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
            std::string name;
            std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
            count += name == "gaudi-wait" ? 1 : 0;
        }
        return count;
    }

    e2e::Printed m_printed;
};

constexpr std::size_t kSizes[] = {0, 1, 7, 4095, 65536, kMiB + 3, 64 * kMiB};

TEST_F(Copy, every_direction_size_and_alignment_arrives) {
    Domain domain;
    const Transport transport(domain);
    const Buffer one(domain, 64 * kMiB + 64), other(domain, 64 * kMiB + 64);
    for (const std::size_t size : kSizes)
        for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{13}}) {
            const Bytes bytes = pattern(size, size + shift);
            ASSERT_EQ(transport.put(bytes.data(), one.address(shift), size), UCS_OK);
            ASSERT_EQ(transport.put(one.data() + shift, other.address(2 * shift), size), UCS_OK);
            Bytes back(size);
            ASSERT_EQ(transport.get(back.data(), other.address(2 * shift), size), UCS_OK);
            ASSERT_EQ(back, bytes) << size << " bytes, shifted by " << shift;
        }
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Copy, short_put_and_get_are_complete_on_return) {
    Domain domain;
    const Transport transport(domain);
    const Buffer one(domain, 2 * kMiB), other(domain, 2 * kMiB);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{4095}, kMiB + 3}) {
        const Bytes bytes = pattern(size, size);
        const auto length = static_cast<unsigned>(size);
        ASSERT_EQ(uct_ep_put_short(transport.ep(), bytes.data(), length, one.address(3), 0), UCS_OK);
        ASSERT_EQ(uct_ep_put_short(transport.ep(), one.data() + 3, length, other.address(5), 0), UCS_OK);
        Bytes back(size);
        ASSERT_EQ(uct_ep_get_short(transport.ep(), back.data(), length, other.address(5), 0), UCS_OK);
        EXPECT_EQ(back, bytes);
    }
}

TEST_F(Copy, card_to_card_arrives_at_every_size) {
    Domain domain(settings_for_card(0));
    const Domain other(settings_for_card(1));
    const Transport transport(domain);
    const std::array<Buffer, 2> buffers{Buffer(domain, 65 * kMiB), Buffer(other, 65 * kMiB)};
    for (const std::size_t size : kSizes) {
        const Bytes bytes = pattern(size, size);
        if (size != 0)
            transport.write(buffers[0], bytes, 7);
        ASSERT_EQ(transport.put(buffers[0].data() + 7, buffers[1].address(11), size), UCS_OK);
        ASSERT_EQ(transport.get(buffers[0].data() + 1, buffers[1].address(11), size), UCS_OK);
        if (size != 0) {
            EXPECT_EQ(transport.read(buffers[1], size, 11), bytes);
            EXPECT_EQ(transport.read(buffers[0], size, 1), bytes);
        }
    }
}

TEST_F(Copy, half_a_card_arrives) {
    Domain domain;
    const Transport transport(domain);
    const std::size_t size = 48 * 1024 * kMiB;
    const Buffer large(domain, size);
    const Bytes bytes = pattern(kMiB, 3);
    transport.write(large, bytes, size - kMiB);
    transport.write(large, bytes, size / 2 - kMiB);
    ASSERT_EQ(transport.put(large.data() + size / 2, large.address(), size / 2), UCS_OK);
    EXPECT_EQ(transport.read(large, kMiB, size / 2 - kMiB), bytes);
}

TEST_F(Copy, host_to_host_is_refused_with_both_addresses) {
    Domain domain;
    const Transport transport(domain);
    Bytes host(4096);
    const auto other = reinterpret_cast<std::uint64_t>(host.data() + 2048);
    const auto expect_refused = [&](ucs_status_t status) {
        EXPECT_EQ(status, UCS_ERR_UNSUPPORTED);
        ASSERT_FALSE(m_printed.complaints().empty());
        for (const std::uint64_t address : {other - 2048, other}) {
            std::ostringstream hex;
            hex << "0x" << std::hex << address;
            EXPECT_THAT(m_printed.complaints().back(), HasSubstr(hex.str()));
        }
        EXPECT_THAT(m_printed.complaints().back(), HasSubstr("is Gaudi memory"));
    };
    expect_refused(transport.put(host.data(), other, 100));
    expect_refused(transport.get(host.data(), other, 100));
    expect_refused(uct_ep_put_short(transport.ep(), host.data(), 100, other, 0));
    expect_refused(uct_ep_get_short(transport.ep(), host.data(), 100, other, 0));
    EXPECT_EQ(m_printed.complaints().size(), 2u) << "one for each direction, however many are refused";
}

TEST_F(Copy, range_beyond_a_block_or_two_pieces_is_refused) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kPage);
    Bytes host(4096);
    EXPECT_NE(transport.put(host.data(), buffer.address(kPage - 10), 100), UCS_OK);
    uct_iov_t two[2] = {{host.data(), 10, nullptr, 0, 1}, {host.data(), 10, nullptr, 0, 1}};
    EXPECT_EQ(uct_ep_put_zcopy(transport.ep(), two, 2, buffer.address(), 0, nullptr), UCS_ERR_INVALID_PARAM);
}

TEST_F(Copy, zero_length_succeeds_with_any_address_and_key) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes host(64);
    const auto no_card = reinterpret_cast<std::uint64_t>(host.data());
    const std::uint64_t no_mapping = buffer.address() + 1000 * kPage;
    const uct_mem_h memh = domain.reg(buffer.data() + 1000 * kPage, 64,
                                      RegisterParams{9, UCT_MD_MEM_ACCESS_ALL, -1, 0, UCS_MEMORY_TYPE_CUDA});
    const uct_rkey_t no_key = 1;
    for (const std::uint64_t remote : {std::uint64_t{0}, buffer.address(), no_mapping, no_card, ~std::uint64_t{0}})
        for (void *local : {static_cast<void *>(nullptr), static_cast<void *>(host.data()),
                            static_cast<void *>(buffer.data()), reinterpret_cast<void *>(no_mapping)}) {
            EXPECT_EQ(uct_ep_put_short(transport.ep(), local, 0, remote, no_key), UCS_OK);
            EXPECT_EQ(uct_ep_get_short(transport.ep(), local, 0, remote, no_key), UCS_OK);
            for (const uct_mem_h handle : {static_cast<uct_mem_h>(nullptr), memh})
                for (const auto &iov : {uct_iov_t{local, 0, handle, 0, 1}, uct_iov_t{local, 100, handle, 0, 0}}) {
                    EXPECT_EQ(uct_ep_put_zcopy(transport.ep(), &iov, 1, remote, no_key, nullptr), UCS_OK);
                    EXPECT_EQ(uct_ep_get_zcopy(transport.ep(), &iov, 1, remote, no_key, nullptr), UCS_OK);
                }
        }
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Copy, source_that_cannot_be_pinned_is_staged) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    // The driver maps no read-only pages, because a card could write to them.
    auto *fixed =
        static_cast<unsigned char *>(mmap(nullptr, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    const Bytes bytes = pattern(kMiB, 9);
    std::memcpy(fixed, bytes.data(), kMiB);
    ASSERT_EQ(mprotect(fixed, kMiB, PROT_READ), 0);
    const uct_mem_h memh = domain.reg(fixed, kMiB);
    EXPECT_EQ(transport.put(fixed, buffer.address(), kMiB, memh), UCS_OK);
    EXPECT_EQ(transport.read(buffer, kMiB), bytes);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
    munmap(fixed, kMiB);
}

/// A way in which the pages at an address become others.
struct Replacement {
    const char *name;
    void (*replace)(void *memory, std::size_t size);

    friend void PrintTo(const Replacement &way, std::ostream *out) { *out << way.name; }
};

void *map_at(void *place, std::size_t size, int flags) {
    return mmap(place, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

const Replacement kReplacements[] = {
    {"munmap",
     [](void *memory, std::size_t size) {
         ASSERT_EQ(munmap(memory, size), 0);
         ASSERT_EQ(map_at(memory, size, MAP_FIXED_NOREPLACE), memory);
     }},
    {"mmap_over", [](void *memory, std::size_t size) { ASSERT_EQ(map_at(memory, size, MAP_FIXED), memory); }},
    {"mremap",
     [](void *memory, std::size_t size) {
         void *other = mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, map_at(nullptr, size, 0));
         ASSERT_NE(other, MAP_FAILED);
         ASSERT_EQ(map_at(memory, size, MAP_FIXED_NOREPLACE), memory);
         munmap(other, size);
     }},
    {"mremap_onto",
     [](void *memory, std::size_t size) {
         void *other = map_at(nullptr, size, 0);
         ASSERT_EQ(mremap(other, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, memory), memory);
     }},
    {"madvise", [](void *memory, std::size_t size) { ASSERT_EQ(madvise(memory, size, MADV_DONTNEED), 0); }},
    {"many_others", // more than the cache takes notes of
     [](void *memory, std::size_t size) {
         for (int i = 0; i < 400; ++i)
             munmap(map_at(nullptr, 4096, 0), 4096);
         ASSERT_EQ(munmap(memory, size), 0);
         ASSERT_EQ(map_at(memory, size, MAP_FIXED_NOREPLACE), memory);
     }},
};

/// A card has the old pages pinned, so a copy that uses a mapping of before moves the wrong bytes.
class ReplacedMemory : public Copy, public ::testing::WithParamInterface<Replacement> {
protected:
    static constexpr std::size_t kSize = 2 * kMiB; // copied through a mapping even at its first copy

    ReplacedMemory() : m_memory(static_cast<unsigned char *>(map_at(nullptr, kSize, 0))) {}
    ~ReplacedMemory() override { munmap(m_memory, kSize); }

    /// Copies the memory down and up again; `memh` is of its registration, or null.
    void exchange(const Transport &transport, const Buffer &buffer, unsigned seed, uct_mem_h memh) {
        const Bytes sent = pattern(kSize, seed);
        std::memcpy(m_memory, sent.data(), kSize);
        ASSERT_EQ(transport.put(m_memory, buffer.address(), kSize, memh), UCS_OK);
        ASSERT_EQ(transport.read(buffer, kSize), sent) << "put";
        std::memset(m_memory, 0, kSize);
        ASSERT_EQ(transport.get(m_memory, buffer.address(), kSize, memh), UCS_OK);
        ASSERT_EQ(Bytes(m_memory, m_memory + kSize), sent) << "get";
    }

    unsigned char *m_memory;
};
INSTANTIATE_TEST_SUITE_P(by, ReplacedMemory, ::testing::ValuesIn(kReplacements),
                         [](const auto &way) { return std::string(way.param.name); });

TEST_P(ReplacedMemory, unregistered_is_mapped_again) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kSize);
    for (unsigned round = 0; round < 4; ++round) {
        ASSERT_NO_FATAL_FAILURE(exchange(transport, buffer, round, nullptr)) << round;
        GetParam().replace(m_memory, kSize);
    }
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_P(ReplacedMemory, registered_anew_is_mapped_again) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kSize);
    for (unsigned round = 0; round < 4; ++round) {
        const uct_mem_h memh = domain.reg(m_memory, kSize);
        ASSERT_NO_FATAL_FAILURE(exchange(transport, buffer, round, memh)) << round;
        ASSERT_EQ(domain.dereg(memh), UCS_OK);
        GetParam().replace(m_memory, kSize);
    }
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Copy, flush_completes_a_thousand_posted) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, 4 * kMiB);
    const Bytes bytes = pattern(4096 * 1000, 5);
    Bytes copy = bytes;
    const uct_mem_h memh = domain.reg(copy.data(), copy.size());
    unsigned complete = 0;
    uct_completion_t comp = make_completion(1001);
    for (std::size_t i = 0; i < 1000; ++i) {
        ucs_status_t status = UCS_ERR_NO_RESOURCE;
        while ((status = transport.post_put(copy.data() + i * 4096, buffer.address(i * 4096), 4096, memh, comp)) ==
               UCS_ERR_NO_RESOURCE)
            transport.progress();
        ASSERT_TRUE(status == UCS_INPROGRESS || status == UCS_OK);
        complete += status == UCS_OK ? 1 : 0;
    }
    EXPECT_EQ(transport.flush(), UCS_OK);
    EXPECT_EQ(comp.count, 1 + static_cast<int>(complete)) << "a flush completes after all copies posted before it";
    EXPECT_EQ(transport.read(buffer, bytes.size()), bytes);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Copy, fifty_thousand_posted_are_all_accepted) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes host(4096);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    uct_completion_t comp = make_completion();
    for (unsigned i = 0; i < 50'000; ++i) {
        ASSERT_EQ(transport.post_put(host.data(), buffer.address(), host.size(), memh, comp), UCS_INPROGRESS);
        ++comp.count;
    }
    uct_pending_req_t request{};
    EXPECT_EQ(uct_ep_pending_add(transport.ep(), &request, 0), UCS_ERR_BUSY) << "there is room to post";
    EXPECT_EQ(transport.flush(), UCS_OK);
    EXPECT_EQ(comp.count, 1);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Copy, fence_orders_copies_of_different_queues) {
    Domain domain;
    const Transport transport(domain);
    const Buffer one(domain, 16 * kMiB), other(domain, 16 * kMiB);
    Bytes back(16 * kMiB);
    for (unsigned round = 0; round < 10; ++round) {
        // Copies down, within the card and up run on three queues, which only a fence orders.
        const Bytes bytes = pattern(16 * kMiB, round);
        uct_completion_t comp = make_completion(3);
        ASSERT_EQ(transport.post_put(bytes.data(), one.address(), bytes.size(), nullptr, comp), UCS_INPROGRESS);
        ASSERT_EQ(uct_ep_fence(transport.ep(), 0), UCS_OK);
        ASSERT_EQ(transport.post_put(one.data(), other.address(), bytes.size(), nullptr, comp), UCS_INPROGRESS);
        ASSERT_EQ(uct_iface_fence(transport.iface(), 0), UCS_OK);
        ASSERT_EQ(transport.post_get(back.data(), other.address(), bytes.size(), nullptr, comp), UCS_INPROGRESS);
        while (comp.count != 0)
            transport.progress();
        EXPECT_EQ(comp.status, UCS_OK);
        EXPECT_TRUE(back == bytes) << "round " << round;
    }
}

TEST_F(Copy, outstanding_at_interface_close_never_calls_back) {
    setenv("SOFTGAUDI_PACE", "down:2,up:2", 1);
    Domain domain;
    const Buffer buffer(domain, 16 * kMiB);
    Bytes host = pattern(16 * kMiB, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    unsigned called = 0;
    struct Count {
        uct_completion_t comp;
        unsigned *called;
    } count{{[](uct_completion_t *self) { ++*reinterpret_cast<Count *>(self)->called; }, 1, UCS_OK}, &called};
    {
        const Transport transport(domain);
        ASSERT_EQ(transport.post_put(host.data(), buffer.address(), host.size(), memh, count.comp), UCS_INPROGRESS);
        // UCP deregisters memory before it closes the interfaces of a worker.
        EXPECT_EQ(domain.dereg(memh), UCS_OK);
    }
    EXPECT_EQ(called, 0u) << "the caller may have freed the completion";
    EXPECT_EQ(read_counter("hard_resets"), 0u) << "memory was unmapped while the card copied";
}

TEST_F(Copy, completion_wakes_an_armed_interface_by_one_thread) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, 8 * kMiB);
    Bytes host = pattern(8 * kMiB, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    int event = -1, again = -1;
    ASSERT_EQ(uct_iface_event_fd_get(transport.iface(), &event), UCS_OK);
    ASSERT_EQ(uct_iface_event_fd_get(transport.iface(), &again), UCS_OK);
    EXPECT_EQ(event, again);
    const Transport second(domain);
    ASSERT_EQ(uct_iface_event_fd_get(second.iface(), &again), UCS_OK);
    EXPECT_NE(event, again) << "each interface has its own";
    ASSERT_EQ(transport.put(host.data(), buffer.address(), host.size(), memh), UCS_OK);
    EXPECT_EQ(uct_iface_event_arm(transport.iface(), UCT_EVENT_SEND_COMP), UCS_OK) << "nothing is outstanding";
    EXPECT_EQ(count_wait_threads(), 0u) << "polling needs no thread";

    for (int i = 0; i < 20; ++i) {
        uct_completion_t comp = make_completion();
        ASSERT_EQ(transport.post_put(host.data(), buffer.address(), host.size(), memh, comp), UCS_INPROGRESS);
        while (comp.count != 0) {
            if (uct_iface_event_arm(transport.iface(), UCT_EVENT_SEND_COMP) == UCS_OK) {
                pollfd ready{event, POLLIN, 0};
                ASSERT_EQ(poll(&ready, 1, 60'000), 1) << "no event came";
            }
            while (transport.progress() != 0) {
            }
        }
    }
    EXPECT_LE(count_wait_threads(), 1u);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Copy, interface_reaches_only_itself) {
    Domain domain;
    const Transport one(domain), other(domain);
    std::vector<char> address(one.attributes().iface_addr_len);
    ASSERT_EQ(uct_iface_get_address(one.iface(), reinterpret_cast<uct_iface_addr_t *>(address.data())), UCS_OK);
    const auto *bytes = reinterpret_cast<const uct_iface_addr_t *>(address.data());
    EXPECT_EQ(uct_iface_is_reachable(one.iface(), nullptr, bytes), 1);
    EXPECT_EQ(uct_iface_is_reachable(other.iface(), nullptr, bytes), 0);
}

} // namespace
