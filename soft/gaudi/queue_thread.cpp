// SPDX-License-Identifier: BSD-3-Clause
#include "queue_thread.h"

#include <pthread.h>
#include <signal.h>

#include <thread>
#include <utility>

namespace softgaudi {

using gaudi::os::MutexLock;

QueueThread::QueueThread(Clock &clock, std::function<void(const Job &)> run) : m_clock(clock), m_run(std::move(run)) {
    // Signals of the host program are for its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::thread([this] { loop(); }).detach(); // runs until the process ends; cards are never torn down
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void QueueThread::push(const Job &job) {
    {
        const MutexLock lock(m_mutex);
        if (m_jobs.empty() && !m_busy)
            m_clock.job_begins();
        m_jobs.push_back(job);
    }
    m_changed.notify_all();
}

void QueueThread::drain() {
    const MutexLock lock(m_mutex);
    while (!m_jobs.empty() || m_busy)
        m_changed.wait(m_mutex);
}

void QueueThread::loop() {
    pthread_setname_np(pthread_self(), "softgaudi"); // the virtual clock knows the thread by it
    MutexLock lock(m_mutex);
    while (true) {
        while (m_jobs.empty())
            m_changed.wait(m_mutex);
        const Job job = m_jobs.front();
        m_jobs.pop_front();
        m_busy = true;
        lock.unlock();
        m_run(job);
        lock.lock();
        m_busy = false;
        if (m_jobs.empty()) {
            m_clock.job_ends();
            m_changed.notify_all();
        }
    }
}

} // namespace softgaudi
