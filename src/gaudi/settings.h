// SPDX-License-Identifier: BSD-3-Clause
// What users set for the whole process. UCX's configuration is read per interface, a card's engine is one per process:
// what is set before it starts counts.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace gaudi {

struct Settings {
    std::atomic<bool> completion_by_driver{false};     // never trust the completion word
    std::atomic<std::uint64_t> max_memory{UINT64_MAX}; // of each card, for what nobody asked for by name

    // For cards that are being reset. The last user's reset takes seconds; much longer means that something else is wrong.
    std::atomic<std::uint64_t> open_timeout_ms{15'000};

    // Of registered host memory: half of what the machine has, and as many mappings as a driver keeps track of with ease.
    std::atomic<std::uint64_t> max_pinned{static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) / 2 *
                                          static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))};
    std::atomic<std::size_t> max_pinned_mappings{4096};
};

inline Settings &settings() {
    static Settings only;
    return only;
}

} // namespace gaudi
