// SPDX-License-Identifier: BSD-3-Clause
// The thread that runs one queue of a card for the submissions of this process.
#pragma once

#include "card.h"

#include <condition_variable>
#include <deque>
#include <mutex>
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
    std::mutex m_mutex;
    std::condition_variable m_changed;
    std::deque<Job> m_jobs;
    bool m_busy = false;
};

/// Runs one job to its end on the calling thread.
void run_job(Card &card, const Job &job);

} // namespace softgaudi
