// SPDX-License-Identifier: BSD-3-Clause
// The HCA engine of this process: one thread, started with the first request, that executes the send requests of all
// queue pairs.
#pragma once

#include "config.h"
#include "gaudi/clock.h"
#include "os/mutex.h"
#include "requester.h"

#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <thread>

namespace softhca {

class Engine {
public:
    Engine(Fabric &fabric, const Config &config, softgaudi::Clock &clock)
        : m_fabric(fabric), m_pace(config.pace), m_clock(clock), m_requester(fabric) {}
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    /// Queues a request; 0, or ENOMEM when the queue is full.
    int post(Qp &qp, Work work);
    /// Executes one request, if there is one, in the thread of a program that polls for a completion.
    void run_one_request();
    /// Wakes the engine after the state of a queue pair changed.
    void wake();
    /// The engine executes no request while the caller holds this lock.
    gaudi::os::Mutex &busy() GAUDI_RETURNS_LOCK(m_busy) { return m_busy; }
    Peers &peers() { return m_requester.peers(); }
    /// Removes all work of a queue pair that is reset or destroyed; afterwards the engine does not access it.
    void forget(Qp &qp);

private:
    /// Completions that are due when the modelled link has carried their bytes.
    struct Delivery {
        uint64_t when;
        uint32_t qp;
        std::vector<Notice> notices;
        uint32_t failed_qp;
        int event;
    };

    void start();
    void start_to_hear_of_deregistrations();
    void wake_thread(Qp &qp);
    void begin_job() GAUDI_REQUIRES(m_busy);
    void run();
    Qp *next(uint64_t now, uint64_t &deadline) GAUDI_REQUIRES(m_busy);
    void step(Qp &qp) GAUDI_REQUIRES(m_busy);
    /// Executes one request in the caller's thread; true when the queue pair has no work left.
    bool step_here(Qp &qp);
    void flush(Qp &qp, const std::deque<Work> &work) GAUDI_REQUIRES(m_busy);
    void finish(Qp &qp, const Work &work, Outcome outcome) GAUDI_REQUIRES(m_busy);
    /// Moves a queue pair whose request failed to its error state.
    void move_to_error_state(Qp &qp);
    uint64_t occupy_link(const Outcome &outcome);
    void deliver(Qp &qp, Delivery &&delivery) GAUDI_REQUIRES(m_busy);
    void push_completions_of(const Delivery &delivery);
    void notify_owner(uint32_t cq);
    bool deliver_due(uint64_t now, uint64_t &deadline) GAUDI_REQUIRES(m_busy);
    void list(Qp &qp);
    void unlist(Qp &qp) GAUDI_REQUIRES(m_mutex, qp.mutex);
    void wait_for_work(uint32_t seen, uint64_t deadline);

    Fabric &m_fabric;
    const Pace m_pace;
    softgaudi::Clock &m_clock;
    Requester m_requester;

    std::once_flag m_started;
    gaudi::os::Mutex m_mutex{Rank::work_list};
    std::list<Qp *> m_listed GAUDI_GUARDED_BY(m_mutex);
    std::atomic<size_t> m_waiting{0};     // how many
    std::atomic<uint32_t> m_misses{0};    // how often the host looked and found nothing
    std::atomic<uint32_t> m_seen_news{0}; // of the virtual clock, when it began to

    gaudi::os::Mutex m_busy{Rank::engine};                     // held during a step
    std::list<Delivery> m_deliveries GAUDI_GUARDED_BY(m_busy); // by time
    bool m_job GAUDI_GUARDED_BY(m_busy) = false;               // the virtual clock counts the engine as running
};

} // namespace softhca
