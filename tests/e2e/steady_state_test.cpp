// SPDX-License-Identifier: BSD-3-Clause
// The driver calls of many copies through UCT and through UCP on the endpoint to the own worker. Counts do not depend on
// the machine.
#include "conversation.h"
#include "uct/uct_side.h"

using namespace e2e;
using uct_side::read_counter;

namespace {

constexpr std::size_t kSmall = 4096;
constexpr unsigned kCopies = 1000;

TEST(SteadyState, thousand_copies_through_uct_take_few_submissions) {
    uct_side::Domain domain;
    const uct_side::Transport transport(domain);
    const uct_side::Buffer buffer(domain, 2 * kCopies * kSmall);
    uct_side::Bytes host(2 * kCopies * kSmall, 1);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    ASSERT_EQ(transport.put(host.data(), buffer.address(), 2 << 20, memh), UCS_OK); // opens the card, maps the memory
    const std::uint64_t submissions = read_counter("submissions"), maps = read_counter("maps");
    uct_completion_t comp = uct_side::make_completion();
    for (unsigned i = 0; i < kCopies; ++i) {
        const std::size_t offset = 2 * i * kSmall; // apart, so that no two are merged
        const ucs_status_t status =
            transport.post_put(host.data() + offset, buffer.address(offset), kSmall, memh, comp);
        ASSERT_TRUE(status == UCS_OK || status == UCS_INPROGRESS) << status;
        comp.count += status == UCS_INPROGRESS ? 1 : 0;
    }
    ASSERT_EQ(transport.flush(), UCS_OK);
    EXPECT_EQ(comp.count, 1);
    EXPECT_LE(read_counter("submissions") - submissions, 20u);
    EXPECT_EQ(read_counter("maps") - maps, 0u);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

/// Puts on the endpoint to the own worker, posted without waiting until flush().
class Loopback {
public:
    Loopback(Side &side, Memory &memory)
        : m_side(side), m_memory(memory), m_key(unpack_key(side.self(), memory.key())) {}

    void post(const char *from, std::size_t offset, std::size_t length) {
        ucp_request_param_t param{};
        ucs_status_ptr_t request =
            ucp_put_nbx(m_side.self(), from, length, reinterpret_cast<std::uint64_t>(m_memory.data() + offset),
                        m_key.get(), &param);
        if (UCS_PTR_IS_ERR(request))
            check(UCS_PTR_STATUS(request), "put");
        if (request)
            m_requests.push_back(request);
    }
    void flush() {
        m_side.flush(m_side.self());
        for (ucs_status_ptr_t request : m_requests)
            m_side.finish(request, "put");
        m_requests.clear();
    }

private:
    Side &m_side;
    Memory &m_memory;
    const RemoteKey m_key;
    std::vector<ucs_status_ptr_t> m_requests;
};

TEST(SteadyState, thousand_copies_through_ucp_take_few_submissions) {
    run_pair([](Side &side, bool first) {
        if (!first)
            return;
        Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 2 * kCopies * kSmall);
        const std::vector<char> host(2 * kCopies * kSmall, 'x');
        Loopback loopback(side, memory);
        loopback.post(host.data(), 0, kSmall);
        loopback.flush();
        const std::uint64_t submissions = read_counter("submissions");
        for (unsigned i = 0; i < kCopies; ++i)
            loopback.post(host.data() + 2 * i * kSmall, 2 * i * kSmall, kSmall);
        loopback.flush();
        EXPECT_LE(read_counter("submissions") - submissions, 20u);
        EXPECT_EQ(memory.read(kSmall, 2 * (kCopies - 1) * kSmall), std::vector<char>(kSmall, 'x'));
    });
}

#ifndef __SANITIZE_THREAD__ // under TSan UCX runs without its memory hooks and registers for every put
TEST(SteadyState, unregistered_buffer_is_mapped_once) {
    run_pair([](Side &side, bool first) {
        if (!first)
            return;
        constexpr std::size_t kSize = 65536;
        Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kSize);
        const std::vector<char> host(kSize, 'x');
        Loopback loopback(side, memory);
        loopback.post(host.data(), 0, kSize);
        loopback.flush();
        const std::uint64_t maps = read_counter("maps");
        for (unsigned i = 0; i < 10'000; ++i) {
            loopback.post(host.data(), 0, kSize);
            if (i % 100 == 99)
                loopback.flush();
        }
        EXPECT_LE(read_counter("maps") - maps, 1u);
    });
}
#endif

} // namespace
