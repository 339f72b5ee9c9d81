// SPDX-License-Identifier: BSD-3-Clause
// How long this process waits for cards that are being reset. All waiting threads share one limit, which counts from the
// first wait: eight cards in reset cost no more than one does. When the limit is over, cards in reset are refused at once,
// until as much time has passed again. A card that comes back ends it.
#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <string>

namespace gaudi {

class OpenWait {
public:
    using Clock = std::chrono::steady_clock;

    OpenWait() = default;
    OpenWait(const OpenWait &) = delete;
    OpenWait &operator=(const OpenWait &) = delete;

    /// The part of one caller, between its tries to open.
    class Turn {
    public:
        explicit Turn(OpenWait &wait) : m_wait(wait) {}
        Turn(const Turn &) = delete;
        Turn &operator=(const Turn &) = delete;

        /// Sleeps a moment; false, at once, where there is no time left. Says after a second that `what` is waited for.
        bool pause(const std::string &what);
        /// The card has come back: the next reset is another one, with a limit of its own.
        void succeeded() {
            if (m_deadline)
                m_wait.start_over();
        }

    private:
        OpenWait &m_wait;
        std::optional<Clock::time_point> m_deadline;
    };

    /// When a wait that begins at `now` must end; that may have passed.
    Clock::time_point join(Clock::time_point now);

private:
    void say_once(const std::string &what, Clock::time_point now);
    void start_over();

    std::mutex m_mutex; // not held while anybody sleeps
    std::optional<Clock::time_point> m_begin;
    Clock::duration m_limit{};
    bool m_said = false;
};

} // namespace gaudi
