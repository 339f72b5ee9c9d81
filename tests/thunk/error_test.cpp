// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/error.h"

#include <cerrno>
#include <climits>
#include <string>

#include <gtest/gtest.h>

namespace gaudi::thunk {
namespace {

TEST(ErrorTest, NamesErrnos) {
    EXPECT_EQ(errno_name(EBUSY), "EBUSY");
    EXPECT_EQ(errno_name(EAGAIN), "EAGAIN");
    EXPECT_EQ(errno_name(ETIMEDOUT), "ETIMEDOUT");
    EXPECT_EQ(errno_name(EOPNOTSUPP), "EOPNOTSUPP");
    EXPECT_EQ(errno_name(4095), "errno 4095");
}

TEST(ErrorTest, NegativeReturnIsTheErrno) {
    const Error error = from_negative(-EFAULT, "hlthunk_get_hw_ip_info");
    EXPECT_EQ(error.code, EFAULT);
    EXPECT_STREQ(error.call, "hlthunk_get_hw_ip_info");
    EXPECT_EQ(error.text, "hlthunk_get_hw_ip_info failed with EFAULT: Bad address");
}

TEST(ErrorTest, MinusOneDependsOnTheShape) {
    EXPECT_EQ(from_negative(-1, "hlthunk_open").code, EPERM);
    EXPECT_EQ(from_minus_one(EBUSY, "hlthunk_open").code, EBUSY);
    EXPECT_EQ(from_mixed(-1, EBUSY, "hlthunk_close").code, EBUSY);
    EXPECT_EQ(from_mixed(-EBADF, EBUSY, "hlthunk_close").code, EBADF);
}

TEST(ErrorTest, ZeroTakesErrno) {
    const Error error = from_zero(ENOMEM, "hlthunk_device_memory_alloc", "805306368 bytes");
    EXPECT_EQ(error.code, ENOMEM);
    EXPECT_EQ(error.text, "hlthunk_device_memory_alloc(805306368 bytes) failed with ENOMEM: "
                          "the card has not enough free memory");
}

TEST(ErrorTest, NoErrnoLeftIsSaid) {
    EXPECT_EQ(from_zero(0, "hlthunk_device_memory_map").text,
              "hlthunk_device_memory_map failed with EPROTO: it returned 0 and left no errno");
    EXPECT_EQ(from_minus_one(0, "hlthunk_open").text,
              "hlthunk_open failed with EPROTO: it returned -1 and left no errno");
    EXPECT_EQ(from_zero(0, "hlthunk_device_memory_map").code, EPROTO);
}

TEST(ErrorTest, ReturnsThatAreNoErrorNumber) {
    EXPECT_EQ(from_negative(INT_MIN, "hlthunk_open").code, EPROTO);
    EXPECT_EQ(from_negative(3, "hlthunk_open").code, EPROTO);
    EXPECT_EQ(from_mixed(3, EBUSY, "hlthunk_close").code, EPROTO);
}

TEST(ErrorTest, ReasonOfTheCallComesFirst) {
    EXPECT_EQ(make_error(EBUSY, "hlthunk_open", "0000:19:00.0").text,
              "hlthunk_open(0000:19:00.0) failed with EBUSY: "
              "another process, or another part of this one, has the card open");
}

TEST(ErrorTest, ReasonOfTheCodeComesSecond) {
    EXPECT_EQ(make_error(EBUSY, "hlthunk_memory_unmap").text,
              "hlthunk_memory_unmap failed with EBUSY: the card is not operational, most likely in reset");
}

TEST(ErrorTest, SystemCallsHaveTheSystemsReason) {
    EXPECT_EQ(make_error(EBUSY, "close", "7").text, "close(7) failed with EBUSY: Device or resource busy");
}

TEST(ErrorTest, GivenReasonWins) {
    EXPECT_EQ(make_error(EBUSY, "hlthunk_open", {}, "because").text, "hlthunk_open failed with EBUSY: because");
}

} // namespace
} // namespace gaudi::thunk
