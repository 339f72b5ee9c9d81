// SPDX-License-Identifier: BSD-3-Clause
// How a program ends that has loaded NIXL's libraries by hand: without their destructors, in which the libnl that they
// carry crashes under ASan, with or without us.
#include <gmock/gmock.h>

#include <unistd.h>

#include <cstdio>

int main(int argc, char **argv) {
    testing::InitGoogleMock(&argc, argv);
    const int code = RUN_ALL_TESTS();
    std::fflush(stdout);
    ::_exit(code);
}
