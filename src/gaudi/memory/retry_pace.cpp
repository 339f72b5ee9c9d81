// SPDX-License-Identifier: BSD-3-Clause
#include "retry_pace.h"

namespace gaudi {

bool RetryPace::is_due(Need need) {
    constexpr auto kSecond = std::chrono::seconds(1);
    if (++m_opportunities >= m_next || need == Need::card)
        return true;
    const Clock::time_point now = Clock::now();
    if (need == Need::memory && now - m_needed >= kSecond) {
        m_needed = now;
        return true;
    }
    return now - m_tried >= kSecond && now - m_deferred >= 2 * (m_tried - m_deferred);
}

void RetryPace::note_refusal() {
    constexpr std::uint64_t kAtOnce = 4;
    m_next = m_opportunities < kAtOnce ? m_opportunities + 1 : 2 * m_opportunities;
    m_tried = Clock::now();
}

} // namespace gaudi
