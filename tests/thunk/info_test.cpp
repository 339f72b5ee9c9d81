// SPDX-License-Identifier: BSD-3-Clause
#include "fake_library.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace gaudi::thunk {
namespace {

using DeviceInfo = WithFake;

TEST_F(DeviceInfo, bus_id_is_that_of_the_library) {
    EXPECT_EQ(device.bus_id().value(), "0000:19:00.0");
    EXPECT_GE(fake.argument("get_pci_bus_id_from_fd", 1), 13U);
}

TEST_F(DeviceInfo, bus_id_fails_in_either_error_shape) {
    fake.reply("get_pci_bus_id_from_fd", -1, EBADF);
    EXPECT_TRUE(fails_with(device.bus_id(), EBADF, "hlthunk_get_pci_bus_id_from_fd"));
    fake.reply("get_pci_bus_id_from_fd", -EINVAL);
    EXPECT_TRUE(fails_with(device.bus_id(), EINVAL, "hlthunk_get_pci_bus_id_from_fd"));
    fake.reply("get_pci_bus_id_from_fd", -1);
    errno = EBADF;
    EXPECT_TRUE(fails_with(device.bus_id(), EPROTO, "hlthunk_get_pci_bus_id_from_fd"));
}

TEST_F(DeviceInfo, hw_ip_has_zeros_where_the_library_fills_nothing) {
    const Result<hlthunk_hw_ip_info> info = device.hw_ip();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->device_id, 0x1020U);
    EXPECT_EQ(info->module_id, 3U);
    EXPECT_EQ(info->reserved_dram_size, 768ULL << 20);
    EXPECT_EQ(info->dram_size, 0U) << "what the library does not fill in is zero";
    fake.reply("get_hw_ip_info", -EFAULT);
    EXPECT_TRUE(fails_with(device.hw_ip(), EFAULT, "hlthunk_get_hw_ip_info"));
}

TEST_F(DeviceInfo, status_passes_states_that_are_not_known_here) {
    EXPECT_EQ(device.status().value(), Status::operational);
    fake.reply("get_device_status_info", HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE);
    EXPECT_EQ(device.status().value(), Status::in_reset_after_release);
    fake.reply("get_device_status_info", 17);
    EXPECT_EQ(static_cast<int>(device.status().value()), 17) << "the state of a newer driver";
    fake.reply("get_device_status_info", -ENODEV);
    EXPECT_TRUE(fails_with(device.status(), ENODEV, "hlthunk_get_device_status_info"));
}

TEST_F(DeviceInfo, dram_usage_is_that_of_the_library) {
    const Result<hlthunk_dram_usage_info> usage = device.dram_usage();
    ASSERT_TRUE(usage);
    EXPECT_EQ(usage->dram_free_mem, 1000U);
    EXPECT_EQ(usage->ctx_dram_mem, 24U);
    fake.reply("get_dram_usage", -EBADF);
    EXPECT_TRUE(fails_with(device.dram_usage(), EBADF, "hlthunk_get_dram_usage"));
}

TEST_F(DeviceInfo, open_stats_are_those_of_the_library) {
    const Result<hlthunk_open_stats_info> stats = device.open_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->open_counter, 5U);
    EXPECT_EQ(stats->is_compute_ctx_active, 1);
    EXPECT_EQ(stats->compute_ctx_has_mapped_resources, 1);
    fake.reply("get_open_stats", -EBADF);
    EXPECT_TRUE(fails_with(device.open_stats(), EBADF, "hlthunk_get_open_stats"));
}

TEST_F(DeviceInfo, reset_count_is_that_of_the_library) {
    const Result<hlthunk_reset_count_info> count = device.reset_count();
    ASSERT_TRUE(count);
    EXPECT_EQ(count->hard_reset_count, 2U);
    EXPECT_EQ(count->soft_reset_count, 9U);
    fake.reply("get_reset_count_info", -EBADF);
    EXPECT_TRUE(fails_with(device.reset_count(), EBADF, "hlthunk_get_reset_count_info"));
}

TEST_F(DeviceInfo, events_are_those_of_the_library) {
    ASSERT_TRUE(fake->has_notifier());
    const Result<int> notifier = device.create_notifier();
    ASSERT_TRUE(notifier);
    EXPECT_EQ(*notifier, 11);
    const Result<std::uint64_t> events = device.take_events(*notifier);
    ASSERT_TRUE(events);
    EXPECT_EQ(*events, std::uint64_t{HL_NOTIFIER_EVENT_DEVICE_RESET});
    EXPECT_TRUE(device.release_notifier(*notifier));
    fake.reply("notifier_create", -EINVAL);
    EXPECT_TRUE(fails_with(device.create_notifier(), EINVAL, "hlthunk_notifier_create"));
    fake.reply("notifier_recv", -EBADF);
    EXPECT_TRUE(fails_with(device.take_events(11), EBADF, "hlthunk_notifier_recv"));
    fake.reply("notifier_release", -EINVAL);
    EXPECT_TRUE(fails_with(device.release_notifier(11), EINVAL, "hlthunk_notifier_release"));
}

TEST(OpenStats, older_library_leaves_new_fields_zero) {
    const FakeLibrary fake(FAKE_OPEN_STATS_18);
    const Result<hlthunk_open_stats_info> stats = fake.device().open_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->open_counter, 5U);
    EXPECT_EQ(stats->is_compute_ctx_active, 1);
    EXPECT_EQ(stats->compute_ctx_has_mapped_resources, 0);
}

TEST(OpenStats, newer_library_may_fill_more_than_is_declared) {
    const FakeLibrary fake(FAKE_OPEN_STATS_64);
    const Result<hlthunk_open_stats_info> stats = fake.device().open_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->open_counter, 5U);
    EXPECT_EQ(stats->compute_ctx_has_mapped_resources, 1);
}

} // namespace
} // namespace gaudi::thunk
