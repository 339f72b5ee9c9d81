// SPDX-License-Identifier: BSD-3-Clause
#include "fake_library.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace gaudi::thunk {
namespace {

using DeviceOpen = WithFake;
using DeviceClose = WithFake;

TEST_F(DeviceOpen, bus_id_opens_any_model) {
    const Result<Device> opened = Device::open(*fake, "0000:19:00.0");
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->fd(), 71);
    EXPECT_EQ(&opened->library(), &*fake);
    EXPECT_EQ(fake.argument("open", 0), HLTHUNK_DEVICE_DONT_CARE);
    EXPECT_EQ(fake.argument("open", 1), 1U) << "a bus id was given";
}

TEST_F(DeviceOpen, negative_return_is_the_errno) {
    fake.reply("open", -EBUSY, ENOENT);
    EXPECT_TRUE(fails_with(Device::open(*fake, "0000:19:00.0"), EBUSY, "hlthunk_open"));
    fake.reply("open", -EAGAIN, EAGAIN);
    EXPECT_TRUE(fails_with(Device::open(*fake, "0000:19:00.0"), EAGAIN, "hlthunk_open"));
}

TEST_F(DeviceOpen, minus_one_is_eperm) {
    fake.reply("open", -EPERM, ENOENT);
    const Result<Device> opened = Device::open(*fake, "0000:19:00.0");
    EXPECT_TRUE(fails_with(opened, EPERM, "hlthunk_open"));
    EXPECT_EQ(
        opened.error().text,
        "hlthunk_open(0000:19:00.0) failed with EPERM: the card is disabled or needs a reset; the kernel log says why");
}

TEST_F(DeviceOpen, control_node_is_opened_by_index) {
    const std::optional<Device> opened = Device::open_control(*fake, 5);
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->fd(), 72);
    EXPECT_EQ(fake.argument("open_control", 0), 5U);
    EXPECT_EQ(fake.argument("open_control", 1), 0U);
    fake.reply("open_control", -ENOENT, EBUSY);
    EXPECT_FALSE(Device::open_control(*fake, 5));
}

TEST_F(DeviceOpen, descriptor_zero_is_a_descriptor) {
    fake.reply("open", 0);
    const Result<Device> opened = Device::open(*fake, "0000:19:00.0");
    ASSERT_TRUE(opened);
    EXPECT_EQ(opened->fd(), 0);
}

TEST_F(DeviceClose, failure_comes_in_either_error_shape) {
    EXPECT_TRUE(device.close());
    EXPECT_EQ(fake.argument("close", 0), static_cast<unsigned>(FakeLibrary::descriptor));
    fake.reply("close", -1, EBADF);
    EXPECT_TRUE(fails_with(device.close(), EBADF, "hlthunk_close"));
    fake.reply("close", -EIO);
    EXPECT_TRUE(fails_with(device.close(), EIO, "hlthunk_close"));
}

} // namespace
} // namespace gaudi::thunk
