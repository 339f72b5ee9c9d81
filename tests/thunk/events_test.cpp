// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include <gtest/gtest.h>

#include "fake_library.h"

namespace gaudi::thunk {
namespace {

using EventsTest = WithFake;

TEST_F(EventsTest, ReceivesTheMask) {
    EXPECT_EQ(device.create_notifier().value(), 81);
    const Result<Events> events = device.receive(81, 250);
    ASSERT_TRUE(events);
    EXPECT_EQ(events->count, 2U);
    EXPECT_EQ(events->mask, 0x104U);
    EXPECT_EQ(fake.argument("notifier_recv", 1), 81U);
    EXPECT_EQ(fake.argument("notifier_recv", 2), 0U);
    EXPECT_EQ(fake.argument("notifier_recv", 3), 250U);
    EXPECT_TRUE(device.release_notifier(81));
    EXPECT_EQ(fake.argument("notifier_release", 1), 81U);
}

TEST_F(EventsTest, TimeoutIsNoEventWhateverTheMaskSays) {
    fake.reply("notifier_recv", 0);
    const Result<Events> events = device.receive(81, 0);
    ASSERT_TRUE(events);
    EXPECT_EQ(events->count, 0U);
    EXPECT_EQ(events->mask, 0U);
}

TEST_F(EventsTest, NotifierFails) {
    fake.reply("notifier_create", -EINVAL);
    EXPECT_TRUE(fails_with(device.create_notifier(), EINVAL, "hlthunk_notifier_create"));
    fake.reply("notifier_recv", -1, EINTR);
    EXPECT_TRUE(fails_with(device.receive(81, 0), EINTR, "hlthunk_notifier_recv"));
    fake.reply("notifier_recv", -EOPNOTSUPP);
    EXPECT_TRUE(fails_with(device.receive(81, 0), EOPNOTSUPP, "hlthunk_notifier_recv"));
    fake.reply("notifier_release", -EINVAL);
    EXPECT_TRUE(fails_with(device.release_notifier(81), EINVAL, "hlthunk_notifier_release"));
}

TEST_F(EventsTest, EachRecordIsAskedByItsId) {
    EXPECT_EQ(device.last_open()->timestamp, 1000 + HLTHUNK_OPEN_DEV);
    EXPECT_EQ(device.last_cs_timeout()->timestamp, 1000 + HLTHUNK_CS_TIMEOUT);
    EXPECT_EQ(device.last_razwi()->timestamp, 1000 + HLTHUNK_RAZWI_EVENT);
    EXPECT_EQ(device.last_undefined_opcode()->timestamp, 1000 + HLTHUNK_UNDEFINED_OPCODE);
    EXPECT_EQ(device.last_hw_error()->timestamp, 1000 + HLTHUNK_HW_ERR_OPCODE);
    EXPECT_EQ(device.last_fw_error()->timestamp, 1000 + HLTHUNK_FW_ERR_OPCODE);
    EXPECT_EQ(device.last_fw_error()->reported_err_id, 0x1111) << "the whole record is copied";
}

TEST_F(EventsTest, NothingRecordedHasTimestampZero) {
    fake.reply("get_event_record", 0);
    EXPECT_EQ(device.last_razwi()->timestamp, 0);
    fake.reply("get_page_fault_info", 0);
    EXPECT_EQ(device.last_page_fault()->timestamp, 0);
}

TEST_F(EventsTest, RecordsFail) {
    fake.reply("get_event_record", -EINVAL);
    EXPECT_TRUE(fails_with(device.last_hw_error(), EINVAL, "hlthunk_get_event_record"));
    fake.reply("get_page_fault_info", -EBUSY);
    EXPECT_TRUE(fails_with(device.last_page_fault(), EBUSY, "hlthunk_get_page_fault_info"));
    fake.reply("get_page_fault_info", -ENOMEM);
    EXPECT_TRUE(fails_with(device.last_page_fault(), ENOMEM, "hlthunk_get_page_fault_info"));
}

TEST_F(EventsTest, PageFaultBringsItsMappings) {
    fake.set_mappings(3);
    const Result<PageFault> fault = device.last_page_fault();
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->timestamp, 77);
    EXPECT_EQ(fault->address, 0xbad000U);
    EXPECT_EQ(fault->engine, 12);
    ASSERT_EQ(fault->mappings.size(), 3U);
    EXPECT_EQ(fault->mappings[2].dev_va, 0x2000U);
    EXPECT_EQ(fake.calls("get_page_fault_info"), 1);
}

TEST_F(EventsTest, PageFaultWithManyMappingsIsAskedAgainWithRoomForThem) {
    fake.set_mappings(5000);
    const Result<PageFault> fault = device.last_page_fault();
    ASSERT_TRUE(fault);
    ASSERT_EQ(fault->mappings.size(), 5000U);
    EXPECT_EQ(fault->mappings[4999].dev_va, 4999U * 0x1000);
    EXPECT_EQ(fake.calls("get_page_fault_info"), 2);
}

TEST_F(EventsTest, UnfilledCountIsNoMapping) {
    fake.set_mappings(0xFFFFFFFF);
    const Result<PageFault> fault = device.last_page_fault();
    ASSERT_TRUE(fault);
    EXPECT_TRUE(fault->mappings.empty());
}

} // namespace
} // namespace gaudi::thunk
