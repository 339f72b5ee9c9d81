// SPDX-License-Identifier: BSD-3-Clause
// What copies, exports and errors through UCT's own API leave in the counters, read from outside as `ucx_gaudi top` does
// and through UCX's VFS.
#include "uct_side.h"

#include "cli/counter_snapshot.h"

#include <ucs/datastruct/string_buffer.h>
#include <ucs/vfs/base/vfs_obj.h>

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

using namespace uct_side;
using gaudi::CardSnapshot;
using gaudi::Path;
using gaudi::ProcessSnapshot;
using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::SizeIs;

namespace {

class Counted : public ::testing::Test {
protected:
    Counted() {
        char name[] = "/dev/shm/counted-XXXXXX";
        m_directory = mkdtemp(name);
        setenv("GAUDI_COUNTERS_DIR", m_directory.c_str(), 1);
    }
    ~Counted() override { std::filesystem::remove_all(m_directory); }

    static ProcessSnapshot process() {
        const auto found = gaudi::cli::take_counters_of(getpid());
        if (!found)
            throw Failure(found.error());
        return *found;
    }
    static CardSnapshot card(std::size_t index = 0) { return process().cards.at(index); }
    static std::uint64_t copies(Path path, std::size_t index = 0) { return card(index).copies_on({path}); }
    static std::uint64_t bytes(Path path, std::size_t index = 0) { return card(index).bytes_on({path}); }

    std::string m_directory;
    e2e::Printed m_printed;
};

TEST_F(Counted, direct_copies_by_path_and_mapping) {
    Domain domain;
    const Transport transport(domain);
    const Buffer one(domain, 64 * kMiB), other(domain, 64 * kMiB);
    Bytes host = pattern(kMiB, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    for (unsigned i = 0; i < 5; ++i)
        ASSERT_EQ(transport.put(host.data(), one.address(), kMiB, memh), UCS_OK);
    for (unsigned i = 0; i < 3; ++i)
        ASSERT_EQ(transport.get(host.data(), one.address(), 1000, memh), UCS_OK);
    EXPECT_EQ(bytes(Path::down_mapped), kMiB);
    EXPECT_EQ(bytes(Path::down), 4 * kMiB);
    EXPECT_EQ(bytes(Path::up), 3000u);
    EXPECT_EQ(card().mapping_misses(), 1u);
    EXPECT_EQ(card().mapping_hits(), 7u);
    const auto first = reinterpret_cast<std::uintptr_t>(host.data()), last = first + kMiB - 1;
    EXPECT_EQ(process().mapped_host_bytes, (last / 4096 - first / 4096 + 1) * 4096) << "whole pages are pinned";

    ASSERT_EQ(transport.put(one.data(), other.address(), 64 * kMiB), UCS_OK) << "in parts, by several DMA engines";
    ASSERT_EQ(uct_ep_put_short(transport.ep(), one.data(), 4096, other.address(), 0), UCS_OK);
    EXPECT_EQ(bytes(Path::within_card), 64 * kMiB + 4096);
    EXPECT_EQ(copies(Path::within_card), 2u);
    EXPECT_EQ(card().direct_copies(), 10u);
    EXPECT_EQ(card().staged_bytes(), 0u);
    EXPECT_EQ(card().memory_used_bytes, 128 * kMiB);
    EXPECT_GE(card().memory_held_bytes, 128 * kMiB);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
    EXPECT_EQ(process().mapped_host_bytes, 0u);
    EXPECT_EQ(process().errors(), 0u);
}

TEST_F(Counted, staged_copies_count_once_each) {
    Domain domain(settings_for_card(0));
    const Domain second(settings_for_card(1));
    const Transport transport(domain);
    const Buffer buffer(domain, 3 * kMiB), other(second, 3 * kMiB);
    Bytes host = pattern(kMiB + 1, 1);
    ASSERT_EQ(uct_ep_put_short(transport.ep(), host.data(), 8, buffer.address(), 0), UCS_OK);
    ASSERT_EQ(uct_ep_put_short(transport.ep(), host.data(), kMiB + 1, buffer.address(), 0), UCS_OK) << "in five pieces";
    ASSERT_EQ(uct_ep_get_short(transport.ep(), host.data(), 100, buffer.address(), 0), UCS_OK);
    ASSERT_EQ(uct_ep_put_short(transport.ep(), host.data(), 0, buffer.address(), 0), UCS_OK);
    EXPECT_EQ(bytes(Path::staged_down), kMiB + 9);
    EXPECT_EQ(copies(Path::staged_down), 2u);
    EXPECT_EQ(bytes(Path::staged_up), 100u);
    EXPECT_EQ(copies(Path::staged_up), 1u);

    ASSERT_EQ(transport.put(host.data(), buffer.address(), 4096), UCS_OK) << "not registered";
    ASSERT_EQ(transport.get(host.data(), buffer.address(), 4096), UCS_OK);
    EXPECT_EQ(bytes(Path::staged_down), kMiB + 9 + 4096);
    EXPECT_EQ(bytes(Path::staged_up), 100u + 4096);
    EXPECT_EQ(card().staged_copies(), 5u);

    ASSERT_EQ(transport.put(buffer.data(), other.address(), 3 * kMiB), UCS_OK) << "between cards";
    ASSERT_THAT(process().cards, SizeIs(2));
    EXPECT_EQ(bytes(Path::relayed_out, 0), 3 * kMiB);
    EXPECT_EQ(bytes(Path::relayed_in, 1), 3 * kMiB);
    EXPECT_EQ(process().total().staged_bytes(), 4 * kMiB + 109 + 2 * 4096) << "bytes through host memory, each once";
    EXPECT_EQ(process().total().staged_copies(), 6u);
    EXPECT_EQ(process().total().direct_bytes(), 0u);
}

TEST_F(Counted, exports_count_the_memory_that_was_asked_for) {
    Domain domain;
    const Buffer buffer(domain, kMiB);
    for (unsigned i = 0; i < 2; ++i) {
        const auto found = domain.query(buffer.data(), 1000, 0x5f);
        ASSERT_TRUE(found);
        ASSERT_GE(found->dmabuf_fd, 0);
        close(found->dmabuf_fd);
    }
    EXPECT_EQ(card().exports, 2u);
    EXPECT_EQ(card().exported_bytes, 2000u);
    EXPECT_TRUE(domain.query(buffer.data(), 1000)) << "without a dma-buf";
    EXPECT_EQ(card().exports, 2u);
}

TEST_F(Counted, refused_and_failed_work_are_errors) {
    setenv("SOFTGAUDI_FAULTS", "command_submission#100=EIO", 1);
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes host = pattern(kMiB, 1);
    EXPECT_NE(transport.put(host.data(), reinterpret_cast<std::uint64_t>(host.data()), 8), UCS_OK);
    EXPECT_EQ(process().refused_copies, 1u);
    uct_allocated_memory_t memory{};
    EXPECT_NE(Buffer::allocate(domain, 97536 * kMiB, {}, memory), UCS_OK) << "all of the card";
    EXPECT_EQ(card().failed_allocations, 1u);

    const uct_mem_h memh = domain.reg(host.data(), host.size());
    unsigned failed = 0, done = 0;
    while (failed == 0 && done < 200)
        ++(transport.put(host.data(), buffer.address(), kMiB, memh) == UCS_OK ? done : failed);
    EXPECT_EQ(failed, 1u);
    EXPECT_EQ(card().failed_transfers, 1u);
    EXPECT_EQ(card().direct_copies(), done);
    EXPECT_EQ(card().direct_bytes(), done * kMiB);
    EXPECT_EQ(process().errors(), 3u);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

/// A file of UCX's VFS; nothing where there is none.
std::optional<std::string> read_vfs(const std::string &path) {
    ucs_string_buffer_t text;
    ucs_string_buffer_init(&text);
    std::optional<std::string> found;
    if (ucs_vfs_path_read_file(path.c_str(), &text) == UCS_OK)
        found = ucs_string_buffer_cstr(&text);
    ucs_string_buffer_cleanup(&text);
    return found;
}

std::vector<std::string> list_vfs(const char *path) {
    std::vector<std::string> names;
    EXPECT_EQ(ucs_vfs_path_list_dir(
                  path,
                  [](const char *name, void *all) { static_cast<std::vector<std::string> *>(all)->push_back(name); },
                  &names),
              UCS_OK);
    return names;
}

TEST_F(Counted, counters_are_files_of_the_vfs) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes host = pattern(100, 1);
    ASSERT_EQ(uct_ep_put_short(transport.ep(), host.data(), 100, buffer.address(), 0), UCS_OK);
    EXPECT_THAT(list_vfs("/gaudi"), Contains("card0"));
    EXPECT_THAT(list_vfs("/gaudi"), Contains("refused_copies"));
    EXPECT_THAT(list_vfs("/gaudi/card0"), Contains("staged_bytes"));
    EXPECT_EQ(read_vfs("/gaudi/card0/staged_bytes"), "100\n");
    EXPECT_EQ(read_vfs("/gaudi/card0/memory_used_bytes"), std::to_string(kMiB) + "\n");
    EXPECT_EQ(read_vfs("/gaudi/card1/memory_used_bytes"), "0\n");
    EXPECT_EQ(read_vfs("/gaudi/refused_copies"), "0\n");
    EXPECT_EQ(read_vfs("/gaudi/card0/other"), std::nullopt);
    ASSERT_EQ(uct_ep_put_short(transport.ep(), host.data(), 100, buffer.address(), 0), UCS_OK);
    EXPECT_EQ(read_vfs("/gaudi/card0/staged_bytes"), "200\n");
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

} // namespace
