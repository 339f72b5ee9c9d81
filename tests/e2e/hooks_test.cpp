// SPDX-License-Identifier: BSD-3-Clause
// libucm_gaudi in a real UCX: the events it raises, and that the calls of a program still work.
#include "conversation.h"
#include "foreign_program.h"
#include "printed.h"

#include <gmock/gmock.h>

#include <ucm/api/ucm.h>
#include <ucs/memory/memory_type.h>
#include <ucs/memory/memtype_cache.h>
#include <ucs/sys/topo/base/topo.h>

#include <dlfcn.h>
#include <link.h>
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <thread>

using namespace e2e;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace {

constexpr std::size_t kSize = (1 << 20) + 77;

template <class Function>
Function *find_in_ucx(const char *name) {
    return reinterpret_cast<Function *>(dlsym(RTLD_DEFAULT, name));
}
#define IN_UCX(function)                                                                                               \
    find_in_ucx<decltype(function)>(#function) // uses the type only: the test is not linked to libucm

struct Event {
    ucm_event_type_t type;
    std::uint64_t address;
    std::size_t size;
    ucs_memory_type_t mem_type;
    ucs_sys_device_t sys_dev;
    std::uint8_t mem_flags;
    bool mapped; // whether the driver had it mapped during the event
};

class Hooks : public ::testing::Test {
protected:
    /// Starts UCX: its memory-type cache loads libucm_gaudi, which installs the hooks.
    void start_ucx() {
        m_context = init_ucp();
        ASSERT_EQ(IN_UCX(ucm_set_event_handler)(UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE, 1, listen, this),
                  UCS_OK);
    }
    ~Hooks() override {
        if (!m_context)
            return;
        IN_UCX(ucm_unset_event_handler)(UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_MEM_TYPE_FREE, listen, this);
        ucp_cleanup(m_context);
    }
    std::vector<Event> events() {
        const std::lock_guard guard(m_mutex);
        return m_events;
    }
    /// The type of an address in UCX's memory-type cache.
    static ucs_memory_type_t look_up_in_memtype_cache(std::uint64_t address) {
        ucs_memory_info_t info{};
        const auto *pointer = reinterpret_cast<const void *>(address);
        return IN_UCX(ucs_memtype_cache_lookup)(pointer, 1, &info) == UCS_OK ? info.type : UCS_MEMORY_TYPE_HOST;
    }
    /// The type that UCP detects.
    ucs_memory_type_t detect_type(const void *address, std::size_t length) {
        ucp_mem_map_params_t params{};
        params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
        params.address = const_cast<void *>(address);
        params.length = length;
        ucp_mem_h memh = nullptr;
        check(ucp_mem_map(m_context, &params, &memh), "ucp_mem_map");
        ucp_mem_attr_t attr{};
        attr.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE;
        check(ucp_mem_query(memh, &attr), "ucp_mem_query");
        ucp_mem_unmap(m_context, memh);
        return attr.mem_type;
    }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"};
    std::atomic<unsigned> m_event_count{0};
    ucp_context_h m_context = nullptr;
    const Program *m_program = nullptr; // if set, each event probes its mapping

private:
    static void listen(ucm_event_type_t type, ucm_event_t *event, void *arg) {
        auto &self = *static_cast<Hooks *>(arg);
        ++self.m_event_count;
        const auto address = reinterpret_cast<std::uint64_t>(event->mem_type.address);
        const bool mapped = self.m_program && self.m_program->is_mapped(address);
        const std::lock_guard guard(self.m_mutex);
        self.m_events.push_back({type, address, event->mem_type.size, event->mem_type.mem_type, event->mem_type.sys_dev,
                                 event->mem_type.mem_flags, mapped});
    }
    std::mutex m_mutex;
    std::vector<Event> m_events;
};

TEST_F(Hooks, map_and_unmap_raise_events_with_all_attributes) {
    start_ucx();
    const Program other(Program::Calls::linked); // takes the first card
    const Program program(Program::Calls::linked);
    std::array<char, 13> bus_id{};
    ASSERT_EQ(hlthunk_get_pci_bus_id_from_fd(program.fd(), bus_id.data(), bus_id.size()), 0);
    ucs_sys_device_t device = UCS_SYS_DEVICE_ID_UNKNOWN;
    ASSERT_EQ(IN_UCX(ucs_topo_find_device_by_bdf_name)(bus_id.data(), &device), UCS_OK);
    m_program = &program;
    const Program::Memory memory = program.allocate(kSize);
    const auto after_map = events();
    ASSERT_EQ(after_map.size(), 1u);
    EXPECT_EQ(after_map[0].type, UCM_EVENT_MEM_TYPE_ALLOC);
    ASSERT_TRUE(program.free(memory));
    const auto after_unmap = events();
    ASSERT_EQ(after_unmap.size(), 2u);
    EXPECT_EQ(after_unmap[1].type, UCM_EVENT_MEM_TYPE_FREE);
    for (const Event &event : after_unmap) {
        EXPECT_EQ(event.address, memory.address);
        EXPECT_EQ(event.size, kSize);
        EXPECT_EQ(event.mem_type, UCS_MEMORY_TYPE_GAUDI);
        EXPECT_EQ(event.sys_dev, device);
        EXPECT_EQ(event.mem_flags, 1u) << "registrable";
        EXPECT_TRUE(event.mapped) << "events come after the library's map and before its unmap";
    }
    EXPECT_FALSE(program.is_mapped(memory.address));
}

TEST_F(Hooks, handler_of_existing_memory_gets_the_device_range_as_unknown) {
    start_ucx();
    const Program program(Program::Calls::linked);
    const Program::Memory memory = program.allocate(kSize);
    std::vector<ucm_event_t> existing;
    const ucm_event_callback_t collect = [](ucm_event_type_t type, ucm_event_t *event, void *arg) {
        if (type == UCM_EVENT_MEM_TYPE_ALLOC)
            static_cast<std::vector<ucm_event_t> *>(arg)->push_back(*event);
    };
    ASSERT_EQ(
        IN_UCX(ucm_set_event_handler)(UCM_EVENT_MEM_TYPE_ALLOC | UCM_EVENT_FLAG_EXISTING_ALLOC, 2, collect, &existing),
        UCS_OK);
    IN_UCX(ucm_unset_event_handler)(UCM_EVENT_MEM_TYPE_ALLOC, collect, &existing);
    ASSERT_EQ(existing.size(), 1u);
    EXPECT_EQ(existing[0].mem_type.mem_type, UCS_MEMORY_TYPE_UNKNOWN);
    const auto base = reinterpret_cast<std::uint64_t>(existing[0].mem_type.address);
    EXPECT_LE(base, memory.address);
    EXPECT_LE(memory.address + kSize, base + existing[0].mem_type.size);
    EXPECT_GT(base, 1ull << 57) << "no host address is so high";
    EXPECT_TRUE(program.free(memory));
}

TEST_F(Hooks, host_memory_raises_no_event) {
    start_ucx();
    const Program program(Program::Calls::linked);
    void *memory = hlthunk_malloc(static_cast<int>(kSize));
    ASSERT_NE(memory, nullptr);
    const std::uint64_t mapped = hlthunk_host_memory_map(program.fd(), memory, 0, kSize);
    EXPECT_NE(mapped, 0u);
    EXPECT_EQ(detect_type(memory, kSize), UCS_MEMORY_TYPE_HOST);
    EXPECT_EQ(hlthunk_memory_unmap(program.fd(), mapped), 0);
    hlthunk_free(memory);
    EXPECT_THAT(events(), IsEmpty());
}

TEST_F(Hooks, mapping_from_before_or_after_ucx_start_is_recognised) {
    const Program early(Program::Calls::linked);
    const Program::Memory before = early.allocate(kSize);
    start_ucx();
    const Program::Memory after = early.allocate(kSize);
    for (const Program::Memory &memory : {before, after}) {
        EXPECT_EQ(detect_type(memory.data(), kSize), UCS_MEMORY_TYPE_GAUDI);
        EXPECT_EQ(detect_type(memory.data(777), 1000), UCS_MEMORY_TYPE_GAUDI);
        EXPECT_TRUE(early.free(memory));
        const Program::Memory larger = early.allocate(3 * kSize);
        EXPECT_EQ(detect_type(larger.data(2 * kSize), kSize), UCS_MEMORY_TYPE_GAUDI);
        EXPECT_TRUE(early.free(larger));
    }
}

TEST_F(Hooks, installation_during_allocations_misses_none_afterwards) {
    const Program program(Program::Calls::linked);
    constexpr unsigned kThreads = 4;
    std::atomic<bool> over{false};
    std::atomic<unsigned> failed{0}, times{0};
    std::array<std::set<std::uint64_t>, kThreads> addresses;
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < kThreads; ++i)
        threads.emplace_back([&, i] {
            while (!over) {
                try {
                    const Program::Memory memory = program.allocate(kSize);
                    addresses[i].insert(memory.address);
                    if (!program.free(memory))
                        ++failed;
                } catch (const Failure &) {
                    ++failed;
                }
                ++times;
            }
        });
    while (times < 100)
        std::this_thread::yield();
    start_ucx();
    const unsigned then = times;
    while (times < then + 200)
        std::this_thread::yield();
    over = true;
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(failed, 0u);
    for (const auto &of_one : addresses)
        for (const std::uint64_t address : of_one)
            EXPECT_EQ(look_up_in_memtype_cache(address), UCS_MEMORY_TYPE_UNKNOWN)
                << "the mapping came during the installation and is gone";
    const std::size_t before = events().size();
    EXPECT_TRUE(program.free(program.allocate(kSize)));
    EXPECT_EQ(events().size(), before + 2);
}

TEST_F(Hooks, library_loaded_later_is_hooked) {
    start_ucx();
    const Program program(Program::Calls::linked);
    for (unsigned time = 0; time < 3; ++time) {
        void *plugin = dlopen(FOREIGN_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(plugin, nullptr) << dlerror();
        auto *use = reinterpret_cast<int (*)(int, std::uint64_t)>(dlsym(plugin, "use_card"));
        const std::size_t before = events().size();
        EXPECT_EQ(use(program.fd(), kSize), 0);
        EXPECT_EQ(events().size(), before + 2) << "map and unmap by the plugin";
        EXPECT_EQ(dlclose(plugin), 0);
        EXPECT_TRUE(program.free(program.allocate(kSize)));
        EXPECT_EQ(events().size(), before + 4);
    }
}

TEST_F(Hooks, dlclose_of_their_module_keeps_them_installed) {
    start_ucx();
    std::string path;
    dl_iterate_phdr(
        [](dl_phdr_info *info, std::size_t, void *found) {
            if (std::string(info->dlpi_name).find("libucm_gaudi") != std::string::npos)
                *static_cast<std::string *>(found) = info->dlpi_name;
            return 0;
        },
        &path);
    ASSERT_FALSE(path.empty());
    void *module = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(module, nullptr);
    EXPECT_EQ(dlclose(module), 0);
    EXPECT_EQ(dlclose(module), 0); // UCX's own
    const Program program(Program::Calls::linked);
    EXPECT_TRUE(program.free(program.allocate(kSize)));
    EXPECT_EQ(events().size(), 2u);
}

TEST_F(Hooks, forked_child_raises_no_event) {
    start_ucx();
    const Program program(Program::Calls::linked);
    const Program::Memory kept = program.allocate(kSize);
    // At the fork this thread may hold a lock of a hook, which nothing in the child would release.
    std::atomic<bool> over{false}, well{true};
    std::thread busy([&] {
        while (!over && well)
            well = program.free(program.allocate(kSize));
    });
    for (unsigned time = 0; time < 50; ++time) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(60); // ends a child that hangs
            const unsigned before = m_event_count;
            const std::uint64_t handle = hlthunk_device_memory_alloc(program.fd(), kSize, 0, false, false);
            const std::uint64_t address = hlthunk_device_memory_map(program.fd(), handle, 0);
            const bool good = handle && address && hlthunk_memory_unmap(program.fd(), address) == 0 &&
                              hlthunk_device_memory_free(program.fd(), handle) == 0;
            _exit(!good ? 1 : m_event_count != before ? 2 : 0);
        }
        int status = 0;
        EXPECT_EQ(waitpid(child, &status, 0), child);
        EXPECT_TRUE(WIFEXITED(status)) << "the child hung";
        EXPECT_EQ(WEXITSTATUS(status), 0) << "1: a call failed; 2: an event was raised in the child";
    }
    over = true;
    busy.join();
    EXPECT_TRUE(well);
    EXPECT_EQ(detect_type(kept.data(), kSize), UCS_MEMORY_TYPE_GAUDI);
    EXPECT_TRUE(program.free(kept));
}

TEST_F(Hooks, second_libhl_thunk_is_probed_instead_of_hooked) {
    const std::filesystem::path other = std::filesystem::path(m_cards.name()) / "libhl-thunk.so";
    std::filesystem::copy(std::getenv("GAUDI_THUNK"), other);
    setenv("GAUDI_THUNK", other.c_str(), 1);
    const Printed printed;
    start_ucx();
    const Program program(Program::Calls::linked);
    const Program::Memory memory = program.allocate(kSize);
    EXPECT_EQ(detect_type(memory.data(), kSize), UCS_MEMORY_TYPE_GAUDI);
    EXPECT_THAT(events(), IsEmpty());
    EXPECT_THAT(printed.text(),
                ::testing::HasSubstr("no Gaudi memory hooks, so foreign Gaudi memory is probed at each use: "
                                     "hook failed with EEXIST: another libhl-thunk than"));
}

TEST_F(Hooks, card_closed_and_reopened_is_recognised) {
    const Printed printed;
    start_ucx();
    for (unsigned session = 0; session < 3; ++session) {
        Program program(Program::Calls::linked);
        const Program::Memory memory = program.allocate(kSize);
        EXPECT_EQ(detect_type(memory.data(), kSize), UCS_MEMORY_TYPE_GAUDI);
        program.close();
    }
    EXPECT_THAT(printed.text(), ::testing::HasSubstr("was closed by the program that had opened it"));
}

} // namespace
