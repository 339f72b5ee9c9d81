// SPDX-License-Identifier: BSD-3-Clause
// The wait of this process for cards in reset. All waiting threads share one limit, which counts from the first wait:
// eight cards in reset cost no more than one does. After the limit, cards in reset are refused at once, until as much
// time has passed again. A card that comes back ends the wait.
#pragma once

#include "lock_ranks.h"
#include "os/mutex.h"

#include <chrono>
#include <optional>
#include <string>

namespace gaudi {

class OpenWait {
public:
    using Clock = std::chrono::steady_clock;

    OpenWait() = default;
    OpenWait(const OpenWait &) = delete;
    OpenWait &operator=(const OpenWait &) = delete;

    /// One caller's share of the wait, between its tries to open.
    class Turn {
    public:
        explicit Turn(OpenWait &wait) : m_wait(wait) {}
        Turn(const Turn &) = delete;
        Turn &operator=(const Turn &) = delete;

        /// Sleeps a moment; false, at once, where no time is left. Reports after a second that `what` is waited for.
        bool pause(const std::string &what);
        /// The card has come back: the next reset has a limit of its own.
        void succeeded() {
            if (m_deadline)
                m_wait.reset();
        }

    private:
        OpenWait &m_wait;
        std::optional<Clock::time_point> m_deadline;
    };

    /// When a wait that begins at `now` must end; it may lie in the past.
    Clock::time_point join(Clock::time_point now);

private:
    void report_once(const std::string &what, Clock::time_point now);
    void reset();

    os::Mutex m_mutex{rank::kOpenWait}; // not held while a thread sleeps
    std::optional<Clock::time_point> m_begin GAUDI_GUARDED_BY(m_mutex);
    Clock::duration m_limit GAUDI_GUARDED_BY(m_mutex){};
    bool m_reported GAUDI_GUARDED_BY(m_mutex) = false;
};

} // namespace gaudi
