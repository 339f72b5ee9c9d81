// SPDX-License-Identifier: BSD-3-Clause
// Libraries that are linked to libhl-thunk in a program that is not: a framework that Python loads after UCX, or before it.
#include "conversation.h"
#include "soft/soft.h"

#include <gtest/gtest.h>

#include <ucm/api/ucm.h>

#include <dlfcn.h>

#include <atomic>
#include <cstdint>

using namespace e2e;

namespace {

class LateLibrary : public ::testing::Test {
protected:
    ~LateLibrary() override {
        if (!m_context)
            return;
        find<decltype(ucm_unset_event_handler)>(RTLD_DEFAULT, "ucm_unset_event_handler")(kEvents, count, this);
        ucp_cleanup(m_context);
    }
    void start_ucx() {
        m_context = init_ucp();
        ASSERT_EQ(find<decltype(ucm_set_event_handler)>(RTLD_DEFAULT, "ucm_set_event_handler")(kEvents, 1, count, this),
                  UCS_OK);
    }
    void load_plugin(int flags) {
        m_plugin = dlopen(FOREIGN_PLUGIN, flags);
        ASSERT_NE(m_plugin, nullptr) << dlerror();
    }
    /// The events that the plugin's allocating, mapping, unmapping and freeing raise.
    unsigned count_events_of_plugin() {
        constexpr std::uint64_t kSize = 1 << 20;
        const int fd = find<int()>(m_plugin, "open_card")();
        EXPECT_GE(fd, 0);
        const unsigned before = m_events;
        EXPECT_EQ(find<int(int, std::uint64_t)>(m_plugin, "use_card")(fd, kSize), 0);
        const unsigned after = m_events;
        EXPECT_EQ(find<int(int)>(m_plugin, "close_card")(fd), 0);
        return after - before;
    }

private:
    static constexpr int kEvents = UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE;

    template <class Function>
    static Function *find(void *library, const char *name) {
        void *found = dlsym(library, name);
        EXPECT_NE(found, nullptr) << name;
        return reinterpret_cast<Function *>(found);
    }
    static void count(ucm_event_type_t, ucm_event_t *, void *test) { ++static_cast<LateLibrary *>(test)->m_events; }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"};
    std::atomic<unsigned> m_events{0};
    ucp_context_h m_context = nullptr;
    void *m_plugin = nullptr;
};

TEST_F(LateLibrary, loaded_after_ucx_raises_events) {
    start_ucx();
    load_plugin(RTLD_NOW | RTLD_LOCAL);
    EXPECT_EQ(count_events_of_plugin(), 2u);
}

TEST_F(LateLibrary, loaded_lazily_raises_events) {
    start_ucx();
    load_plugin(RTLD_LAZY | RTLD_LOCAL);
    EXPECT_EQ(count_events_of_plugin(), 2u);
}

TEST_F(LateLibrary, loaded_before_ucx_raises_events) {
    load_plugin(RTLD_NOW | RTLD_LOCAL);
    start_ucx();
    EXPECT_EQ(count_events_of_plugin(), 2u);
}

TEST_F(LateLibrary, loaded_before_ucx_for_all_raises_events) {
    load_plugin(RTLD_LAZY | RTLD_GLOBAL);
    start_ucx();
    EXPECT_EQ(count_events_of_plugin(), 2u);
}

} // namespace
