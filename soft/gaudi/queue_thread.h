// SPDX-License-Identifier: BSD-3-Clause
// The thread that runs one queue of a card for the submissions of this process.
#pragma once

#include "card.h"
#include "os/mutex.h"

#include <deque>
#include <thread>

namespace softgaudi {

class QueueThread {
public:
    QueueThread(Card &card, uint32_t queue);

    void push(const Job &job);
    /// Returns when nothing of what was pushed is running or waiting.
    void drain();

private:
    void loop();

    Card &m_card;
    gaudi::os::Mutex m_mutex{soft::Rank::jobs};
    gaudi::os::CondVar m_changed;
    std::deque<Job> m_jobs GAUDI_GUARDED_BY(m_mutex);
    bool m_busy GAUDI_GUARDED_BY(m_mutex) = false;
};

/// Runs one job to its end on the calling thread.
void run_job(Card &card, const Job &job);

} // namespace softgaudi
