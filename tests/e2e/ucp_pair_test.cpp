// SPDX-License-Identifier: BSD-3-Clause
// Two processes exchange host and Gaudi memory through UCP; every byte is checked.
#include "conversation.h"

#include <cstdlib>
#include <tuple>

using namespace e2e;

namespace {

using Case = std::tuple<Operation, ucs_memory_type_t, ucs_memory_type_t, std::string>;

class Pair : public ::testing::TestWithParam<Case> {};

TEST_P(Pair, every_byte_arrives_at_every_size) {
    const auto [operation, first_type, second_type, transports] = GetParam();
    setenv("UCX_TLS", transports.c_str(), 1);
    run_pair([&, operation = operation, first_type = first_type, second_type = second_type](Side &side, bool first) {
        Memory memory(side, first ? first_type : second_type, kSizes.back());
        for (const std::size_t size : kSizes) {
            exchange(side, first, operation, memory, size, true);
            if (size < (1u << 20))
                exchange(side, first, operation, memory, size, false);
        }
    });
}

std::string case_name(const ::testing::TestParamInfo<Case> &info) {
    const auto &[operation, first, second, transports] = info.param;
    const auto type_name = [](ucs_memory_type_t type) { return type == UCS_MEMORY_TYPE_HOST ? "host" : "gaudi"; };
    return std::string(name(operation)) + "_" + type_name(first) + "_" + type_name(second) + "_" +
           transports.substr(0, transports.find(','));
}

INSTANTIATE_TEST_SUITE_P(, Pair,
                         ::testing::Combine(::testing::Values(Operation::tag, Operation::am, Operation::put,
                                                              Operation::get, Operation::stream),
                                            ::testing::Values(UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_GAUDI),
                                            ::testing::Values(UCS_MEMORY_TYPE_HOST, UCS_MEMORY_TYPE_GAUDI),
                                            ::testing::Values("tcp,gaudi_cpy", "sm,gaudi_cpy")),
                         case_name);

} // namespace
