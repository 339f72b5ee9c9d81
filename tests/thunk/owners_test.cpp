// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/owners.h"

#include "fake_library.h"
#include "reported.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

namespace gaudi::thunk {
namespace {

class Owner : public WithFake {
protected:
    Reported reported;

    static std::vector<Error> &errors() { return Reported::errors(); }
};

using OwnedDeviceFd = Owner;

TEST_F(Owner, destructor_releases) {
    {
        const Result<Allocation> allocation = allocate(device, 4096);
        ASSERT_TRUE(allocation);
        EXPECT_EQ(allocation->get(), 1U);
        const Result<Mapping> on_card = map_device(*allocation);
        ASSERT_TRUE(on_card);
        EXPECT_EQ(on_card->get(), 0x1001001800000000U);
        EXPECT_EQ(fake.argument("device_memory_map", 1), 1U) << "the allocation's handle";
        EXPECT_EQ(fake.calls("memory_unmap"), 0);
    }
    EXPECT_EQ(fake.calls("memory_unmap"), 1);
    EXPECT_EQ(fake.argument("memory_unmap", 0), static_cast<unsigned>(FakeLibrary::descriptor));
    EXPECT_EQ(fake.argument("memory_unmap", 1), 0x1001001800000000U);
    EXPECT_EQ(fake.calls("device_memory_free"), 1);
    EXPECT_EQ(fake.argument("device_memory_free", 1), 1U);
    EXPECT_TRUE(errors().empty());
}

TEST_F(Owner, destructor_unmaps_host_memory) {
    { ASSERT_TRUE(map_host(device, &fake, 64)); }
    EXPECT_EQ(fake.argument("memory_unmap", 1), 0xFFF0000000001000U);
}

TEST_F(Owner, failed_call_leaves_nothing_to_release) {
    fake.reply("device_memory_alloc", 0, ENOMEM);
    EXPECT_TRUE(fails_with(allocate(device, 4096), ENOMEM, "hlthunk_device_memory_alloc"));
    fake.reply("host_memory_map", 0, EFAULT);
    EXPECT_TRUE(fails_with(map_host(device, &fake, 64), EFAULT, "hlthunk_host_memory_map"));
    EXPECT_EQ(fake.calls("device_memory_free"), 0);
    EXPECT_EQ(fake.calls("memory_unmap"), 0);
}

TEST_F(Owner, moved_owner_releases_once) {
    {
        Mapping first(device, 0x1000);
        Mapping second(std::move(first));
        EXPECT_FALSE(first); // NOLINT: a moved-from owner is empty
        Mapping third;
        third = std::move(second);
        EXPECT_FALSE(second); // NOLINT
        EXPECT_EQ(third.get(), 0x1000U);
        EXPECT_EQ(fake.calls("memory_unmap"), 0);
    }
    EXPECT_EQ(fake.calls("memory_unmap"), 1);
}

TEST_F(Owner, assignment_releases_the_old_number) {
    Mapping mapping(device, 0x1000);
    mapping = Mapping(device, 0x2000);
    EXPECT_EQ(fake.calls("memory_unmap"), 1);
    EXPECT_EQ(fake.argument("memory_unmap", 1), 0x1000U);
    EXPECT_EQ(mapping.get(), 0x2000U);
    Mapping &same = mapping;
    mapping = std::move(same);
    EXPECT_EQ(mapping.get(), 0x2000U);
    EXPECT_EQ(fake.calls("memory_unmap"), 1);
}

TEST_F(Owner, detach_does_not_release) {
    {
        Allocation allocation(device, 5);
        EXPECT_EQ(allocation.detach(), 5U);
        EXPECT_FALSE(allocation);
    }
    EXPECT_EQ(fake.calls("device_memory_free"), 0);
}

TEST_F(Owner, empty_owner_releases_nothing) {
    Mapping mapping;
    EXPECT_FALSE(mapping);
    EXPECT_TRUE(mapping.release());
    EXPECT_EQ(fake.calls("memory_unmap"), 0);
}

TEST_F(Owner, failed_release_keeps_ownership_and_can_be_repeated) {
    {
        Mapping mapping(device, 0x1000);
        fake.reply("memory_unmap", -EINVAL); // as while a dma-buf of it lives
        EXPECT_TRUE(fails_with(mapping.release(), EINVAL, "hlthunk_memory_unmap"));
        EXPECT_TRUE(mapping);
        EXPECT_EQ(mapping.get(), 0x1000U);
        EXPECT_TRUE(mapping.release());
        EXPECT_FALSE(mapping);
        EXPECT_EQ(fake.calls("memory_unmap"), 2);
    }
    EXPECT_EQ(fake.calls("memory_unmap"), 2);
    EXPECT_TRUE(errors().empty()) << "a failure that was returned is not reported too";
}

TEST_F(Owner, failed_release_in_the_destructor_is_reported) {
    fake.reply("memory_unmap", -EINVAL);
    { const Mapping mapping(device, 0x1000); }
    ASSERT_EQ(errors().size(), 1U);
    EXPECT_STREQ(errors()[0].call, "hlthunk_memory_unmap");
    EXPECT_EQ(errors()[0].code, EINVAL);

    fake.reply("device_memory_free", -EINVAL);
    { const Allocation allocation(device, 3); }
    ASSERT_EQ(errors().size(), 2U);
    EXPECT_STREQ(errors()[1].call, "hlthunk_device_memory_free");
}

TEST_F(Owner, failed_release_in_assignment_is_reported) {
    Mapping mapping(device, 0x1000);
    fake.reply("memory_unmap", -EINVAL);
    mapping = Mapping(device, 0x2000);
    EXPECT_EQ(errors().size(), 1U);
    EXPECT_EQ(mapping.get(), 0x2000U);
}

TEST_F(OwnedDeviceFd, destructor_closes_through_the_library) {
    {
        Result<DeviceFd> opened = DeviceFd::open(*fake, "0000:19:00.0");
        ASSERT_TRUE(opened);
        const DeviceFd moved(std::move(*opened));
        EXPECT_EQ(moved->fd(), 71);
        EXPECT_EQ(moved.get().fd(), 71);
        EXPECT_EQ(fake.calls("close"), 0);
    }
    EXPECT_EQ(fake.calls("close"), 1);
    EXPECT_EQ(fake.argument("close", 0), 71U);
    { ASSERT_TRUE(DeviceFd::open_control(*fake, 0)); }
    EXPECT_EQ(fake.argument("close", 0), 72U);
}

TEST_F(OwnedDeviceFd, failed_open_closes_nothing) {
    fake.reply("open", -EBUSY);
    EXPECT_TRUE(fails_with(DeviceFd::open(*fake, "0000:19:00.0"), EBUSY, "hlthunk_open"));
    EXPECT_EQ(fake.calls("close"), 0);
}

TEST_F(OwnedDeviceFd, failed_close_is_returned_and_not_repeated) {
    {
        DeviceFd card(device);
        fake.reply("close", -1, EIO);
        EXPECT_TRUE(fails_with(card.close(), EIO, "hlthunk_close"));
        EXPECT_FALSE(card) << "the number may already belong to another file";
        EXPECT_TRUE(card.close());
    }
    EXPECT_EQ(fake.calls("close"), 1);
    EXPECT_TRUE(errors().empty());
}

TEST_F(OwnedDeviceFd, failed_close_in_the_destructor_is_reported) {
    fake.reply("close", -1, EIO);
    { const DeviceFd card(device); }
    ASSERT_EQ(errors().size(), 1U);
    EXPECT_STREQ(errors()[0].call, "hlthunk_close");
}

TEST_F(OwnedDeviceFd, assignment_closes_the_old_card_and_detach_closes_none) {
    DeviceFd card(Device(*fake, 10));
    card = DeviceFd(Device(*fake, 11));
    EXPECT_EQ(fake.argument("close", 0), 10U);
    EXPECT_EQ(card.detach().fd(), 11);
    EXPECT_FALSE(card);
    EXPECT_EQ(fake.calls("close"), 1);
}

} // namespace
} // namespace gaudi::thunk
