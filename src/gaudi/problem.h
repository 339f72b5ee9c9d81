// SPDX-License-Identifier: BSD-3-Clause
// Why copies failed last.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gaudi {

struct Problem {
    std::uint64_t number = 0; // of all failures of the process, later ones have larger numbers; 0: none yet
    std::string text;
};

/// One thread at a time.
class LastProblem {
public:
    const Problem &get() const { return m_problem; }
    void set(const std::string &text) {
        static std::atomic<std::uint64_t> numbers{0};
        m_problem = {numbers.fetch_add(1, std::memory_order_relaxed) + 1, text};
    }

private:
    Problem m_problem;
};

} // namespace gaudi
