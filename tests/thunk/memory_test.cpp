// SPDX-License-Identifier: BSD-3-Clause
#include "fake_library.h"

#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>

namespace gaudi::thunk {
namespace {

using DeviceMemory = WithFake;

constexpr std::uint64_t kPage = 768ULL << 20;

TEST_F(DeviceMemory, alloc_takes_default_pages_that_are_not_shared) {
    EXPECT_EQ(device.alloc(kPage).value(), 1U);
    EXPECT_EQ(fake.argument("device_memory_alloc", 0), static_cast<unsigned>(FakeLibrary::descriptor));
    EXPECT_EQ(fake.argument("device_memory_alloc", 1), kPage);
    EXPECT_EQ(fake.argument("device_memory_alloc", 2), 0U) << "the card's own page size";
    EXPECT_EQ(fake.argument("device_memory_alloc", 3), 0U) << "not contiguous";
    EXPECT_EQ(fake.argument("device_memory_alloc", 4), 0U) << "not shared";
}

TEST_F(DeviceMemory, zero_return_takes_errno) {
    fake.reply("device_memory_alloc", 0, ENOMEM);
    EXPECT_TRUE(fails_with(device.alloc(kPage), ENOMEM, "hlthunk_device_memory_alloc"));
    fake.reply("device_memory_map", 0, EINVAL);
    EXPECT_TRUE(fails_with(device.map(1), EINVAL, "hlthunk_device_memory_map"));
    fake.reply("host_memory_map", 0, EFAULT);
    EXPECT_TRUE(fails_with(device.host_map(&fake, 1), EFAULT, "hlthunk_host_memory_map"));
}

TEST_F(DeviceMemory, zero_return_with_a_stale_errno_is_eproto) {
    fake.reply("device_memory_alloc", 0);
    errno = EBUSY;
    EXPECT_TRUE(fails_with(device.alloc(kPage), EPROTO, "hlthunk_device_memory_alloc"));
}

TEST_F(DeviceMemory, free_of_a_mapped_handle_says_why) {
    EXPECT_TRUE(device.free(9));
    EXPECT_EQ(fake.argument("device_memory_free", 1), 9U);
    fake.reply("device_memory_free", -EINVAL);
    const Result<void> freed = device.free(9);
    EXPECT_TRUE(fails_with(freed, EINVAL, "hlthunk_device_memory_free"));
    EXPECT_EQ(freed.error().text, "hlthunk_device_memory_free(0x9) failed with EINVAL: "
                                  "the handle is unknown or still mapped");
}

TEST_F(DeviceMemory, maps_pass_their_arguments_in_order) {
    EXPECT_EQ(device.map(7, 0x5000).value(), 0x1001001800000000U);
    EXPECT_EQ(fake.argument("device_memory_map", 1), 7U);
    EXPECT_EQ(fake.argument("device_memory_map", 2), 0x5000U);

    EXPECT_EQ(device.host_map(&fake, 123).value(), 0xFFF0000000001000U);
    EXPECT_EQ(fake.argument("host_memory_map", 1), reinterpret_cast<std::uintptr_t>(&fake));
    EXPECT_EQ(fake.argument("host_memory_map", 2), 0U) << "the hint stands before the size";
    EXPECT_EQ(fake.argument("host_memory_map", 3), 123U);
}

TEST_F(DeviceMemory, unmap_of_exported_memory_says_why) {
    EXPECT_TRUE(device.unmap(0x1001001800000000));
    EXPECT_EQ(fake.argument("memory_unmap", 1), 0x1001001800000000U);
    fake.reply("memory_unmap", -EINVAL);
    const Result<void> unmapped = device.unmap(0x1001001800000000);
    EXPECT_TRUE(fails_with(unmapped, EINVAL, "hlthunk_memory_unmap"));
    EXPECT_EQ(unmapped.error().text, "hlthunk_memory_unmap(0x1001001800000000) failed with EINVAL: "
                                     "no mapping starts at this address, or a dma-buf exported from it is still open");
}

TEST_F(DeviceMemory, export_starts_at_offset_zero_and_is_close_on_exec) {
    const Result<Fd> exported = device.export_dmabuf(0x1001001800000000, kPage);
    ASSERT_TRUE(exported) << exported.error().text;
    EXPECT_GE(::fcntl(exported->get(), F_GETFD), 0);
    EXPECT_EQ(fake.argument("device_mapped_memory_export_dmabuf_fd", 1), 0x1001001800000000U);
    EXPECT_EQ(fake.argument("device_mapped_memory_export_dmabuf_fd", 2), kPage);
    EXPECT_EQ(fake.argument("device_mapped_memory_export_dmabuf_fd", 3), 0U);
    EXPECT_EQ(fake.argument("device_mapped_memory_export_dmabuf_fd", 4), 0x80002U);
}

TEST_F(DeviceMemory, export_refused_by_the_driver_is_an_error) {
    fake.reply("device_mapped_memory_export_dmabuf_fd", -EINVAL);
    EXPECT_TRUE(fails_with(device.export_dmabuf(1, 2), EINVAL, "hlthunk_device_mapped_memory_export_dmabuf_fd"));
}

} // namespace
} // namespace gaudi::thunk
