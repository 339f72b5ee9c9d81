// SPDX-License-Identifier: BSD-3-Clause
// When a deferred unmap is tried again. The driver logs each one that it refuses, and an importer may hold the memory for
// hours while the program allocates and frees thousands of times: so tries get rarer, by calls and by time.
#pragma once

#include <chrono>
#include <cstdint>

namespace gaudi {

class RetryPace {
public:
    using Clock = std::chrono::steady_clock;

    enum class Need {
        none,   // an opportunity
        memory, // an allocation lacks it
        card,   // the card is to be given away, which the program asks for once
    };
    /// Whether an opportunity should be used: the first few, and then when twice as many of them, or twice as much time, have
    /// passed as at the last try. Where memory is needed, one a second more; where the card is, always.
    bool is_due(Need need);
    /// The driver has refused.
    void note_refusal();

private:
    std::uint64_t m_opportunities = 0, m_next = 1;
    Clock::time_point m_deferred = Clock::now();
    Clock::time_point m_tried = m_deferred;
    Clock::time_point m_needed; // the last try because of need
};

} // namespace gaudi
