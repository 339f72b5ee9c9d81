// SPDX-License-Identifier: BSD-3-Clause
// Command submission: the submission window, the queues, and waiting.
#include "card.h"
#include "queue_thread.h"
#include "run_job.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace softgaudi {
namespace {

constexpr uint64_t kDefaultTimeoutNs = 30'000'000'000;
constexpr uint32_t kTimestampFlag = 0x20;
constexpr uint64_t kPatienceNs = 10'000'000; // between two looks at what else may end a wait

uint64_t deadline_after(uint64_t timeout_us) {
    const uint64_t now = monotonic_ns();
    return timeout_us > (kForever - now) / 1000 - 1 ? kForever : now + timeout_us * 1000;
}

/// The submissions that this thread polled as busy at one instant of the virtual clock, without news and without submitting
/// since: polling one again means that the thread waits. No destructor, because programs call from their last ones.
struct Polls {
    uint64_t now;
    uint32_t news;
    size_t count;
    std::array<std::pair<const Card *, uint64_t>, 512> polled;

    bool record(const Card *card, uint64_t seq, uint64_t at, uint32_t seen_news) {
        if (now != at || news != seen_news)
            count = 0;
        now = at;
        news = seen_news;
        const std::pair<const Card *, uint64_t> entry(card, seq);
        const auto end = polled.begin() + static_cast<ptrdiff_t>(count);
        if (count == polled.size() || std::find(polled.begin(), end, entry) != end)
            return true;
        polled[count++] = entry;
        return false;
    }
};
thread_local Polls polls;

} // namespace

bool Card::running(const Job &job) const {
    const Slot &slot = context().slots[job.seq % kWindow];
    return context().id.load(std::memory_order_acquire) == job.context &&
           slot.seq.load(std::memory_order_acquire) == job.seq &&
           slot.status.load(std::memory_order_acquire) == SlotStatus::running;
}

uint32_t Card::in_flight() const {
    return static_cast<uint32_t>(std::count_if(context().slots.begin(), context().slots.end(), [](const Slot &slot) {
        return slot.status.load(std::memory_order_relaxed) == SlotStatus::running;
    }));
}

const BadQueue *Card::find_bad_queue(uint32_t queue) const {
    const auto &bad = behaviour().bad_queues;
    const auto found = std::find_if(bad.begin(), bad.end(), [&](const BadQueue &one) { return one.queue == queue; });
    return found == bad.end() ? nullptr : &*found;
}

bool Card::is_message_early() {
    constexpr uint32_t kLoaded = 3; // submissions in flight
    constexpr uint64_t kOneOf = 32;
    return in_flight() >= kLoaded && m_loaded_copies.fetch_add(1, std::memory_order_relaxed) % kOneOf == kOneOf - 1;
}

/// The driver's library does not return "try again", but spins; this one sleeps. The compiler does not know that `lock`
/// holds this card.
void Card::wait_for_room(CardLock &lock, const Event &event) GAUDI_NO_THREAD_SAFETY_ANALYSIS {
    const uint64_t deadline = expire();
    const uint32_t seen = event.seen();
    lock.unlock();
    const uint64_t until = std::min(deadline, monotonic_ns() + kPatienceNs);
    if (m_clock.is_virtual())
        m_clock.wait_until(kForever, [&] { return event.seen() != seen || monotonic_ns() >= until; });
    else
        event.wait(seen, until);
    lock.lock();
}

int Card::submit(const Submission &submission, uint64_t &seq) {
    Context &context = this->context();
    const auto &chunks = submission.chunks;
    std::vector<Job> jobs;
    bool counted = false;
    if (m_clock.is_virtual())
        polls.count = 0;
    {
        CardLock lock(*this);
        const auto count_drop = [&](uint64_t &of_context, uint64_t &total) {
            if (!counted) {
                ++of_context;
                ++total;
                counted = true;
            }
        };
        while (true) {
            if (const int error = refusal()) {
                if (error == EBUSY) {
                    ++context.cs_counters.ctx_device_in_reset_drop_cnt;
                    ++context.cs_counters.total_device_in_reset_drop_cnt;
                }
                return -error;
            }
            if (!model().user_queues)
                return -behaviour().submission;
            if (behaviour().most_in_flight != 0 && in_flight() >= behaviour().most_in_flight)
                return -behaviour().window_full;
            Slot &slot = context.slots[context.next_seq % kWindow];
            if (slot.status.load() == SlotStatus::running) {
                expire();
                if (slot.status.load() != SlotStatus::running)
                    continue;
                count_drop(context.cs_counters.ctx_max_cs_in_flight_drop_cnt,
                           context.cs_counters.total_max_cs_in_flight_drop_cnt);
                wait_for_room(lock, slot.changed);
                continue;
            }
            const auto bad = std::find_if(chunks.begin(), chunks.end(), [&](const hl_cs_chunk &chunk) {
                const BadQueue *found = find_bad_queue(chunk.queue_index);
                return found && found->error != 0;
            });
            if (bad != chunks.end())
                return -find_bad_queue(bad->queue_index)->error;
            const bool valid = std::all_of(chunks.begin(), chunks.end(), [&](const hl_cs_chunk &chunk) {
                const Queue known = chunk.queue_index < kQueues ? queue(chunk.queue_index) : Queue();
                if (known.engine == Engine::none)
                    return false;
                if (known.engine == Engine::edma && (model().edma_mask >> known.unit & 1) == 0)
                    return false;
                if (submission.kind != Job::Kind::commands)
                    return queue(chunk.queue_index).engine != Engine::nic;
                return (chunk.cs_chunk_flags & HL_CS_CHUNK_FLAGS_USER_ALLOC_CB) != 0;
            });
            if (!valid) {
                // A refused submission uses up its number.
                slot.seq.store(context.next_seq++);
                slot.status.store(SlotStatus::done);
                ++context.cs_counters.ctx_validation_drop_cnt;
                ++context.cs_counters.total_validation_drop_cnt;
                return -EINVAL;
            }
            const bool full = std::any_of(chunks.begin(), chunks.end(), [&](const hl_cs_chunk &chunk) {
                return context.queue_load[chunk.queue_index] + chunks.size() > kQueueLength;
            });
            if (full) {
                count_drop(context.cs_counters.ctx_queue_full_drop_cnt, context.cs_counters.total_queue_full_drop_cnt);
                wait_for_room(lock, context.parked);
                continue;
            }
            break;
        }
        seq = context.next_seq++;
        Slot &slot = context.slots[seq % kWindow];
        slot.seq.store(seq);
        slot.pid = getpid();
        slot.remaining = static_cast<uint32_t>(chunks.size());
        slot.hung = submission.hang;
        slot.skip_reset = (submission.flags & HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT) != 0;
        slot.wants_timestamp = (submission.flags & kTimestampFlag) != 0;
        slot.signal = submission.kind == Job::Kind::signal;
        slot.timeout_ns = submission.timeout_ns ? submission.timeout_ns : kDefaultTimeoutNs;
        slot.timed_from = 0;
        slot.timestamp = 0;
        slot.status.store(SlotStatus::running);

        uint64_t start = 0;
        if (m_config.pace.is_timed()) {
            start = std::max(m_clock.now(), context.links.submit) + m_config.pace.submit_ns;
            context.links.submit = start;
        }
        jobs.reserve(chunks.size());
        for (const hl_cs_chunk &chunk : chunks) {
            Job job{};
            job.kind = submission.kind;
            job.awaited = submission.awaited;
            job.context = context.id.load();
            job.seq = seq;
            job.queue = chunk.queue_index;
            job.ticket = context.queue_ticket[chunk.queue_index]++;
            context.queue_owner[job.queue][job.ticket % kQueueLength] = getpid();
            job.address = chunk.cb_handle;
            job.size = chunk.cb_size;
            job.start = start;
            job.skip = submission.skip || find_bad_queue(chunk.queue_index) != nullptr;
            ++context.queue_load[chunk.queue_index];
            jobs.push_back(job);
        }
        m_state->traffic.submissions.fetch_add(1, std::memory_order_relaxed);
        // Queued under the lock: two submissions have the same order on every queue that they share.
        if (m_config.pace.mode != Pace::Mode::null || submission.hang) {
            for (const Job &job : jobs)
                enqueue(job);
            return 0;
        }
    }
    for (const Job &job : jobs)
        run_job(*this, job);
    return 0;
}

void Card::enqueue(const Job &job) {
    const gaudi::os::MutexLock lock(m_queues_mutex);
    if (m_queues.size() <= job.queue)
        m_queues.resize(kQueues);
    auto &thread = m_queues[job.queue];
    if (!thread)
        thread = std::make_unique<QueueThread>(m_clock, [this](const Job &pushed) { run_job(*this, pushed); });
    thread->push(job);
}

void Card::finish(const Job &job) {
    const CardLock lock(*this);
    Context &context = this->context();
    if (context.id.load() != job.context)
        return;
    Slot &slot = context.slots[job.seq % kWindow];
    context.queue_serving[job.queue] = job.ticket + 1;
    --context.queue_load[job.queue];
    if (running(job) && --slot.remaining == 0)
        end_submission(slot, SlotStatus::done);
    m_clock.notify_host(getpid());
    wake_parked();
}

/// Records how a submission ended.
void Card::end_submission(Slot &slot, SlotStatus status) {
    Context &context = this->context();
    slot.timestamp = m_clock.now();
    if (slot.wants_timestamp) {
        context.outcomes[context.next_outcome] = {slot.seq.load(), slot.timestamp, status};
        context.next_outcome = (context.next_outcome + 1) % kOutcomes;
    }
    slot.status.store(status);
    slot.changed.signal();
}

bool Card::idle() {
    return std::none_of(context().slots.begin(), context().slots.end(),
                        [](const Slot &slot) { return slot.status.load() == SlotStatus::running; });
}

/// Only the oldest submission is timed, from the moment it became the oldest.
uint64_t Card::expire() {
    constexpr uint64_t kLookNs = 10'000'000; // after so long, whether another process that has work here still lives
    Context &context = this->context();
    const bool shared = drop_work_of_the_dead();
    Slot *oldest = nullptr;
    for (Slot &slot : context.slots)
        if (slot.status.load() == SlotStatus::running && (!oldest || slot.seq.load() < oldest->seq.load()))
            oldest = &slot;
    if (!oldest)
        return kForever;
    const uint64_t now = monotonic_ns();
    if (oldest->timed_from == 0)
        oldest->timed_from = now;
    const uint64_t due = oldest->timed_from + oldest->timeout_ns;
    if (now < due)
        return shared ? std::min(due, now + kLookNs) : due;

    end_submission(*oldest, SlotStatus::timed_out);
    if (!context.timeout_recorded)
        m_state->records.cs_timeout = {realtime_ns(), oldest->seq.load()};
    context.timeout_recorded = true;
    if (oldest->skip_reset) {
        raise(HL_NOTIFIER_EVENT_CS_TIMEOUT);
        wake_all_waiters(); // its jobs are dropped, and its queues continue
        return 0;
    }
    request_reset(HL_NOTIFIER_EVENT_CS_TIMEOUT);
    return kForever;
}

int Card::wait(uint64_t seq, uint64_t timeout_us, uint32_t &status, uint64_t *timestamp) {
    Context &context = this->context();
    const bool poll = timeout_us == 0;
    const uint64_t deadline = m_clock.is_virtual() ? kForever : deadline_after(timeout_us);
    const uint64_t model_deadline = timeout_us < kForever / 2000 ? m_clock.now() + timeout_us * 1000 : kForever;
    bool last_check = false;
    status = 0;
    m_clock.wait_until_idle();
    CardLock lock(*this);
    if (context.released_soon)
        return -EBUSY;
    if (refusal() == EBUSY) {
        // During a reset only the submissions that it ended can be queried.
        const Slot &slot = context.slots[seq % kWindow];
        const SlotStatus ended = slot.seq.load() == seq ? slot.status.load() : SlotStatus::free;
        if (ended != SlotStatus::aborted && ended != SlotStatus::timed_out)
            return -EBUSY;
    }
    while (true) {
        const uint32_t news = m_clock.news();
        if (m_state->lost)
            return -ENODEV;
        if (context.released_soon) { // since this call waits
            status = HL_WAIT_CS_STATUS_ABORTED;
            return -EIO;
        }
        if (seq >= context.next_seq)
            return refusal() ? -EBUSY : -EINVAL;
        Slot &slot = context.slots[seq % kWindow];
        if (slot.seq.load() != seq || seq == 0) {
            // Out of the window: completed, unless an outcome was kept.
            for (Outcome &outcome : context.outcomes) {
                if (outcome.seq != seq || seq == 0)
                    continue;
                outcome.seq = 0;
                if (outcome.status == SlotStatus::timed_out) {
                    status = HL_WAIT_CS_STATUS_TIMEDOUT;
                    return -ETIMEDOUT;
                }
                if (timestamp)
                    *timestamp = outcome.timestamp;
                break;
            }
            status = HL_WAIT_CS_STATUS_COMPLETED;
            return 0;
        }
        expire();
        switch (slot.status.load()) {
        case SlotStatus::free:
        case SlotStatus::done:
            status = HL_WAIT_CS_STATUS_COMPLETED;
            if (timestamp && slot.wants_timestamp)
                *timestamp = slot.timestamp;
            return 0;
        case SlotStatus::timed_out:
            status = HL_WAIT_CS_STATUS_TIMEDOUT;
            return -ETIMEDOUT;
        case SlotStatus::aborted:
            status = HL_WAIT_CS_STATUS_ABORTED;
            return -EIO;
        case SlotStatus::running:
            break;
        }
        const bool gives_up =
            m_clock.is_virtual() ? poll && !polls.record(this, seq, m_clock.now(), news) : monotonic_ns() >= deadline;
        if (last_check || gives_up) {
            status = HL_WAIT_CS_STATUS_BUSY;
            return 0;
        }
        const uint64_t due = expire();
        const uint32_t seen = slot.changed.seen();
        if (slot.status.load() != SlotStatus::running)
            continue;
        lock.unlock();
        if (!m_clock.is_virtual()) {
            slot.changed.wait(seen, std::min(deadline, due));
        } else if (poll) {
            m_clock.advance(news); // by one event only: the host may poll for other submissions too
            last_check = true;
        } else {
            const uint64_t until = std::min(due, monotonic_ns() + kPatienceNs);
            m_clock.wait_until(model_deadline,
                               [&] { return slot.status.load() != SlotStatus::running || monotonic_ns() >= until; });
            last_check = m_clock.now() >= model_deadline;
        }
        lock.lock();
    }
}

} // namespace softgaudi
