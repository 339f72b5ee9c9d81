// SPDX-License-Identifier: BSD-3-Clause
#include "engine.h"

#include "completion_queue.h"
#include "events.h"
#include "queue_pair.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <system_error>

namespace softhca {

using gaudi::os::MutexLock;

namespace {

constexpr uint64_t kSmall = 16 << 10;
constexpr uint32_t kMisses = 64;

uint64_t bytes_of(const Work &work) {
    uint64_t bytes = work.inline_data.size();
    for (uint32_t i = 0; i < work.sges; ++i)
        bytes += work.sge[i].length;
    return bytes;
}

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    default:
        return IBV_WC_SEND;
    }
}

Completion completion_of(const Qp &qp, const Work &work, ibv_wc_status status, uint64_t bytes) {
    Completion completion{};
    completion.wr_id = work.wr_id;
    completion.status = status;
    completion.opcode = completion_opcode(work.opcode);
    completion.byte_len = static_cast<uint32_t>(bytes);
    completion.qp_num = qp.id;
    return completion;
}

} // namespace

void Engine::start() {
    std::call_once(m_started, [this] {
        // Signals belong to the threads of the program.
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        std::thread([this] { run(); }).detach(); // runs until the process exits
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    });
}

/// The thread closes a peer's dma-buf when the peer deregisters it. A request does not fail if the thread cannot start:
/// later imports close the dma-buf too.
void Engine::start_to_hear_of_deregistrations() {
    try {
        start();
    } catch (const std::system_error &) {
    }
}

void Engine::list(Qp &qp) {
    const MutexLock guard(m_mutex);
    const MutexLock own(qp.mutex);
    if (!qp.listed && !qp.work.empty()) {
        qp.listed = true;
        m_listed.push_back(&qp);
        m_waiting.store(m_listed.size(), std::memory_order_relaxed);
    }
}

void Engine::unlist(Qp &qp) {
    m_listed.remove(&qp);
    m_waiting.store(m_listed.size(), std::memory_order_relaxed);
    qp.listed = false;
}

int Engine::post(Qp &qp, Work work) {
    const bool small = bytes_of(work) <= kSmall;
    bool fresh = false;
    const auto push = [&] {
        const MutexLock own(qp.mutex);
        if (qp.work.size() >= qp.init.cap.max_send_wr)
            return false;
        qp.work.push_back(std::move(work));
        fresh = !qp.listed;
        return true;
    };
    m_misses.store(0, std::memory_order_relaxed);
    if (m_clock.is_virtual()) {
        // On that clock the bytes are under way from this instant, not from when a thread gets to them.
        const softgaudi::HostCall call(m_clock);
        const MutexLock busy(m_busy);
        begin_job();
        const bool pushed = push();
        if (pushed && fresh)
            step(qp);
        wake_thread(qp);
        m_clock.wake_sleeper(m_fabric.self()); // the completion may be due before what the thread sleeps for
        return pushed ? 0 : ENOMEM;
    }
    if (!push())
        return ENOMEM;
    // A small request takes less time than waking the thread.
    if (fresh && small && !m_pace.is_timed() && step_here(qp))
        return 0;
    wake_thread(qp);
    return 0;
}

void Engine::wake_thread(Qp &qp) {
    start();
    list(qp);
    m_fabric.process().wake.signal();
}

bool Engine::step_here(Qp &qp) {
    if (!m_busy.try_lock())
        return false;
    const MutexLock busy(m_busy, std::adopt_lock);
    if (qp_state(*qp.entry) == IBV_QPS_SQD)
        return false;
    step(qp);
    if (peers().has_foreign_imports())
        start_to_hear_of_deregistrations();
    const MutexLock own(qp.mutex);
    return qp.work.empty();
}

void Engine::run_one_request() {
    if (m_clock.is_virtual()) {
        // So many polls in a row without news mean that the host waits: the clock may move to the next event.
        const uint32_t news = m_clock.news();
        if (m_seen_news.exchange(news, std::memory_order_relaxed) != news)
            m_misses.store(0, std::memory_order_relaxed);
        if (m_misses.fetch_add(1, std::memory_order_relaxed) + 1 < kMisses)
            return;
        m_misses.store(0, std::memory_order_relaxed);
        m_clock.advance(news);
        return;
    }
    if (m_pace.is_timed() || m_waiting.load(std::memory_order_relaxed) == 0)
        return;
    if (!m_busy.try_lock())
        return;
    const MutexLock busy(m_busy, std::adopt_lock);
    uint64_t ignored = kForever;
    if (Qp *qp = next(m_clock.now(), ignored))
        step(*qp);
}

void Engine::wake() { m_fabric.process().wake.signal(); }

void Engine::forget(Qp &qp) {
    const MutexLock busy(m_busy);
    {
        const MutexLock guard(m_mutex);
        const MutexLock own(qp.mutex);
        unlist(qp);
        qp.work.clear();
        qp.not_before = 0;
        qp.tries = qp.rnr_tries = 0;
    }
    m_deliveries.remove_if([&](const Delivery &delivery) { return delivery.qp == qp.id; });
    peers().close_deregistered_and_dead(); // a program destroys a queue pair when its peer is dead
}

Qp *Engine::next(uint64_t now, uint64_t &deadline) {
    const MutexLock guard(m_mutex);
    for (auto at = m_listed.begin(); at != m_listed.end(); ++at) {
        Qp *qp = *at;
        const bool due = qp->not_before <= now || qp_state(*qp->entry) == IBV_QPS_ERR;
        if (due && qp_state(*qp->entry) != IBV_QPS_SQD) {
            m_listed.splice(m_listed.end(), m_listed, at); // round robin, one request each
            return qp;
        }
        deadline = std::min(deadline, std::max(qp->not_before, now + 1));
    }
    return nullptr;
}

void Engine::run() {
    pthread_setname_np(pthread_self(), "softhca");
    while (true) {
        const uint32_t seen = m_fabric.process().wake.seen();
        uint64_t deadline = kForever;
        {
            const MutexLock busy(m_busy);
            const uint64_t now = m_clock.now();
            begin_job();
            if (deliver_due(now, deadline))
                continue;
            if (Qp *qp = next(now, deadline)) {
                step(*qp);
                continue;
            }
        }
        peers().close_deregistered(); // another process may have signalled a deregistration
        wait_for_work(seen, deadline);
    }
}

/// Waits for work, at most until `deadline`.
void Engine::wait_for_work(uint32_t seen, uint64_t deadline) {
    const Event &wake = m_fabric.process().wake;
    if (!m_clock.is_virtual()) {
        wake.wait(seen, deadline);
        return;
    }
    if (deadline != kForever) {
        m_clock.sleep_until(deadline, m_fabric.self(), wake, [&] { return wake.seen() != seen; });
        return;
    }
    {
        const MutexLock busy(m_busy); // no request is being posted
        if (m_job && wake.seen() == seen) {
            m_job = false;
            m_clock.job_ends();
        }
    }
    wake.wait(seen, kForever);
}

/// The virtual clock must not move before everything posted has its completion time.
void Engine::begin_job() {
    if (m_clock.is_virtual() && !m_job) {
        m_job = true;
        m_clock.job_begins();
    }
}

void Engine::step(Qp &qp) {
    const Work *work = nullptr;
    std::deque<Work> dropped;
    const ibv_qp_state state = qp_state(*qp.entry);
    {
        const MutexLock guard(m_mutex);
        const MutexLock own(qp.mutex);
        if (state == IBV_QPS_ERR || state == IBV_QPS_SQE)
            dropped.swap(qp.work);
        if (qp.work.empty()) {
            unlist(qp);
        } else {
            work = &qp.work.front(); // a stable reference: other threads only append
        }
    }
    if (!work) {
        flush(qp, dropped);
        return;
    }
    Outcome outcome = m_requester.perform(qp, *work);
    DeviceEntry &device = m_fabric.state().devices[qp.entry->device];
    switch (outcome.next) {
    case Outcome::Next::done:
        break;
    case Outcome::Next::not_ready:
        device.rnr_naks.fetch_add(1, std::memory_order_relaxed);
        if (qp.attr.rnr_retry == 7 || qp.rnr_tries < qp.attr.rnr_retry) {
            ++qp.rnr_tries;
            qp.not_before = m_clock.now() + outcome.delay_ns;
            return;
        }
        outcome.status = IBV_WC_RNR_RETRY_EXC_ERR;
        break;
    case Outcome::Next::no_answer:
        if (qp.tries < qp.attr.retry_cnt || qp.attr.timeout == 0) {
            device.retries.fetch_add(1, std::memory_order_relaxed);
            ++qp.tries;
            // Timeout 0 retries for ever, in case the peer becomes able to answer.
            qp.not_before = m_clock.now() + ack_timeout_ns(qp.attr.timeout == 0 ? 14 : qp.attr.timeout);
            return;
        }
        outcome.status = IBV_WC_RETRY_EXC_ERR;
        break;
    }
    qp.tries = qp.rnr_tries = 0;
    qp.not_before = 0;
    Work done;
    {
        const MutexLock own(qp.mutex);
        done = std::move(qp.work.front());
        qp.work.pop_front();
    }
    finish(qp, done, std::move(outcome));
}

void Engine::finish(Qp &qp, const Work &work, Outcome outcome) {
    DeviceEntry &device = m_fabric.state().devices[qp.entry->device];
    const bool ok = outcome.status == IBV_WC_SUCCESS;
    if (ok) {
        device.sends.fetch_add(1, std::memory_order_relaxed);
        device.sent_bytes.fetch_add(outcome.bytes, std::memory_order_relaxed);
    } else {
        device.errors.fetch_add(1, std::memory_order_relaxed);
    }
    Delivery delivery{occupy_link(outcome), qp.id, std::move(outcome.notices), outcome.failed_qp, outcome.event};
    if (!ok || (work.flags & IBV_SEND_SIGNALED) != 0 || qp.init.sq_sig_all != 0)
        delivery.notices.push_back({qp.entry->send_cq, completion_of(qp, work, outcome.status, outcome.bytes)});
    if (!ok)
        move_to_error_state(qp); // first, so that the completion is seen with the queue pair in error
    deliver(qp, std::move(delivery));
}

void Engine::move_to_error_state(Qp &qp) {
    if (qp.entry->type != IBV_QPT_UD) {
        move_to_error(m_fabric, qp.id);
        return;
    }
    uint32_t expected = IBV_QPS_RTS;
    qp.entry->state.compare_exchange_strong(expected, IBV_QPS_SQE); // its receives continue
}

void Engine::flush(Qp &qp, const std::deque<Work> &work) {
    Delivery delivery{0, qp.id, {}, 0, -1};
    for (const Work &request : work)
        delivery.notices.push_back({qp.entry->send_cq, completion_of(qp, request, IBV_WC_WR_FLUSH_ERR, 0)});
    if (!delivery.notices.empty())
        deliver(qp, std::move(delivery));
}

/// Occupies the link; returns when it has carried the message.
uint64_t Engine::occupy_link(const Outcome &outcome) {
    if (!m_pace.is_timed() || outcome.status != IBV_WC_SUCCESS)
        return 0;
    DeviceEntry &device = m_fabric.state().devices[outcome.source];
    const Lock lock(m_fabric.state().link);
    device.link_free_at = std::max(device.link_free_at, m_clock.now()) +
                          static_cast<uint64_t>(static_cast<double>(outcome.bytes) * m_pace.ns_per_byte);
    return device.link_free_at + m_pace.latency_ns;
}

void Engine::deliver(Qp &qp, Delivery &&delivery) {
    if (!m_pace.is_timed()) {
        push_completions_of(delivery);
        return;
    }
    // Completions of one queue pair stay in order, whichever link each used.
    delivery.when = qp.last_delivery = std::max(qp.last_delivery, delivery.when);
    const auto later = std::find_if(m_deliveries.begin(), m_deliveries.end(),
                                    [&](const Delivery &other) { return other.when > delivery.when; });
    m_deliveries.insert(later, std::move(delivery));
}

void Engine::push_completions_of(const Delivery &delivery) {
    const auto push_completions = [&] {
        for (const Notice &notice : delivery.notices) {
            push_completion(m_fabric, notice.cq, notice.completion);
            if (m_clock.is_virtual())
                notify_owner(notice.cq);
        }
    };
    if (delivery.failed_qp == 0) {
        push_completions();
        return;
    }
    const QpEntry *peer = m_fabric.state().qps.find(delivery.failed_qp);
    const uint32_t context = peer ? peer->context : 0;
    move_to_error(m_fabric, delivery.failed_qp, push_completions);
    if (delivery.event >= 0)
        raise_event(m_fabric, context, {static_cast<uint32_t>(delivery.event), delivery.failed_qp});
}

/// The host that polls a completion queue has to do so before the virtual clock moves.
void Engine::notify_owner(uint32_t cq) {
    if (const CqEntry *queue = m_fabric.state().cqs.find(cq))
        m_clock.notify_host(m_fabric.state().processes.entries[queue->process].pid.load());
}

bool Engine::deliver_due(uint64_t now, uint64_t &deadline) {
    if (!m_pace.is_timed())
        return false;
    bool any = false;
    for (; !m_deliveries.empty() && m_deliveries.front().when <= now; any = true) {
        push_completions_of(m_deliveries.front());
        m_deliveries.pop_front();
    }
    if (!m_deliveries.empty())
        deadline = std::min(deadline, m_deliveries.front().when);
    return any;
}

} // namespace softhca
