// SPDX-License-Identifier: BSD-3-Clause
// UCX transfers the memory of a card by the HCA at the same PCIe switch.
#include "conversation.h"
#include "read_counters.h"

#include <stdlib.h>

using namespace e2e;

namespace {

constexpr std::size_t kSize = 1 << 20;

struct Case {
    const char *name;
    const char *first, *second; // indices of two cards at one switch
    unsigned hca;               // at the same switch
};
void PrintTo(const Case &one, std::ostream *out) { *out << one.name; } // gtest would print addresses, which change

class NearHca : public ::testing::TestWithParam<Case> {};

TEST_P(NearHca, carries_all_bytes_of_a_put) {
    setenv("UCX_GAUDI_COPY_DEVICE", GetParam().first, 1);
    setenv("UCX_MAX_RNDV_RAILS", "1", 1);
    setenv("UCX_MAX_RMA_RAILS", "1", 1);
    Options options;
    options.second_environment = {{"UCX_GAUDI_COPY_DEVICE", GetParam().second}};
    std::vector<Moved> looks;
    run_pair(
        [&](Side &side, bool first) {
            Memory memory(side, UCS_MEMORY_TYPE_GAUDI, kSize);
            exchange(side, first, Operation::put, memory, kSize, true, [&] { looks.push_back(read_counters()); });
        },
        options);
    ASSERT_EQ(looks.size(), 2u);
    const std::vector<std::uint64_t> moved = (looks[1] - looks[0]).direct_by_device;
    const unsigned near = GetParam().hca, far = 1 - near;
    EXPECT_EQ(moved.at(near), 2 * kSize); // read from one card, written to the other
    EXPECT_EQ(moved.at(far), 0u);
}

// The cards at 0000:19 and 0000:1a are at the switch of softhca0, those at 0000:9a and 0000:9b at that of softhca1.
INSTANTIATE_TEST_SUITE_P(, NearHca,
                         ::testing::Values(Case{"switch_of_hca_0", "2", "3", 0}, Case{"switch_of_hca_1", "6", "7", 1}),
                         [](const auto &param) { return std::string(param.param.name); });

} // namespace
