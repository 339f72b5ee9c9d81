// SPDX-License-Identifier: BSD-3-Clause
// UCX installs the hooks one by one and may fail in between: either all of them work or none.
#include "hooked_calls_fixture.h"

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
    Installation() { LiveMappings::get().add_listener(cards(), m_listener); }
    ~Installation() override { LiveMappings::get().remove_listener(m_listener); }

    /// Stands for ucm_reloc_modify of a UCX that fails after s_limit patches.
    static ucx::ucs_status_t patch_symbol(ucx::ucm_reloc_patch *patch) {
        if (s_patches.size() == s_limit)
            return ucx::UCS_ERR_IO_ERROR;
        s_patches[patch->symbol] = patch->value;
        return ucx::UCS_OK;
    }
    /// Whether a mapping made by the installed hooks notifies listeners.
    bool map_notifies(int fd) {
        const unsigned before = m_listener.mapped_count();
        const std::uint64_t handle = call(FrameworkProgram::call().device_memory_alloc,
                                          "hlthunk_device_memory_alloc")(fd, kMiB, 0, false, false);
        const std::uint64_t address =
            call(FrameworkProgram::call().device_memory_map, "hlthunk_device_memory_map")(fd, handle, 0);
        EXPECT_NE(address, 0u);
        const bool notified = m_listener.mapped_count() != before;
        EXPECT_EQ(call(FrameworkProgram::call().memory_unmap, "hlthunk_memory_unmap")(fd, address), 0);
        EXPECT_EQ(call(FrameworkProgram::call().device_memory_free, "hlthunk_device_memory_free")(fd, handle), 0);
        return notified;
    }
    int open() {
        return call(FrameworkProgram::call().open, "hlthunk_open")(HLTHUNK_DEVICE_DONT_CARE, card().bus_id().c_str());
    }
    int close(int fd) { return call(FrameworkProgram::call().close, "hlthunk_close")(fd); }

    static inline std::size_t s_limit = 100;
    static inline std::map<std::string, void *> s_patches;
    Listener m_listener;

private:
    /// The function that a program calls by that symbol now.
    template <class Function>
    static Function *call(Function *real, const char *symbol) {
        const auto patched = s_patches.find(symbol);
        return patched == s_patches.end() ? real : reinterpret_cast<Function *>(patched->second);
    }
};

TEST_F(Installation, patches_all_symbols_once) {
    value(ucm::install_hooks(patch_symbol, nullptr));
    EXPECT_EQ(s_patches.size(), 7u);
    s_limit = 0;
    value(ucm::install_hooks(patch_symbol, nullptr)); // a second UCX in the process patches nothing
    const int fd = open();
    EXPECT_TRUE(map_notifies(fd));
    EXPECT_EQ(close(fd), 0);
}

TEST_F(Installation, without_ucm_reloc_modify_is_refused) {
    const auto refused = ucm::install_hooks(nullptr, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr("this UCX has no ucm_reloc_modify"));
}

class InterruptedInstallation : public Installation, public ::testing::WithParamInterface<std::size_t> {};

TEST_P(InterruptedInstallation, leaves_hooks_that_only_forward) {
    s_limit = GetParam();
    const auto refused = ucm::install_hooks(patch_symbol, nullptr);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().text, HasSubstr("ucm_reloc_modify"));
    const int fd = open();
    ASSERT_GE(fd, 0);
    EXPECT_FALSE(map_notifies(fd)) << "without all hooks the unmap might be missed";
    EXPECT_EQ(close(fd), 0);
    EXPECT_FALSE(Counters(card()).in_use());
}

INSTANTIATE_TEST_SUITE_P(, InterruptedInstallation, ::testing::Range(std::size_t{0}, std::size_t{7}));

} // namespace
