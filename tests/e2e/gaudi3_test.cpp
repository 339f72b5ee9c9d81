// SPDX-License-Identifier: BSD-3-Clause
// Cards without a copy path, as a Gaudi3 without a framework: put, get, tag and active messages between two of them work,
// because the HCA alone accesses their memory. The test fills and reads that memory by RDMA from host memory.
#include "conversation.h"
#include "fabric.h"
#include "read_counters.h"

using namespace e2e;

namespace {

constexpr std::array<std::size_t, 7> kLengths = {8, 65, 4095, 65536, (1 << 20) + 3, 64 << 20, 256 << 20};

class Gaudi3 : public FabricTest, public ::testing::WithParamInterface<Operation> {
protected:
    Gaudi3() {
        set("SOFTGAUDI_MODEL", "gaudi3");
        // By default UCX emulates reads of up to 64 bytes into card memory by messages, which need a copy path.
        if (GetParam() == Operation::get)
            set("UCX_RC_VERBS_TX_INLINE_RESP", "0");
    }
};

TEST_P(Gaudi3, memory_is_exchanged_without_copy_path) {
    run_pair([](Side &side, bool first) {
        Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kLengths.back());
        for (const std::size_t size : kLengths) {
            std::vector<Moved> looks;
            exchange(side, first, GetParam(), memory, size, true, [&] { looks.push_back(read_counters()); });
            if (first) {
                const Moved moved = looks.at(1) - looks.at(0);
                EXPECT_EQ(moved.staged(), 0u) << size;
                EXPECT_EQ(moved.direct, 2 * size) << size;
            }
        }
    });
}

INSTANTIATE_TEST_SUITE_P(, Gaudi3, ::testing::Values(Operation::put, Operation::get, Operation::tag, Operation::am),
                         [](const auto &one) { return std::string(name(one.param)); });

} // namespace
