// SPDX-License-Identifier: BSD-3-Clause
#include "fake_library.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <vector>

namespace gaudi::thunk {
namespace {

using namespace std::chrono_literals;

using DeviceSubmit = WithFake;
using DeviceWait = WithFake;
using DeviceFlush = WithFake;

TEST_F(DeviceSubmit, success_returns_the_sequence_number) {
    const std::vector<hl_cs_chunk> chunks(3);
    EXPECT_EQ(device.submit(chunks, HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT).value(), 41U);
    EXPECT_EQ(fake.argument("command_submission", 1), reinterpret_cast<std::uintptr_t>(chunks.data()));
    EXPECT_EQ(fake.argument("command_submission", 2), 3U);
    EXPECT_EQ(fake.argument("command_submission", 3), 0x400U);
    EXPECT_EQ(fake.argument("command_submission", 4), 0U) << "nothing to restore";
    EXPECT_EQ(fake.argument("command_submission", 5), 0U);
}

TEST_F(DeviceSubmit, negative_return_is_the_errno) {
    const std::vector<hl_cs_chunk> chunks(1);
    fake.reply("command_submission", -EINVAL);
    EXPECT_TRUE(fails_with(device.submit(chunks), EINVAL, "hlthunk_command_submission"));
    fake.reply("command_submission", -EBUSY);
    EXPECT_TRUE(fails_with(device.submit(chunks), EBUSY, "hlthunk_command_submission"));
}

TEST_F(DeviceSubmit, more_chunks_than_the_driver_takes_are_refused_without_a_call) {
    const std::vector<hl_cs_chunk> most(HL_MAX_JOBS_PER_CS);
    EXPECT_TRUE(device.submit(most));
    const std::vector<hl_cs_chunk> more(HL_MAX_JOBS_PER_CS + 1);
    EXPECT_TRUE(fails_with(device.submit(more), EINVAL, "hlthunk_command_submission"));
    EXPECT_EQ(fake.calls("command_submission"), 1);
}

TEST_F(DeviceWait, completed_is_done_and_timeout_is_busy) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_COMPLETED);
    EXPECT_EQ(device.wait(41, 0us).value(), Wait::done);
    fake.set_wait_status(HL_WAIT_CS_STATUS_BUSY);
    EXPECT_EQ(device.wait(41, 2ms).value(), Wait::busy);
    EXPECT_EQ(fake.argument("wait_for_cs", 1), 41U);
    EXPECT_EQ(fake.argument("wait_for_cs", 2), 2000U) << "microseconds";
}

TEST_F(DeviceWait, negative_timeout_polls) {
    EXPECT_TRUE(device.wait(41, -1us));
    EXPECT_EQ(fake.argument("wait_for_cs", 2), 0U);
}

TEST_F(DeviceWait, failed_submission_keeps_its_errno) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_TIMEDOUT);
    fake.reply("wait_for_cs", -ETIMEDOUT);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), ETIMEDOUT, "hlthunk_wait_for_cs"));
    fake.set_wait_status(HL_WAIT_CS_STATUS_ABORTED);
    fake.reply("wait_for_cs", -EIO);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EIO, "hlthunk_wait_for_cs"));
}

TEST_F(DeviceWait, status_beside_another_errno_is_ignored) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_COMPLETED);
    fake.reply("wait_for_cs", -EINVAL);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EINVAL, "hlthunk_wait_for_cs"));
    fake.set_wait_status(HL_WAIT_CS_STATUS_ABORTED);
    fake.reply("wait_for_cs", -EBUSY);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EBUSY, "hlthunk_wait_for_cs"));
}

TEST_F(DeviceWait, failed_status_without_errno_is_an_error) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_TIMEDOUT);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), ETIMEDOUT, "hlthunk_wait_for_cs"));
    fake.set_wait_status(HL_WAIT_CS_STATUS_ABORTED);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EIO, "hlthunk_wait_for_cs"));
    fake.set_wait_status(99);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EPROTO, "hlthunk_wait_for_cs"));
}

TEST_F(DeviceFlush, refusal_of_the_driver_is_returned) {
    EXPECT_TRUE(device.flush_pci_writes());
    fake.reply("cs_flush_pci_hbw_writes", -EOPNOTSUPP);
    EXPECT_TRUE(fails_with(device.flush_pci_writes(), EOPNOTSUPP, "hlthunk_cs_flush_pci_hbw_writes"));
}

} // namespace
} // namespace gaudi::thunk
