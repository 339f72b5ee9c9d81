// SPDX-License-Identifier: BSD-3-Clause
// A card that its driver resets. softgaudi kills this process where it keeps such a card open, as the driver does.
#include "uct_side.h"

#include "thunk/abi.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

using namespace uct_side;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr std::uint64_t kMemoryType = 1u << 0, kFlags = 1u << 6; // UCT_MD_MEM_ATTR_FIELD_*

/// A card seen through its control node: past the product, which is not called meanwhile.
class ControlNode {
public:
    explicit ControlNode(unsigned module) {
        void *library = dlopen(getenv("GAUDI_THUNK"), RTLD_NOW);
        m_get_open_stats = find<decltype(m_get_open_stats)>(library, "hlthunk_get_open_stats");
        m_fd = find<int (*)(std::uint32_t)>(library, "hlthunk_open_control_by_module_id")(module);
    }
    ~ControlNode() { close(m_fd); }
    ControlNode(const ControlNode &) = delete;
    ControlNode &operator=(const ControlNode &) = delete;

    bool is_in_use() const {
        hlthunk_open_stats_info stats{};
        EXPECT_EQ(m_get_open_stats(m_fd, &stats), 0);
        return stats.is_compute_ctx_active != 0;
    }
    void wait_until_closed() const {
        while (is_in_use())
            sched_yield();
    }

private:
    template <class Function>
    static Function find(void *library, const char *name) {
        return reinterpret_cast<Function>(dlsym(library, name));
    }
    int (*m_get_open_stats)(int, hlthunk_open_stats_info *);
    int m_fd;
};

constexpr unsigned kSelfTest = 34; // submissions

/// Set before the library is loaded. `fault` is that of the first submission after the self-test.
struct Environment {
    Environment(const std::string &fault, const char *quirks) {
        setenv("SOFTGAUDI_QUIRKS", quirks, 1);
        setenv("SOFTGAUDI_FAULTS", ("command_submission@0#" + std::to_string(kSelfTest + 1) + "=" + fault).c_str(), 1);
    }
};

class ResetTest : Environment, public ::testing::Test {
protected:
    explicit ResetTest(const std::string &fault, const char *quirks = "kill") : Environment(fault, quirks) {}

    /// Posts copies: the first one meets the fault.
    void post(const Buffer &buffer) {
        m_memh = m_domain.reg(m_host.data(), m_host.size());
        for (std::size_t i = 0; i < 16; ++i)
            if (m_transport.post_put(m_host.data() + i * kMiB, buffer.address(i * kMiB), kMiB, m_memh, m_comp) ==
                UCS_INPROGRESS)
                ++m_comp.count;
    }
    void finish() {
        while (m_comp.count > 1)
            m_transport.progress();
        EXPECT_EQ(m_domain.dereg(m_memh), UCS_OK);
    }
    void expect_works(const Buffer &buffer) const {
        const Bytes bytes = pattern(buffer.size(), 7);
        m_transport.write(buffer, bytes);
        EXPECT_EQ(m_transport.read(buffer, buffer.size()), bytes);
    }

    e2e::Printed m_printed;
    Domain m_domain{settings_for_card(0)};
    const Transport m_transport{m_domain};
    const ControlNode m_node{0};
    Bytes m_host = Bytes(16 * kMiB);
    uct_mem_h m_memh = nullptr;
    uct_completion_t m_comp = make_completion();
};

class CardReset : public ResetTest {
protected:
    CardReset() : ResetTest("reset") {}
};
class ReportedError : public ResetTest {
protected:
    ReportedError() : ResetTest("hang:100") {}
};

TEST_F(CardReset, idle_program_closes_the_card_and_goes_on) {
    const Buffer buffer(m_domain, 16 * kMiB);
    post(buffer);
    m_node.wait_until_closed(); // without a call to UCX
    finish();
    EXPECT_NE(m_comp.status, UCS_OK) << "copies that were never made";
    expect_works(Buffer(m_domain, kMiB));
    EXPECT_TRUE(m_node.is_in_use());
    EXPECT_EQ(std::ranges::count_if(m_printed.complaints(),
                                    [](const std::string &line) { return line.find("it was closed") != line.npos; }),
              1);
}

TEST_F(ReportedError, idle_program_closes_the_card_before_the_reset) {
    const Buffer buffer(m_domain, 16 * kMiB);
    post(buffer);
    m_node.wait_until_closed();
    finish();
    EXPECT_NE(m_comp.status, UCS_OK);
    expect_works(Buffer(m_domain, kMiB));
    EXPECT_EQ(read_counter("hard_resets"), 1u);
}

TEST_F(CardReset, memory_that_was_lost_is_refused_with_the_reason) {
    const Buffer old(m_domain, 16 * kMiB);
    post(old);
    m_node.wait_until_closed();
    finish();
    const Buffer fresh(m_domain, 16 * kMiB);
    EXPECT_TRUE(fresh.address() >= old.address() + old.size() || fresh.address() + fresh.size() <= old.address())
        << "a stale pointer would reach other memory";
    const auto query = m_domain.query(old.data(), 1, kMemoryType | kFlags);
    ASSERT_TRUE(query) << "UCX would take it for host memory, and access it";
    EXPECT_EQ(query->mem_type, UCS_MEMORY_TYPE_GAUDI);
    EXPECT_EQ(query->mem_flags, 0) << "not registrable";
    for (const bool registered : {false, true}) {
        const uct_mem_h memh = registered ? m_domain.reg(m_host.data(), m_host.size()) : nullptr;
        EXPECT_NE(m_transport.put(m_host.data(), old.address(), kMiB, memh), UCS_OK);
        EXPECT_TRUE(!memh || m_domain.dereg(memh) == UCS_OK);
    }
    EXPECT_NE(uct_ep_put_short(m_transport.ep(), m_host.data(), 64, old.address(), 0), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), Contains(HasSubstr("free its memory and allocate again")));
    expect_works(fresh);
}

TEST_F(CardReset, other_card_goes_on) {
    const Domain other(settings_for_card(1));
    const Buffer elsewhere(other, kMiB);
    const Buffer buffer(m_domain, 16 * kMiB);
    post(buffer);
    m_node.wait_until_closed();
    finish();
    expect_works(elsewhere);
}

TEST_F(CardReset, exports_are_closed) {
    const Buffer buffer(m_domain, 16 * kMiB);
    const auto query = m_domain.query(buffer.data(), 1, 1u << 4 | 1u << 5); // its dma-buf
    ASSERT_TRUE(query);
    ASSERT_GE(query->dmabuf_fd, 0);
    close(query->dmabuf_fd);
    post(buffer);
    m_node.wait_until_closed();
    finish();
    expect_works(Buffer(m_domain, kMiB)); // softgaudi refuses to open a card with a live export
}

TEST_F(CardReset, copies_of_another_thread_end) {
    const Buffer buffer(m_domain, 16 * kMiB);
    std::thread copying([&] {
        Domain domain(settings_for_card(0));
        const Transport transport(domain);
        const Bytes bytes(64 * kKiB);
        while (transport.put(bytes.data(), buffer.address(), bytes.size()) == UCS_OK) {
        }
    });
    m_node.wait_until_closed();
    copying.join();
    expect_works(Buffer(m_domain, kMiB));
}

// At its exit a forked child has objects of its parent's, which LeakSanitizer reports; TSan does not allow the threads.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

TEST_F(CardReset, exit_of_a_forked_child_leaves_the_card_watched) {
    const Buffer buffer(m_domain, 16 * kMiB);
    const pid_t child = fork();
    if (child == 0)
        exit(0); // with exit handlers, which share the parent's descriptors
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    post(buffer);
    m_node.wait_until_closed();
    finish();
}

#endif

class CardWithoutNotifier : public ResetTest {
protected:
    CardWithoutNotifier() : ResetTest("reset;notifier_create=ENOSYS", "") {}
};

TEST_F(CardWithoutNotifier, is_closed_at_the_next_allocation) {
    const Buffer buffer(m_domain, 16 * kMiB);
    EXPECT_THAT(m_printed.text(), AllOf(HasSubstr("a reset will be seen at the next allocation only"),
                                        HasSubstr("hlthunk_notifier_create failed with ENOSYS")));
    post(buffer);
    finish();
    EXPECT_NE(m_comp.status, UCS_OK);
    EXPECT_TRUE(m_node.is_in_use());
    expect_works(Buffer(m_domain, kMiB));
}

} // namespace
