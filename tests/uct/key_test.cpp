// SPDX-License-Identifier: BSD-3-Clause
// Remote keys: 24 bytes that may come from anywhere.
#include "uct_side.h"

#include "os/system_call.h"

#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <functional>

using namespace uct_side;
using ::testing::HasSubstr;

namespace {

struct Fields {
    std::uint64_t address, length;
    std::int32_t descriptor, process;
};
static_assert(sizeof(Fields) == 24);

Fields fields(const std::vector<unsigned char> &key) {
    Fields out{};
    std::memcpy(&out, key.data(), sizeof out);
    return out;
}

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

TEST_F(Key, names_the_exported_block_and_its_owner) {
    const Domain domain;
    const Buffer one(domain, kMiB), other(domain, kMiB);
    const Fields key = fields(domain.key(one.memh()));
    EXPECT_LE(key.address, one.address());
    EXPECT_GE(key.address + key.length, one.address() + kMiB);
    EXPECT_EQ(key.length % kPage, 0u);
    EXPECT_EQ(key.process, getpid());
    EXPECT_GE(key.descriptor, 0);
    EXPECT_EQ(domain.key(other.memh()), domain.key(one.memh())) << "the operation brings the address inside";
}

TEST_F(Key, unpacked_keys_compare_as_their_blocks_do) {
    const Domain domain;
    const Buffer one(domain, kMiB), same(domain, kMiB), other(domain, 2 * kPage);
    std::array<uct_rkey_bundle_t, 3> bundles{};
    for (std::size_t i = 0; const Buffer *buffer : {&one, &same, &other})
        ASSERT_EQ(uct_rkey_unpack(domain.component(), domain.key(buffer->memh()).data(), &bundles[i++]), UCS_OK);
    const CompareParams params{};
    int result = 7;
    ASSERT_EQ(uct_rkey_compare(domain.component(), bundles[0].rkey, bundles[1].rkey, &params, &result), UCS_OK);
    EXPECT_EQ(result, 0);
    ASSERT_EQ(uct_rkey_compare(domain.component(), bundles[0].rkey, bundles[2].rkey, &params, &result), UCS_OK);
    const int forward = result;
    EXPECT_NE(forward, 0);
    ASSERT_EQ(uct_rkey_compare(domain.component(), bundles[2].rkey, bundles[0].rkey, &params, &result), UCS_OK);
    EXPECT_EQ(result, -forward);
    void *pointer = nullptr;
    EXPECT_EQ(uct_rkey_ptr(domain.component(), &bundles[0], one.address(), &pointer), UCS_ERR_UNSUPPORTED);
    for (const auto &bundle : bundles)
        EXPECT_EQ(uct_rkey_release(domain.component(), &bundle), UCS_OK);
}

TEST_F(Key, to_be_invalidated_is_packed_as_any_other) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto plain = domain.key(buffer.memh());
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

TEST_F(Key, of_host_memory_goes_through_too) {
    const Domain domain;
    Bytes host(4096);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    const std::vector<unsigned char> key = domain.key(memh);
    EXPECT_EQ(fields(key).descriptor, -1);
    uct_rkey_bundle_t bundle{};
    EXPECT_EQ(uct_rkey_unpack(domain.component(), key.data(), &bundle), UCS_OK);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_F(Key, each_bad_field_is_refused_with_a_sentence) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const Fields good = fields(domain.key(buffer.memh()));
    const auto refused = [&](const char *why, const std::function<void(Fields &)> &spoil) {
        Fields key = good;
        spoil(key);
        uct_rkey_bundle_t bundle{};
        EXPECT_EQ(unpack(domain, key, bundle), UCS_ERR_INVALID_PARAM) << why;
        EXPECT_NE(attach(domain, key), UCS_OK) << why;
        EXPECT_THAT(m_printed.complaints().back(), HasSubstr(why));
    };
    refused("which is no range", [](Fields &key) { key.length = 0; });
    refused("which is no range", [](Fields &key) { key.length = ~std::uint64_t{0}; });
    refused("which is none", [](Fields &key) { key.process = 0; });
    refused("which is none", [](Fields &key) { key.process = -5; });
    refused("which is none", [](Fields &key) { key.descriptor = -3; });
    refused("that is not there", [](Fields &key) { key.address += 4096; });
    refused("that is not there", [](Fields &key) { key.length -= 1; });
    EXPECT_EQ(attach(domain, good), UCS_OK);
}

TEST_F(Key, noise_never_does_harm) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    transport.write(buffer, pattern(kMiB, 1));
    std::uint64_t state = 1;
    const auto next = [&] { return state = state * 6364136223846793005 + 1442695040888963407; };
    const Fields good = fields(domain.key(buffer.memh()));
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

TEST_F(Key, of_another_process_is_unpacked_but_copies_with_it_are_refused) {
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, kMiB);
    Fields key = fields(domain.key(buffer.memh()));
    key.process = getppid();
    uct_rkey_bundle_t bundle{};
    ASSERT_EQ(unpack(domain, key, bundle), UCS_OK);
    Bytes host(64);
    EXPECT_EQ(uct_ep_put_short(transport.ep(), host.data(), 64, buffer.address(), bundle.rkey), UCS_ERR_UNREACHABLE);
    const uct_iov_t iov{host.data(), host.size(), nullptr, 0, 1};
    EXPECT_EQ(uct_ep_get_zcopy(transport.ep(), &iov, 1, buffer.address(), bundle.rkey, nullptr), UCS_ERR_UNREACHABLE);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("another process's")));
}

/// A process with Gaudi memory of its own, which lives until this ends.
class Neighbour {
public:
    explicit Neighbour(bool hidden = false) {
        std::array<int, 2> ends{};
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
            throw Failure("socketpair");
        m_child = fork();
        if (m_child == 0) {
            close(ends[0]);
            char done = 0;
            prctl(PR_SET_DUMPABLE, hidden ? 0 : 1);
            try {
                const Domain domain;
                const Buffer buffer(domain, kMiB);
                const Fields own = fields(domain.key(buffer.memh()));
                (void)!write(ends[1], &own, sizeof own);
                (void)!read(ends[1], &done, 1);
            } catch (...) {
            }
            _exit(0);
        }
        close(ends[1]);
        m_socket = ends[0];
        if (read(m_socket, &key, sizeof key) != sizeof key)
            throw Failure("the neighbour has no memory");
    }
    ~Neighbour() {
        close(m_socket);
        waitpid(m_child, nullptr, 0);
    }
    Neighbour(const Neighbour &) = delete;
    Neighbour &operator=(const Neighbour &) = delete;

    Fields key{};

private:
    pid_t m_child = 0;
    int m_socket = -1;
};

TEST_F(Key, attaches_memory_of_another_process_and_checks_what_it_gets) {
    const Neighbour neighbour; // before UCX starts here
    const Domain domain;
    EXPECT_EQ(attach(domain, neighbour.key), UCS_OK);

    Fields wrong = neighbour.key;
    wrong.length -= kPage / 2;
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("is not a dma-buf of"));
    wrong = neighbour.key;
    wrong.descriptor = 0; // whatever its input is
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("is not a dma-buf of"));
    wrong.descriptor = 100'000;
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("cannot be fetched"));
    wrong = neighbour.key;
    wrong.process = 0x3ffffffe; // beyond what the kernel gives out
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("pid namespace"));
    wrong = neighbour.key;
    wrong.descriptor = -1;
    EXPECT_NE(attach(domain, wrong), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("not exported"));
}

TEST_F(Key, of_a_process_that_may_not_be_looked_into_is_refused_with_the_reason) {
    const Neighbour neighbour(true);
    // Who may look into everybody gives that up.
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2] = {};
    ASSERT_EQ(gaudi::os::system_call(SYS_capget, &header, data), 0);
    data[0].effective &= ~(1u << CAP_SYS_PTRACE);
    ASSERT_EQ(gaudi::os::system_call(SYS_capset, &header, data), 0);
    const Domain domain;
    EXPECT_NE(attach(domain, neighbour.key), UCS_OK);
    EXPECT_THAT(m_printed.complaints().back(), HasSubstr("ptrace rules forbid it"));
}

TEST_F(Key, a_short_key_is_refused) {
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    const auto key = domain.key(buffer.memh());
    AttachParams params{2, 0, 23};
    uct_mem_h memh = nullptr;
    EXPECT_EQ(uct_md_mem_attach(domain.md(), key.data(), &params, &memh), UCS_ERR_INVALID_PARAM);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("a key has 24 bytes, not 23")));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) // which make system calls of their own
/// Whether `step` makes any, the second time: a child learns its own number at the first.
bool makes_system_calls(const std::function<void()> &step) {
    const pid_t child = fork();
    if (child == 0) {
        step();
        ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
        raise(SIGSTOP);
        step();
        _exit(0); // the one call that is expected
    }
    int status = 0;
    waitpid(child, &status, 0);
    ptrace(PTRACE_SYSCALL, child, nullptr, nullptr); // ends the call that stopped it
    waitpid(child, &status, 0);
    unsigned stops = 0;
    while (WIFSTOPPED(status) && stops < 1000) {
        ++stops;
        ptrace(PTRACE_SYSCALL, child, nullptr, nullptr);
        waitpid(child, &status, 0);
    }
    return stops > 2; // out of raise, into exit
}

TEST_F(Key, of_this_process_is_packed_and_unpacked_without_a_system_call) {
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
    EXPECT_TRUE(makes_system_calls([] { (void)!write(-1, "", 0); })) << "the test can tell";
    EXPECT_FALSE(makes_system_calls(work));
}
#endif

} // namespace
