// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace softgaudi {

/// One command buffer on its way to a queue.
struct Job {
    enum class Kind : uint8_t { commands, signal, wait } kind = Kind::commands;
    uint64_t awaited = 0; // wait: the signal submission
    uint64_t context;
    uint64_t seq;
    uint32_t queue;
    uint64_t ticket;
    uint64_t address;
    uint32_t size;
    uint64_t start; // not before, on the model's clock
    bool skip;      // copies
};

} // namespace softgaudi
