// SPDX-License-Identifier: BSD-3-Clause
// A message whose buffer is a handle of PyTorch. UCX takes it for host memory and crashes; the warning comes before.
#include "conversation.h"
#include "printed.h"

#include <gmock/gmock.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace {

constexpr std::uint64_t kSmall = 0x4040'0000, kMedium = 0x4000'0001'0000'0000, kLarge = 0x8000'0400'0000'0010;

/// Sends 8 bytes to this process itself.
void send(std::uint64_t handle) {
    ucp_worker_params_t worker_params{};
    ucp_worker_h worker = nullptr;
    ucp_address_t *address = nullptr;
    std::size_t length = 0;
    e2e::require(ucp_worker_create(e2e::init_ucp(), &worker_params, &worker) == UCS_OK &&
                     ucp_worker_get_address(worker, &address, &length) == UCS_OK,
                 "no worker");
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
    params.address = address;
    ucp_ep_h endpoint = nullptr;
    e2e::require(ucp_ep_create(worker, &params, &endpoint) == UCS_OK, "no endpoint");
    const ucp_request_param_t plain{};
    const void *sent = ucp_tag_send_nbx(endpoint, reinterpret_cast<const void *>(handle), 8, 1, &plain);
    while (UCS_PTR_IS_PTR(sent) && ucp_request_check_status(const_cast<void *>(sent)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
}

class SentTensorHandle : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(SentTensorHandle, is_warned_of_before_ucx_reads_it) {
    e2e::Printed printed;
    const pid_t child = fork();
    if (child == 0) {
        for (const int signal : {SIGSEGV, SIGBUS}) // a sanitizer's report is none of ours
            std::signal(signal, SIG_DFL);
        send(GetParam());
        _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status)) << "UCX has learned of handles: the warning and its page can go";
    EXPECT_THAT(printed.complaints(),
                ElementsAre(HasSubstr(" is no memory of this process: it is probably data_ptr()")));
}

INSTANTIATE_TEST_SUITE_P(, SentTensorHandle, ::testing::Values(kSmall, kMedium, kLarge));

} // namespace
