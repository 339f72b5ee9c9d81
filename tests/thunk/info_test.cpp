// SPDX-License-Identifier: BSD-3-Clause
#include <cerrno>

#include <gtest/gtest.h>

#include "fake_library.h"

namespace gaudi::thunk {
namespace {

using InfoTest = WithFake;

TEST_F(InfoTest, BusId) {
    EXPECT_EQ(device.bus_id().value(), "0000:19:00.0");
    EXPECT_GE(fake.argument("get_pci_bus_id_from_fd", 1), 13U);
}

TEST_F(InfoTest, BusIdFailsInEitherShape) {
    fake.reply("get_pci_bus_id_from_fd", -1, EBADF);
    EXPECT_TRUE(fails_with(device.bus_id(), EBADF, "hlthunk_get_pci_bus_id_from_fd"));
    fake.reply("get_pci_bus_id_from_fd", -EINVAL);
    EXPECT_TRUE(fails_with(device.bus_id(), EINVAL, "hlthunk_get_pci_bus_id_from_fd"));
    fake.reply("get_pci_bus_id_from_fd", -1);
    errno = EBADF;
    EXPECT_TRUE(fails_with(device.bus_id(), EPROTO, "hlthunk_get_pci_bus_id_from_fd"));
}

TEST_F(InfoTest, HardwareIdentity) {
    const Result<hlthunk_hw_ip_info> info = device.hw_ip();
    ASSERT_TRUE(info);
    EXPECT_EQ(info->device_id, 0x1020U);
    EXPECT_EQ(info->module_id, 3U);
    EXPECT_EQ(info->reserved_dram_size, 768ULL << 20);
    EXPECT_EQ(info->dram_size, 0U) << "what the library does not fill in is zero";
    fake.reply("get_hw_ip_info", -EFAULT);
    EXPECT_TRUE(fails_with(device.hw_ip(), EFAULT, "hlthunk_get_hw_ip_info"));
}

TEST_F(InfoTest, Status) {
    EXPECT_EQ(device.status().value(), Status::operational);
    fake.reply("get_device_status_info", HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE);
    EXPECT_EQ(device.status().value(), Status::in_reset_after_release);
    fake.reply("get_device_status_info", 17);
    EXPECT_EQ(static_cast<int>(device.status().value()), 17) << "a newer driver's state";
    fake.reply("get_device_status_info", -ENODEV);
    EXPECT_TRUE(fails_with(device.status(), ENODEV, "hlthunk_get_device_status_info"));
}

TEST_F(InfoTest, DramUsage) {
    const Result<hlthunk_dram_usage_info> usage = device.dram_usage();
    ASSERT_TRUE(usage);
    EXPECT_EQ(usage->dram_free_mem, 1000U);
    EXPECT_EQ(usage->ctx_dram_mem, 24U);
    fake.reply("get_dram_usage", -EBADF);
    EXPECT_TRUE(fails_with(device.dram_usage(), EBADF, "hlthunk_get_dram_usage"));
}

TEST_F(InfoTest, OpenStats) {
    const Result<hlthunk_open_stats_info> stats = device.open_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->open_counter, 5U);
    EXPECT_EQ(stats->is_compute_ctx_active, 1);
    EXPECT_EQ(stats->compute_ctx_has_mapped_resources, 1);
    fake.reply("get_open_stats", -EBADF);
    EXPECT_TRUE(fails_with(device.open_stats(), EBADF, "hlthunk_get_open_stats"));
}

TEST_F(InfoTest, ResetCount) {
    const Result<hlthunk_reset_count_info> count = device.reset_count();
    ASSERT_TRUE(count);
    EXPECT_EQ(count->hard_reset_count, 2U);
    EXPECT_EQ(count->soft_reset_count, 9U);
    fake.reply("get_reset_count_info", -EBADF);
    EXPECT_TRUE(fails_with(device.reset_count(), EBADF, "hlthunk_get_reset_count_info"));
}

TEST(OpenStatsTest, OldLibraryFillsLess) {
    const FakeLibrary fake(FAKE_OPEN_STATS_18);
    const Result<hlthunk_open_stats_info> stats = fake.device().open_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->open_counter, 5U);
    EXPECT_EQ(stats->is_compute_ctx_active, 1);
    EXPECT_EQ(stats->compute_ctx_has_mapped_resources, 0);
}

TEST(OpenStatsTest, NextLibraryMayFillMore) {
    const FakeLibrary fake(FAKE_OPEN_STATS_64);
    const Result<hlthunk_open_stats_info> stats = fake.device().open_stats();
    ASSERT_TRUE(stats);
    EXPECT_EQ(stats->open_counter, 5U);
    EXPECT_EQ(stats->compute_ctx_has_mapped_resources, 1);
}

} // namespace
} // namespace gaudi::thunk
