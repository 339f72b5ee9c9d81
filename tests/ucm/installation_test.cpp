// SPDX-License-Identifier: BSD-3-Clause
// Hooks are put in one by one, by a UCX that may be unable to: all of them or none.
#include "book.h"

#include "ucm/hooks.h"

#include <gmock/gmock.h>

#include <map>
#include <string>

using namespace gaudi;
using namespace gaudi::test;
using ::testing::HasSubstr;

namespace {

class Installation : public GaudiTest {
protected:
    Installation() { cards().add_listener(m_listener); }
    ~Installation() override { cards().remove_listener(m_listener); }

    /// UCX's part: it puts in so many and then fails.
    static ucx::ucs_status_t modify(ucx::ucm_reloc_patch *patch) {
        if (s_patches.size() == s_able)
            return ucx::UCS_ERR_IO_ERROR;
        s_patches[patch->symbol] = patch->value;
        return ucx::UCS_OK;
    }
    /// Whether a mapping made through the hooks that are in is told of.
    bool told(int fd) {
        const unsigned before = m_listener.mapped_count();
        const std::uint64_t handle =
            call(Other::call().device_memory_alloc, "hlthunk_device_memory_alloc")(fd, kMiB, 0, false, false);
        const std::uint64_t address = call(Other::call().device_memory_map, "hlthunk_device_memory_map")(fd, handle, 0);
        EXPECT_NE(address, 0u);
        const bool heard = m_listener.mapped_count() != before;
        EXPECT_EQ(call(Other::call().memory_unmap, "hlthunk_memory_unmap")(fd, address), 0);
        EXPECT_EQ(call(Other::call().device_memory_free, "hlthunk_device_memory_free")(fd, handle), 0);
        return heard;
    }
    int open() { return call(Other::call().open, "hlthunk_open")(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str()); }
    int close(int fd) { return call(Other::call().close, "hlthunk_close")(fd); }

    static inline std::size_t s_able = 100;
    static inline std::map<std::string, void *> s_patches;
    Listener m_listener;

private:
    /// What a program calls by that name now.
    template <class Function>
    static Function *call(Function *real, const char *symbol) {
        const auto patched = s_patches.find(symbol);
        return patched == s_patches.end() ? real : reinterpret_cast<Function *>(patched->second);
    }
};

TEST_F(Installation, patches_all_symbols_once) {
    value(ucm::install_hooks(modify));
    EXPECT_EQ(s_patches.size(), 7u);
    s_able = 0;
    value(ucm::install_hooks(modify)); // for another UCX, which need not be able to
    const int fd = open();
    EXPECT_TRUE(told(fd));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(Installation, without_ucm_reloc_modify_is_refused) {
    const auto refused = ucm::install_hooks(nullptr);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr("this UCX has no ucm_reloc_modify"));
}

class InterruptedInstallation : public Installation, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(InterruptedInstallation, leaves_hooks_that_only_forward) {
    s_able = GetParam();
    const auto refused = ucm::install_hooks(modify);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr("ucm_reloc_modify"));
    const int fd = open();
    ASSERT_GE(fd, 0);
    EXPECT_FALSE(told(fd)) << "who heard it come would not hear it go";
    EXPECT_EQ(close(fd), 0);
    EXPECT_FALSE(Counters(card()).in_use());
}

INSTANTIATE_TEST_SUITE_P(, InterruptedInstallation, ::testing::Range(std::size_t{0}, std::size_t{7}));

} // namespace
