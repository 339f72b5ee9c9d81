// SPDX-License-Identifier: BSD-3-Clause
#include "open_wait.h"

#include "settings.h"
#include "thunk/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace gaudi {
namespace {

constexpr std::chrono::milliseconds kPause(20);
constexpr std::chrono::seconds kSilence(1); // half of a limit that is shorter than two

} // namespace

bool OpenWait::Turn::pause(const std::string &what) {
    const Clock::time_point now = Clock::now();
    if (!m_deadline)
        m_deadline = m_wait.join(now);
    if (now >= *m_deadline)
        return false;
    m_wait.say_once(what, now);
    std::this_thread::sleep_for(std::min<Clock::duration>(kPause, *m_deadline - now));
    return true;
}

OpenWait::Clock::time_point OpenWait::join(Clock::time_point now) {
    const std::lock_guard guard(m_mutex);
    if (!m_begin || now >= *m_begin + 2 * m_limit) {
        m_begin = now;
        m_limit = std::chrono::milliseconds(settings().open_timeout_ms.load(std::memory_order_relaxed));
        m_said = false;
    }
    return *m_begin + m_limit;
}

void OpenWait::start_over() {
    const std::lock_guard guard(m_mutex);
    m_begin.reset();
}

void OpenWait::say_once(const std::string &what, Clock::time_point now) {
    const std::lock_guard guard(m_mutex);
    if (m_said || !m_begin || now - *m_begin < std::min<Clock::duration>(kSilence, m_limit / 2))
        return;
    m_said = true;
    const double seconds = std::chrono::duration<double>(m_limit).count();
    thunk::report({EAGAIN, "hlthunk_open",
                   fmt::format("waiting for {}, which the driver is resetting (up to {:g} s in all, "
                               "UCX_GAUDI_COPY_OPEN_TIMEOUT)",
                               what, seconds)});
}

} // namespace gaudi
