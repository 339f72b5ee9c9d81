// SPDX-License-Identifier: BSD-3-Clause
// The HCA's engine of this process: one thread that carries out the posted sends of all its queue pairs, started with
// the first of them. It sleeps when there is nothing to do.
#pragma once

#include "config.h"
#include "gaudi/clock.h"
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
    /// A program that waits for a completion lends its time: one request, if there is one.
    void help();
    /// Looks again at queue pairs: the state of one has changed.
    void look();
    /// Nothing is being worked on while the caller has this.
    std::unique_lock<std::mutex> pause() { return std::unique_lock(m_busy); }
    Peers &peers() { return m_requester.peers(); }
    /// Forgets everything about a queue pair that is reset or destroyed; afterwards the engine does not touch it.
    void forget(Qp &qp);

private:
    /// Completions on their way, for the time when the modelled link has carried them.
    struct Delivery {
        uint64_t when;
        uint32_t qp;
        std::vector<Notice> notices;
        uint32_t broken;
        int event;
    };

    void start();
    void start_to_hear_of_deregistrations();
    void wake_thread(Qp &qp);
    void begin_job();
    void run();
    Qp *next(uint64_t now, uint64_t &deadline);
    void step(Qp &qp);
    /// One step in the caller's thread; true when the queue pair has no work left.
    bool step_here(Qp &qp);
    void flush(Qp &qp, std::deque<Work> work);
    void finish(Qp &qp, const Work &work, Outcome outcome);
    /// What becomes of a queue pair whose request failed.
    void fail(Qp &qp);
    uint64_t carried(const Outcome &outcome);
    void deliver(Qp &qp, Delivery &&delivery);
    void hand_over(const Delivery &delivery);
    bool deliver_due(uint64_t now, uint64_t &deadline);
    void list(Qp &qp);
    void unlist(Qp &qp);
    void rest(uint32_t seen, uint64_t deadline);

    Fabric &m_fabric;
    const Pace m_pace;
    softgaudi::Clock &m_clock;
    Requester m_requester;

    std::once_flag m_started;
    std::mutex m_mutex; // of the list; taken before that of a queue pair
    std::list<Qp *> m_listed;
    std::atomic<size_t> m_waiting{0};  // how many
    std::atomic<uint32_t> m_misses{0}; // how often the host looked and found nothing

    std::mutex m_busy;                // held during a step, before the locks above; and of what follows
    std::list<Delivery> m_deliveries; // by time
    bool m_job = false;               // the virtual clock counts the engine as running
};

} // namespace softhca
