// SPDX-License-Identifier: BSD-3-Clause
// libFuzzer target: any bytes are a command buffer. The first byte selects a whole card or, much more often because it
// is much faster, the small bus.
#include "harness.h"

#include <cstddef>
#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 1)
        return -1;
    const std::span<const unsigned char> program(data + 1, size - 1);
    if ((data[0] & 0x1F) != 0) {
        soft::fuzz::run_on_small_bus(program);
        return 0;
    }
    static constexpr std::array<uint32_t, 8> queues = {0, 3, 4, 8, 16, 20, 156, 252};
    constexpr uint64_t kTimeoutNs = 2'000'000;
    soft::fuzz::WholeCard::instance().run(program, queues.at(data[0] >> 5), kTimeoutNs);
    return 0;
}
