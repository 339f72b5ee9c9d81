// SPDX-License-Identifier: BSD-3-Clause
// Another vendor's memory beside ours: it has a domain that exports dma-bufs too, and every registration of it comes past
// our domain.
#include "conversation.h"

using namespace e2e;

namespace {

constexpr ucs_memory_type_t kOther = UCS_MEMORY_TYPE_ROCM; // as tests/e2e/other_module.cpp has it

TEST(OtherVendor, memory_is_exchanged) {
    run_pair([](Side &side, bool first) {
        Memory memory(side, kOther, (2 << 20) + 1);
        for (const Operation operation : kOperations)
            for (const std::size_t size : {std::size_t{1}, std::size_t{65536}, std::size_t{(2 << 20) + 1}})
                exchange(side, first, operation, memory, size, size % 2 == 0);
    });
}

TEST(OtherVendor, memory_is_exchanged_with_gaudi_memory) {
    run_pair([](Side &side, bool first) {
        Memory memory(side, first ? kOther : UCS_MEMORY_TYPE_GAUDI, (2 << 20) + 1);
        for (const bool turned : {false, true})
            for (const Operation operation : kOperations)
                for (const std::size_t size : {std::size_t{1}, std::size_t{65536}, std::size_t{(2 << 20) + 1}})
                    exchange(side, first != turned, operation, memory, size, size % 2 == 0);
    });
}

} // namespace
