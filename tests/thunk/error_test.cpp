// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <climits>
#include <string>

namespace gaudi::thunk {
namespace {

TEST(ErrnoName, known_number_is_its_symbol_and_unknown_is_the_number) {
    EXPECT_EQ(errno_name(EBUSY), "EBUSY");
    EXPECT_EQ(errno_name(EAGAIN), "EAGAIN");
    EXPECT_EQ(errno_name(ETIMEDOUT), "ETIMEDOUT");
    EXPECT_EQ(errno_name(EOPNOTSUPP), "EOPNOTSUPP");
    EXPECT_EQ(errno_name(4095), "errno 4095");
}

TEST(ErrorShape, negative_return_is_the_errno) {
    const Error error = from_negative(-EFAULT, "hlthunk_get_hw_ip_info");
    EXPECT_EQ(error.code, EFAULT);
    EXPECT_STREQ(error.call, "hlthunk_get_hw_ip_info");
    EXPECT_EQ(error.text, "hlthunk_get_hw_ip_info failed with EFAULT: Bad address");
}

TEST(ErrorShape, minus_one_is_eperm_or_errno_depending_on_the_shape) {
    EXPECT_EQ(from_negative(-1, "hlthunk_open").code, EPERM);
    EXPECT_EQ(from_minus_one(EBUSY, "hlthunk_open").code, EBUSY);
    EXPECT_EQ(from_mixed(-1, EBUSY, "hlthunk_close").code, EBUSY);
    EXPECT_EQ(from_mixed(-EBADF, EBUSY, "hlthunk_close").code, EBADF);
}

TEST(ErrorShape, zero_takes_errno) {
    const Error error = from_zero(ENOMEM, "hlthunk_device_memory_alloc", "805306368 bytes");
    EXPECT_EQ(error.code, ENOMEM);
    EXPECT_EQ(error.text, "hlthunk_device_memory_alloc(805306368 bytes) failed with ENOMEM: "
                          "the card has not enough free memory");
}

TEST(ErrorShape, missing_errno_is_eproto) {
    EXPECT_EQ(from_zero(0, "hlthunk_device_memory_map").text,
              "hlthunk_device_memory_map failed with EPROTO: it returned 0 without an errno");
    EXPECT_EQ(from_minus_one(0, "hlthunk_open").text,
              "hlthunk_open failed with EPROTO: it returned -1 without an errno");
    EXPECT_EQ(from_zero(0, "hlthunk_device_memory_map").code, EPROTO);
}

TEST(ErrorShape, return_that_is_no_errno_is_eproto) {
    EXPECT_EQ(from_negative(INT_MIN, "hlthunk_open").code, EPROTO);
    EXPECT_EQ(from_negative(3, "hlthunk_open").code, EPROTO);
    EXPECT_EQ(from_mixed(3, EBUSY, "hlthunk_close").code, EPROTO);
}

TEST(ErrorText, reason_known_for_the_call_comes_first) {
    EXPECT_EQ(make_error(EBUSY, "hlthunk_open", "0000:19:00.0").text,
              "hlthunk_open(0000:19:00.0) failed with EBUSY: "
              "another process, or another library in this one, has the card open; "
              "`ucx_gaudi info` names the process");
}

TEST(ErrorText, reason_known_for_the_errno_comes_second) {
    EXPECT_EQ(make_error(EBUSY, "hlthunk_memory_unmap").text,
              "hlthunk_memory_unmap failed with EBUSY: the card is not operational, most likely in reset");
}

TEST(ErrorText, system_call_has_the_reason_of_strerror) {
    EXPECT_EQ(make_error(EBUSY, "close", "7").text, "close(7) failed with EBUSY: Device or resource busy");
}

TEST(IsTransient, shortage_and_busy_card_are_and_a_refusal_is_not) {
    for (const int code : {EMFILE, ENFILE, ENOMEM, EINTR, EAGAIN, EBUSY})
        EXPECT_TRUE(is_transient(code)) << errno_name(code);
    for (const int code : {EINVAL, EPERM, ENODEV, ENOENT, EIO, ENOTTY, 0})
        EXPECT_FALSE(is_transient(code)) << errno_name(code);
}

TEST(ErrorText, given_reason_replaces_the_known_one) {
    EXPECT_EQ(make_error(EBUSY, "hlthunk_open", {}, "because").text, "hlthunk_open failed with EBUSY: because");
}

} // namespace
} // namespace gaudi::thunk
