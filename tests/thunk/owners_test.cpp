// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/owners.h"

#include <cerrno>
#include <utility>

#include <gtest/gtest.h>

#include "fake_library.h"
#include "reported.h"

namespace gaudi::thunk {
namespace {

class OwnersTest : public WithFake {
protected:
    Reported reported;

    static std::vector<Error> &errors() { return Reported::errors(); }
};

TEST_F(OwnersTest, ReleaseAtTheEnd) {
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

TEST_F(OwnersTest, HostMappingIsUnmapped) {
    { ASSERT_TRUE(map_host(device, &fake, 64)); }
    EXPECT_EQ(fake.argument("memory_unmap", 1), 0xFFF0000000001000U);
}

TEST_F(OwnersTest, WhatWasNotMadeIsNotReleased) {
    fake.reply("device_memory_alloc", 0, ENOMEM);
    EXPECT_TRUE(fails_with(allocate(device, 4096), ENOMEM, "hlthunk_device_memory_alloc"));
    fake.reply("host_memory_map", 0, EFAULT);
    EXPECT_TRUE(fails_with(map_host(device, &fake, 64), EFAULT, "hlthunk_host_memory_map"));
    EXPECT_EQ(fake.calls("device_memory_free"), 0);
    EXPECT_EQ(fake.calls("memory_unmap"), 0);
}

TEST_F(OwnersTest, MovingReleasesOnce) {
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

TEST_F(OwnersTest, AssignmentReleasesTheOldOne) {
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

TEST_F(OwnersTest, DetachGivesUp) {
    {
        Allocation allocation(device, 5);
        EXPECT_EQ(allocation.detach(), 5U);
        EXPECT_FALSE(allocation);
    }
    EXPECT_EQ(fake.calls("device_memory_free"), 0);
}

TEST_F(OwnersTest, EmptyOwnersReleaseNothing) {
    Mapping mapping;
    EXPECT_FALSE(mapping);
    EXPECT_TRUE(mapping.release());
    EXPECT_EQ(fake.calls("memory_unmap"), 0);
}

TEST_F(OwnersTest, FailedReleaseKeepsOwnershipAndCanBeTriedAgain) {
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

TEST_F(OwnersTest, FailedReleaseInDestructorIsReported) {
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

TEST_F(OwnersTest, FailedReleaseInAssignmentIsReported) {
    Mapping mapping(device, 0x1000);
    fake.reply("memory_unmap", -EINVAL);
    mapping = Mapping(device, 0x2000);
    EXPECT_EQ(errors().size(), 1U);
    EXPECT_EQ(mapping.get(), 0x2000U);
}

TEST_F(OwnersTest, DescriptorIsClosedThroughTheLibrary) {
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

TEST_F(OwnersTest, FailedOpenClosesNothing) {
    fake.reply("open", -EBUSY);
    EXPECT_TRUE(fails_with(DeviceFd::open(*fake, "0000:19:00.0"), EBUSY, "hlthunk_open"));
    EXPECT_EQ(fake.calls("close"), 0);
}

TEST_F(OwnersTest, FailedCloseOfACardIsReturnedAndNotRepeated) {
    {
        DeviceFd card(device);
        fake.reply("close", -1, EIO);
        EXPECT_TRUE(fails_with(card.close(), EIO, "hlthunk_close"));
        EXPECT_FALSE(card) << "the number may already be someone else's";
        EXPECT_TRUE(card.close());
    }
    EXPECT_EQ(fake.calls("close"), 1);
    EXPECT_TRUE(errors().empty());
}

TEST_F(OwnersTest, FailedCloseOfACardInDestructorIsReported) {
    fake.reply("close", -1, EIO);
    { const DeviceFd card(device); }
    ASSERT_EQ(errors().size(), 1U);
    EXPECT_STREQ(errors()[0].call, "hlthunk_close");
}

TEST_F(OwnersTest, CardsCanBeReplacedAndGivenUp) {
    DeviceFd card(Device(*fake, 10));
    card = DeviceFd(Device(*fake, 11));
    EXPECT_EQ(fake.argument("close", 0), 10U);
    EXPECT_EQ(card.detach().fd(), 11);
    EXPECT_FALSE(card);
    EXPECT_EQ(fake.calls("close"), 1);
}

} // namespace
} // namespace gaudi::thunk
