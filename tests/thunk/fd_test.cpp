// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/fd.h"

#include "reported.h"

#include <gtest/gtest.h>

#include <fcntl.h>

#include <cerrno>
#include <utility>

namespace gaudi::thunk {
namespace {

constexpr int kNeverOpen = 1 << 20;

int open_null() { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(Fd, destructor_closes) {
    const int number = open_null();
    {
        const Fd fd(number);
        EXPECT_TRUE(fd);
        EXPECT_EQ(fd.get(), number);
        EXPECT_TRUE(is_open(number));
    }
    EXPECT_FALSE(is_open(number));
}

TEST(Fd, move_does_not_close) {
    const int number = open_null();
    Fd first(number);
    Fd second(std::move(first));
    EXPECT_TRUE(is_open(number));
    EXPECT_EQ(second.get(), number);
    EXPECT_FALSE(first); // NOLINT: a moved-from Fd is empty
}

TEST(Fd, assignment_closes_the_old_descriptor) {
    const int old_number = open_null();
    Fd fd(old_number);
    fd = Fd(open_null());
    EXPECT_FALSE(is_open(old_number));
    EXPECT_TRUE(is_open(fd.get()));
}

TEST(Fd, assignment_to_itself_closes_nothing) {
    Fd fd(open_null());
    Fd &same = fd;
    fd = std::move(same);
    EXPECT_TRUE(is_open(fd.get()));
}

TEST(Fd, detach_does_not_close) {
    Fd fd(open_null());
    const int number = fd.detach();
    EXPECT_FALSE(fd);
    EXPECT_TRUE(is_open(number));
    EXPECT_TRUE(Fd(number).close());
}

TEST(Fd, duplicate_is_close_on_exec) {
    const Fd fd(open_null());
    const Result<Fd> copy = fd.duplicate();
    ASSERT_TRUE(copy);
    EXPECT_NE(copy->get(), fd.get());
    EXPECT_EQ(::fcntl(copy->get(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(Fd().duplicate().error().code, EBADF);
}

TEST(Fd, failed_close_is_returned_and_not_repeated) {
    const Reported reported;
    {
        Fd fd(kNeverOpen);
        const Result<void> closed = fd.close();
        ASSERT_FALSE(closed);
        EXPECT_EQ(closed.error().code, EBADF);
        EXPECT_FALSE(fd);
    }
    EXPECT_TRUE(Reported::errors().empty());
}

TEST(Fd, failed_close_in_the_destructor_is_reported_once) {
    const Reported reported;
    { const Fd fd(kNeverOpen); }
    ASSERT_EQ(Reported::errors().size(), 1U);
    EXPECT_EQ(Reported::errors()[0].code, EBADF);
    EXPECT_EQ(Reported::errors()[0].text, "close(1048576) failed with EBADF: Bad file descriptor");
}

} // namespace
} // namespace gaudi::thunk
