// SPDX-License-Identifier: BSD-3-Clause
// What users set for the whole process. UCX's configuration is read per interface, a card's engine is one per process:
// what is set before it starts counts.
#pragma once

#include <atomic>
#include <cstdint>

namespace gaudi {

struct Settings {
    std::atomic<bool> completion_by_driver{false};     // never trust the completion word
    std::atomic<std::uint64_t> max_memory{UINT64_MAX}; // of each card, for what nobody asked for by name
};

inline Settings &settings() {
    static Settings only;
    return only;
}

} // namespace gaudi
