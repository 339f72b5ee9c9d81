// SPDX-License-Identifier: BSD-3-Clause
// Without UCX's memory-type cache UCX queries the domain for every buffer. UCX reads the setting before main, so ctest
// sets it for this program.
#include "conversation.h"

#include <cstdlib>
#include <cstring>

using namespace e2e;

namespace {

TEST(NoMemoryTypeCache, setting_is_in_the_environment) {
    const char *setting = std::getenv("UCX_MEMTYPE_CACHE");
    EXPECT_TRUE(setting && std::strcmp(setting, "n") == 0);
}

TEST(NoMemoryTypeCache, gaudi_memory_is_recognised) { converse(); }

TEST(NoMemoryTypeCache, host_memory_is_recognised) {
    run_pair([](Side &side, bool first) {
        Memory memory(side, first ? UCS_MEMORY_TYPE_GAUDI : UCS_MEMORY_TYPE_HOST, 3 << 20);
        for (const bool turned : {false, true})
            for (const Operation operation : kOperations)
                exchange(side, first != turned, operation, memory, 3 << 20, false);
    });
}

} // namespace
