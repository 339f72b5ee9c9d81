// SPDX-License-Identifier: BSD-3-Clause
// The engine's other half: how it hears of ends, what happens when a card fails, and waiting.
#include "copier.h"

#include "card.h"
#include "cards.h"
#include "framework_stream.h"

#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace gaudi {
namespace {

constexpr std::uint64_t kSilenceNs = 1'000'000'000; // a word that does not come: ask the driver once in a while
constexpr unsigned kLooksPerClock = 256;            // the time is asked at every so many looks only
constexpr std::uint64_t kBusyNs = 200'000'000;      // that a call of ours may take
// That the driver may be unable to say what has ended, and then that submissions may take to end by themselves.
constexpr std::uint64_t kUnansweredNs = 5'000'000'000, kDrainNs = 5'000'000'000;

} // namespace

std::atomic<std::uint32_t> &Copier::word(const Stream &stream) {
    return *reinterpret_cast<std::atomic<std::uint32_t> *>(static_cast<char *>(m_ring) + stream.word * kWordStride);
}

bool Copier::ended(Stream &stream, const Batch &batch) {
    const auto shown = [&] {
        return static_cast<std::int32_t>(word(stream).load(std::memory_order_acquire) - batch.value) >= 0;
    };
    if (m_words_hold) {
        if (shown())
            return true;
        if (!failed() && (++stream.looks % kLooksPerClock != 0 || now_ns() - batch.sent_ns < kSilenceNs))
            return false;
    }
    if (m_drained_by_ns != 0) { // the driver does not answer: a completion flag is the only sign of an end
        if (shown())
            return true;
        if (now_ns() > m_drained_by_ns)
            end_sent(true);
        return false;
    }
    if (m_framework) {
        const auto over = m_framework->ended(batch.sequence);
        if (!over)
            lose(over.error());
        return over && *over;
    }
    const auto waited = m_device.wait(batch.sequence, std::chrono::microseconds(0));
    if (!waited) {
        wait_failed(waited.error());
        return false;
    }
    if (*waited == thunk::Wait::busy)
        m_unanswered_ns = 0;
    return *waited == thunk::Wait::done;
}

/// The driver did not say whether a submission has ended. On a card that is gone all have. On one that is well they may
/// still run: the driver is asked again while the reason may pass, and then the engine takes no more and waits (bounded)
/// for what it has sent, because to unmap memory that a submission is at resets the card.
void Copier::wait_failed(const Error &error) {
    if (!operational())
        return lose(error);
    const std::uint64_t now = now_ns();
    if (m_unanswered_ns == 0)
        m_unanswered_ns = now;
    if (thunk::is_transient(error.code) && now - m_unanswered_ns < kUnansweredNs)
        return;
    refuse(error);
    m_drained_by_ns = now + kDrainNs;
}

void Copier::collect(Lane &lane) {
    for (unsigned i = 0; i < lane.count; ++i)
        collect(lane, lane.streams[i]);
}

void Copier::collect(Lane &lane, Stream &stream) {
    while (stream.oldest && ended(stream, *stream.oldest)) { // which may lose them all
        m_unanswered_ns = 0;
        complete(take_oldest(lane, stream), m_drained_by_ns != 0 ? EIO : 0);
    }
}

Copier::Batch &Copier::take_oldest(Lane &lane, Stream &stream) {
    Batch &batch = *stream.oldest;
    stream.oldest = batch.next;
    if (!stream.oldest)
        stream.newest = nullptr;
    --stream.depth;
    --lane.sent;
    return batch;
}

/// Those of one channel are handed to it together.
void Copier::complete(Batch &batch, int error) {
    Transfer *newest = nullptr, *oldest = nullptr;
    std::uint64_t over = 0;
    for (unsigned i = 0; i < batch.parts; ++i) {
        Transfer &transfer = *batch.transfers[i];
        if (error != 0 && transfer.error == 0)
            transfer.error = error;
        if (--transfer.batches != 0 || transfer.emitted != transfer.length)
            continue;
        ++over;
        if (newest && newest->channel != transfer.channel) {
            newest->channel->finish(*newest, *oldest);
            newest = nullptr;
        }
        if (!newest)
            oldest = &transfer;
        transfer.next = newest;
        newest = &transfer;
    }
    batch.next = m_free;
    m_free = &batch;
    if (newest)
        newest->channel->finish(*newest, *oldest);
    // Last: who sees that nothing is under way any more may take host memory away that it used.
    m_posted.store(m_posted.load(std::memory_order_relaxed) - over, std::memory_order_release);
}

/// The card takes no more: what it has not got yet fails, and so does everything that comes. What it has got may still be
/// running, and ends as it does.
void Copier::refuse(const Error &error) {
    if (!failed()) {
        const std::string reset = m_card.reset_since_shared(m_device) ? "; the card was reset" : "";
        const std::lock_guard guard(m_failure_mutex);
        m_failure = error.text + reset;
        m_problem.set(m_failure);
        m_failed.store(true, std::memory_order_release);
    }
    end_waiting();
}

/// What the copy touches stays as it is: the host side by the mark, the allocations on the card here.
void Copier::abandon(Transfer &transfer) {
    transfer.abandoned = true;
    for (const std::uint64_t address : {transfer.source, transfer.destination})
        if (const Region *region = m_card.cards().find(address); region && &region->card() == &m_card)
            m_card.arena().abandon(region->allocation(address).base);
}

/// Ends all that was sent with an error. Where it is `abandoned` the card may still be at it.
void Copier::end_sent(bool abandoned) {
    for (Lane &lane : m_lanes)
        for (unsigned i = 0; i < lane.count; ++i)
            while (lane.streams[i].oldest) {
                Batch &batch = take_oldest(lane, lane.streams[i]);
                for (unsigned part = 0; abandoned && part < batch.parts; ++part)
                    abandon(*batch.transfers[part]);
                m_abandoned.fetch_add(abandoned ? 1 : 0, std::memory_order_relaxed);
                complete(batch, EIO);
            }
}

/// The card is gone, and everything on its way with it.
void Copier::lose(const Error &error) {
    refuse(error);
    end_sent(false);
}

void Copier::retire(const Error &why) {
    constexpr unsigned kLimitMs = 5000;
    if (m_framework) {
        // It is giving the card back: from inside that it must not be called, and who calls it now waits for it, with our
        // mutex held. What is under way then fails at the next look.
        m_framework->abandon();
        std::unique_lock guard(m_mutex, std::try_to_lock);
        for (const std::uint64_t limit = now_ns() + kBusyNs; !guard && now_ns() < limit; std::this_thread::yield())
            guard = std::unique_lock(m_mutex, std::try_to_lock);
        if (guard)
            lose(why);
        return;
    }
    {
        const std::lock_guard guard(m_mutex);
        refuse(why);
    }
    drain(kLimitMs);
    const std::lock_guard guard(m_mutex);
    end_sent(true); // what has not ended by now may still run
}

void Copier::unmap_ring() {
    if (m_framework)
        return; // which has none
    const std::lock_guard guard(m_mutex);
    if (abandoned() != 0)
        m_ring_map.detach();
    thunk::release_or_report([this] { return m_ring_map.release(); });
}

void Copier::end_waiting() {
    for (Lane &lane : m_lanes) {
        for (Transfer *waiting = lane.first; waiting;) {
            Transfer *next = waiting->next;
            waiting->error = EIO;
            waiting->emitted = waiting->length;
            if (waiting->batches == 0) {
                waiting->channel->finish(*waiting);
                m_posted.store(m_posted.load(std::memory_order_relaxed) - 1, std::memory_order_release);
            }
            waiting = next;
        }
        lane.first = lane.last = nullptr;
        for (unsigned i = 0; i < lane.count; ++i)
            if (Batch *open = lane.streams[i].open) {
                lane.streams[i].open = nullptr;
                complete(*open, EIO);
            }
    }
}

std::string Copier::failure() const {
    const std::lock_guard guard(m_failure_mutex);
    return m_failure;
}

Problem Copier::problem() const {
    const std::lock_guard guard(m_failure_mutex);
    return m_problem.get();
}

void Copier::settle() {
    if (m_forks != forks())
        return;
    const std::lock_guard guard(m_mutex);
}

void Copier::progress() {
    if (!busy() || m_forks != forks())
        return;
    const std::unique_lock guard(m_mutex, std::try_to_lock);
    if (!guard)
        return; // somebody else is at it
    for (Lane &lane : m_lanes)
        if (lane.sent != 0)
            collect(lane);
    // They take turns at being the first to find room in the window: one that is always full must not starve the others.
    m_first_lane = (m_first_lane + 1) % m_lanes.size();
    for (std::size_t i = 0; i < m_lanes.size(); ++i) {
        Lane &lane = m_lanes[(m_first_lane + i) % m_lanes.size()];
        if (!lane.first && !lane.streams[lane.turn].open)
            continue;
        pump(lane);
        // Only the stream whose turn it is has an open batch.
        Stream &stream = lane.streams[lane.turn];
        if (stream.open && !m_failed.load(std::memory_order_relaxed) && (!lane.bulk || stream.depth < kBulkDepth))
            send(lane, stream);
    }
}

void Copier::sleep() {
    std::uint64_t oldest = UINT64_MAX;
    {
        const std::lock_guard guard(m_mutex);
        oldest = oldest_sequence();
    }
    if (oldest != UINT64_MAX && m_framework)
        std::this_thread::sleep_for(std::chrono::microseconds(50)); // it has no call that waits for one of them only
    else if (oldest != UINT64_MAX)
        (void)m_device.wait(oldest, std::chrono::milliseconds(100)); // an error shows in progress, soon
}

bool Copier::drain(unsigned limit_ms) {
    const std::uint64_t limit = now_ns() + std::uint64_t{limit_ms} * 1'000'000;
    while (busy() && now_ns() < limit)
        progress();
    return !busy();
}

// ---- waiting without polling ------------------------------------------------------------------------------------

void Copier::watch() {
    const std::lock_guard guard(m_watch_mutex);
    m_watch_wanted.fetch_add(1, std::memory_order_release);
    m_watch_wanted.notify_all();
    if (m_watching)
        return;
    std::thread waiter([this] { watch_loop(); });
    m_watching = true;
    pthread_setname_np(waiter.native_handle(), "gaudi-wait");
    waiter.detach(); // copiers live as long as the process
}

void Copier::watch_loop() {
    std::uint32_t seen = 0;
    while (true) {
        const std::uint32_t wanted = m_watch_wanted.load(std::memory_order_acquire);
        if (wanted == seen) {
            m_watch_wanted.wait(seen, std::memory_order_acquire);
            continue;
        }
        seen = wanted;
        while (busy()) {
            progress();
            sleep();
        }
    }
}

} // namespace gaudi
