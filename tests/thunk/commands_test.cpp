// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "fake_library.h"

namespace gaudi::thunk {
namespace {

using namespace std::chrono_literals;

using CommandsTest = WithFake;

TEST_F(CommandsTest, SubmitReturnsTheSequenceNumber) {
    const std::vector<hl_cs_chunk> chunks(3);
    EXPECT_EQ(device.submit(chunks, HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT).value(), 41U);
    EXPECT_EQ(fake.argument("command_submission", 1), reinterpret_cast<std::uintptr_t>(chunks.data()));
    EXPECT_EQ(fake.argument("command_submission", 2), 3U);
    EXPECT_EQ(fake.argument("command_submission", 3), 0x400U);
    EXPECT_EQ(fake.argument("command_submission", 4), 0U) << "nothing to restore";
    EXPECT_EQ(fake.argument("command_submission", 5), 0U);
}

TEST_F(CommandsTest, SubmitFails) {
    const std::vector<hl_cs_chunk> chunks(1);
    fake.reply("command_submission", -EINVAL);
    EXPECT_TRUE(fails_with(device.submit(chunks), EINVAL, "hlthunk_command_submission"));
    fake.reply("command_submission", -EBUSY);
    EXPECT_TRUE(fails_with(device.submit(chunks), EBUSY, "hlthunk_command_submission"));
}

TEST_F(CommandsTest, MoreChunksThanTheDriverTakesAreNotSent) {
    const std::vector<hl_cs_chunk> most(HL_MAX_JOBS_PER_CS);
    EXPECT_TRUE(device.submit(most));
    const std::vector<hl_cs_chunk> more(HL_MAX_JOBS_PER_CS + 1);
    EXPECT_TRUE(fails_with(device.submit(more), EINVAL, "hlthunk_command_submission"));
    EXPECT_EQ(fake.calls("command_submission"), 1);
}

TEST_F(CommandsTest, WaitTellsDoneFromBusy) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_COMPLETED);
    EXPECT_EQ(device.wait(41, 0us).value(), Wait::done);
    fake.set_wait_status(HL_WAIT_CS_STATUS_BUSY);
    EXPECT_EQ(device.wait(41, 2ms).value(), Wait::busy);
    EXPECT_EQ(fake.argument("wait_for_cs", 1), 41U);
    EXPECT_EQ(fake.argument("wait_for_cs", 2), 2000U) << "microseconds";
}

TEST_F(CommandsTest, WaitForLessThanNothingPolls) {
    EXPECT_TRUE(device.wait(41, -1us));
    EXPECT_EQ(fake.argument("wait_for_cs", 2), 0U);
}

TEST_F(CommandsTest, WaitKeepsEachErrno) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_TIMEDOUT);
    fake.reply("wait_for_cs", -ETIMEDOUT);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), ETIMEDOUT, "hlthunk_wait_for_cs"));
    fake.set_wait_status(HL_WAIT_CS_STATUS_ABORTED);
    fake.reply("wait_for_cs", -EIO);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EIO, "hlthunk_wait_for_cs"));
}

TEST_F(CommandsTest, WaitIgnoresTheStatusOfOtherErrors) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_COMPLETED);
    fake.reply("wait_for_cs", -EINVAL);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EINVAL, "hlthunk_wait_for_cs"));
    fake.set_wait_status(HL_WAIT_CS_STATUS_ABORTED);
    fake.reply("wait_for_cs", -EBUSY);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EBUSY, "hlthunk_wait_for_cs"));
}

TEST_F(CommandsTest, WaitBelievesAFailedStatusWithoutAnError) {
    fake.set_wait_status(HL_WAIT_CS_STATUS_TIMEDOUT);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), ETIMEDOUT, "hlthunk_wait_for_cs"));
    fake.set_wait_status(HL_WAIT_CS_STATUS_ABORTED);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EIO, "hlthunk_wait_for_cs"));
    fake.set_wait_status(99);
    EXPECT_TRUE(fails_with(device.wait(41, 0us), EPROTO, "hlthunk_wait_for_cs"));
}

TEST_F(CommandsTest, Flush) {
    EXPECT_TRUE(device.flush_pci_writes());
    fake.reply("cs_flush_pci_hbw_writes", -EOPNOTSUPP);
    EXPECT_TRUE(fails_with(device.flush_pci_writes(), EOPNOTSUPP, "hlthunk_cs_flush_pci_hbw_writes"));
}

} // namespace
} // namespace gaudi::thunk
