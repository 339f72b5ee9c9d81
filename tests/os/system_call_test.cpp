// SPDX-License-Identifier: BSD-3-Clause
#include "os/system_call.h"

#include <gtest/gtest.h>

#include <sys/uio.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>

using gaudi::os::call_argument;
using gaudi::os::system_call;

namespace {

TEST(SystemCallArgument, narrow_type_defines_all_64_bits) {
    EXPECT_EQ(call_argument(7), 7ul);
    EXPECT_EQ(call_argument(-1), ~0ul);
    EXPECT_EQ(call_argument(std::uint32_t{0xffffffff}), 0xfffffffful);
    EXPECT_EQ(call_argument(std::int8_t{-2}), ~1ul);
    EXPECT_EQ(call_argument(true), 1ul);
}

TEST(SystemCallArgument, pointer_is_its_address) {
    int value = 0;
    EXPECT_EQ(call_argument(&value), reinterpret_cast<unsigned long>(&value));
    EXPECT_EQ(call_argument(nullptr), 0ul);
}

TEST(SystemCall, failure_returns_minus_one_and_errno) {
    EXPECT_EQ(system_call(SYS_close, -1), -1);
    EXPECT_EQ(errno, EBADF);
}

/// Fills the stack that the next call uses, so that what the call does not write there is not zero by luck.
__attribute__((noinline)) void dirty_stack() {
    volatile unsigned char bytes[4096];
    for (volatile unsigned char &byte : bytes)
        byte = 0xff;
}

__attribute__((noinline)) long read_own_memory(const iovec &local, const iovec &remote, int flags) {
    return system_call(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, flags);
}

TEST(SystemCall, int_as_sixth_argument_reaches_the_kernel_whole) {
    const std::uint64_t from = 42;
    std::uint64_t to = 0;
    const iovec local{&to, sizeof to}, remote{const_cast<std::uint64_t *>(&from), sizeof from};
    dirty_stack();
    EXPECT_EQ(read_own_memory(local, remote, 0), static_cast<long>(sizeof to)); // any other flag is EINVAL
    EXPECT_EQ(to, 42u);
    EXPECT_EQ(read_own_memory(local, remote, 1), -1);
    EXPECT_EQ(errno, EINVAL);
}

} // namespace
