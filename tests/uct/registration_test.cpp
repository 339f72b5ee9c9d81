// SPDX-License-Identifier: BSD-3-Clause
// Registration of host memory, of Gaudi memory and of another vendor's memory.
#include "uct_side.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

using namespace uct_side;
using ::testing::IsEmpty;

namespace {

class Registration : public ::testing::Test {
protected:
    static std::size_t count_open_descriptors() {
        const std::filesystem::directory_iterator all("/proc/self/fd");
        return static_cast<std::size_t>(std::distance(begin(all), end(all)));
    }

    e2e::Printed m_printed;
};

TEST_F(Registration, host_memory_is_pinned_by_its_first_copy_only) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes warm(64 * kKiB);
    ASSERT_EQ(transport.put(warm.data(), buffer.address(), warm.size()), UCS_OK); // starts the engine
    Bytes host = pattern(kMiB, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    const std::uint64_t before = count_calls("host_memory_map");
    for (int i = 0; i < 10; ++i)
        ASSERT_EQ(transport.put(host.data(), buffer.address(), host.size(), memh), UCS_OK);
    EXPECT_EQ(count_calls("host_memory_map"), before + 1);
    EXPECT_EQ(transport.read(buffer, host.size()), host);
    const std::uint64_t unmapped = count_calls("memory_unmap");
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
    EXPECT_EQ(count_calls("memory_unmap"), unmapped + 1);
}

TEST_F(Registration, host_memory_beyond_max_mapped_host_is_unmapped_and_mapped_again) {
    Domain domain(Settings{{"MAX_MAPPED_HOST", "1536kb"}});
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes warm(64 * kKiB); // starts the engine; registered, so that no mapping of it stays to be evicted
    const uct_mem_h registered = domain.reg(warm.data(), warm.size());
    ASSERT_EQ(transport.put(warm.data(), buffer.address(), warm.size(), registered), UCS_OK);
    ASSERT_EQ(domain.dereg(registered), UCS_OK);
    std::array<Bytes, 2> host = {pattern(kMiB, 1), pattern(kMiB, 2)};
    const std::array memh = {domain.reg(host[0].data(), host[0].size()), domain.reg(host[1].data(), host[1].size())};
    const auto copy = [&](std::size_t which) {
        ASSERT_EQ(transport.put(host[which].data(), buffer.address(), host[which].size(), memh[which]), UCS_OK);
    };
    copy(0);
    const std::uint64_t mapped = count_calls("host_memory_map"), unmapped = count_calls("memory_unmap");
    copy(1); // both together exceed the limit
    EXPECT_EQ(count_calls("memory_unmap"), unmapped + 1);
    copy(0);
    EXPECT_EQ(count_calls("host_memory_map"), mapped + 2);
    EXPECT_EQ(count_calls("memory_unmap"), unmapped + 2);
    EXPECT_EQ(transport.read(buffer, host[0].size()), host[0]);
    for (const uct_mem_h handle : memh)
        EXPECT_EQ(domain.dereg(handle), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Registration, gaudi_memory_is_found_with_or_without_its_dmabuf) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB), other(domain, kMiB);
    const auto seen = domain.query(buffer.data() + 100, 1000, 0x7f);
    ASSERT_TRUE(seen && seen->dmabuf_fd >= 0);
    const uct_mem_h plain = domain.reg(buffer.data() + 100, 1000);
    const uct_mem_h by_descriptor = domain.reg(
        buffer.data() + 100, 1000,
        RegisterParams{15, UCT_MD_MEM_ACCESS_ALL, seen->dmabuf_fd, seen->dmabuf_offset, UCS_MEMORY_TYPE_GAUDI});
    close(seen->dmabuf_fd);
    EXPECT_EQ(domain.pack_key(plain), domain.pack_key(by_descriptor));
    transport.write(buffer, pattern(1000, 3), 100);
    for (const uct_mem_h memh : {plain, by_descriptor}) {
        EXPECT_EQ(transport.put(buffer.data() + 100, other.address(), 1000, memh), UCS_OK);
        EXPECT_EQ(transport.read(other, 1000), pattern(1000, 3));
        EXPECT_EQ(domain.dereg(memh), UCS_OK);
    }
}

TEST_F(Registration, foreign_memory_registers_but_is_not_copied) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    auto *foreign = reinterpret_cast<unsigned char *>(0x7f12'0000'0000); // not mapped: an access would crash
    const int file = memfd_create("no dma-buf", MFD_CLOEXEC);
    const int dmabuf = domain.query(buffer.data(), 1, 16)->dmabuf_fd; // of another address
    for (const auto &params : {RegisterParams{9, UCT_MD_MEM_ACCESS_ALL, -1, 0, UCS_MEMORY_TYPE_CUDA},
                               RegisterParams{9, UCT_MD_MEM_ACCESS_ALL, -1, 0, UCS_MEMORY_TYPE_GAUDI},
                               RegisterParams{15, UCT_MD_MEM_ACCESS_ALL, file, 0, UCS_MEMORY_TYPE_CUDA},
                               RegisterParams{15, UCT_MD_MEM_ACCESS_ALL, dmabuf, 4096, UCS_MEMORY_TYPE_ROCM},
                               RegisterParams{15, UCT_MD_MEM_ACCESS_ALL, 999'999, 0, UCS_MEMORY_TYPE_CUDA}}) {
        const uct_mem_h memh = domain.reg(foreign, kMiB, params);
        for (const std::size_t length : {std::size_t{8}, kMiB}) {
            EXPECT_EQ(transport.put(foreign, buffer.address(), length, memh), UCS_ERR_UNSUPPORTED);
            EXPECT_EQ(transport.get(foreign, buffer.address(), length, memh), UCS_ERR_UNSUPPORTED);
        }
        EXPECT_EQ(domain.pack_key(memh).size(), 24u);
        EXPECT_EQ(domain.dereg(memh), UCS_OK);
    }
    close(dmabuf);
    close(file);
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_F(Registration, invalid_deregistration_is_refused) {
    const Domain domain;
    Bytes host(4096);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    EXPECT_EQ(domain.dereg(nullptr), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(domain.dereg(memh, 1), UCS_ERR_UNSUPPORTED) << "invalidation";
    EXPECT_EQ(domain.dereg(memh, 8), UCS_ERR_INVALID_PARAM) << "unknown flag";
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Registration, each_query_duplicates_the_descriptor_of_one_export) {
    const Domain domain;
    const Buffer buffer(domain, 10 * kMiB);
    const auto first = domain.query(buffer.data() + 5 * kMiB + 123, 1000, 0x7f);
    const auto second = domain.query(buffer.data() + 123, 1000, 0x7f);
    ASSERT_TRUE(first && second);
    EXPECT_NE(first->dmabuf_fd, second->dmabuf_fd);
    EXPECT_EQ(first->dmabuf_offset - second->dmabuf_offset, 5 * kMiB);
    struct stat one {
    }, other{};
    ASSERT_EQ(fstat(first->dmabuf_fd, &one), 0);
    ASSERT_EQ(fstat(second->dmabuf_fd, &other), 0);
    EXPECT_EQ(one.st_ino, other.st_ino) << "both are of one export";
    close(first->dmabuf_fd);
    close(second->dmabuf_fd);
}

TEST_F(Registration, hundred_thousand_cycles_leak_no_descriptor) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto cycle = [&] {
        const auto seen = domain.query(buffer.data(), kMiB, 0x7f);
        const uct_mem_h memh = domain.reg(
            buffer.data(), kMiB,
            RegisterParams{15, UCT_MD_MEM_ACCESS_ALL, seen->dmabuf_fd, seen->dmabuf_offset, UCS_MEMORY_TYPE_GAUDI});
        close(seen->dmabuf_fd);
        ASSERT_EQ(domain.dereg(memh), UCS_OK);
    };
    cycle();
    const std::size_t before = count_open_descriptors();
    const std::uint64_t exports = read_counter("exports");
    for (int i = 0; i < 100'000; ++i)
        cycle();
    EXPECT_EQ(count_open_descriptors(), before);
    EXPECT_EQ(read_counter("exports"), exports);
}

} // namespace
