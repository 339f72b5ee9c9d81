// SPDX-License-Identifier: BSD-3-Clause
// Remote keys: 24 bytes that may come from the network.
#include "uct_side.h"

#include "os/system_call.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <functional>
#include <thread>

using namespace uct_side;
using ::testing::HasSubstr;

namespace {

struct Fields {
    std::uint64_t address, length;
    std::int32_t descriptor, process;
};
static_assert(sizeof(Fields) == 24);

Fields parse(const std::vector<unsigned char> &key) {
    Fields fields{};
    std::memcpy(&fields, key.data(), sizeof fields);
    return fields;
}

/// An unpacked key that the destructor releases.
class UnpackedKey {
public:
    UnpackedKey(const Domain &domain, const Fields &key) : m_component(domain.component()) {
        check(uct_rkey_unpack(m_component, &key, &m_bundle), "uct_rkey_unpack");
    }
    UnpackedKey(const Domain &domain, uct_mem_h memh) : UnpackedKey(domain, parse(domain.pack_key(memh))) {}
    ~UnpackedKey() { EXPECT_EQ(uct_rkey_release(m_component, &m_bundle), UCS_OK); }
    UnpackedKey(const UnpackedKey &) = delete;
    UnpackedKey &operator=(const UnpackedKey &) = delete;

    uct_rkey_t rkey() const { return m_bundle.rkey; }

private:
    const uct_component_h m_component;
    uct_rkey_bundle_t m_bundle{};
};

class Key : public ::testing::Test {
protected:
    static ucs_status_t unpack(const Domain &domain, const Fields &key, uct_rkey_bundle_t &bundle) {
        return uct_rkey_unpack(domain.component(), &key, &bundle);
    }
    static ucs_status_t attach(const Domain &domain, const Fields &key) {
        uct_mem_h memh = nullptr;
        AttachParams params{};
        const ucs_status_t status = uct_md_mem_attach(domain.md(), &key, &params, &memh);
        if (status == UCS_OK) {
            EXPECT_EQ(domain.dereg(memh), UCS_OK);
        }
        return status;
    }

    e2e::Printed m_printed;
};

TEST_F(Key, holds_range_descriptor_and_process) {
    const Domain domain;
    const Buffer one(domain, kMiB), other(domain, kMiB);
    const Fields whole = parse(domain.pack_key(one.memh()));
    EXPECT_EQ(whole.address, one.address());
    EXPECT_EQ(whole.length, kMiB);
    EXPECT_EQ(whole.process, getpid());
    EXPECT_GE(whole.descriptor, 0);
    EXPECT_EQ(parse(domain.pack_key(other.memh())).descriptor, whole.descriptor) << "one dma-buf for the block";
    const uct_mem_h memh = domain.reg(one.data() + 100, 1000);
    const Fields part = parse(domain.pack_key(memh));
    EXPECT_EQ(part.address, one.address(100));
    EXPECT_EQ(part.length, 1000u);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Key, range_ends_where_the_mapping_ends) {
    const Domain domain;
    const Buffer block(domain, 2 * kPage);
    const uct_mem_h memh = domain.reg(block.data() + 2 * kPage - 100, 1000); // UCX may round up
    const UnpackedKey key(domain, memh);
    EXPECT_EQ(parse(domain.pack_key(memh)).length, 100u);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Key, comparison_is_a_total_order_by_content) {
    const Domain domain;
    const Buffer one(domain, kMiB), other(domain, kMiB), far(domain, 2 * kPage);
    const uct_mem_h part = domain.reg(one.data(), 4096);
    Fields foreign = parse(domain.pack_key(one.memh()));
    foreign.process = getppid();
    const UnpackedKey first(domain, one.memh()), again(domain, one.memh());
    const UnpackedKey neighbour(domain, other.memh()), elsewhere(domain, far.memh()), piece(domain, part);
    const UnpackedKey of_another_process(domain, foreign);
    const auto compare = [&](uct_rkey_t left, uct_rkey_t right) {
        const CompareParams params{};
        int result = 7;
        EXPECT_EQ(uct_rkey_compare(domain.component(), left, right, &params, &result), UCS_OK);
        return result;
    };
    EXPECT_NE(first.rkey(), again.rkey());
    EXPECT_EQ(compare(first.rkey(), again.rkey()), 0);
    const std::array<uct_rkey_t, 7> different{
        first.rkey(), neighbour.rkey(), elsewhere.rkey(), piece.rkey(), 0, of_another_process.rkey(), UCT_INVALID_RKEY};
    for (const uct_rkey_t left : different)
        for (const uct_rkey_t right : different) {
            EXPECT_EQ(compare(left, right) == 0, left == right);
            EXPECT_EQ(compare(left, right), -compare(right, left));
        }
    std::vector<uct_rkey_t> sorted(different.begin(), different.end());
    std::sort(sorted.begin(), sorted.end(), [&](uct_rkey_t l, uct_rkey_t r) { return compare(l, r) < 0; });
    for (std::size_t i = 0; i < sorted.size(); ++i)
        for (std::size_t j = i + 1; j < sorted.size(); ++j)
            EXPECT_EQ(compare(sorted[i], sorted[j]), -1) << "a total order";
    EXPECT_EQ(domain.dereg(part), UCS_OK);
}

TEST_F(Key, rkey_ptr_is_unsupported) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    uct_rkey_bundle_t bundle{};
    ASSERT_EQ(uct_rkey_unpack(domain.component(), domain.pack_key(buffer.memh()).data(), &bundle), UCS_OK);
    void *pointer = nullptr;
    EXPECT_EQ(uct_rkey_ptr(domain.component(), &bundle, buffer.address(), &pointer), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(uct_rkey_release(domain.component(), &bundle), UCS_OK);
}

/// Tries all four operations with a key and expects the same status from each.
ucs_status_t copy_with_key(const Transport &transport, uct_rkey_t rkey, std::uint64_t remote, std::size_t length) {
    Bytes host(length);
    std::vector<ucs_status_t> all = {
        uct_ep_put_short(transport.ep(), host.data(), static_cast<unsigned>(length), remote, rkey),
        uct_ep_get_short(transport.ep(), host.data(), static_cast<unsigned>(length), remote, rkey)};
    for (const auto post : {uct_ep_put_zcopy, uct_ep_get_zcopy}) {
        uct_completion_t comp = make_completion();
        const uct_iov_t iov{host.data(), length, nullptr, 0, 1};
        const ucs_status_t status = post(transport.ep(), &iov, 1, remote, rkey, &comp);
        while (status == UCS_INPROGRESS && comp.count != 0)
            transport.progress();
        all.push_back(status == UCS_INPROGRESS ? comp.status : status);
    }
    for (const ucs_status_t status : all)
        EXPECT_EQ(status, all.front());
    return all.front();
}

TEST_F(Key, operation_outside_its_range_is_refused) {
    Domain domain;
    const Transport transport(domain);
    const Buffer one(domain, kMiB);
    std::optional<Buffer> other(std::in_place, domain, kMiB);
    const std::uint64_t target = other->address();
    const UnpackedKey key(domain, one.memh());
    EXPECT_EQ(copy_with_key(transport, key.rkey(), one.address(), 4096), UCS_OK);
    EXPECT_EQ(copy_with_key(transport, key.rkey(), one.address(kMiB - 100), 100), UCS_OK);
    EXPECT_EQ(copy_with_key(transport, UCT_INVALID_RKEY, target, 100), UCS_OK) << "UCP's pipelines copy without a key";
    EXPECT_THAT(m_printed.complaints(), testing::IsEmpty());

    EXPECT_EQ(copy_with_key(transport, key.rkey(), target, 100), UCS_ERR_INVALID_ADDR);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("are not inside the 1048576 bytes at"));
    EXPECT_EQ(copy_with_key(transport, key.rkey(), one.address(kMiB - 100), 101), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(copy_with_key(transport, key.rkey(), one.address() - 1, 2), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(copy_with_key(transport, key.rkey(), one.address(kMiB), 1), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(copy_with_key(transport, key.rkey(), 0, 1), UCS_ERR_INVALID_ADDR);
    other.reset();
    EXPECT_EQ(copy_with_key(transport, key.rkey(), target, 100), UCS_ERR_INVALID_ADDR) << "after the target was freed";
}

TEST_F(Key, operation_outside_a_host_range_is_refused) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Bytes host = pattern(4096, 1);
    const uct_mem_h memh = domain.reg(host.data(), 1000);
    const UnpackedKey key(domain, memh);
    const auto address = reinterpret_cast<std::uint64_t>(host.data());
    ASSERT_EQ(uct_ep_get_short(transport.ep(), buffer.data(), 1000, address, key.rkey()), UCS_OK);
    EXPECT_EQ(transport.read(buffer, 1000), pattern(1000, 1));
    EXPECT_EQ(uct_ep_get_short(transport.ep(), buffer.data(), 1001, address, key.rkey()), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(uct_ep_put_short(transport.ep(), buffer.data(), 10, address + 1000, key.rkey()), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(copy_with_key(transport, key.rkey(), buffer.address(), 10), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Key, unmapped_range_is_refused_even_if_mapped_again) {
    Domain domain;
    const Transport transport(domain);
    const Buffer kept(domain, kMiB);
    std::optional<Buffer> large(std::in_place, domain, 3 * kPage); // a block of one allocation
    const std::uint64_t address = large->address();
    const Fields packed = parse(domain.pack_key(large->memh()));
    const UnpackedKey key(domain, packed);
    EXPECT_EQ(copy_with_key(transport, key.rkey(), address, 100), UCS_OK);
    large.reset();
    EXPECT_EQ(copy_with_key(transport, key.rkey(), address, 100), UCS_ERR_INVALID_ADDR);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("was unmapped"));
    uct_rkey_bundle_t bundle{};
    EXPECT_EQ(unpack(domain, packed, bundle), UCS_ERR_INVALID_PARAM);

    const Buffer again(domain, 3 * kPage,
                       {.flags = UCT_MD_MEM_FLAG_FIXED, .address = reinterpret_cast<void *>(address)});
    EXPECT_EQ(copy_with_key(transport, key.rkey(), address, 100), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(copy_with_key(transport, UnpackedKey(domain, again.memh()).rkey(), address, 100), UCS_OK);
}

TEST_F(Key, use_after_release_is_refused) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    uct_rkey_bundle_t bundle{};
    ASSERT_EQ(uct_rkey_unpack(domain.component(), domain.pack_key(buffer.memh()).data(), &bundle), UCS_OK);
    ASSERT_EQ(uct_rkey_release(domain.component(), &bundle), UCS_OK);
    EXPECT_EQ(copy_with_key(transport, bundle.rkey, buffer.address(), 100), UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("was released"));
    EXPECT_EQ(uct_rkey_release(domain.component(), &bundle), UCS_ERR_INVALID_PARAM);
    int result = 0;
    const CompareParams params{};
    EXPECT_EQ(uct_rkey_compare(domain.component(), bundle.rkey, bundle.rkey, &params, &result), UCS_ERR_INVALID_PARAM);
}

TEST_F(Key, threads_unpack_and_release_at_once) {
    const Domain domain;
    constexpr unsigned kThreads = 4, kHeld = 100, kRounds = 200;
    std::vector<std::thread> threads;
    std::atomic<unsigned> wrong{0};
    for (unsigned thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&, thread] {
            // Unpacking keys of another process changes nothing but the list of unpacked keys.
            for (unsigned round = 0; round < kRounds; ++round) {
                std::vector<uct_rkey_bundle_t> held(kHeld);
                for (unsigned i = 0; i < kHeld; ++i) {
                    const Fields key{0x10000 + thread, 1 + i, -1, getppid()};
                    wrong += unpack(domain, key, held[i]) == UCS_OK ? 0 : 1;
                }
                // Comparison by length shows that each key is still the one that this thread unpacked.
                for (unsigned i = 0; i + 1 < kHeld; ++i) {
                    const CompareParams params{};
                    int result = 7;
                    uct_rkey_compare(domain.component(), held[i].rkey, held[i + 1].rkey, &params, &result);
                    wrong += result == -1 ? 0 : 1;
                }
                for (const auto &bundle : held)
                    wrong += uct_rkey_release(domain.component(), &bundle) == UCS_OK ? 0 : 1;
            }
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(wrong, 0u);
}

TEST_F(Key, invalidate_flags_change_no_packed_byte) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto plain = domain.pack_key(buffer.memh());
    std::vector<unsigned char> key(plain.size());
    const auto pack = [&](unsigned flags) {
        const PackParams params{1, flags};
        return uct_md_mkey_pack_v2(domain.md(), buffer.memh(), buffer.data(), buffer.size(), &params, key.data());
    };
    for (const unsigned flags : {0u, 1u, 2u, 3u}) {
        key.assign(key.size(), 0);
        EXPECT_EQ(pack(flags), UCS_OK) << flags;
        EXPECT_EQ(key, plain);
    }
    EXPECT_EQ(pack(4), UCS_ERR_UNSUPPORTED);
    EXPECT_THAT(m_printed.complaints(), testing::ElementsAre(HasSubstr("no keys for export")));
}

TEST_F(Key, host_memory_packs_without_descriptor) {
    const Domain domain;
    Bytes host(4096);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    const std::vector<unsigned char> key = domain.pack_key(memh);
    EXPECT_EQ(parse(key).descriptor, -1);
    uct_rkey_bundle_t bundle{};
    EXPECT_EQ(uct_rkey_unpack(domain.component(), key.data(), &bundle), UCS_OK);
    EXPECT_EQ(uct_rkey_release(domain.component(), &bundle), UCS_OK);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Key, bad_field_is_refused_with_the_reason) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const Fields good = parse(domain.pack_key(buffer.memh()));
    const auto expect_refused = [&](const char *why, const std::function<void(Fields &)> &change) {
        Fields key = good;
        change(key);
        uct_rkey_bundle_t bundle{};
        EXPECT_EQ(unpack(domain, key, bundle), UCS_ERR_INVALID_PARAM) << why;
        EXPECT_NE(attach(domain, key), UCS_OK) << why;
        EXPECT_THAT(m_printed.complaints().back(), HasSubstr(why));
    };
    expect_refused("which is no range", [](Fields &key) { key.length = 0; });
    expect_refused("which is no range", [](Fields &key) { key.length = ~std::uint64_t{0}; });
    expect_refused("which is none", [](Fields &key) { key.process = 0; });
    expect_refused("which is none", [](Fields &key) { key.process = -5; });
    expect_refused("which is none", [](Fields &key) { key.descriptor = -3; });
    constexpr const char *kNoMapping = "no mapping of Gaudi memory has both";
    expect_refused(kNoMapping, [](Fields &key) { key.address += 1000 * kPage; });
    expect_refused(kNoMapping, [](Fields &key) { key.length = kPage + 1; });
    expect_refused(kNoMapping, [](Fields &key) { key.descriptor += 1; });
    expect_refused(kNoMapping, [](Fields &key) { key.descriptor = 0; });
    expect_refused(kNoMapping,
                   [&](Fields &key) { key.address = reinterpret_cast<std::uint64_t>(&key); }); // host memory
    expect_refused(kNoMapping, [&](Fields &key) { // a range from host memory into device memory
        key.descriptor = -1;
        key.length = key.address;
        key.address = 4096;
    });
    EXPECT_EQ(attach(domain, good), UCS_OK);
}

TEST_F(Key, random_bytes_change_no_memory) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    transport.write(buffer, pattern(kMiB, 1));
    std::uint64_t state = 1;
    const auto next = [&] { return state = state * 6364136223846793005 + 1442695040888963407; };
    const Fields good = parse(domain.pack_key(buffer.memh()));
    for (unsigned i = 0; i < 2000; ++i) {
        Fields key = good;
        auto *bytes = reinterpret_cast<unsigned char *>(&key);
        for (std::uint64_t flips = 1 + next() % 6; flips > 0; --flips)
            bytes[(next() >> 33) % sizeof key] ^= static_cast<unsigned char>(next() >> 40);
        uct_rkey_bundle_t bundle{};
        if (unpack(domain, key, bundle) == UCS_OK) {
            EXPECT_EQ(uct_rkey_release(domain.component(), &bundle), UCS_OK);
        }
        (void)attach(domain, key);
    }
    EXPECT_EQ(transport.read(buffer, kMiB), pattern(kMiB, 1));
}

TEST_F(Key, foreign_process_unpacks_but_is_not_copied) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Fields key = parse(domain.pack_key(buffer.memh()));
    key.process = getppid();
    uct_rkey_bundle_t bundle{};
    ASSERT_EQ(unpack(domain, key, bundle), UCS_OK);
    Bytes host(64);
    EXPECT_EQ(uct_ep_put_short(transport.ep(), host.data(), 64, buffer.address(), bundle.rkey), UCS_ERR_UNREACHABLE);
    const uct_iov_t iov{host.data(), host.size(), nullptr, 0, 1};
    EXPECT_EQ(uct_ep_get_zcopy(transport.ep(), &iov, 1, buffer.address(), bundle.rkey, nullptr), UCS_ERR_UNREACHABLE);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("another process's")));
}

/// A child process that holds Gaudi memory until this object is destroyed.
class Exporter {
public:
    explicit Exporter(bool dumpable = true) {
        std::array<int, 2> ends{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
            throw Failure("socketpair");
        m_child = fork();
        if (m_child == 0) {
            close(ends[0]);
            char done = 0;
            prctl(PR_SET_DUMPABLE, dumpable ? 1 : 0);
            try {
                const Domain domain;
                const Buffer buffer(domain, kMiB);
                const Fields own = parse(domain.pack_key(buffer.memh()));
                (void)!write(ends[1], &own, sizeof own);
                (void)!read(ends[1], &done, 1);
            } catch (...) {
            }
            _exit(0);
        }
        close(ends[1]);
        m_socket = ends[0];
        if (read(m_socket, &key, sizeof key) != sizeof key)
            throw Failure("the exporting process allocated no memory");
    }
    ~Exporter() {
        close(m_socket);
        waitpid(m_child, nullptr, 0);
    }
    Exporter(const Exporter &) = delete;
    Exporter &operator=(const Exporter &) = delete;

    Fields key{};

private:
    pid_t m_child = 0;
    int m_socket = -1;
};

TEST_F(Key, attach_checks_the_descriptor_it_fetches) {
    const Exporter exporter; // forks before UCX starts in this process
    const Domain domain;
    EXPECT_EQ(attach(domain, exporter.key), UCS_OK);

    Fields wrong = exporter.key;
    wrong.length = kPage;
    EXPECT_EQ(attach(domain, wrong), UCS_OK) << "the whole dma-buf";
    wrong.length = kPage + 1;
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("is not a dma-buf of"));
    wrong = exporter.key;
    wrong.descriptor = 0; // standard input
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("is not a dma-buf of"));
    wrong.descriptor = 100'000;
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("cannot be fetched"));
    wrong = exporter.key;
    wrong.process = 0x3ffffffe; // above the kernel's largest process id
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("pid namespace"));
    wrong = exporter.key;
    wrong.descriptor = -1;
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("not exported"));
}

TEST_F(Key, attach_without_ptrace_permission_is_refused) {
    const Exporter exporter(false);
    // Root has CAP_SYS_PTRACE, which overrides the rule under test.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    ASSERT_EQ(gaudi::os::system_call(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    ASSERT_EQ(gaudi::os::system_call(SYS_capset, &header, data), 0);
    const Domain domain;
    EXPECT_NE(attach(domain, exporter.key), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("ptrace rules forbid it"));
}

TEST_F(Key, attach_of_a_short_key_is_refused) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto key = domain.pack_key(buffer.memh());
    AttachParams params{2, 0, 23};
    uct_mem_h memh = nullptr;
    EXPECT_EQ(uct_md_mem_attach(domain.md(), key.data(), &params, &memh), UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("a key has 24 bytes, not 23")));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // sanitizers make system calls
/// Whether `step` makes a system call when it runs a second time: in its first run a child process learns its process id.
bool makes_system_calls(const std::function<void()> &step) {
    const pid_t child = fork();
    if (child == 0) {
        step();
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        step();
        _exit(0); // the one system call that is expected
    }
    int status = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr); // returns from the call that stopped the child
    waitpid(child, &status, 0);
    unsigned stops = 0;
    while (WIFSTOPPED(status) && stops < 1000) {
        ++stops;
        ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
        waitpid(child, &status, 0);
    }
    return stops > 2; // one at the return from raise, one at the entry of exit
}

TEST_F(Key, pack_and_unpack_make_no_system_call) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    std::array<unsigned char, 24> key{};
    const auto work = [&] {
        for (int i = 0; i < 100; ++i) {
            uct_rkey_bundle_t bundle{};
            check(uct_md_mkey_pack(domain.md(), buffer.memh(), key.data()), "pack");
            check(uct_rkey_unpack(domain.component(), key.data(), &bundle), "unpack");
            uct_rkey_release(domain.component(), &bundle);
        }
    };
    EXPECT_TRUE(makes_system_calls([] { (void)!write(-1, "", 0); })) << "the test detects a system call";
    EXPECT_FALSE(makes_system_calls(work));
}
#endif

} // namespace
