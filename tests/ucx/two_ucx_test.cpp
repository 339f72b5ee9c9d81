// SPDX-License-Identifier: BSD-3-Clause
// Two UCX in one process, both at work on the same cards of a software server. The process is linked to libhl-thunk and
// loads them late, as a framework's does.
#include "../output_of.h"
#include "engine.h"
#include "thunk/abi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace gaudi::ucx {
namespace {

/// The domain and the transport of one UCX.
class User {
public:
    explicit User(Engine engine) : m_engine(std::move(engine)) {
        uct_component_h *list = nullptr;
        unsigned count = 0;
        check(call<ucs_status_t(uct_component_h **, unsigned *)>("uct_query_components")(&list, &count));
        for (unsigned i = 0; i < count; ++i)
            if (std::strcmp(list[i]->name, "gaudi_copy") == 0)
                m_component = list[i];
        call<void(uct_component_h *)>("uct_release_component_list")(list);
        if (m_component == nullptr)
            throw std::runtime_error("no gaudi_copy");
        uct_md_config *config = nullptr;
        check(call<ucs_status_t(uct_component_h, const char *, const char *, uct_md_config **)>("uct_md_config_read")(
            m_component, nullptr, nullptr, &config));
        check(call<ucs_status_t(uct_component_h, const char *, const uct_md_config *, uct_md_h *)>("uct_md_open")(
            m_component, "gaudi_copy", config, &m_md));
        open_transport();
    }

    void *allocate(std::size_t length) {
        void *address = nullptr;
        uct_mem_h memh = nullptr;
        check(call<ucs_status_t(uct_md_h, std::size_t *, void **, ucs_memory_type_t, ucs_sys_device_t, unsigned,
                                const char *, uct_mem_h *)>("uct_md_mem_alloc")(
            m_md, &length, &address, UCS_MEMORY_TYPE_GAUDI, UCS_SYS_DEVICE_ID_UNKNOWN, 0, "test", &memh));
        m_allocated.push_back(memh);
        return address;
    }
    void free_all() {
        for (const uct_mem_h memh : m_allocated)
            check(call<ucs_status_t(uct_md_h, uct_mem_h)>("uct_md_mem_free")(m_md, memh));
        m_allocated.clear();
    }
    /// The allocation that holds an address of Gaudi memory.
    std::pair<void *, std::size_t> find(const void *address) {
        uct_md_mem_attr_v2 attr{};
        attr.field_mask =
            UCT_MD_MEM_ATTR_FIELD_MEM_TYPE | UCT_MD_MEM_ATTR_FIELD_BASE_ADDRESS | UCT_MD_MEM_ATTR_FIELD_ALLOC_LENGTH;
        const ucs_status_t status = call<ucs_status_t(uct_md_h, const void *, std::size_t, uct_md_mem_attr_v2 *)>(
            "uct_md_mem_query_v2")(m_md, address, 1, &attr);
        if (status != UCS_OK || attr.mem_type != UCS_MEMORY_TYPE_GAUDI)
            return {};
        return {attr.base_address, attr.alloc_length};
    }
    /// The entry of this UCX's memory-type cache, where UCX looks first.
    ucs_memory_type_t remembered(const void *address) {
        ucs_memory_info info{};
        const ucs_status_t status = m_engine.symbol<ucs_status_t(const void *, std::size_t, ucs_memory_info *)>(
            m_engine.ucs(), "ucs_memtype_cache_lookup")(address, 1, &info);
        return status == UCS_OK ? info.type : UCS_MEMORY_TYPE_HOST;
    }
    void put(const void *from, void *to, unsigned length) {
        check(m_iface->ops.ep_put_short(m_ep, from, length, reinterpret_cast<std::uint64_t>(to), 0));
    }
    void get(void *to, const void *from, unsigned length) {
        check(m_iface->ops.ep_get_short(m_ep, to, length, reinterpret_cast<std::uint64_t>(from), 0));
    }

private:
    template <class Function>
    Function *call(const char *name) {
        return m_engine.symbol<Function>(m_engine.uct(), name);
    }
    static void check(ucs_status_t status) {
        if (status != UCS_OK)
            throw std::runtime_error("status " + std::to_string(status));
    }

    void open_transport() {
        void *async = nullptr;
        check(m_engine.symbol<ucs_status_t(int, void **)>(m_engine.ucs(), "ucs_async_context_create")(1, &async));
        uct_worker_h worker = nullptr;
        check(call<ucs_status_t(void *, int, uct_worker_h *)>("uct_worker_create")(async, 0, &worker));
        uct_iface_config *config = nullptr;
        check(call<ucs_status_t(uct_md_h, const char *, const char *, const char *, uct_iface_config **)>(
            "uct_md_iface_config_read")(m_md, "gaudi_cpy", nullptr, nullptr, &config));
        uct_iface_params params{};
        params.field_mask = 1u << 1 | 1u << 2; // the mode and the device
        params.open_mode = 1;
        params.mode.device = {"gaudi_cpy", "gaudi"};
        check(call<ucs_status_t(uct_md_h, uct_worker_h, const uct_iface_params *, const uct_iface_config *,
                                uct_iface_h *)>("uct_iface_open")(m_md, worker, &params, config, &m_iface));
        char address[8] = {};
        check(m_iface->ops.iface_get_address(m_iface, reinterpret_cast<uct_iface_addr *>(address)));
        uct_ep_params ep{};
        ep.field_mask = 1u << 0 | 1u << 3; // the interface and its address
        ep.iface = m_iface;
        ep.iface_addr = reinterpret_cast<const uct_iface_addr *>(address);
        check(call<ucs_status_t(const uct_ep_params *, uct_ep_h *)>("uct_ep_create")(&ep, &m_ep));
    }

    Engine m_engine;
    uct_component_h m_component = nullptr;
    uct_md_h m_md = nullptr;
    uct_iface_h m_iface = nullptr;
    uct_ep_h m_ep = nullptr;
    std::vector<uct_mem_h> m_allocated;
};

std::uint64_t opened_cards() {
    std::uint64_t sum = 0;
    const nlohmann::json report = nlohmann::json::parse(output_of(SOFTGAUDI_STAT " --json"));
    for (const auto &card : report.at("cards"))
        sum += card.at("opens").get<std::uint64_t>();
    return sum;
}

class TwoUcx : public testing::Test {
protected:
    TwoUcx() {
        char directory[] = "/dev/shm/two-ucx-XXXXXX";
        m_directory = ::mkdtemp(directory);
        ::setenv("SOFTGAUDI_DIR", directory, 1);
        ::setenv("GAUDI_THUNK", SOFTGAUDI_LIBRARY, 1);
        set_environment("warn");
    }
    ~TwoUcx() override { std::filesystem::remove_all(m_directory); }

private:
    std::filesystem::path m_directory;
};

TEST_F(TwoUcx, both_work_on_the_same_cards) {
    User rapids(Engine::rapids()), nixl(Engine::nixl_1_23());
    constexpr unsigned kLength = 100'000;
    auto *one = static_cast<char *>(rapids.allocate(kLength));
    auto *other = static_cast<char *>(nixl.allocate(kLength));
    EXPECT_EQ(nixl.find(one + 50).first, one);
    EXPECT_EQ(rapids.find(other + 50).first, other);

    std::vector<char> bytes(kLength), back(kLength);
    for (unsigned i = 0; i < kLength; ++i)
        bytes[i] = static_cast<char>(i * 7 + i / 251);
    rapids.put(bytes.data(), one, kLength);
    nixl.put(one, other, kLength); // what one UCX allocated and filled, the other copies
    rapids.get(back.data(), other, kLength);
    EXPECT_EQ(back, bytes);
    EXPECT_EQ(opened_cards(), 1U) << "the second found the card that the first had opened";
    rapids.free_all();
    nixl.put(bytes.data(), other, kLength);
    nixl.free_all();
}

TEST_F(TwoUcx, both_detect_memory_mapped_before_and_after_their_load) {
    constexpr std::size_t kLength = 100'000;
    const int fd = ::hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
    ASSERT_GE(fd, 0);
    const auto map = [&](std::uint64_t handle) {
        return reinterpret_cast<char *>(::hlthunk_device_memory_map(fd, handle, 0));
    };
    char *before = map(::hlthunk_device_memory_alloc(fd, kLength, 0, false, false));
    ASSERT_NE(before, nullptr);

    User rapids(Engine::rapids()), nixl(Engine::nixl_1_23());
    char *after = map(::hlthunk_device_memory_alloc(fd, kLength, 0, false, false));
    ASSERT_NE(after, nullptr);
    for (User *user : {&rapids, &nixl}) {
        EXPECT_EQ(user->remembered(before + 50), UCS_MEMORY_TYPE_UNKNOWN) << "the domain is queried";
        EXPECT_EQ(user->find(before + 50).first, before);
        EXPECT_EQ(user->remembered(after + 50), UCS_MEMORY_TYPE_GAUDI) << "the hooks saw it";
        EXPECT_EQ(user->find(after + 50), std::pair(static_cast<void *>(after), kLength));
    }
    for (char *memory : {before, after}) {
        EXPECT_EQ(::hlthunk_memory_unmap(fd, reinterpret_cast<std::uint64_t>(memory)), 0);
        for (User *user : {&rapids, &nixl}) {
            EXPECT_EQ(user->remembered(memory + 50), UCS_MEMORY_TYPE_UNKNOWN);
            EXPECT_EQ(user->find(memory + 50).first, nullptr);
        }
    }
    EXPECT_EQ(::hlthunk_close(fd), 0);
}

} // namespace
} // namespace gaudi::ucx
