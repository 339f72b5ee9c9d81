// SPDX-License-Identifier: BSD-3-Clause
// Memory of another vendor beside Gaudi memory: its domain exports dma-bufs too, and UCX registers it with gaudi_copy as
// with every domain.
#include "conversation.h"

using namespace e2e;

namespace {

constexpr ucs_memory_type_t kOther = UCS_MEMORY_TYPE_ROCM; // the type in tests/e2e/other_module.cpp

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
