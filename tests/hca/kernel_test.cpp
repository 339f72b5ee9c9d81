// SPDX-License-Identifier: BSD-3-Clause
// A kernel that denies what the software HCA needs, as in a container: the library names the call and the remedy.
#include "hca.h"

#include "soft/restricted.h"

using namespace hca;

namespace {

class Kernel : public HcaTest {
protected:
    /// What the library prints while it lists its devices.
    static std::string printed(int devices) {
        ::testing::internal::CaptureStderr();
        for (int i = 0; i < 2; ++i) {
            int count = -1;
            ibv_free_device_list(ibv_get_device_list(&count));
            EXPECT_EQ(count, devices);
        }
        return ::testing::internal::GetCapturedStderr();
    }
};

class Call : public Kernel, public ::testing::WithParamInterface<soft::DeniedCall> {};

TEST_P(Call, denied_is_named_once_with_the_remedy) {
    deny(GetParam(), EPERM);
    EXPECT_EQ(printed(GetParam().required ? 0 : 2),
              std::string("softhca: ") + GetParam().name + " is denied (EPERM), so " +
                  (GetParam().required ? "no HCA can access the memory of a program"
                                       : "dma-bufs of the kernel that a peer registered cannot be used") +
                  ": allow it in the seccomp profile of the container (Docker: --cap-add SYS_PTRACE)\n");
}

INSTANTIATE_TEST_SUITE_P(Each, Call, ::testing::ValuesIn(soft::kDeniedCalls),
                         [](const auto &param) { return std::string(param.param.name); });

TEST_F(Kernel, tmpfs_without_room_is_refused_with_its_size) {
    const soft::LimitedTmpfs tmpfs(fabric(), 1024);
    EXPECT_EQ(printed(0), "softhca: " + fabric() +
                              ": its tmpfs has 1024 KiB free, and 8192 KiB are needed: free space there, enlarge it "
                              "(Docker: --shm-size), or set SOFTHCA_DIR to a directory on another tmpfs\n");
}

TEST_F(Kernel, tmpfs_with_the_least_room_is_enough_to_open_a_device) {
    const soft::LimitedTmpfs tmpfs(fabric(), 8192);
    const Node node;
    EXPECT_NE(node.lid(), 0);
}

} // namespace
