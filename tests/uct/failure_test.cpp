// SPDX-License-Identifier: BSD-3-Clause
// A card that is reset or lost under way, and programs that end badly: never a hang, never a false success.
#include "uct_side.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

using namespace uct_side;
using ::testing::HasSubstr;

namespace {

class CardFailure : public ::testing::TestWithParam<const char *> {
protected:
    e2e::Printed m_printed;
};

TEST_P(CardFailure, fails_outstanding_and_later_copies_with_the_reason) {
    setenv("SOFTGAUDI_FAULTS", (std::string("command_submission#38=") + GetParam()).c_str(), 1);
    Domain domain;
    const Transport transport(domain);
    const Buffer buffer(domain, 16 * kMiB);
    Bytes host(16 * kMiB);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    uct_completion_t comp{[](uct_completion_t *) {}, 1, UCS_OK};
    unsigned refused = 0, done = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
        const uct_iov_t iov{host.data() + i * 16384, 16384, memh, 0, 1};
        const ucs_status_t status = uct_ep_put_zcopy(transport.ep(), &iov, 1, buffer.address(i * 16384), 0, &comp);
        if (status == UCS_INPROGRESS)
            ++comp.count;
        else
            (status == UCS_OK ? done : refused) += 1;
        transport.progress();
    }
    while (comp.count > 1)
        transport.progress();
    EXPECT_NE(comp.status, UCS_OK) << "copies that the card never made count as made";
    EXPECT_GT(refused, 0u);
    EXPECT_NE(transport.put(host.data(), buffer.address(), 64), UCS_OK);
    EXPECT_NE(uct_ep_put_short(transport.ep(), host.data(), 64, buffer.address(), 0), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), testing::Contains(HasSubstr("takes no more copies")));
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_P(CardFailure, does_not_affect_another_card) {
    // The server's card 3 is module 0, and so the first here.
    setenv("SOFTGAUDI_FAULTS", (std::string("command_submission@3#40=") + GetParam()).c_str(), 1);
    Domain domain(on_card(0));
    const Domain other(on_card(1));
    const Transport transport(domain);
    const std::array<Buffer, 2> buffers{Buffer(domain, kMiB), Buffer(other, kMiB)};
    const Bytes bytes = pattern(kMiB, 1);
    transport.write(buffers[0], bytes);
    transport.write(buffers[1], bytes);
    ucs_status_t status = UCS_OK;
    for (int i = 0; i < 100 && status == UCS_OK; ++i)
        status = transport.put(bytes.data(), buffers[0].address(), bytes.size());
    EXPECT_NE(status, UCS_OK);
    EXPECT_EQ(transport.read(buffers[1], kMiB), bytes);
}

INSTANTIATE_TEST_SUITE_P(, CardFailure, ::testing::Values("reset", "lose"),
                         [](const auto &how) { return std::string(how.param); });

TEST(Exit, without_cleanup_waits_for_copies_and_frees_the_card) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("SOFTGAUDI_PACE", "down:0.5", 1); // 64 MiB take a while
        auto *domain = new Domain;
        auto *transport = new Transport(*domain);
        auto *buffer = new Buffer(*domain, 64 * kMiB);
        auto *host = new Bytes(64 * kMiB);
        const uct_mem_h memh = domain->reg(host->data(), host->size());
        uct_completion_t comp{[](uct_completion_t *) {}, 1, UCS_OK};
        const uct_iov_t iov{host->data(), host->size(), memh, 0, 1};
        exit(uct_ep_put_zcopy(transport->ep(), &iov, 1, buffer->address(), 0, &comp) == UCS_INPROGRESS ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(counted("down_bytes"), 64 * kMiB + 4 * (256 + 64) * kKiB) << "its own and the self-test's";
    const Domain domain;
    const Buffer buffer(domain, kMiB); // the card is free again
}

} // namespace
