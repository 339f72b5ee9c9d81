// SPDX-License-Identifier: BSD-3-Clause
// The thread that runs one queue of a card for the submissions of this process.
#pragma once

#include "clock.h"
#include "common/lock_ranks.h"
#include "job.h"
#include "os/mutex.h"

#include <deque>
#include <functional>

namespace softgaudi {

class QueueThread {
public:
    /// Notifies the clock when the queue gets its first job and when it runs empty; `run` runs a job to its end.
    QueueThread(Clock &clock, std::function<void(const Job &)> run);

    void push(const Job &job);
    /// Returns when nothing of what was pushed is running or waiting.
    void drain();

private:
    void loop();

    Clock &m_clock;
    const std::function<void(const Job &)> m_run;
    gaudi::os::Mutex m_mutex{soft::Rank::jobs};
    gaudi::os::CondVar m_changed;
    std::deque<Job> m_jobs GAUDI_GUARDED_BY(m_mutex);
    bool m_busy GAUDI_GUARDED_BY(m_mutex) = false;
};

} // namespace softgaudi
