// SPDX-License-Identifier: BSD-3-Clause
// A card that is reset or lost during copies, and a program that exits without cleanup: no hang, no false success.
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
    uct_completion_t comp = make_completion();
    unsigned refused = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
        const ucs_status_t status =
            transport.post_put(host.data() + i * 16384, buffer.address(i * 16384), 16384, memh, comp);
        if (status == UCS_INPROGRESS)
            ++comp.count;
        else if (status != UCS_OK)
            ++refused;
        transport.progress();
    }
    while (comp.count > 1)
        transport.progress();
    EXPECT_NE(comp.status, UCS_OK) << "a copy that the card never made was reported as done";
    EXPECT_GT(refused, 0u);
    EXPECT_NE(transport.put(host.data(), buffer.address(), 64), UCS_OK);
    EXPECT_NE(uct_ep_put_short(transport.ep(), host.data(), 64, buffer.address(), 0), UCS_OK);
    // Which one depends on whether UCX's thread has closed the card yet.
    EXPECT_THAT(m_printed.complaints(),
                testing::Contains(testing::AnyOf(HasSubstr("takes no copies"), HasSubstr("was reset by its driver"))));
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_P(CardFailure, fails_a_list_once_after_all_of_it_has_ended) {
    setenv("SOFTGAUDI_FAULTS", (std::string("command_submission#38=") + GetParam()).c_str(), 1);
    Domain domain;
    const Transport transport(domain);
    constexpr std::size_t kCount = 10'000, kBlock = 64;
    const Buffer buffer(domain, 2 * kCount * kBlock);
    Bytes host(2 * kCount * kBlock);
    const uct_mem_h memh = domain.reg(host.data(), host.size());
    std::vector<void *> buffers;
    std::vector<std::uint64_t> addresses;
    for (std::size_t i = 0; i < kCount; ++i) {
        buffers.push_back(host.data() + 2 * i * kBlock);
        addresses.push_back(buffer.address(2 * i * kBlock));
    }
    const std::vector<std::size_t> lengths(kCount, kBlock);
    const std::vector<uct_mem_h> memhs(kCount, memh);
    const std::vector<uct_rkey_t> keys(kCount, 0);
    static unsigned calls;
    calls = 0;
    uct_completion_t comp{[](uct_completion_t *) { ++calls; }, 1, UCS_OK};
    ASSERT_EQ(uct_ep_put_sgl_zcopy(transport.ep(), buffers.data(), lengths.data(), memhs.data(), addresses.data(),
                                   keys.data(), nullptr, nullptr, kCount, &comp),
              UCS_INPROGRESS);
    while (calls == 0)
        transport.progress();
    EXPECT_NE(comp.status, UCS_OK);
    EXPECT_NE(transport.flush(), UCS_OK) << "nothing is outstanding, and the failure is reported";
    EXPECT_EQ(calls, 1u);
    EXPECT_EQ(domain.dereg(memh), UCS_OK);
}

TEST_P(CardFailure, does_not_affect_another_card) {
    setenv("SOFTGAUDI_FAULTS", (std::string("command_submission@0#40=") + GetParam()).c_str(), 1);
    Domain domain(settings_for_card(0));
    const Domain other(settings_for_card(1));
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
        setenv("SOFTGAUDI_PACE", "down:0.5", 1); // 64 MiB take 0.13 s
        auto *domain = new Domain;
        auto *transport = new Transport(*domain);
        auto *buffer = new Buffer(*domain, 64 * kMiB);
        auto *host = new Bytes(64 * kMiB);
        const uct_mem_h memh = domain->reg(host->data(), host->size());
        uct_completion_t comp = make_completion();
        exit(transport->post_put(host->data(), buffer->address(), host->size(), memh, comp) == UCS_INPROGRESS ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(read_counter("down_bytes"), 64 * kMiB + 4 * (256 + 64) * kKiB) << "the copy and the self-test";
    const Domain domain;
    const Buffer buffer(domain, kMiB); // opens the card again
}

} // namespace
