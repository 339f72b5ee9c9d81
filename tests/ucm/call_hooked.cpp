// SPDX-License-Identifier: BSD-3-Clause
// A program that is linked to libhl-thunk and allocates, maps, unmaps and frees through the hooks of UCX in its process, for
// tests/instructions.py to count instructions.
//
//     ucm_call_hooked CALLS
#include "thunk/abi.h"
#include "ucp_side.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

int main(int argc, char **argv) {
    try {
        const unsigned long calls = argc == 2 ? std::strtoul(argv[1], nullptr, 10) : 0;
        if (calls == 0)
            throw std::invalid_argument("usage: ucm_call_hooked CALLS, a number above 0");
        const e2e::Side ucx(UCP_FEATURE_RMA);
        const int fd = hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr);
        for (unsigned long made = 0; made < calls; made += 4) {
            const std::uint64_t handle = hlthunk_device_memory_alloc(fd, 1 << 20, 0, false, false);
            const std::uint64_t address = hlthunk_device_memory_map(fd, handle, 0);
            if (address == 0 || hlthunk_memory_unmap(fd, address) != 0 || hlthunk_device_memory_free(fd, handle) != 0)
                throw std::runtime_error("a call of libhl-thunk failed");
        }
        hlthunk_close(fd);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
