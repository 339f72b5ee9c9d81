// SPDX-License-Identifier: BSD-3-Clause
// The HCA's engine of this process: one thread that carries out the posted sends of all its queue pairs, started with
// the first of them. It sleeps when there is nothing to do.
#pragma once

#include "config.h"
#include "gaudi/clock.h"
#include "requester.h"

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
    /// Looks again at a queue pair whose state changed.
    void look(Qp &qp);
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
    void run();
    Qp *next(uint64_t now, uint64_t &deadline);
    void step(Qp &qp);
    /// One step in the caller's thread; true when the queue pair has no work left.
    bool step_here(Qp &qp);
    void flush(Qp &qp, std::deque<Work> work);
    void finish(Qp &qp, const Work &work, Outcome outcome);
    /// What becomes of a queue pair whose request failed.
    void fail(Qp &qp, ibv_wc_status status);
    uint64_t carried(const Outcome &outcome);
    void deliver(Delivery &&delivery);
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
    std::atomic<size_t> m_waiting{0}; // how many
    std::mutex m_busy; // held during a step: who has it knows that no queue pair is being worked on
    std::list<Delivery> m_deliveries; // by time; only the engine's thread
    std::mutex m_deliveries_mutex;
    uint64_t m_last_delivery = 0;
    bool m_job = false; // the virtual clock counts the engine as running
};

} // namespace softhca
