// SPDX-License-Identifier: BSD-3-Clause
#include "open_wait.h"

#include "os/format.h"
#include "settings.h"
#include "thunk/report.h"

#include <algorithm>
#include <cerrno>
#include <thread>

namespace gaudi {
namespace {

constexpr std::chrono::milliseconds kPause(20);
constexpr std::chrono::seconds kSilence(1); // before the report, or half of a limit below two seconds

} // namespace

bool OpenWait::Turn::pause(const std::string &what) {
    const Clock::time_point now = Clock::now();
    if (!m_deadline)
        m_deadline = m_wait.join(now);
    if (now >= *m_deadline)
        return false;
    m_wait.report_once(what, now);
    std::this_thread::sleep_for(std::min<Clock::duration>(kPause, *m_deadline - now));
    return true;
}

OpenWait::Clock::time_point OpenWait::join(Clock::time_point now) {
    const os::MutexLock lock(m_mutex);
    if (!m_begin || now >= *m_begin + 2 * m_limit) {
        m_begin = now;
        m_limit = std::chrono::milliseconds(settings().open_timeout_ms.value);
        m_reported = false;
    }
    return *m_begin + m_limit;
}

void OpenWait::reset() {
    const os::MutexLock lock(m_mutex);
    m_begin.reset();
}

void OpenWait::report_once(const std::string &what, Clock::time_point now) {
    const os::MutexLock lock(m_mutex);
    if (m_reported || !m_begin || now - *m_begin < std::min<Clock::duration>(kSilence, m_limit / 2))
        return;
    m_reported = true;
    const double seconds = std::chrono::duration<double>(m_limit).count();
    thunk::report({EAGAIN, "hlthunk_open",
                   os::format("waiting for {}, which the driver is resetting (up to {:g} s in all, {})", what, seconds,
                              settings().open_timeout_ms.name)});
}

} // namespace gaudi
