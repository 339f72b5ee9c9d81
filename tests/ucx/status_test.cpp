// SPDX-License-Identifier: BSD-3-Clause
#include "ucx/status.h"

#include "thunk/current_exception.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace gaudi::ucx {
namespace {

TEST(Status, every_errno_is_an_error) {
    for (int code = -1; code < 4096; ++code)
        EXPECT_LT(status_from_errno(code), 0) << code;
}

TEST(Status, known_errno_keeps_its_meaning) {
    EXPECT_EQ(status_from_errno(ENOMEM), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(status_from_errno(EINVAL), UCS_ERR_INVALID_PARAM);
    EXPECT_EQ(status_from_errno(EFAULT), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(status_from_errno(EAGAIN), UCS_ERR_NO_RESOURCE);
    EXPECT_EQ(status_from_errno(EBUSY), UCS_ERR_BUSY);
    EXPECT_EQ(status_from_errno(ENODEV), UCS_ERR_NO_DEVICE);
    EXPECT_EQ(status_from_errno(ENXIO), UCS_ERR_NO_DEVICE);
    EXPECT_EQ(status_from_errno(ENOENT), UCS_ERR_NO_DEVICE);
    EXPECT_EQ(status_from_errno(ELIBACC), UCS_ERR_NO_DEVICE);
    EXPECT_EQ(status_from_errno(EEXIST), UCS_ERR_ALREADY_EXISTS);
    EXPECT_EQ(status_from_errno(ENODATA), UCS_ERR_NO_ELEM);
    EXPECT_EQ(status_from_errno(ERANGE), UCS_ERR_OUT_OF_RANGE);
    EXPECT_EQ(status_from_errno(EOVERFLOW), UCS_ERR_OUT_OF_RANGE);
    EXPECT_EQ(status_from_errno(ENOSPC), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_EQ(status_from_errno(EMFILE), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_EQ(status_from_errno(ENFILE), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_EQ(status_from_errno(EDQUOT), UCS_ERR_EXCEEDS_LIMIT);
    EXPECT_EQ(status_from_errno(ETIMEDOUT), UCS_ERR_TIMED_OUT);
    EXPECT_EQ(status_from_errno(ECANCELED), UCS_ERR_CANCELED);
    EXPECT_EQ(status_from_errno(EPERM), UCS_ERR_REJECTED);
    EXPECT_EQ(status_from_errno(EACCES), UCS_ERR_REJECTED);
    EXPECT_EQ(status_from_errno(ENOSYS), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(status_from_errno(ENOTTY), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(status_from_errno(EOPNOTSUPP), UCS_ERR_UNSUPPORTED);
    EXPECT_EQ(status_from_errno(ECONNRESET), UCS_ERR_CONNECTION_RESET);
    EXPECT_EQ(status_from_errno(EIO), UCS_ERR_IO_ERROR);
    EXPECT_EQ(status_from_errno(0), UCS_ERR_IO_ERROR);
}

template <class Exception>
thunk::Error caught(const Exception &exception) {
    try {
        throw exception;
    } catch (...) {
        return thunk::current_exception_error("operation");
    }
}

TEST(Status, exception_becomes_an_error) {
    EXPECT_EQ(caught(std::bad_alloc()).code, ENOMEM);
    EXPECT_EQ(caught(std::bad_alloc()).text, "operation failed: out of memory");
    EXPECT_EQ(caught(std::system_error(EBUSY, std::generic_category())).code, EBUSY);
    EXPECT_EQ(caught(std::system_error(EBUSY, std::iostream_category())).code, EIO);
    EXPECT_EQ(caught(std::runtime_error("the reason")).code, EIO);
    EXPECT_EQ(caught(std::runtime_error("the reason")).text, "operation failed: the reason");
    EXPECT_EQ(caught(42).code, EIO);
    EXPECT_EQ(caught(42).text, "operation failed: unknown error");
    EXPECT_STREQ(caught(42).call, "operation");
}

} // namespace
} // namespace gaudi::ucx
