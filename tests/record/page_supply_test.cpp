// SPDX-License-Identifier: BSD-3-Clause
// Pages of a recording that `ucx_gaudi record` provides before programs write to them.
#include "cli/page_supply.h"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <new>
#include <string>
#include <thread>

namespace {

constexpr std::uint64_t kMiB = 1 << 20, kSize = 64 * kMiB;

class PageSupplyTest : public ::testing::Test {
protected:
    PageSupplyTest() {
        std::string name = "/dev/shm/page-supply-test-XXXXXX";
        m_fd = ::mkstemp(name.data());
        ::unlink(name.c_str());
        EXPECT_EQ(::ftruncate(m_fd, kSize), 0);
        m_file = static_cast<char *>(::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, m_fd, 0));
        EXPECT_NE(m_file, MAP_FAILED);
        m_head = new (m_file) gaudi::record::Head{};
        m_head->limit = kSize;
        m_head->cursor = 4096;
    }
    ~PageSupplyTest() override {
        ::munmap(m_file, kSize);
        ::close(m_fd);
    }

    bool has_page(std::uint64_t offset) const {
        unsigned char resident = 0;
        EXPECT_EQ(::mincore(m_file + offset, 4096, &resident), 0);
        return (resident & 1) != 0;
    }
    void await_page(std::uint64_t offset) const {
        while (!has_page(offset))
            std::this_thread::yield();
    }

    int m_fd = -1;
    char *m_file = nullptr;
    gaudi::record::Head *m_head = nullptr;
};

TEST_F(PageSupplyTest, pages_stay_ahead_of_the_cursor_and_near_it) {
    const gaudi::cli::PageSupply supply(m_fd, *m_head);
    await_page(7 * kMiB);
    EXPECT_FALSE(has_page(9 * kMiB));
    m_head->cursor = 20 * kMiB; // programs were faster
    await_page(27 * kMiB);
    EXPECT_FALSE(has_page(15 * kMiB)) << "programs have passed it";
    EXPECT_FALSE(has_page(30 * kMiB));
}

TEST_F(PageSupplyTest, contents_are_kept) {
    m_file[kMiB] = 'x';
    {
        const gaudi::cli::PageSupply supply(m_fd, *m_head);
        await_page(2 * kMiB);
    }
    EXPECT_EQ(m_file[kMiB], 'x');
    EXPECT_EQ(m_file[2 * kMiB], 0);
}

TEST_F(PageSupplyTest, closed_recording_gets_no_pages_beyond_its_limit) {
    m_head->cursor = gaudi::record::kClosedCursor;
    const gaudi::cli::PageSupply supply(m_fd, *m_head);
    EXPECT_FALSE(has_page(kSize - 4096));
}

} // namespace
