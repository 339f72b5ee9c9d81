// SPDX-License-Identifier: BSD-3-Clause
// System devices of cards, which UCX's topology has where sysfs lists the PCI devices (`ucx_gaudi run --topology`).
#include "uct_side.h"

#include <stdlib.h>

#include <set>

using namespace uct_side;
using ::testing::HasSubstr;

namespace {

/// More system devices than a server with its switches has.
constexpr unsigned kDevices = 16;

ucs_status_t allocate(const Domain &domain, unsigned device, uct_allocated_memory_t &memory) {
    return Buffer::allocate(domain, kMiB, {.device = static_cast<ucs_sys_device_t>(device)}, memory);
}

TEST(SystemDevice, allocation_lies_on_the_card_that_it_names) {
    const Domain domain;
    std::set<unsigned> devices;
    for (unsigned device = 0; device < kDevices; ++device) {
        uct_allocated_memory_t memory{};
        if (allocate(domain, device, memory) != UCS_OK)
            continue;
        const auto seen = domain.query(memory.address);
        EXPECT_TRUE(seen && seen->sys_dev == device);
        devices.insert(device);
        EXPECT_EQ(uct_mem_free(&memory), UCS_OK);
    }
    EXPECT_EQ(devices.size(), 8u);
}

TEST(SystemDevice, card_in_use_is_refused_and_others_allocate) {
    const e2e::Printed printed;
    setenv("SOFTGAUDI_FAULTS", "open@0=EBUSY", 1);
    const Domain domain;
    const Buffer elsewhere(domain, kMiB);
    unsigned refused = 0;
    for (unsigned device = 0; device < kDevices; ++device) {
        uct_allocated_memory_t memory{};
        if (allocate(domain, device, memory) == UCS_OK)
            uct_mem_free(&memory);
        else
            ++refused;
    }
    EXPECT_EQ(refused, kDevices - 7);
    EXPECT_THAT(printed.complaints(), testing::Contains(HasSubstr("is in use")));
}

TEST(SystemDevice, transport_reports_that_of_the_only_card) {
    setenv("SOFTGAUDI_CARDS", "1", 1);
    const Domain domain;
    const Buffer buffer(domain, kMiB);
    uct_tl_resource_desc_t *resources = nullptr;
    unsigned count = 0;
    ASSERT_EQ(uct_md_query_tl_resources(domain.md(), &resources, &count), UCS_OK);
    ASSERT_GT(count, 0u);
    for (unsigned i = 0; i < count; ++i) {
        EXPECT_NE(resources[i].sys_device, UCS_SYS_DEVICE_ID_UNKNOWN);
        EXPECT_EQ(resources[i].sys_device, domain.query(buffer.data())->sys_dev);
    }
    uct_release_tl_resource_list(resources);
}

} // namespace
