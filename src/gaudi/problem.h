// SPDX-License-Identifier: BSD-3-Clause
// Why copies failed last. One cause may fail copy after copy, and users want its sentence once: a cause keeps its number
// until something has succeeded, or until another cause takes its place.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace gaudi {

struct Problem {
    std::uint64_t number = 0; // differs between all causes of the process, later ones have larger numbers; 0: none yet
    std::string text;
};

/// One thread at a time.
class LastProblem {
public:
    const Problem &get() const { return m_problem; }
    void set(const std::string &text) {
        static std::atomic<std::uint64_t> numbers{0};
        if (m_succeeded || text != m_problem.text)
            m_problem = {numbers.fetch_add(1, std::memory_order_relaxed) + 1, text};
        m_succeeded = false;
    }
    void succeeded() { m_succeeded = true; }

private:
    Problem m_problem;
    bool m_succeeded = false;
};

} // namespace gaudi
