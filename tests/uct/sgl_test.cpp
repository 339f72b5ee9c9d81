// SPDX-License-Identifier: BSD-3-Clause
// Lists of copies: one call of uct_ep_put_sgl_zcopy or uct_ep_get_sgl_zcopy, one completion.
#include "uct_side.h"

#include <algorithm>
#include <cstring>
#include <functional>

using namespace uct_side;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

/// An unpacked key of a buffer, which the destructor releases.
class Key {
public:
    Key(const Domain &domain, const Buffer &buffer) : m_component(domain.component()) {
        check(uct_rkey_unpack(m_component, domain.pack_key(buffer.memh()).data(), &m_bundle), "uct_rkey_unpack");
    }
    ~Key() { EXPECT_EQ(uct_rkey_release(m_component, &m_bundle), UCS_OK); }
    Key(const Key &) = delete;
    Key &operator=(const Key &) = delete;

    operator uct_rkey_t() const { return m_bundle.rkey; }

private:
    const uct_component_h m_component;
    uct_rkey_bundle_t m_bundle{};
};

struct List {
    std::vector<void *> buffers;
    std::vector<std::size_t> lengths;
    std::vector<uct_mem_h> memhs;
    std::vector<std::uint64_t> addresses;
    std::vector<uct_rkey_t> keys;
    std::vector<std::size_t> counts, strides; // empty: one block each

    void add(void *buffer, std::size_t length, uct_mem_h memh, std::uint64_t address, uct_rkey_t key) {
        buffers.push_back(buffer);
        lengths.push_back(length);
        memhs.push_back(memh);
        addresses.push_back(address);
        keys.push_back(key);
    }
    void add_blocks(void *buffer, std::size_t length, uct_mem_h memh, std::uint64_t address, uct_rkey_t key,
                    std::size_t count, std::size_t stride) {
        add(buffer, length, memh, address, key);
        counts.push_back(count);
        strides.push_back(stride);
    }
};

/// Counts its calls, which a plain counter of copies does not.
struct Completion : uct_completion_t {
    explicit Completion(int copies = 1)
        : uct_completion_t{[](uct_completion_t *self) { ++static_cast<Completion *>(self)->calls; }, copies, UCS_OK} {}
    unsigned calls = 0;
};

enum class Way { put, get };

/// Those of the UCX that the program runs on.
std::vector<Way> ways() {
    return uct_ep_get_sgl_zcopy != nullptr ? std::vector{Way::put, Way::get} : std::vector{Way::put};
}
std::string way_name(Way way) { return way == Way::put ? "put" : "get"; }

ucs_status_t post(Way way, const Transport &transport, const List &list, uct_completion_t *comp) {
    const auto function = way == Way::put ? &uct_ep_put_sgl_zcopy : &uct_ep_get_sgl_zcopy;
    return function(transport.ep(), list.buffers.data(), list.lengths.data(), list.memhs.data(), list.addresses.data(),
                    list.keys.data(), list.counts.empty() ? nullptr : list.counts.data(),
                    list.strides.empty() ? nullptr : list.strides.data(), list.lengths.size(), comp);
}

/// Posts a list and waits until it is complete.
void run(Way way, const Transport &transport, const List &list) {
    Completion comp;
    ASSERT_EQ(post(way, transport, list, &comp), UCS_INPROGRESS);
    EXPECT_EQ(comp.calls, 0u) << "inside the call";
    while (comp.calls == 0)
        transport.progress();
    EXPECT_EQ(comp.status, UCS_OK);
    EXPECT_EQ(transport.flush(), UCS_OK);
    EXPECT_EQ(comp.calls, 1u);
}

TEST(SglCapabilities, match_the_functions_of_this_ucx) {
    Domain domain;
    const Transport transport(domain);
    InterfaceAttributes attributes{};
    attributes.field_mask = 7;
    ASSERT_EQ(uct_iface_query_v2(transport.iface(), &attributes), UCS_OK);
    EXPECT_EQ(attributes.max_put, SIZE_MAX);
    if (uct_ep_get_sgl_zcopy != nullptr) {
        EXPECT_EQ(attributes.max_get, SIZE_MAX);
        EXPECT_EQ(attributes.flags, 3u);
    } else {
        EXPECT_EQ(attributes.max_get, 1u) << "these are the flags";
        EXPECT_EQ(attributes.flags, 0u) << "this is another field";
    }
    for (const std::uint64_t field : attributes.rest)
        EXPECT_EQ(field, 0u);
    // Only what the mask asks for is written.
    attributes = {1, 5, 6, 7, {}};
    ASSERT_EQ(uct_iface_query_v2(transport.iface(), &attributes), UCS_OK);
    EXPECT_EQ(attributes.max_put, SIZE_MAX);
    EXPECT_EQ(attributes.max_get, 6u);
    EXPECT_EQ(attributes.flags, 7u);
}

/// One list with elements of many sizes and alignments: neither their order nor their places are regular.
void add_elements(List &list, unsigned char *local, uct_mem_h memh, std::uint64_t remote, uct_rkey_t key,
                  std::size_t room) {
    std::size_t offset = 0;
    for (std::size_t i = 0; i < 60; ++i) {
        const std::size_t length = 1 + (i * 7919 + 4096 * (i % 5)) % 20'000 + (i == 33 ? 300 * kKiB : 0);
        list.add(local + offset, length, memh, remote + room - offset - length, key);
        offset += length + i % 3;
    }
    ASSERT_LE(offset, room);
}

/// What the other end holds after a list of add_elements().
Bytes moved_by(const List &list, const Bytes &from, const Bytes &to, const unsigned char *local, std::uint64_t remote,
               bool put) {
    Bytes after = to;
    for (std::size_t i = 0; i < list.lengths.size(); ++i) {
        const auto near = static_cast<std::size_t>(static_cast<unsigned char *>(list.buffers[i]) - local);
        const auto far = static_cast<std::size_t>(list.addresses[i] - remote);
        std::memcpy(after.data() + (put ? far : near), from.data() + (put ? near : far), list.lengths[i]);
    }
    return after;
}

enum class Memory { registered, unregistered, same_card, other_card };

class SglMemory : public ::testing::TestWithParam<std::tuple<Way, Memory>> {};

std::string memory_name(Memory memory) {
    static constexpr const char *kNames[] = {"registered", "unregistered", "same_card", "other_card"};
    return kNames[static_cast<int>(memory)];
}

INSTANTIATE_TEST_SUITE_P(with, SglMemory,
                         ::testing::Combine(::testing::ValuesIn(ways()),
                                            ::testing::Values(Memory::registered, Memory::unregistered,
                                                              Memory::same_card, Memory::other_card)),
                         [](const auto &tested) {
                             return way_name(std::get<0>(tested.param)) + "_" + memory_name(std::get<1>(tested.param));
                         });

TEST_P(SglMemory, every_element_arrives_and_no_byte_beside_them) {
    const auto [way, memory] = GetParam();
    const bool put = way == Way::put;
    constexpr std::size_t kRoom = 2 * kMiB;
    Domain domain(settings_for_card(0));
    const Domain second(settings_for_card(1));
    const Transport transport(domain);
    const Buffer remote(domain, kRoom), near(memory == Memory::other_card ? second : domain, kRoom);
    const Key key(domain, remote);
    Bytes host = pattern(kRoom, 1);
    const bool on_card = memory == Memory::same_card || memory == Memory::other_card;
    const uct_mem_h registered = memory == Memory::registered ? domain.reg(host.data(), kRoom) : nullptr;
    unsigned char *local = on_card ? near.data() : host.data();
    List list;
    ASSERT_NO_FATAL_FAILURE(
        add_elements(list, local, on_card ? near.memh() : registered, remote.address(), key, kRoom));

    // Twice: the second time memory is mapped that was staged the first time.
    for (unsigned round = 0; round < 2; ++round) {
        const Bytes here = pattern(kRoom, 10 + round), there = pattern(kRoom, 20 + round);
        if (on_card)
            transport.write(near, here);
        else
            host = here; // in place
        transport.write(remote, there);
        ASSERT_NO_FATAL_FAILURE(run(way, transport, list));
        const Bytes here_after = on_card ? transport.read(near, kRoom) : host;
        const Bytes there_after = transport.read(remote, kRoom);
        const Bytes moved = moved_by(list, put ? here : there, put ? there : here, local, remote.address(), put);
        EXPECT_TRUE((put ? there_after : here_after) == moved);
        EXPECT_TRUE((put ? here_after : there_after) == (put ? here : there)) << "the source was changed";
    }
    if (registered) {
        EXPECT_EQ(domain.dereg(registered), UCS_OK);
    }
}

/// Host memory that is registered, and a buffer with its key.
class SglBlocks : public ::testing::TestWithParam<Way> {
protected:
    static constexpr std::size_t kBlock = 64;
    static constexpr std::size_t kBlocks = 10'000;
    static constexpr std::size_t kRoom = 2 * kBlocks * kBlock;

    SglBlocks()
        : m_transport(m_domain), m_buffer(m_domain, kRoom), m_key(m_domain, m_buffer), m_host(pattern(kRoom, 3)),
          m_memh(m_domain.reg(m_host.data(), kRoom)), m_there(pattern(kRoom, 4)) {
        m_transport.write(m_buffer, m_there);
        m_here = m_host;
    }
    ~SglBlocks() override { EXPECT_EQ(m_domain.dereg(m_memh), UCS_OK); }

    static bool puts() { return GetParam() == Way::put; }
    void add(List &list, std::size_t offset, std::size_t length) {
        list.add(m_host.data() + offset, length, m_memh, m_buffer.address(offset), m_key);
    }
    void add_blocks(List &list, std::size_t offset, std::size_t length, std::size_t count, std::size_t stride) {
        list.add_blocks(m_host.data() + offset, length, m_memh, m_buffer.address(offset), m_key, count, stride);
    }
    /// Both ends, where the copies have the same offsets at both.
    void expect_moved(const std::function<bool(std::size_t offset)> &was_copied) {
        const Bytes &from = puts() ? m_here : m_there;
        Bytes expected = puts() ? m_there : m_here;
        for (std::size_t i = 0; i < kRoom; ++i)
            if (was_copied(i))
                expected[i] = from[i];
        EXPECT_TRUE((puts() ? m_transport.read(m_buffer, kRoom) : m_host) == expected);
        EXPECT_TRUE((puts() ? m_host : m_transport.read(m_buffer, kRoom)) == from);
    }
    void expect_unmoved() {
        expect_moved([](std::size_t) { return false; });
    }

    e2e::Printed m_printed;
    Domain m_domain;
    const Transport m_transport;
    const Buffer m_buffer;
    const Key m_key;
    Bytes m_host;
    const uct_mem_h m_memh;
    const Bytes m_there;
    Bytes m_here;
};

INSTANTIATE_TEST_SUITE_P(with, SglBlocks, ::testing::ValuesIn(ways()),
                         [](const auto &tested) { return way_name(tested.param); });

TEST_P(SglBlocks, ten_thousand_are_accepted_in_one_call_and_batched) {
    List list;
    for (std::size_t i = 0; i < kBlocks; ++i)
        add(list, 2 * i * kBlock, kBlock); // apart, so that no two are merged
    run(GetParam(), m_transport, list);    // maps the memory
    const std::uint64_t submissions = read_counter("submissions"), packets = read_counter("packets");
    run(GetParam(), m_transport, list);
    EXPECT_LE(read_counter("submissions") - submissions, kBlocks / 64 + 2);
    EXPECT_GE(read_counter("packets") - packets, kBlocks);
    expect_moved([](std::size_t offset) { return offset / kBlock % 2 == 0; });
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_P(SglBlocks, neighbours_that_touch_are_one_copy) {
    List list;
    for (std::size_t i = 0; i < kBlocks; ++i)
        add(list, i * kBlock, kBlock);
    run(GetParam(), m_transport, list);
    const std::uint64_t submissions = read_counter("submissions");
    run(GetParam(), m_transport, list);
    EXPECT_LE(read_counter("submissions") - submissions, kBlocks * kBlock / (512 * kKiB) + 2);
    expect_moved([](std::size_t offset) { return offset < kBlocks * kBlock; });
}

TEST_P(SglBlocks, neighbours_at_one_end_only_stay_apart) {
    List list;
    for (std::size_t i = 0; i < 100; ++i)
        list.add(m_host.data() + i * kBlock, kBlock, m_memh, m_buffer.address((100 - i) * kBlock), m_key);
    run(GetParam(), m_transport, list);
    const Bytes &from = puts() ? m_here : m_there;
    const Bytes to = puts() ? m_transport.read(m_buffer, kRoom) : m_host;
    for (std::size_t i = 0; i < 100; ++i) {
        const std::size_t near = i * kBlock, far = (100 - i) * kBlock;
        EXPECT_EQ(std::memcmp(to.data() + (puts() ? far : near), from.data() + (puts() ? near : far), kBlock), 0) << i;
    }
}

TEST_P(SglBlocks, empty_list_and_empty_elements_succeed_at_once) {
    Completion comp;
    EXPECT_EQ(post(GetParam(), m_transport, {}, &comp), UCS_OK);
    List list;
    const uct_rkey_t no_key = 1;
    list.add(nullptr, 0, nullptr, 0, no_key);
    list.add(reinterpret_cast<void *>(8), 0, nullptr, ~0ull, no_key);
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_OK);
    EXPECT_EQ(post(GetParam(), m_transport, list, nullptr), UCS_OK);
    EXPECT_EQ(comp.calls, 0u) << "a copy that is complete on return has no callback";
    list.counts = {0, 3};
    list.strides = {5, 5};
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_OK);
    expect_unmoved();
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

TEST_P(SglBlocks, empty_elements_between_others_are_skipped) {
    List list;
    add(list, 0, 100);
    list.add(nullptr, 0, nullptr, 0, 1);
    add(list, 100, 100);
    list.add(nullptr, 0, nullptr, 0, 1);
    run(GetParam(), m_transport, list);
    expect_moved([](std::size_t offset) { return offset < 200; });
}

TEST_P(SglBlocks, counts_and_strides_repeat_a_block_at_both_ends) {
    List list;
    add_blocks(list, 0, 1000, 10, 3000);
    add_blocks(list, 100'000, 64, 1, 0);
    add_blocks(list, 200'000, 500, 4, 500); // touch, so that they are merged
    add_blocks(list, 300'000, 500, 0, 500);
    run(GetParam(), m_transport, list);
    expect_moved([](std::size_t offset) {
        return (offset < 30'000 && offset % 3000 < 1000) || (offset >= 100'000 && offset < 100'064) ||
               (offset >= 200'000 && offset < 202'000);
    });
}

TEST_P(SglBlocks, counts_without_strides_or_beyond_the_address_space_are_refused) {
    List list;
    add(list, 0, 100);
    add_blocks(list, 1000, 100, 2, 200);
    list.counts = {1, 2};
    list.strides.clear();
    Completion comp;
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("element 1 of a list has 2 blocks and no stride"));
    list.strides = {0, SIZE_MAX};
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("does not fit into the address space"));
    list.strides = {0, kRoom};
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_ERR_INVALID_ADDR)
        << "the second block is outside of the key";
    EXPECT_EQ(comp.calls, 0u);
    expect_unmoved();
}

TEST_P(SglBlocks, one_element_outside_of_its_key_starts_nothing) {
    List list;
    for (std::size_t i = 0; i < 100; ++i)
        add(list, 2 * i * kBlock, kBlock);
    list.addresses[50] = m_buffer.address(kRoom - 1);
    Completion comp;
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_ERR_INVALID_ADDR);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("that the remote key names"));
    EXPECT_EQ(m_transport.flush(), UCS_OK);
    EXPECT_EQ(comp.calls, 0u);
    expect_unmoved();
}

TEST_P(SglBlocks, one_unreachable_handle_starts_nothing) {
    Bytes foreign(kBlock);
    const uct_mem_h memh =
        m_domain.reg(foreign.data(), kBlock, RegisterParams{9, UCT_MD_MEM_ACCESS_ALL, -1, 0, UCS_MEMORY_TYPE_CUDA});
    List list;
    for (std::size_t i = 0; i < 100; ++i)
        add(list, 2 * i * kBlock, kBlock);
    list.memhs[50] = memh;
    Completion comp;
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(comp.calls, 0u);
    expect_unmoved();
    EXPECT_EQ(m_domain.dereg(memh), UCS_OK);
}

TEST_P(SglBlocks, one_refused_element_is_one_error_after_the_others_have_ended) {
    List list;
    for (std::size_t i = 0; i < 100; ++i)
        add(list, 2 * i * kBlock, kBlock);
    // Without a key, so that only the copy itself finds out: host memory at both ends.
    list.keys[50] = 0;
    list.addresses[50] = reinterpret_cast<std::uint64_t>(m_host.data());
    Completion comp;
    ASSERT_EQ(post(GetParam(), m_transport, list, &comp), UCS_INPROGRESS);
    while (comp.calls == 0)
        m_transport.progress();
    EXPECT_EQ(comp.status, UCS_ERR_UNSUPPORTED);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("neither the destination"));
    EXPECT_EQ(comp.calls, 1u);
    expect_moved([](std::size_t offset) { return offset / kBlock % 2 == 0 && offset / kBlock < 100; });
    // The next list is not affected.
    List next;
    add(next, 0, kBlock);
    m_transport.flush(); // reports the failure
    run(GetParam(), m_transport, next);
}

TEST_P(SglBlocks, first_element_refused_is_an_error_of_the_call) {
    List list;
    list.add(m_host.data(), kBlock, m_memh, reinterpret_cast<std::uint64_t>(m_host.data() + kBlock), 0);
    add(list, 4 * kBlock, kBlock);
    Completion comp;
    EXPECT_EQ(post(GetParam(), m_transport, list, &comp), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(m_transport.flush(), UCS_OK);
    EXPECT_EQ(comp.calls, 0u);
    expect_unmoved();
}

TEST_P(SglBlocks, completion_is_shared_with_other_operations) {
    List list;
    for (std::size_t i = 0; i < 100; ++i)
        add(list, 2 * i * kBlock, kBlock);
    Completion comp(3); // as UCP counts: one for each of two calls, and one of its own
    ASSERT_EQ(post(GetParam(), m_transport, list, &comp), UCS_INPROGRESS);
    ASSERT_EQ(post(GetParam(), m_transport, list, &comp), UCS_INPROGRESS);
    EXPECT_EQ(m_transport.flush(), UCS_OK);
    EXPECT_EQ(comp.count, 1);
    EXPECT_EQ(comp.calls, 0u);
    ASSERT_EQ(post(GetParam(), m_transport, list, nullptr), UCS_INPROGRESS) << "without a completion";
    EXPECT_EQ(m_transport.flush(), UCS_OK);
}

TEST_P(SglBlocks, list_behind_a_fence_waits_for_what_is_before_it) {
    // Ahead of the list, its source is written, by another queue than those of the list.
    const Buffer other(m_domain, 16 * kMiB);
    const Bytes ahead = pattern(16 * kMiB, 9);
    for (unsigned round = 0; round < 5; ++round) {
        Completion comp(2);
        ASSERT_EQ(m_transport.post_put(ahead.data(), other.address(), ahead.size(), nullptr, comp), UCS_INPROGRESS);
        ASSERT_EQ(uct_ep_fence(m_transport.ep(), 0), UCS_OK);
        List list;
        for (std::size_t i = 0; i < 1000; ++i)
            if (puts())
                list.add(other.data() + 4 * i * kBlock, kBlock, other.memh(), m_buffer.address(4 * i * kBlock), m_key);
            else
                list.add(m_host.data() + 4 * i * kBlock, kBlock, m_memh, other.address(4 * i * kBlock), 0);
        ASSERT_EQ(post(GetParam(), m_transport, list, &comp), UCS_INPROGRESS);
        while (comp.calls == 0)
            m_transport.progress();
        EXPECT_EQ(comp.status, UCS_OK);
        const Bytes after = puts() ? m_transport.read(m_buffer, kRoom) : m_host;
        for (std::size_t i = 0; i < 1000; ++i)
            ASSERT_EQ(std::memcmp(after.data() + 4 * i * kBlock, ahead.data() + 4 * i * kBlock, kBlock), 0) << i;
    }
}

TEST_P(SglBlocks, interface_closes_with_a_list_outstanding) {
    List list;
    for (std::size_t i = 0; i < kBlocks; ++i)
        add(list, 2 * i * kBlock, kBlock);
    Completion comp;
    {
        const Transport closing(m_domain);
        ASSERT_EQ(post(GetParam(), closing, list, &comp), UCS_INPROGRESS);
    }
    EXPECT_EQ(comp.calls, 0u) << "the caller may have freed the completion";
    EXPECT_EQ(read_counter("hard_resets"), 0u);
}

} // namespace
