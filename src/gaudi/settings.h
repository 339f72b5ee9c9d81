// SPDX-License-Identifier: BSD-3-Clause
// What users set for the whole process. UCX's configuration is read per interface, a card's engine is one per process:
// what is set before it starts counts.
#pragma once

#include <atomic>

namespace gaudi {

struct Settings {
    std::atomic<bool> completion_by_driver{false}; // never trust the completion word
};

inline Settings &settings() {
    static Settings only;
    return only;
}

} // namespace gaudi
