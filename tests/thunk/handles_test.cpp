// SPDX-License-Identifier: BSD-3-Clause
#include "thunk/handles.h"

#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "reported.h"

namespace gaudi::thunk {
namespace {

constexpr int never_open = 1 << 20;

int open_null() { return ::open("/dev/null", O_RDWR | O_CLOEXEC); }

bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

bool is_loaded(const char *path) {
    void *handle = ::dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (handle == nullptr)
        return false;
    ::dlclose(handle);
    return true;
}

TEST(FdTest, ClosesAtTheEnd) {
    const int number = open_null();
    {
        const Fd fd(number);
        EXPECT_TRUE(fd);
        EXPECT_EQ(fd.get(), number);
        EXPECT_TRUE(is_open(number));
    }
    EXPECT_FALSE(is_open(number));
}

TEST(FdTest, MovesWithoutClosing) {
    const int number = open_null();
    Fd first(number);
    Fd second(std::move(first));
    EXPECT_TRUE(is_open(number));
    EXPECT_EQ(second.get(), number);
    EXPECT_FALSE(first); // NOLINT: a moved-from Fd is empty
}

TEST(FdTest, AssignmentClosesTheOldOne) {
    const int old_number = open_null();
    Fd fd(old_number);
    fd = Fd(open_null());
    EXPECT_FALSE(is_open(old_number));
    EXPECT_TRUE(is_open(fd.get()));
}

TEST(FdTest, AssignmentToItselfKeepsIt) {
    Fd fd(open_null());
    Fd &same = fd;
    fd = std::move(same);
    EXPECT_TRUE(is_open(fd.get()));
}

TEST(FdTest, DetachGivesUp) {
    Fd fd(open_null());
    const int number = fd.detach();
    EXPECT_FALSE(fd);
    EXPECT_TRUE(is_open(number));
    EXPECT_TRUE(Fd(number).close());
}

TEST(FdTest, DuplicatesWithCloseOnExec) {
    const Fd fd(open_null());
    const Result<Fd> copy = fd.duplicate();
    ASSERT_TRUE(copy);
    EXPECT_NE(copy->get(), fd.get());
    EXPECT_EQ(::fcntl(copy->get(), F_GETFD), FD_CLOEXEC);
    EXPECT_EQ(Fd().duplicate().error().code, EBADF);
}

TEST(FdTest, FailedCloseIsReturnedAndNotRepeated) {
    const Reported reported;
    {
        Fd fd(never_open);
        const Result<void> closed = fd.close();
        ASSERT_FALSE(closed);
        EXPECT_EQ(closed.error().code, EBADF);
        EXPECT_FALSE(fd);
    }
    EXPECT_TRUE(Reported::errors().empty());
}

TEST(FdTest, FailedCloseInDestructorIsReportedOnce) {
    const Reported reported;
    { const Fd fd(never_open); }
    ASSERT_EQ(Reported::errors().size(), 1U);
    EXPECT_EQ(Reported::errors()[0].code, EBADF);
    EXPECT_EQ(Reported::errors()[0].text, "close(1048576) failed with EBADF: Bad file descriptor");
}

TEST(ReportTest, DefaultIsOneLineOnStderr) {
    testing::internal::CaptureStderr();
    { const Fd fd(never_open); }
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "ucx-gaudi: close(1048576) failed with EBADF: Bad file descriptor\n");
}

TEST(ReportTest, ReplacingReturnsTheOneBefore) {
    const Report mine = [](const Error &) {};
    const Report normal = set_report(mine);
    EXPECT_EQ(set_report(nullptr), mine);
    EXPECT_EQ(set_report(nullptr), normal);
}

TEST(ReportTest, WhatAReportThrowsStaysInside) {
    set_report([](const Error &) { throw 1; });
    { const Fd fd(never_open); }
    set_report(nullptr);
}

TEST(DlHandleTest, UnloadsAtTheEnd) {
    {
        const Result<DlHandle> library = DlHandle::open(FAKE_UNLOADABLE);
        ASSERT_TRUE(library);
        EXPECT_TRUE(is_loaded(FAKE_UNLOADABLE));
        EXPECT_NE(library->symbol("fake_marker"), nullptr);
        EXPECT_EQ(library->symbol("fake_no_such_marker"), nullptr);
        EXPECT_EQ(library->path(), FAKE_UNLOADABLE);
    }
    EXPECT_FALSE(is_loaded(FAKE_UNLOADABLE));
}

TEST(DlHandleTest, KeepsWhatItIsToldToKeep) {
    Result<DlHandle> library = DlHandle::open(FAKE_KEPT);
    ASSERT_TRUE(library);
    library->keep();
    EXPECT_FALSE(*library);
    library = DlHandle();
    EXPECT_TRUE(is_loaded(FAKE_KEPT));
}

TEST(DlHandleTest, MovesAndCloses) {
    Result<DlHandle> first = DlHandle::open(FAKE_UNLOADABLE);
    ASSERT_TRUE(first);
    DlHandle second;
    second = std::move(*first);
    EXPECT_FALSE(*first); // NOLINT: a moved-from handle is empty
    EXPECT_TRUE(is_loaded(FAKE_UNLOADABLE));
    EXPECT_TRUE(second.close());
    EXPECT_FALSE(is_loaded(FAKE_UNLOADABLE));
}

TEST(DlHandleTest, EmptyHandleKnowsNothing) {
    const DlHandle none;
    EXPECT_EQ(none.symbol("malloc"), nullptr);
    EXPECT_EQ(none.path(), "");
}

TEST(DlHandleTest, NamesWhatDoesNotLoad) {
    const Result<DlHandle> library = DlHandle::open("libthere-is-no-such-thing.so");
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, ELIBACC);
    EXPECT_NE(library.error().text.find("libthere-is-no-such-thing.so"), std::string::npos);
}

TEST(DlHandleTest, EmptyNameIsNotTheProgram) {
    const Result<DlHandle> library = DlHandle::open("");
    ASSERT_FALSE(library);
    EXPECT_EQ(library.error().code, EINVAL);
}

} // namespace
} // namespace gaudi::thunk
