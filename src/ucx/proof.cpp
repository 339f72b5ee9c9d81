// SPDX-License-Identifier: BSD-3-Clause
#include "proof.h"

#include "lock_ranks.h"
#include "os/format.h"
#include "os/mutex.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace gaudi::ucx {
namespace {

// ---- numbered stubs

constexpr int kNoHit = -1;
constexpr std::size_t kTableSlots = 64; // more than any table has, so that a table which grew still fits
constexpr int kFirstStray = 1000;       // the first number of stubs in places where no table is declared

os::Mutex s_proving{Rank::proof};
int s_hit GAUDI_GUARDED_BY(s_proving) = kNoHit; // the number of the stub that was called last
static_assert(std::is_trivially_destructible_v<os::Mutex>);

template <int number>
long stub() noexcept {
    s_proving.assert_held(); // by prove_tables, whose call of libuct ends here
    s_hit = number;
    return UCS_ERR_UNSUPPORTED; // after a success a dispatcher would go on
}

using Stub = long (*)() noexcept;
using StubTable = std::array<Stub, kTableSlots>;

template <int first>
StubTable make_stub_table() noexcept {
    return []<int... slot>(std::integer_sequence<int, slot...>) { return StubTable{stub<first + slot>...}; }
    (std::make_integer_sequence<int, static_cast<int>(kTableSlots)>());
}

// ---- scratch objects

/// All objects that a dispatcher may read on its way to a slot. Where our layout has no table but another one may have,
/// there is a table of stray stubs: a library with that layout calls a stub, and does not crash.
struct Scratch {
    StubTable md_ops = make_stub_table<0>();
    StubTable internal_ops = make_stub_table<0>();
    StubTable stray_ops = make_stub_table<kFirstStray>();
    union Interface {
        std::array<const void *, 512> words;
        uct_base_iface iface;
    } interface;
    uct_component component{};
    std::array<void *, 64> md{};
    std::array<void *, 64> ep{};
    std::array<char, 4096> zeros{}; // for any struct of parameters or attributes
    std::array<char, 4096> output{};

    Scratch() noexcept {
        interface.words.fill(&stray_ops);
        const StubTable iface_ops = make_stub_table<0>();
        std::memcpy(&interface.iface.super.ops, iface_ops.data(), sizeof(uct_iface_ops));
        interface.iface.internal_ops = reinterpret_cast<uct_iface_internal_ops *>(&internal_ops);
        std::memcpy(component.name, "gaudi_proof", sizeof("gaudi_proof"));
        md.fill(&stray_ops);
        md[0] = &md_ops;
        md[1] = &component;
        ep.fill(nullptr);
        ep[0] = &interface;
    }

    uct_md_h md_handle() noexcept { return reinterpret_cast<uct_md_h>(&md); }
    uct_iface_h iface_handle() noexcept { return &interface.iface.super; }
    uct_ep_h ep_handle() noexcept { return reinterpret_cast<uct_ep_h>(&ep); }

    template <class T>
    T *parameters() noexcept {
        return reinterpret_cast<T *>(&zeros);
    }
    template <class T>
    T *result() noexcept {
        return reinterpret_cast<T *>(&output);
    }
};

// ---- calls

constexpr std::size_t slot_at(std::size_t offset) { return offset / sizeof(void *); }

tl::unexpected<Error> mismatch(std::string sentence) {
    return tl::unexpected(Error{EPROTO, "prove", std::move(sentence)});
}

template <class Call>
Result<void> expect_slot(const char *dispatcher, const char *table, std::size_t slot, Call &&call)
    GAUDI_REQUIRES(s_proving) {
    s_hit = kNoHit;
    call();
    if (s_hit == static_cast<int>(slot))
        return {};
    if (s_hit == kNoHit)
        return mismatch(os::format("its {} calls no operation, slot {} of {} is needed", dispatcher, slot, table));
    if (s_hit >= kFirstStray)
        return mismatch(
            os::format("its {} looks for {} in another place, slot {} of it is needed", dispatcher, table, slot));
    return mismatch(os::format("its {} calls slot {} of {}, slot {} is needed", dispatcher, s_hit, table, slot));
}

#define GAUDI_UCX_EXPECT(dispatcher, table, slot, ...)                                                                 \
    if (Result<void> held =                                                                                            \
            expect_slot(#dispatcher, #table, slot_at(offsetof(table, slot)), [&] { uct.dispatcher(__VA_ARGS__); });    \
        !held)                                                                                                         \
    return held

Result<void> prove_md(const Functions &uct, Scratch &scratch) GAUDI_REQUIRES(s_proving) {
    const uct_md_h md = scratch.md_handle();
    void *memory = &scratch.output;
    std::size_t length = 1;
    uct_mem_h memh = memory;
    ucs_memory_type_t type = UCS_MEMORY_TYPE_HOST;
    uct_md_mem_reg_params reg{};
    reg.field_mask = UCT_MD_MEM_REG_FIELD_FLAGS;
    reg.flags = UCT_MD_MEM_FLAG_HIDE_ERRORS;
    uct_md_mem_dereg_params dereg{};
    dereg.field_mask = UCT_MD_MEM_DEREG_FIELD_MEMH;
    dereg.memh = memory;
    uct_md_mem_attach_params attach{};
    attach.field_mask = UCT_MD_MEM_ATTACH_FIELD_FLAGS;
    attach.flags = UCT_MD_MEM_ATTACH_FLAG_HIDE_ERRORS;

    GAUDI_UCX_EXPECT(uct_md_close, uct_md_ops, close, md);
    GAUDI_UCX_EXPECT(uct_md_query_v2, uct_md_ops, query, md, scratch.parameters<uct_md_attr_v2>());
    GAUDI_UCX_EXPECT(uct_md_mem_alloc, uct_md_ops, mem_alloc, md, &length, &memory, UCS_MEMORY_TYPE_HOST,
                     UCS_SYS_DEVICE_ID_UNKNOWN, UCT_MD_MEM_ACCESS_ALL | UCT_MD_MEM_FLAG_HIDE_ERRORS, "proof", &memh);
    GAUDI_UCX_EXPECT(uct_md_mem_free, uct_md_ops, mem_free, md, memh);
    GAUDI_UCX_EXPECT(uct_md_mem_advise, uct_md_ops, mem_advise, md, memh, memory, length, 0);
    GAUDI_UCX_EXPECT(uct_md_mem_reg_v2, uct_md_ops, mem_reg, md, memory, length, &reg, &memh);
    GAUDI_UCX_EXPECT(uct_md_mem_dereg_v2, uct_md_ops, mem_dereg, md, &dereg);
    GAUDI_UCX_EXPECT(uct_md_mem_query_v2, uct_md_ops, mem_query, md, memory, length,
                     scratch.parameters<uct_md_mem_attr_v2>());
    GAUDI_UCX_EXPECT(uct_md_mkey_pack_v2, uct_md_ops, mkey_pack, md, memh, memory, length,
                     scratch.parameters<uct_md_mkey_pack_params>(), scratch.result<void>());
    GAUDI_UCX_EXPECT(uct_md_mem_attach, uct_md_ops, mem_attach, md, memory, &attach, &memh);
    GAUDI_UCX_EXPECT(uct_md_detect_memory_type, uct_md_ops, detect_memory_type, md, memory, length, &type);
    if (uct.uct_md_mem_elem_release != nullptr)
        GAUDI_UCX_EXPECT(uct_md_mem_elem_release, uct_md_ops, mem_elem_release, md, memory);
    return {};
}

/// Calls in the order of the slots, so that a longer table is noticed before a call goes past the end of ours.
Result<void> prove_iface(const Functions &uct, Scratch &scratch) GAUDI_REQUIRES(s_proving) {
    const uct_iface_h iface = scratch.iface_handle();
    const uct_ep_h ep = scratch.ep_handle();

    GAUDI_UCX_EXPECT(uct_ep_get_address, uct_iface_ops, ep_get_address, ep, scratch.result<uct_ep_addr>());
    GAUDI_UCX_EXPECT(uct_iface_event_fd_get, uct_iface_ops, iface_event_fd_get, iface, scratch.result<int>());
    GAUDI_UCX_EXPECT(uct_iface_event_arm, uct_iface_ops, iface_event_arm, iface, 0);
    GAUDI_UCX_EXPECT(uct_iface_query, uct_iface_ops, iface_query, iface, scratch.result<uct_iface_attr>());
    GAUDI_UCX_EXPECT(uct_iface_get_device_address, uct_iface_ops, iface_get_device_address, iface,
                     scratch.result<uct_device_addr>());
    GAUDI_UCX_EXPECT(uct_iface_get_address, uct_iface_ops, iface_get_address, iface, scratch.result<uct_iface_addr>());

    GAUDI_UCX_EXPECT(uct_iface_query_v2, uct_iface_internal_ops, iface_query_v2, iface,
                     scratch.parameters<uct_iface_attr_v2>());
    GAUDI_UCX_EXPECT(uct_iface_estimate_perf, uct_iface_internal_ops, iface_estimate_perf, iface,
                     scratch.parameters<uct_perf_attr>());
    GAUDI_UCX_EXPECT(uct_iface_is_reachable_v2, uct_iface_internal_ops, iface_is_reachable_v2, iface,
                     scratch.parameters<uct_iface_is_reachable_params>());
    GAUDI_UCX_EXPECT(uct_ep_is_connected, uct_iface_internal_ops, ep_is_connected, ep,
                     scratch.parameters<uct_ep_is_connected_params>());
    if (uct.uct_ep_put_sgl_zcopy != nullptr)
        GAUDI_UCX_EXPECT(uct_ep_put_sgl_zcopy, uct_iface_internal_ops, ep_put_sgl_zcopy, ep, nullptr, nullptr, nullptr,
                         nullptr, nullptr, nullptr, nullptr, 0, nullptr);
    if (uct.uct_ep_get_sgl_zcopy != nullptr)
        GAUDI_UCX_EXPECT(uct_ep_get_sgl_zcopy, uct_iface_internal_ops, ep_get_sgl_zcopy, ep, nullptr, nullptr, nullptr,
                         nullptr, nullptr, nullptr, nullptr, 0, nullptr);
    return {};
}

#undef GAUDI_UCX_EXPECT

/// The base function must clear the fields that we set, each by its bit of the mask, and nothing else.
Result<void> prove_iface_attributes(const Functions &uct, Scratch &scratch) {
    constexpr std::uint64_t kUntouched = ~0ull;
    const std::size_t fields = uct.uct_ep_get_sgl_zcopy != nullptr ? 3 : uct.uct_ep_put_sgl_zcopy != nullptr ? 2 : 0;
    for (std::size_t field = 0; field < fields; ++field) {
        std::array<std::uint64_t, 64> words;
        words.fill(kUntouched);
        words[0] = 1ull << field;
        (void)uct.uct_iface_base_query_v2(scratch.iface_handle(), reinterpret_cast<uct_iface_attr_v2 *>(&words));
        const std::size_t needed = field + 1;
        for (std::size_t word = 1; word < words.size(); ++word)
            if ((words[word] == kUntouched) == (word == needed))
                return mismatch(os::format("its uct_iface_base_query_v2 answers bit {} of the mask in another place "
                                           "than word {} of uct_iface_attr_v2",
                                           field, needed));
    }
    return {};
}

/// To be called before the dispatchers: in a build with other sizes even the way to a slot may differ.
Result<void> prove_sizes(const Functions &uct) {
    const std::tuple<const char *, const ucs_class *, std::size_t> classes[] = {
        {"uct_base_iface", uct.uct_base_iface_t_class, sizeof(uct_base_iface)},
        {"uct_base_ep", uct.uct_base_ep_t_class, sizeof(uct_ep)},
    };
    for (const auto &[name, found, needed] : classes) {
        if (found->size != needed)
            return mismatch(os::format("its {} has {} bytes, {} are needed (a build with statistics has more)", name,
                                       found->size, needed));
    }
    return {};
}

} // namespace

const char *tables_name(Tables tables) noexcept {
    switch (tables) {
    case Tables::v1_22_0:
        return "1.22.0";
    case Tables::v1_22_x:
        return "1.22.x";
    case Tables::v1_23:
        return "1.23";
    }
    return "unknown";
}

bool is_newer_than_tested(const Version &version) noexcept {
    return std::tie(version.major, version.minor) > std::tie(kNewestTested.major, kNewestTested.minor);
}

Result<Tables> prove_tables(const Functions &uct) {
    const os::MutexLock lock(s_proving);
    const auto scratch = std::make_unique<Scratch>();
    if (Result<void> held = prove_sizes(uct); !held)
        return tl::unexpected(held.error());
    if (Result<void> held = prove_md(uct, *scratch); !held)
        return tl::unexpected(held.error());
    if (Result<void> held = prove_iface(uct, *scratch); !held)
        return tl::unexpected(held.error());
    if (Result<void> held = prove_iface_attributes(uct, *scratch); !held)
        return tl::unexpected(held.error());
    if (uct.uct_ep_get_sgl_zcopy != nullptr)
        return Tables::v1_23;
    return uct.uct_md_mem_elem_release != nullptr ? Tables::v1_22_x : Tables::v1_22_0;
}

} // namespace gaudi::ucx
